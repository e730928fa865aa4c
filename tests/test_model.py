"""From data to a model and back: compile, predict, save, load, verify."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import byheart as bh
from byheart.cli.main import run
from byheart.data.dataset import Dataset
from byheart.errors import (
    AssumptionViolated,
    ConflictingLabels,
    CorruptModel,
    DataError,
    DoesNotHold,
    ExitStatus,
    InexactWeights,
    NonFiniteInput,
    UsageError,
)
from byheart.model import Model
from byheart.network import SparseMatrix, Transformer
from byheart.network.memoriser import Memoriser
from byheart.pipeline import compile, load
from byheart.storage.data_source import read_like
from tests.adversarial import ADVERSARIAL
from tests.refusal import refused

from .verify.lookup import CAPITALS, capitals, lookup

METHOD = "kajitsuka-sato-2025"
PAIRS = [("capital of France", "Paris"), ("capital of Peru", "Lima"), ("currency of Peru", "sol")]


@pytest.fixture(scope="module")
def data() -> Dataset:
    return Dataset.from_pairs(PAIRS, tokenizer="word")


@pytest.fixture(scope="module")
def model(data: Dataset) -> Model:
    return compile(data, method=METHOD)


def by_hand(precision: str = "exact") -> Model:
    return Model(lookup(capitals(), precision), {"method": "by hand"}, None)


# --- compile --------------------------------------------------------------------------------------------


def test_a_compiled_model_knows_its_data(model: Model, data: Dataset) -> None:
    assert model.predict([text for text, _ in PAIRS]) == [label for _, label in PAIRS]
    assert model.certificate is not None
    assert model.certificate.holds
    assert model.certificate.checked == 3
    assert model.record["method"] == METHOD
    assert model.record["dataset"]["digest"] == data.digest
    assert all(item.holds for item in model.certificate.assumptions)
    assert model.certificate.theorem_size is not None
    assert model.certificate.theorem_size["width"] == 14


def test_the_same_seed_gives_the_same_bytes(data: Dataset, model: Model, tmp_path: Path) -> None:
    again = compile(data, method=METHOD, seed=0)
    for name, one in (("a", model), ("b", again)):
        one.save(tmp_path / name)
    for file in ("model.safetensors", "model.json"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_vectors_are_compiled_and_asked() -> None:
    rng = np.random.default_rng(5)
    values, labels = rng.standard_normal((12, 3, 2)), rng.integers(0, 4, 12)
    model = compile(Dataset.from_arrays(values, labels), method=METHOD)
    assert model.predict(values) == labels.tolist()
    assert model.predict(values.tolist()) == labels.tolist()
    with pytest.raises(UsageError):
        model.predict(["words"])


def test_a_model_that_does_not_verify_is_never_returned(
    data: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    from byheart.construct import choice

    true = choice.candidates

    def choose_badly(*arguments: Any) -> Any:
        (method,) = true(*arguments)

        def plan(*parts: Any) -> Any:
            made = method.plan(*parts).emit()
            silent = SparseMatrix.of(made.memoriser.network.w_out.shape, {})
            network = replace(made.memoriser.network, w_out=silent)
            return replace(made, memoriser=replace(made.memoriser, network=network))

        return (replace(method, plan=plan),)

    monkeypatch.setattr(choice, "candidates", choose_badly)
    with refused(DoesNotHold, "certificate") as caught:
        compile(data, method=METHOD)
    certificate = caught.value.facts["certificate"]
    assert isinstance(certificate, bh.Certificate)
    assert (certificate.wrong, certificate.holds) == (3, False)


def test_the_record_is_plain_json(data: Dataset, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from byheart.construct import choice

    true = choice.candidates

    def choose_with_odd_notes(*arguments: Any) -> Any:
        (method,) = true(*arguments)

        def plan(*parts: Any) -> Any:
            odd = {"n": np.int64(7), "where": Path("x"), "pair": (1, 2)}
            return replace(method.plan(*parts).emit(), notes=odd)

        return (replace(method, plan=plan),)

    monkeypatch.setattr(choice, "candidates", choose_with_odd_notes)
    model = compile(data, method=METHOD)
    assert model.record["notes"] == {"n": 7, "where": "x", "pair": [1, 2]}
    model.save(tmp_path / "model")
    assert load(tmp_path / "model").record == model.record


def test_without_a_check_there_is_no_certificate(data: Dataset) -> None:
    model = compile(data, method=METHOD, check=False)
    assert model.certificate is None
    assert "not verified" in repr(model)


def test_data_that_no_network_can_hold_are_refused() -> None:
    conflicting = Dataset.from_pairs([("a", "1"), ("a", "2")], on_conflict="keep")
    with pytest.raises(ConflictingLabels):
        compile(conflicting, method=METHOD)
    broken = Dataset.from_arrays(np.array([[[np.nan]]]), np.array([0]))
    with pytest.raises(NonFiniteInput):
        compile(broken, method=METHOD)


def test_wrong_requests_are_usage_errors(data: Dataset) -> None:
    with refused(UsageError, method="magic"):
        compile(data, method="magic")
    with refused(UsageError, task="set"):
        compile(data, task="set")
    with refused(UsageError, task="next-token", precision="float32"):
        compile(data, method=METHOD, precision="float32")
    with refused(UsageError, "problem"):
        compile(data, method=METHOD, cleverness=3)


def test_progress_names_both_stages(data: Dataset) -> None:
    told: list[str] = []
    compile(data, method=METHOD, progress=lambda done, total, stage="": told.append(stage))
    assert list(dict.fromkeys(told)) == ["compile", "verify"]


# --- predict --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("precision", ["exact", "float64", "float32"])
def test_texts_are_answered_by_name_or_not_at_all(precision: str) -> None:
    model = by_hand(precision)
    questions = ["Cuba", "Atlantis", "", "Peru", "Peru Peru", "France"]
    assert model.predict(questions) == ["Havana", None, None, "Lima", None, "Paris"]
    assert model.predict([]) == []
    assert model.predict(["Atlantis"]) == [None]
    assert model.predict([[10**6]]) == [None]  # no id of its tokenizer


def test_ids_are_answered_too() -> None:
    data = Dataset.from_arrays([[0, 1], [2], [1]], [5, 6, 5])
    model = Model(lookup(data), {}, None)
    assert model.predict([[0, 1], [2], [9], [0, 0, 0], []]) == ["5", "6", None, None, None]
    assert model.predict(np.array([[0, 1], [1, 2]])) == ["5", "6"]
    with pytest.raises(UsageError):
        model.predict([[0.5, 1.5]])
    with pytest.raises(UsageError):
        model.predict(["zero"])


def test_seq_to_seq_answers_every_token() -> None:
    data = Dataset.from_arrays([[0, 1], [1]], [3, 4, 4], task="seq-to-seq")
    model = Model(lookup(data), {}, None)
    assert model.predict([[1, 0], [1]]) == [["4", "3"], ["4"]]


def test_one_text_is_answered_alone() -> None:
    assert by_hand().predict("France") == "Paris"
    assert by_hand().predict("Atlantis") is None
    for wrong in (7, None, b"France", {"France": 1}):
        with pytest.raises(UsageError):
            by_hand().predict(wrong)
    with pytest.raises(UsageError):
        by_hand().predict(["France", 7])


# --- what a model says of itself ------------------------------------------------------------------------


def test_statistics(model: Model, data: Dataset) -> None:
    assert model.label_bits == data.label_bits
    assert model.bits_per_parameter == data.label_bits / model.size.parameters_dense
    assert model.bits_per_stored_bit == data.label_bits / model.size.stored_bits
    assert by_hand().label_bits is None
    assert by_hand().bits_per_parameter is None


def test_repr_helps(model: Model) -> None:
    text = repr(model)
    for piece in (METHOD, "next-token", "exact", f"{model.size.parameters_dense:,} parameters", "3 of 3"):
        assert piece in text


def test_the_module_is_an_ordinary_torch_module() -> None:
    torch = pytest.importorskip("torch", reason="the package torch is not installed")
    model = by_hand("float32")
    module = model.module
    assert model.module is module
    assert isinstance(module, torch.nn.Module)
    assert {parameter.dtype for parameter in module.parameters()} == {torch.float32}
    one = SparseMatrix.of((1, 1), {(0, 0): 2**60 + 1})
    exact = Model(Memoriser(Transformer(one, (), one, 1), "next-token", ("a",), None, False), {}, None)
    with pytest.raises(InexactWeights):
        exact.module  # noqa: B018 - asking is what raises


# --- save, load, verify ---------------------------------------------------------------------------------


def test_a_model_comes_back_and_verifies(model: Model, data: Dataset, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.predict([PAIRS[0][0]]) == ["Paris"]
    assert again.record == model.record
    assert again.certificate == model.certificate
    assert bh.verify(again, data).holds
    flipped = data.with_labels((data.labels + 1) % 3)
    certificate = bh.verify(again, flipped)
    assert (certificate.holds, certificate.wrong) == (False, 3)
    assert "the data set is not the one" in certificate.problems[0]


def test_weights_that_are_not_the_certified_ones_are_not_loaded(model: Model, tmp_path: Path) -> None:
    silent = replace(model.network, w_out=SparseMatrix.of(model.network.w_out.shape, {}))
    replace(model, memoriser=replace(model.memoriser, network=silent)).save(tmp_path / "model")
    with refused(CorruptModel, "path", "certified"):
        load(tmp_path / "model")
    assert load(tmp_path / "model", check=False).predict([PAIRS[0][0]]) == [None]


def test_data_are_read_as_the_model_was(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    rows = "".join(f"{key},{value}\n" for key, value in CAPITALS.items())
    table.write_text("country,city\n" + rows, encoding="utf-8")
    reading = {"input": "country", "label": "city", "on_conflict": "error"}
    model = Model(lookup(capitals()), {"reading": reading}, None)
    data = read_like(model, table)
    assert data.digest == capitals().digest
    assert bh.verify(model, data).holds
    table.write_text("country,city\n" + rows + "Peru,Cusco\n", encoding="utf-8")
    certificate = bh.verify(model, read_like(model, table))
    assert [(sample.number, sample.expected) for sample in certificate.wrong_samples] == [(6, "Cusco")]


def test_a_record_that_lies_about_reading_is_refused(tmp_path: Path) -> None:
    model = Model(lookup(capitals()), {"reading": {"on_conflict": "perhaps"}}, None)
    with refused(CorruptModel, "file", "problem"):
        read_like(model, tmp_path / "table.csv")


def test_python_and_the_command_line_write_the_same_folder(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text("country,city\nPeru,Lima\nKenya,Nairobi\nPeru,Cusco\n", encoding="utf-8")
    data = Dataset.from_csv(table, input="country", label="city", on_conflict="first")
    compile(data, method=METHOD).save(tmp_path / "python")
    reading = ["--input", "country", "--label", "city", "--on-conflict", "first"]
    arguments = ["compile", str(table), "-o", str(tmp_path / "shell"), "--method", METHOD, *reading]
    assert run(arguments) == 0
    for name in ("model.json", "model.safetensors"):
        assert (tmp_path / "python" / name).read_bytes() == (tmp_path / "shell" / name).read_bytes()
    for folder in ("python", "shell"):
        asked = ["verify", str(tmp_path / folder), str(table)]
        assert run([*asked, "--on-conflict", "first"]) == 0
        assert run(asked) == ExitStatus.FALSE  # a row was left out, by a rule that this call does not name


# --- the package ----------------------------------------------------------------------------------------


def test_the_public_names_are_there_and_nothing_else_is_listed() -> None:
    assert {name for name in dir(bh) if not name.startswith("__")} == {*bh.__all__} - {"__version__"}
    for name in bh.__all__:
        assert getattr(bh, name) is not None
    with pytest.raises(AttributeError, match="nonsense"):
        bh.nonsense  # noqa: B018 - asking is what raises


@pytest.mark.parametrize(
    "first", ["byheart.compile", "byheart.Certificate", "byheart.verify", "byheart.load"]
)
def test_verify_is_callable_whatever_was_imported_before(first: str) -> None:
    code = f"import byheart; {first}; print(callable(byheart.verify), byheart.verify.Certificate.__name__)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["True", "Certificate"]


def test_the_version_is_that_of_the_package(project_root: Path) -> None:
    assert f'version = "{bh.__version__}"' in (project_root / "pyproject.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["compile", "load", "Dataset", "bounds"])
def test_public_names_do_not_bring_torch_along(name: str) -> None:
    code = f"import sys, byheart; byheart.{name}; print('torch' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "False"


def test_auto_runs_natively_and_turns_unknown_inputs_away(data: Dataset) -> None:
    model = compile(data)
    assert (model.record["method"], model.precision) == ("retrieval", "float64")
    assert model.record["options"] == {"reject_bits": 16, "precision": "float64"}
    assert 'gets "unknown", except about one in 65,536' in model.record["choice"]["why"]
    assert "--reject-bits 0" in model.record["choice"]["instead"]
    # 3 unknown inputs, each answered with probability 2^-16: the false-alarm rate of this test is about 5e-5
    unknown = ["Peru of currency", "capital of", "France capital of"]
    assert model.predict([*unknown, PAIRS[0][0]]) == [None, None, None, "Paris"]
    assert next(model.module.parameters()).is_floating_point()


def test_auto_takes_sixteen_reject_bits_in_float32_too(project_root: Path) -> None:
    capitals = compile(project_root / "examples" / "capitals.csv", precision="float32", check=False)
    assert (capitals.record["method"], capitals.precision) == ("retrieval", "float32")
    assert capitals.record["options"]["reject_bits"] == 16  # in two words


@pytest.mark.slow
def test_auto_takes_fewer_reject_bits_where_floats_have_no_room() -> None:
    rng = np.random.default_rng(0)
    texts = {
        "".join(rng.choice(list("abcdefgh"), size=129 - number)): str(number % 7) for number in range(40)
    }
    model = compile(texts, precision="float32", check=False)
    bits = model.record["options"]["reject_bits"]
    assert 0 < bits < 16
    assert f"one in {2**bits:,}" in model.record["choice"]["why"]
    assert "refused" not in model.record


def test_auto_goes_on_where_the_usual_choice_refuses() -> None:
    data = ADVERSARIAL["neighbouring-floats"](0)
    model = compile(data)
    assert model.precision == "exact"  # floats cannot tell these apart
    assert {"retrieval", "kajitsuka-sato-2023"} <= set(model.record["refused"])
    assert "refused: " in model.record["choice"]["why"]
    assert model.certificate is not None
    assert model.certificate.holds


def test_auto_in_exact_arithmetic_is_the_smallest(data: Dataset) -> None:
    model = compile(data, precision="exact")
    for name in ("kajitsuka-sato-2025", "kajitsuka-sato-2025-bits"):
        assert model.size.parameters_dense <= compile(data, method=name, check=False).size.parameters_dense


def test_auto_names_every_refusal_where_nothing_takes_the_data() -> None:
    with refused(AssumptionViolated, "refused"):
        compile(ADVERSARIAL["neighbouring-floats"](0), precision="float64")


# --- whatever a user holds ------------------------------------------------------------------------------


def test_pairs_dictionaries_frames_arrays_and_paths_are_compiled(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas", reason="the package pandas is not installed")
    table = tmp_path / "facts.csv"
    table.write_text(
        "question,reply\n" + "".join(f"{key},{value}\n" for key, value in PAIRS), encoding="utf-8"
    )
    frame = pandas.DataFrame(PAIRS, columns=["question", "reply"])
    for given, options in (
        (PAIRS, {}),
        (dict(PAIRS), {}),
        (frame, {}),
        (frame.assign(other=1), {"input": "question", "label": "reply"}),
        (table, {"input": "question", "label": "reply"}),
        (str(table), {"input": "question", "label": "reply"}),
    ):
        model = compile(given, tokenizer="word", method=METHOD, check=False, **options)
        assert model.predict("capital of Peru") == "Lima"
    assert (
        Dataset.from_pandas(frame, tokenizer="word").digest
        == Dataset.from_pairs(PAIRS, tokenizer="word").digest
    )
    arrays = (np.array([[0, 1], [2, 3]]), np.array([1, 0]))
    assert compile(arrays, method=METHOD, check=False).predict([[0, 1], [2, 3]]) == [1, 0]


@pytest.mark.parametrize(
    ("given", "options"),
    [
        (7, {}),
        (["ab"], {}),
        ("nowhere.csv", {}),
    ],
)
def test_what_is_not_data_is_refused(given: object, options: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        compile(given, **options)


def test_a_frame_with_holes_or_other_columns_is_refused(data: Dataset) -> None:
    pandas = pytest.importorskip("pandas", reason="the package pandas is not installed")
    frame = pandas.DataFrame({"key": ["a", "b"], "value": ["1", None], "more": [1, 2]})
    with refused(DataError, row=2):
        compile(frame)
    with refused(UsageError, column="keys"):
        compile(frame, input="keys")
    with pytest.raises(UsageError):
        compile(data, input="key")


@pytest.mark.parametrize("number", [[], "many", 10**400, float("nan")])
def test_a_record_whose_bits_are_not_a_number_is_refused(number: object) -> None:
    model = bh.compile({"a": "1", "b": "2"}, check=False)
    record = {**model.record, "dataset": {**model.record["dataset"], "label_bits": number}}
    with pytest.raises(CorruptModel):
        _ = replace(model, record=record).bits_per_parameter
    assert replace(model, record={**record, "dataset": []}).label_bits is None


def test_what_is_no_data_set_is_told_how_to_become_one() -> None:
    """In a process of its own: here the types of arguments are checked before anything else."""
    script = """
import byheart as bh
pairs = [("ab", "x"), ("b", "y")]
model = bh.compile(pairs, check=False)
for ask in (bh.verify, lambda _, given: bh.bounds.table(given)):
    for given in ("facts.csv", pairs, None):
        try:
            ask(model, given)
        except bh.errors.UsageError as error:
            assert "Dataset.read" in str(error), error
        else:
            raise AssertionError(given)
"""
    subprocess.run([sys.executable, "-c", "import byheart.errors\n" + script], check=True)


@pytest.mark.parametrize("seed", [-1, 1.5, "x", None])
def test_a_seed_is_a_whole_number(seed: Any) -> None:
    with refused(UsageError, "seed"):
        compile(PAIRS, seed=seed)
