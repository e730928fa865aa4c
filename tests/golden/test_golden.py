"""Right engines pass; engines with a fault do not, and the fault is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

from byheart import golden
from byheart.cli.golden import check_engine
from byheart.cli.main import run
from byheart.errors import ExitStatus, UsageError
from byheart.golden.case import CASES, Case, cases, shapes, text_of, token_of, token_text
from byheart.golden.checkpoint import read_weights, write_checkpoint
from byheart.golden.diagnosis import Basis, Outcome, Suspicion, diagnose, headline
from byheart.golden.engines.llama_cpp import LlamaCppEngine
from byheart.golden.engines.transformers import TransformersEngine
from byheart.golden.exact import draw_exact_weights, find_exact_cases
from byheart.golden.family import SHAPES
from byheart.golden.faults import faults_of
from byheart.golden.reference import BEAM_SEARCH, WAYS, ReferenceEngine
from byheart.golden.rounding import bounds
from byheart.golden.signatures import read_signatures
from byheart.golden.weights import draw_weights
from tests.golden.catalogue import CATALOGUE
from tests.golden.test_hostile_cases import seal, write
from tests.refusal import refused


def _reference(folder: Path, change: Callable[[ReferenceEngine], None] = lambda engine: None) -> Any:
    """The reference engine as a user's own function."""
    known = shapes(folder)

    def generate(checkpoint: Path, prompts: Any, n_new: int) -> list[list[int]]:
        engine = ReferenceEngine(known[checkpoint.name], read_weights(checkpoint))
        change(engine)
        return engine.generate(prompts, n_new)

    return generate


# --- right engines ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("number_type", ["float32", "bfloat16"])
def test_transformers_is_right_in_every_way(small_family: Path, attention: str, number_type: Any) -> None:
    engine = TransformersEngine(number_type, attention=attention)
    report = golden.check(engine, small_family)
    assert report.wrong == []
    assert report.holds
    assert report.suspicions == ()
    ways = {way.name for way in WAYS} - ({BEAM_SEARCH} if number_type == "bfloat16" else set())
    assert {outcome.way for outcome in report.outcomes} >= ways


def test_onnx_runtime_is_right(small_family: Path) -> None:
    pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")
    assert run(["golden", "check", str(small_family), "--engine", "onnxruntime", "-q"]) == ExitStatus.HOLDS


@pytest.mark.parametrize(("cache", "flash"), [("float16", True), ("float32", False), ("float32", True)])
def test_llama_cpp_is_right(small_family: Path, cache: Any, flash: bool) -> None:
    pytest.importorskip("xllamacpp", reason="the package xllamacpp is not installed")
    report = golden.check(LlamaCppEngine(cache, flash), small_family)
    assert report.holds
    assert report.number_type == ("float32" if cache == "float32" and not flash else "float16")


