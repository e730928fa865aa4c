"""Cases that their checkpoint cannot be asked, or cannot answer, are refused before an engine meets them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from byheart.cli.main import run
from byheart.errors import CorruptModel, ExitStatus, UsageError
from byheart.golden.case import CASES, FAMILY, N_NEW, Case
from byheart.golden.checkpoint import FILES, GGUF, WEIGHTS, require_settings, write_checkpoint
from byheart.golden.digests import DIGESTS, file_digests
from byheart.golden.engine_check import check
from byheart.golden.shape import Shape
from byheart.golden.signatures import SIGNATURES
from tests.refusal import refused

SHAPE = Shape("tiny", "llama", 1, 8, 8, 1, 1, 8, vocab=24, max_positions=32)
CASE = Case("first", "tiny", (0, 5), (2,) * N_NEW, "a", "b", 1.0, {"float32": 2.0})
ODD: dict[str, dict[str, Any]] = {
    "an empty prompt": {"prompt": []},
    "a token that there is not": {"prompt": [0, 24]},
    "an answer that there is not": {"answer": [2, 2, 2, 2, 24]},
    "a short answer": {"answer": [2]},
    "a short answer of beam search": {"beam_answer": [2]},
    "too few logits": {"logits": [1]},
    "too many logits": {"logits": [1] * 25},
    "one sum of logits": {"sums": [1.0], "sum_bounds": [1.0]},
    "sums of logits without bounds": {"sums": [1.0, 2.0]},
    "a prompt without room for an answer": {"prompt": [5] * 28},
    "a checkpoint that the family does not have": {"checkpoint": "nope"},
}


def write(folder: Path, **changed: Any) -> None:
    if not (folder / "tiny").exists():
        write_checkpoint(SHAPE, {}, folder / "tiny")
    (folder / "tiny" / GGUF).write_bytes(b"")
    (folder / SIGNATURES).write_text("{}")
    (folder / CASES).write_text(json.dumps({**CASE.to_json(), **changed}) + "\n")
    seal(folder)


def seal(folder: Path) -> None:
    """Write the digests of the files as they are now, as a forger can."""
    family = {"checkpoints": {"tiny": SHAPE.to_json()}, DIGESTS: file_digests(folder, ["tiny"])}
    (folder / FAMILY).write_text(json.dumps(family))


@pytest.mark.parametrize("name", ODD)
def test_cases_fit_their_checkpoint(tmp_path: Path, name: str) -> None:
    write(tmp_path)
    assert check(lambda _, prompts, n: [[2] * n for _ in prompts], tmp_path).holds
    write(tmp_path, **ODD[name])
    with refused(CorruptModel, file=str(tmp_path / CASES)):
        check(lambda *_: pytest.fail("an engine was asked"), tmp_path)


@pytest.mark.parametrize("margins", [{}, {"float": 2.0}])
def test_a_case_has_a_margin_for_some_number_type(tmp_path: Path, margins: dict[str, float]) -> None:
    """It was left out without a word."""
    write(tmp_path, margins=margins)
    with refused(CorruptModel, file=f"{CASES}, line 1"):
        check(lambda *_: pytest.fail("an engine was asked"), tmp_path)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        (CASES, '{"name": 1}'),
        (CASES, "["),
        (FAMILY, "["),
        (FAMILY, "[]"),
        (FAMILY, '{"checkpoints": {"tiny": {}}}'),
        (SIGNATURES, "["),
        (SIGNATURES, "[]"),
    ],
)
def test_the_remedy_is_that_of_a_family(tmp_path: Path, file: str, content: str) -> None:
    """The remedy was to compile the data again, as for a saved model."""
    write(tmp_path)
    (tmp_path / file).write_text(content)
    if file != FAMILY:
        seal(tmp_path)
    with pytest.raises(CorruptModel, match="byheart golden make"):
        check(lambda _, prompts, n: [[2] * n for _ in prompts], tmp_path)


@pytest.mark.parametrize(
    ("file", "changed"),
    [
        ("generation_config.json", {"bos_token_id": "one"}),
        ("config.json", {"rms_norm_eps": 1.0}),
        ("config.json", None),
    ],
)
def test_settings_are_those_of_the_shape(tmp_path: Path, file: str, changed: dict[str, Any] | None) -> None:
    """transformers ended in a TypeError for a `bos_token_id` that is a text."""
    write_checkpoint(SHAPE, {}, tmp_path / "tiny")
    require_settings(SHAPE, tmp_path / "tiny")
    path = tmp_path / "tiny" / file
    if changed is None:
        path.unlink()
    else:
        path.write_text(json.dumps({**json.loads(path.read_text()), **changed}, indent=1))
    with refused(CorruptModel, file=str(path)):
        require_settings(SHAPE, tmp_path / "tiny")


FAMILY_FILES = (CASES, SIGNATURES, *(f"tiny/{file}" for file in FILES))


@pytest.mark.parametrize("file", FAMILY_FILES)
@pytest.mark.parametrize("change", ["one bit", "empty", "missing"])
def test_a_damaged_file_is_noticed_before_an_engine_is_asked(tmp_path: Path, file: str, change: str) -> None:
    """A correct engine was blamed, also with three cases left or without signatures."""
    write(tmp_path)
    path = tmp_path / file
    content = path.read_bytes()
    if change == "missing":
        path.unlink()
    elif change == "one bit" and content:
        path.write_bytes(bytes([content[0] ^ 1]) + content[1:])
    else:
        path.write_bytes(b"" if content else b"x")
    with refused(CorruptModel, file=str(path)):
        check(lambda *_: pytest.fail("an engine was asked"), tmp_path)


def test_only_chosen_checkpoints_must_be_there(tmp_path: Path) -> None:
    write(tmp_path)
    family = json.loads((tmp_path / FAMILY).read_text())
    family["checkpoints"]["other"] = {**family["checkpoints"]["tiny"], "name": "other"}
    (tmp_path / FAMILY).write_text(json.dumps(family))
    assert check(lambda _, prompts, n: [[2] * n for _ in prompts], tmp_path, only=["tiny"]).holds
    with refused(CorruptModel, file=str(tmp_path / "other" / FILES[0])):
        check(lambda *_: pytest.fail("an engine was asked"), tmp_path)


def test_another_shape_than_that_of_the_settings_is_noticed(tmp_path: Path) -> None:
    write(tmp_path)
    family = json.loads((tmp_path / FAMILY).read_text())
    family["checkpoints"]["tiny"]["rope_theta"] = 2.0
    (tmp_path / FAMILY).write_text(json.dumps(family))
    with refused(CorruptModel, file=str(tmp_path / "tiny" / "config.json")):
        check(lambda *_: pytest.fail("an engine was asked"), tmp_path)


def test_a_family_without_digests_is_refused(tmp_path: Path) -> None:
    write(tmp_path)
    family = json.loads((tmp_path / FAMILY).read_text())
    del family[DIGESTS]
    (tmp_path / FAMILY).write_text(json.dumps(family))
    with refused(UsageError, path=str(tmp_path / FAMILY)):
        check(lambda *_: pytest.fail("an engine was asked"), tmp_path)


def test_a_damaged_family_does_not_end_as_a_wrong_engine(tmp_path: Path) -> None:
    """The exit status was 3, as for a wrong engine."""
    pytest.importorskip("transformers", reason="the package transformers is not installed")
    write(tmp_path)
    (tmp_path / "tiny" / WEIGHTS).unlink()
    assert run(["golden", "check", str(tmp_path), "--engine", "transformers"]) == ExitStatus.OUTSIDE
