"""Modules of a user's own as a family: sizes from the function, a key from its source, the same training as without byheart."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from torch import Tensor, nn

import byheart as bh
from byheart.cli.measure import _show_forecast
from byheart.errors import UsageError
from byheart.measure.families import add_family
from byheart.measure.families.own_module import OwnModuleFamily
from byheart.measure.forecast import forecast
from byheart.measure.sources import training_set_of
from byheart.measure.specification import Specification
from byheart.measure.workflow import load_factory, read
from tests.refusal import refused


class Tower(nn.Module):
    """Token embeddings side by side, one hidden layer, and an average that is kept in buffers."""

    def __init__(
        self,
        n_vocab: int,
        n_classes: int,
        seq_len: int,
        width: int,
        form: Literal["flat", "tokens"] = "flat",
        normed: Literal["no", "yes"] = "no",
    ) -> None:
        super().__init__()
        self.form = form
        self.embedding = nn.Embedding(n_vocab, width)
        self.hidden = nn.Linear(width * (seq_len if form == "flat" else 1), width)
        self.norm = nn.BatchNorm1d(width) if normed == "yes" else nn.Identity()
        self.head = nn.Linear(width, n_classes)

    def forward(self, tokens: Tensor) -> Tensor:
        embedded = self.embedding(tokens)
        if self.form == "flat":
            embedded = embedded.flatten(1)
        out: Tensor = self.head(self.norm(torch.relu(self.hidden(embedded))))
        return out


class FixedEmbedding(nn.Module):
    """An embedding that is not trained, below trained answers."""

    def __init__(self, n_vocab: int, n_classes: int, seq_len: int, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(n_vocab, width).requires_grad_(False)
        self.head = nn.Linear(width, n_classes)

    def forward(self, tokens: Tensor) -> Tensor:
        out: Tensor = self.head(self.embedding(tokens).sum(1))
        return out


class RandomFeatures(nn.Module):
    """The same, with the fixed embedding in a buffer."""

    features: Tensor

    def __init__(self, n_vocab: int, n_classes: int, seq_len: int, width: int) -> None:
        super().__init__()
        self.register_buffer("features", torch.randn(n_vocab, width))
        self.head = nn.Linear(width, n_classes)

    def forward(self, tokens: Tensor) -> Tensor:
        out: Tensor = self.head(self.features[tokens].sum(1))
        return out


class Misbehaving(nn.Module):
    """A module whose forward pass does not do what byheart asks for."""

    def __init__(
        self,
        n_vocab: int,
        n_classes: int,
        width: int,
        fault: Literal["raises", "one more", "one less", "one token more", "detached"],
    ) -> None:
        super().__init__()
        self.fault = fault
        n_outputs = n_classes + {"one more": 1, "one less": -1}.get(fault, 0)
        self.embedding = nn.Embedding(n_vocab, n_outputs)

    def forward(self, tokens: Tensor) -> Tensor:
        if self.fault == "raises":
            raise ValueError("boo")
        out: Tensor = self.embedding(tokens)
        if self.fault == "one token more":
            return torch.cat([out, out[:, :1]], dim=1)
        return out.detach() if self.fault == "detached" else out[:, 0]


def table(**model: Any) -> dict[str, Any]:
    return {
        "seeds": 2,
        "model": {"family": Tower, **model},
        "data": {"kind": "random-tokens", "n_samples": 32, "n_vocab": 10, "seq_len": 3, "n_classes": 4},
        "training": {"steps": 30, "learning_rate": 0.01},
    }


def trained_alone(specification: Specification, number: int, kind: Callable[..., nn.Module] = Tower) -> float:
    """The loss that the plain loop of PyTorch reaches with the same seed."""
    run = specification.runs[number]
    data = training_set_of(run.data)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(run.seed)
        module = kind(data.n_vocab, data.n_classes, data.seq_len, run.model.sizes["width"])
    optimiser = torch.optim.Adam(module.parameters(), lr=run.training.learning_rate)
    inputs, labels = torch.tensor(data.inputs), torch.tensor(data.classes)
    weights = torch.tensor(data.weights)

    def loss() -> Tensor:
        losses = nn.functional.cross_entropy(module(inputs), labels, reduction="none")
        return (losses * weights).sum() / data.n_samples

    for _ in range(run.training.steps):
        optimiser.zero_grad()
        loss().backward()
        optimiser.step()
    return float(loss().detach())


def test_each_model_trains_as_it_would_without_byheart() -> None:
    measured = bh.measure(table(width=[4, 6]))
    specification = read(table(width=[4, 6]))
    assert [row["sizes.width"] for row in measured] == [4, 4, 6, 6]
    for number, row in enumerate(measured):
        # both are float32; the sums of the loss differ in order
        assert row["measured.loss"] == pytest.approx(trained_alone(specification, number), rel=1e-4)


@pytest.mark.parametrize("kind", [FixedEmbedding, RandomFeatures])
def test_fixed_parts_are_neither_trained_nor_counted(kind: type[nn.Module]) -> None:
    """Frozen parameters were trained and counted, and buffers were drawn with seed 0 for every run."""
    spec = table() | {"model": {"family": kind, "width": 6}}
    measured = bh.measure(spec)
    for number, row in enumerate(measured):
        assert row["n_parameters"] == (6 + 1) * 4
        assert row["measured.loss"] == pytest.approx(trained_alone(read(spec), number, kind), rel=1e-4)


@pytest.mark.parametrize(
    ("fault", "shape"), [("one more", (32, 5)), ("one less", (32, 3)), ("one token more", (32, 4, 4))]
)
def test_outputs_of_another_shape_are_refused(fault: str, shape: tuple[int, ...]) -> None:
    """More outputs than classes gave wrong losses without a word, and fewer ended in an error of torch."""
    name = add_family(Misbehaving).name
    with refused(UsageError, family=name, shape=shape, allowed=((32, 4), (32, 3, 4))):
        bh.measure(table() | {"model": {"family": Misbehaving, "width": 4, "fault": fault}})


@pytest.mark.parametrize("fault", ["raises", "detached"])
def test_a_forward_pass_that_fails_is_refused(fault: str) -> None:
    """The error said that this is a bug in byheart."""
    spec = table() | {"model": {"family": Misbehaving, "width": 4, "fault": fault}}
    name = add_family(Misbehaving).name
    with refused(UsageError, family=name):
        forecast(read(spec), None, device="cpu")
    with refused(UsageError, family=name):
        bh.measure(spec)


def test_answers_for_each_token_are_read_at_the_last_one() -> None:
    rows = bh.measure(table(width=4, form="tokens"))
    assert all(row["options.form"] == "tokens" and row["status"] == "done" for row in rows)


def test_buffers_of_one_run_are_no_other_s() -> None:
    together, alone = (
        bh.measure(table(width=4, normed="yes")),
        bh.measure({**table(width=4, normed="yes"), "seeds": [1]}),
    )
    assert together[1]["measured.loss"] == alone[0]["measured.loss"]


def test_a_frame_of_runs() -> None:
    pytest.importorskip("pandas", reason="the package pandas is not installed")
    measured = bh.measure(table(width=4))
    assert list(measured.frame()["measured.accuracy"]) == [row["measured.accuracy"] for row in measured]


def test_runs_are_kept_and_keyed_by_the_source(tmp_path: Path) -> None:
    store, file = tmp_path / "runs.sqlite", tmp_path / "towers.py"
    text = "from torch import nn\ndef make(n_vocab: int, n_classes: int, width: int) -> nn.Module:\n"
    text += "    return nn.Sequential(nn.Embedding(n_vocab, width), nn.Linear(width, n_classes))\n"
    keys = []
    for content in (text, text, text + "# changed\n"):
        file.write_text(content, encoding="utf-8")
        specification = table(width=3) | {"model": {"family": load_factory(f"{file}:make"), "width": 3}}
        keys.append([row["key"] for row in bh.measure(specification, store=store)])
    assert keys[0] == keys[1]
    assert not set(keys[0]) & set(keys[2])


def test_sizes_are_the_whole_numbers_of_the_function() -> None:
    def make(width: int, *rest: int, dropout: float = 0.1, depth: int = 2, **more: int) -> nn.Module:
        return nn.Linear(width, depth)

    fields = OwnModuleFamily(make).size_fields
    assert [(field.name, field.default) for field in fields] == [("width", None), ("depth", 2)]


def test_a_parameter_may_have_the_default_none() -> None:
    def make(width: int, dropout: float | None = None) -> nn.Module:
        return nn.Linear(width, 2)

    assert [field.name for field in OwnModuleFamily(make).size_fields] == ["width"]


def test_what_cannot_be_a_family_is_refused() -> None:
    def wants_a_list(n_vocab: int, layers: list[int]) -> nn.Module:
        return nn.Linear(n_vocab, len(layers))

    with refused(UsageError, "family", name="layers"):
        OwnModuleFamily(wants_a_list)
    with refused(UsageError, "family", missing=["width"]):
        read(table())

    def makes_a_number(width: int) -> Any:
        return width

    name = add_family(makes_a_number).name
    with refused(UsageError, family=name):
        bh.measure(table() | {"model": {"family": makes_a_number, "width": 3}})


def test_a_specification_alone_runs_no_program(tmp_path: Path) -> None:
    """A file of settings may come from anyone, so what it names is not imported."""
    marker = tmp_path / "ran"
    (tmp_path / "evil.py").write_text(f"open({str(marker)!r}, 'w')\ndef make(): ...\n", encoding="utf-8")
    with refused(UsageError, family=f"{tmp_path}/evil.py:make"):
        read(table() | {"model": {"family": f"{tmp_path}/evil.py:make"}})
    assert not marker.exists()


def test_a_parameter_whose_default_is_none_is_no_size() -> None:
    def make(n_vocab: int, n_classes: int, width, dropout=None, depth=2) -> nn.Module:  # type: ignore[no-untyped-def]
        return nn.Sequential(nn.Embedding(n_vocab, width), nn.Linear(width, n_classes))

    assert [(size.name, size.default) for size in OwnModuleFamily(make).size_fields] == [
        ("width", None),
        ("depth", 2),
    ]


@pytest.mark.parametrize("program", ["raise SystemExit(0)", "def f(:", "1 / 0", "f = 3", "\0"])
def test_a_file_that_is_no_family_is_refused(tmp_path: Path, program: str) -> None:
    """A file that ends the program ended `byheart measure`, with the status of a closed pipe."""
    (tmp_path / "own.py").write_text(program)
    with refused(UsageError, path=str(tmp_path / "own.py")):
        load_factory(f"{tmp_path / 'own.py'}:f")


def test_only_stacks_of_the_own_module_hold_one_model(capsys: pytest.CaptureFixture[str]) -> None:
    """One family of your own made all stacks "groups of one model each"."""

    def make(n_vocab: int, n_classes: int, hidden_width: int, dim: int) -> nn.Module:
        return nn.Sequential(nn.Embedding(n_vocab, dim), nn.Linear(dim, n_classes))

    own = add_family(make).name
    sizes = {"hidden_width": 4, "dim": 4}
    for families, told in (
        ([own], "(groups of one model each)"),
        (["one-layer-decoder"], "(groups of models that are trained together)"),
        (
            [own, "one-layer-decoder"],
            f"(groups of models that are trained together; groups of one model for {own})",
        ),
    ):
        specification = read(table() | {"model": {"family": families, **sizes}})
        _show_forecast(specification, forecast(specification, None, device="cpu"), as_json=False)
        assert "".join(told.split()) in "".join(capsys.readouterr().out.split())


def test_other_processes_do_not_have_the_function() -> None:
    with refused(UsageError, "families"):
        bh.measure(table(width=4), workers=2)
