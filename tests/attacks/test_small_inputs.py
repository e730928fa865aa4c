"""Small inputs that would take everything, each refused by a budget, at once, with the number named."""

from __future__ import annotations

import io
import json
import os
import resource
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.lib.format import write_array_header_1_0

import byheart as bh
from byheart.cli.main import run
from byheart.cli.runs import command as runs
from byheart.construct.registry import get
from byheart.data.shape import DataShape
from byheart.data.tokenizer_document import used_part
from byheart.errors import (
    AssumptionViolated,
    ByheartError,
    CorruptModel,
    ExitStatus,
    MalformedFile,
    UsageError,
)
from byheart.measure.store import Store
from byheart.storage.tensor_file import read_header, read_tensor, write_tensors
from tests.effort import at_most_calls
from tests.measure.test_store import record
from tests.refusal import refused

FIXTURES = Path(__file__).resolve().parents[1] / "storage" / "fixtures"
MOST_CALLS = 10_000_000  # of functions; some took many times that, the others gigabytes
MOST_BYTES = 300 << 20
NOBODY, UNREACHABLE = 65534, 77


@pytest.fixture(autouse=True)
def little() -> Iterator[None]:
    """Whatever a test does must take little work and memory."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with at_most_calls(MOST_CALLS):
        yield
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < MOST_BYTES


@pytest.fixture
def exact(tmp_path: Path) -> Path:
    bh.load(FIXTURES / "transformer-exact").save(tmp_path / "model")
    return tmp_path / "model"


def change(folder: Path, **architecture: Any) -> None:
    document = json.loads((folder / "model.json").read_text())
    document["architecture"] |= architecture
    (folder / "model.json").write_text(json.dumps(document))


def test_a_large_id_at_predict() -> None:
    model = bh.load(FIXTURES / "retrieval-tokens")
    assert model.predict([[500_000_000, 1, 2]]) == [None]


@pytest.mark.parametrize(
    "sizes", [{"dim": 2**16}, {"seq_len": 2**24}, {"seq_len": 2**60}, {"model_width": 2**16}]
)
def test_sizes_that_the_weights_do_not_have(exact: Path, sizes: dict[str, int]) -> None:
    (exact / "certificate.json").unlink()
    change(exact, **sizes)
    with pytest.raises(ByheartError):
        bh.load(exact).predict(["capital of France"])


@pytest.mark.parametrize("seq_len", [2**18 + 1, 2**24])
def test_a_length_that_no_weight_has(tmp_path: Path, seq_len: int) -> None:
    """Without positions a small file may claim any length, to which one short question is filled up."""
    bh.load(FIXTURES / "schema-1-float64").save(tmp_path / "model")
    (tmp_path / "model" / "certificate.json").unlink()
    change(tmp_path / "model", seq_len=seq_len)
    with refused(CorruptModel, "file", "problem"):
        bh.load(tmp_path / "model")


def test_many_exponents(exact: Path) -> None:
    """10 kB of weights whose exponents are large: the numbers they compute would have nine million bits each."""
    (exact / "certificate.json").unlink()
    path = exact / "model.safetensors"
    tensors = {name: read_tensor(path, stored) for name, stored in read_header(path).items()}
    n_entries = len(tensors["exponents"])
    tensors["exponents"] = np.random.default_rng(0).integers(-(2**20), 2**20, n_entries).astype(np.int32)
    write_tensors(path, tensors)
    with refused(CorruptModel, "file", "problem"):
        bh.load(exact)


def save_npz(path: Path, method: int, n_numbers: int) -> None:
    """Zeros as `inputs` and `labels`, written in pieces."""
    header = io.BytesIO()
    write_array_header_1_0(header, {"descr": "|i1", "fortran_order": False, "shape": (n_numbers,)})
    with zipfile.ZipFile(path, "w", method, compresslevel=9) as archive:
        for name in ("inputs", "labels"):
            with archive.open(f"{name}.npy", "w") as file:
                file.write(header.getvalue())
                for begin in range(0, n_numbers, 2**20):
                    file.write(bytes(min(2**20, n_numbers - begin)))


@pytest.mark.parametrize(
    ("method", "n_numbers"),
    [(zipfile.ZIP_DEFLATED, 2**26), (zipfile.ZIP_BZIP2, 1000), (zipfile.ZIP_LZMA, 1000)],
)
def test_an_archive_that_expands(tmp_path: Path, method: int, n_numbers: int) -> None:
    """261 kB took 1.1 GB, and 1,243 bytes took 2.15 GB: bzip2 and lzma expand a piece of any length at once."""
    path = tmp_path / "data.npz"
    save_npz(path, method, n_numbers)
    with refused(MalformedFile, "path", "array"):
        bh.Dataset.read(path)


@pytest.mark.parametrize("part", ["normalizer", "pre_tokenizer", "decoder"])
@pytest.mark.parametrize(
    ("pattern", "content", "n_rules"),
    [({"String": "a"}, "a" * 60, 6), ({"Regex": "x*"}, "a" * 60, 2), ({"String": ""}, "a" * 300, 1)],
)
def test_rules_of_a_tokenizer_that_multiply(
    part: str, pattern: dict[str, str], content: str, n_rules: int
) -> None:
    """Six nested rules took 4.37 GB."""
    rule: dict[str, Any] = {"type": "Replace", "pattern": pattern, "content": content}
    document: dict[str, Any] = {"model": {"type": "WordLevel", "vocab": {"a": 0}}}
    few = {"type": "Sequence", "normalizers": [rule] * min(1, n_rules - 1)}
    used_part(json.dumps({**document, part: few}))
    nested: dict[str, Any] = {}
    for _ in range(n_rules):
        nested = {"type": "Sequence", "normalizers": [rule, nested]}
    with refused(MalformedFile, "problem"):
        used_part(json.dumps({**document, part: nested}))


def test_rules_of_published_tokenizers_are_taken() -> None:
    rules = [
        {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"},
        {"type": "Replace", "pattern": {"String": "``"}, "content": '"'},
        {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
    ]
    document = {"model": {"type": "WordLevel", "vocab": {"a": 0}}, "normalizer": {"normalizers": rules}}
    assert json.loads(used_part(json.dumps(document))) == document


@pytest.mark.parametrize("path", [5, None, b"model", 1.5, "a\0b", Path("a\0b")])
def test_what_is_not_a_path(path: Any) -> None:
    with refused(UsageError, "path"):
        bh.load(path)
    with refused(UsageError, "path"):
        bh.load(FIXTURES / "retrieval-float64").save(path)


def test_a_document_of_nothing_but_brackets(exact: Path) -> None:
    (exact / "model.json").write_bytes(b"[" + b"[]," * (5 << 20) + b"0]")
    with refused(CorruptModel, "file", "problem"):
        bh.load(exact)


def test_fewer_labels_than_logits(tmp_path: Path) -> None:
    bh.load(FIXTURES / "decoder-attention").save(tmp_path / "model")
    document = json.loads((tmp_path / "model" / "model.json").read_text())
    document["labels"] = document["labels"][:1]
    (tmp_path / "model" / "model.json").write_text(json.dumps(document))
    (tmp_path / "model" / "certificate.json").unlink()
    with refused(CorruptModel, "file", "problem"):
        bh.load(tmp_path / "model").predict(["the", "the cat", "a dog"])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a process that can become another user")
def test_the_runs_of_a_read_only_store() -> None:
    """Read by someone who may write neither the file nor its folder. The superuser may, so a child becomes nobody."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "runs.sqlite"
        with Store(path) as store:
            store.add(record(0))
        path.chmod(0o444)
        path.parent.chmod(0o555)
        assert list_runs(path) == 1
        child = os.fork()
        if child == 0:
            status = 99
            try:
                with suppress(OSError):
                    if os.getuid() == 0:
                        os.setuid(NOBODY)
                can_tell = os.access(path, os.R_OK) and not os.access(path, os.W_OK)
                status = list_runs(path) if can_tell else UNREACHABLE
            finally:
                os._exit(status)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        path.parent.chmod(0o755)
    if status == UNREACHABLE:
        pytest.skip("no process here can become one that may read the file and not write it")
    assert status == 1