@pytest.mark.parametrize("flash", [True, False])
def test_a_coarser_type_than_asked_is_said(
    small_family: Path, flash: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("xllamacpp", reason="the package xllamacpp is not installed")
    command = ["golden", "check", str(small_family), "--engine", "llama.cpp", "--number-type", "float32"]
    chosen = ["--only", "llama", "--flash" if flash else "--no-flash"]
    assert run([*command, *chosen]) == ExitStatus.HOLDS
    assert ("--no-flash" in capsys.readouterr().err) == flash


def test_a_real_server_is_asked_over_http(small_family: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("xllamacpp", reason="the package xllamacpp is not installed")
    shape = shapes(small_family)["qwen3"]
    server = LlamaCppEngine().start(shape, small_family / "qwen3" / "model.gguf")
    ask = [
        "golden",
        "check",
        str(small_family),
        "--engine",
        server.address,
        "--number-type",
        "float16",
        "--json",
    ]
    assert run(ask) == ExitStatus.HOLDS
    document = json.loads(capsys.readouterr().out)
    assert {row["checkpoint"] for row in document["rows"]} == {"qwen3"}
    # the same server taken for another checkpoint: wrong, and the exit status says so
    assert run([*ask, "--only", "llama", "--model", "qwen3"]) == ExitStatus.FALSE
    server.close()


def test_every_way_gives_one_answer(small_family: Path) -> None:
    found = cases(small_family)
    for name, shape in shapes(small_family).items():
        engine = ReferenceEngine(shape, read_weights(small_family / name))
        for way in WAYS:
            mine = [case for case in found if case.checkpoint == name and case.expected(way.name)][:6]
            made = engine.generate([case.prompt for case in mine], 5, way)
            assert made == [list(case.expected(way.name)) for case in mine]


# --- wrong engines ---------------------------------------------------------------------------------------


def test_the_catalogue_has_fifty_faults() -> None:
    assert len({fault.name for fault in CATALOGUE}) >= 50


QUICK = (
    "RoPE base 0.1% off",
    "attention scale halved",
    "epsilon twice as large",
    "hard swish",
    "TF32 products",
    "positions one too few while decoding",
    "keys and values exchanged",
)


@pytest.mark.parametrize(
    "fault", [fault for fault in CATALOGUE if fault.name in QUICK], ids=lambda fault: fault.name
)
def test_a_fault_in_transformers_is_noticed(small_family: Path, fault: Any) -> None:
    engine = TransformersEngine(attention="eager", change=fault.change)
    report = golden.check(engine, small_family, only=["llama"])
    assert report.wrong
    assert not report.holds


@pytest.mark.parametrize(
    "kind", ["attention scale", "epsilon", "key-value groups", "head 2 of layer 1", "RoPE base"]
)
def test_a_fault_of_the_table_is_named(small_family: Path, kind: str) -> None:
    fault = next(fault for fault in faults_of(shapes(small_family)["llama"]) if fault.kind == kind)
    report = golden.check(_reference(small_family, fault.change), small_family, only=["llama"])
    assert not report.holds
    assert report.suspicions[0].kind == kind
    assert report.suspicions[0].likeness == 1.0


def test_a_fault_of_an_engine_without_a_cache_is_named(small_family: Path) -> None:
    """As of ONNX Runtime, whose ways of running are these two."""
    known = shapes(small_family)
    fault = next(fault for fault in faults_of(known["llama"]) if fault.kind == "RoPE layout")
    engine = fault.engine(known["llama"], read_weights(small_family / "llama"))
    way = next(way for way in WAYS if way.name == "no cache")
    mine = [case for case in cases(small_family) if case.checkpoint == "llama" and case.holds_for("float32")]
    answers = engine.generate([case.prompt for case in mine], 5, way)
    outcomes = [
        Outcome(case, name, tuple(answer))
        for name in ("no cache", "right padding")
        for case, answer in zip(mine, answers, strict=True)
    ]
    found = diagnose(outcomes, known, read_signatures(small_family))
    assert (found[0].kind, found[0].likeness) == ("RoPE layout", 1.0)


def test_a_case_left_out_in_two_ways_counts_once(tmp_path: Path) -> None:
    class Session:
        def ways(self) -> tuple[str, ...]:
            return "one by one", "no cache", "left padding"

        def why_not(self, way: str, case: Case) -> str | None:
            return None if way == "one by one" else "no reason"

        def generate(self, way: str, prompts: Any, n_new: int) -> list[list[int]]:
            return [[2] * n_new for _ in prompts]

        def close(self) -> None:
            pass

    class Engine:
        name, number_type = "engine", "float32"

        def open(self, shape: Any, folder: Path) -> Session:
            return Session()

    write(tmp_path)
    assert golden.check(Engine(), tmp_path).left_out == {"no reason": 1}


def test_cases_that_rounding_might_change_are_counted(tmp_path: Path) -> None:
    """`left_out` was empty: nothing said that most cases were not asked."""
    write(tmp_path)
    case = json.loads((tmp_path / CASES).read_text())
    margins = ({"float16": 2.0}, {"float16": 0.5}, {"float16": 0.9}, {"float32": 2.0})
    lines = [json.dumps({**case, "name": str(at), "margins": each}) for at, each in enumerate(margins)]
    (tmp_path / CASES).write_text("\n".join(lines) + "\n")
    seal(tmp_path)
    report = golden.check(lambda _, prompts, n: [[2] * n for _ in prompts], tmp_path, number_type="float16")
    assert (len(report.outcomes), sorted(report.left_out.values())) == (1, [1, 2])
    assert report.to_json()["left_out"] == report.left_out


def test_without_a_fault_the_function_holds(small_family: Path) -> None:
    assert golden.check(_reference(small_family), small_family).holds


def test_bfloat16_for_float32_is_noticed(small_family: Path) -> None:
    engine = TransformersEngine(change=lambda model: model.to(torch.bfloat16) and None)
    assert not golden.check(engine, small_family, only=["llama"]).holds


# --- checkpoints and cases -------------------------------------------------------------------------------


def test_exact_logits_are_exact_in_bfloat16(tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    shape = next(shape for shape in SHAPES if shape.design == "exact")
    weights = draw_exact_weights(shape)
    exact = find_exact_cases(shape, weights, n_drawn=8, n_kept=1)
    write_checkpoint(shape, weights, tmp_path / "exact")
    for dtype in (torch.float32, torch.bfloat16):
        model = AutoModelForCausalLM.from_pretrained(tmp_path / "exact", dtype=dtype)
        assert exact
        for case in exact:
            with torch.no_grad():
                logits = model(torch.tensor([case.prompt])).logits[0, -1]
            assert logits.tolist() == list(case.logits)
            assert int(logits.argmax()) == case.answer[0]


def _gaps(logits: torch.Tensor, answers: torch.Tensor) -> torch.Tensor:
    """How far the right token leads the next best."""
    right = logits.gather(2, answers[..., None])[..., 0]
    return right - logits.scatter(2, answers[..., None], -torch.inf).max(2).values


@torch.no_grad()
def test_rounding_stays_within_its_bound(small_family: Path) -> None:
    """Gaps computed in float32, in many orders of summation, differ from the exact ones by less than the bound."""
    shape = shapes(small_family)["llama"]
    weights = read_weights(small_family / "llama")
    rows = [[*case.prompt, *case.answer] for case in cases(small_family) if case.checkpoint == "llama"]
    rows = [row for row in rows if len(row) == len(rows[0])]
    with torch.enable_grad():
        exact, limits = bounds(shape, weights, rows, 5, "float32")
    assert (exact > limits).all()
    ids = torch.tensor(rows)
    engine = ReferenceEngine(shape, weights)
    right = engine.forward(
        ids[:, :-1], torch.ones_like(ids[:, :-1], dtype=torch.bool), engine.empty_cache(len(ids)), n_last=5
    )
    expected = _gaps(right, ids[:, -5:])
    from transformers import AutoModelForCausalLM

    worst = 0.0
    for attention in ("sdpa", "eager"):
        model = AutoModelForCausalLM.from_pretrained(small_family / "llama", attn_implementation=attention)
        logits = model(ids[:, :-1]).logits[:, -5:].double()
        worst = max(worst, float(((_gaps(logits, ids[:, -5:]) - expected).abs() / limits).max()))
    assert 0 < worst < 1


def test_every_stored_weight_is_generic() -> None:
    for shape in SHAPES:
        if shape.design == "generic" and not shape.n_needles and shape.vocab < 1000:
            weights = draw_weights(shape)
            assert all((tensor != 0).all() for tensor in weights.values())


def test_texts_and_ids_agree() -> None:
    rng = np.random.default_rng(0)
    for vocab in (256, 70_000):
        ids = [2, vocab - 1, *rng.integers(2, vocab, 50).tolist()]
        assert [token_of(vocab, character) for character in text_of(vocab, ids)] == ids
        assert token_of(vocab, "a") == -1
        assert len({token_text(vocab, token) for token in range(vocab)}) == vocab


def test_the_tokenizer_of_the_folder_gives_the_same_ids(small_family: Path) -> None:
    from transformers import AutoTokenizer

    case = cases(small_family)[0]
    tokenizer = AutoTokenizer.from_pretrained(small_family / case.checkpoint)
    assert tokenizer(case.text)["input_ids"] == list(case.prompt)


def test_a_case_says_what_it_is_sensitive_to(small_family: Path) -> None:
    kinds = {kind for case in cases(small_family) for kind in case.sensitive_to}
    assert kinds >= {
        "RoPE base",
        "attention scale",
        "epsilon",
        "activation",
        "key-value groups",
        "cache",
    }


# --- the commands ----------------------------------------------------------------------------------------


def test_check_writes_junit_and_json(
    small_family: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "results.xml"
    command = ["golden", "check", str(small_family), "--engine", "transformers", "--only", "llama", "--json"]
    assert run([*command, "--junit", str(target)]) == ExitStatus.HOLDS
    document = json.loads(capsys.readouterr().out)
    assert document["holds"] is True
    suite = ElementTree.parse(target).getroot()[0]
    assert int(suite.attrib["tests"]) == document["checked"] == len(suite)


def test_junit_shows_failures(small_family: Path) -> None:
    from byheart.golden.junit import junit_xml

    report = golden.check(lambda folder, prompts, n_new: [[2] * n_new for _ in prompts], small_family)
    suite = ElementTree.fromstring(junit_xml(report))[0]
    assert int(suite.attrib["failures"]) == len(suite.findall("testcase/failure")) == len(report.wrong) > 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["golden", "check", "nowhere", "--engine", "transformers"],
        ["golden", "check", "FAMILY", "--engine", "vllm"],
        ["golden", "check", "FAMILY", "--engine", "transformers", "--only", "gpt"],
        ["golden", "check", "FAMILY", "--engine", "transformers", "--number-type", "float16"],
        ["golden", "check", "FAMILY", "--engine", "http://127.0.0.1:9", "--number-type", "float32"],
        [
            "golden",
            "check",
            "FAMILY",
            "--engine",
            "transformers",
            "--only",
            "llama",
            "--number-type",
            "bfloat16",
        ],
        ["golden", "check", "FAMILY", "--engine", "transformers", "--model", "x"],
        ["golden", "check", "FAMILY", "--engine", "transformers", "--no-flash"],
        ["golden", "check", "FAMILY", "--engine", "transformers", "--timeout", "5"],
        ["golden", "check", "FAMILY", "--engine", "transformers", "--device", "abacus"],
        ["golden", "check", "FAMILY", "--engine", "llama.cpp", "--device", "cpu"],
        ["golden", "check", "FAMILY", "--engine", "onnxruntime", "--attention", "eager"],
        ["golden", "make", "-o", "FAMILY"],
        ["golden", "make", "-o", "NEW", "--only", "gpt"],
    ],
)
def test_bad_requests_are_refused(small_family: Path, tmp_path: Path, arguments: list[str]) -> None:
    paths = {"FAMILY": str(small_family), "NEW": str(tmp_path / "new"), "nowhere": str(tmp_path / "nowhere")}
    assert run([paths.get(each, each) for each in arguments]) == ExitStatus.USAGE
    assert not (tmp_path / "new").exists()


def test_a_gpu_that_is_not_there_is_refused(small_family: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ended in an AssertionError of torch."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    ask = ["golden", "check", str(small_family), "--engine", "transformers", "--device", "cuda"]
    assert run(ask) == ExitStatus.USAGE


@pytest.mark.parametrize("basis", get_args(Basis))
def test_the_command_and_junit_say_the_same(
    small_family: Path, basis: Basis, capsys: pytest.CaptureFixture[str]
) -> None:
    """JUnit and the command derived from the likeness alone why a fault is suspected, each in its own way."""
    from byheart.cli.golden import _show
    from byheart.golden.junit import junit_xml

    report = golden.check(_reference(small_family), small_family)
    wrong = (replace(report.outcomes[0], answer=(2, 3, 2, 3, 2)),)
    suspicions = (Suspicion("epsilon", "ten times", 0.3, basis), Suspicion("norm", "left out", 0.2, basis))
    failed = replace(report, outcomes=wrong, suspicions=suspicions)
    _show(failed, small_family)
    said, (failure,) = capsys.readouterr().out, ElementTree.fromstring(junit_xml(failed)).iter("failure")
    assert len(headline(suspicions)) == 2
    assert all(line in said and line in failure.attrib["message"] for line in headline(suspicions))


def test_an_unknown_checkpoint_is_refused(tmp_path: Path) -> None:
    with refused(UsageError, name="gpt", known=[shape.name for shape in SHAPES]):
        golden.make(tmp_path / "family", only=["gpt"])


def test_a_text_instead_of_names_is_refused(tmp_path: Path) -> None:
    """The error was that there is no checkpoint `l`."""
    with refused(UsageError, only="llama"):
        golden.make(tmp_path / "family", only="llama")


def test_the_check_of_an_unknown_checkpoint_names_the_known_ones(small_family: Path) -> None:
    """The error was that none of the selected cases can be run in float32."""
    known = [path.name for path in small_family.iterdir() if path.is_dir()]
    for only in (["gpt"], [known[0], "gpt"]):
        with refused(UsageError, "known", name="gpt") as caught:
            golden.check(lambda *_: pytest.fail("an engine was asked"), small_family, only=only)
        assert set(caught.value.facts["known"]) == set(known)
    ask = [str(small_family), "--engine", "transformers", "--only", "gpt"]
    with refused(UsageError, "known", name="gpt"):
        check_engine.main(ask, standalone_mode=False)
