"""TransformerLens opens the folder of a Llama and gives the logits that transformers gives."""

from __future__ import annotations

from pathlib import Path

import pytest

import byheart as bh
from byheart.cli.main import run
from byheart.errors import ExitStatus
from byheart.export import transformer_lens
from byheart.network.llama.architecture import Llama

pytestmark = pytest.mark.slow
FACTS = {"capital of France": "Paris", "capital of Åland": "Mariehamn", "symbol of gold": "Au"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("transformer_lens", reason="needs the extra lens, which no other test does")
    target = tmp_path_factory.mktemp("lens") / "model"
    bh.compile(bh.Dataset.from_pairs(FACTS.items()), method="llama").save(target)
    return target


def test_logits_of_100_prompts_are_equal(folder: Path) -> None:
    llama = bh.load(folder).network
    assert isinstance(llama, Llama)
    assert transformer_lens.count_different_logits(folder, llama, n_prompts=100) == 0
    changed = {name: each.copy() for name, each in llama.weights.items()}
    changed["model.norm.weight"] *= 2
    other = Llama(llama.spec, changed, llama.tokenizer_json)
    assert transformer_lens.count_different_logits(folder, other, n_prompts=100) > 0


def test_the_command_line_says_so(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["export", str(folder), "--to", "transformer-lens"]) == ExitStatus.HOLDS
    assert "equal logits" in capsys.readouterr().out