def list_runs(path: Path) -> int:
    """How many runs the command line lists."""
    found = CliRunner().invoke(runs, ["list", "--store", str(path), "--json"], catch_exceptions=False)
    return len(json.loads(found.stdout)["runs"])


def test_a_formula_in_a_figures_record_is_drawn_as_it_stands() -> None:
    pytest.importorskip("matplotlib", reason="the package matplotlib is not installed")
    from byheart.reproduce.figure_files import read_record
    from byheart.reproduce.plots import as_svg

    record = read_record(Path(__file__).resolve().parents[2] / "results" / "beyond-bits.json")
    panels = [replace(panel, title="$\\frac{ is no formula$") for panel in record.panels]
    assert "is no formula" in as_svg(replace(record, panels=panels))


def test_an_array_of_large_ids(tmp_path: Path) -> None:
    ids = np.arange(12).reshape(4, 3) * 10**14
    np.savez(tmp_path / "large.npz", inputs=ids, labels=np.arange(4))
    data = bh.Dataset.read(tmp_path / "large.npz")
    assert data.n_samples == 4


def test_a_zero_byte_in_an_argument_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["inspect", "a\0b"]) == 2
    assert "NUL" in capsys.readouterr().err


@pytest.mark.parametrize(
    "sizes",
    [
        ("plan", "--facts=1000", "--seq-len=1e19"),
        ("plan", "--facts=1000", "--vocab=1e30"),
        ("bounds", "--samples=100", "--vocab=1e30"),
        ("bounds", "--samples=100", "--dim=1e30"),
        ("bounds", "--samples=100", "--dim=1e9"),
        ("bounds", "--samples=1e30", "--dim=4"),
    ],
)
def test_sizes_without_end_are_not_estimated(
    sizes: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """Networks for them were counted in machine numbers, which overflowed, or a number for each dimension was kept."""
    assert run([*sizes]) == ExitStatus.HOLDS
    assert "estimated" in capsys.readouterr().out


def test_a_weight_of_a_gigabyte_is_not_estimated() -> None:
    with pytest.raises(AssumptionViolated):
        get("park-2021").estimate(DataShape(10**16, 1, 4, dim=4))
