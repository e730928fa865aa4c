"""Cases that their checkpoint cannot be asked, or cannot answer, are refused before an engine meets them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from byheart.errors import CorruptModel
from byheart.golden.case import CASES, FAMILY, N_NEW, Case
from byheart.golden.checkpoint import require_settings, write_checkpoint
from byheart.golden.report import check
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
}


def write(folder: Path, **changed: Any) -> None:
    shape = {name: value for name, value in vars(SHAPE).items() if not name.startswith("_")}
    (folder / FAMILY).write_text(json.dumps({"checkpoints": {"tiny": shape}}))
    (folder / CASES).write_text(json.dumps({**CASE.to_json(), **changed}) + "\n")


@pytest.mark.parametrize("name", ODD)
def test_cases_fit_their_checkpoint(tmp_path: Path, name: str) -> None:
    write(tmp_path)
    assert check(lambda _, prompts, n: [[2] * n for _ in prompts], tmp_path).holds
    write(tmp_path, **ODD[name])
    with refused(CorruptModel, file=str(tmp_path / CASES)):
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
