"""Every tensor and every token id decides some answer of a family."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from byheart import golden
from byheart.golden.case import N_NEW, Case, cases, shapes
from byheart.golden.checkpoint import read_weights
from byheart.golden.coverage import CLOSE, Candidates, covering_rows
from byheart.golden.engine_check import compare_logits
from byheart.golden.family import make
from byheart.golden.reference import N_BEAMS, ReferenceEngine
from byheart.golden.shape import N_SPECIAL
from byheart.golden.signatures import spread
from tests.golden.bits import flip, groups, is_noticed
from tests.golden.conftest import COUNTS, SMALL


@torch.no_grad()
def deciding_tokens(engine: ReferenceEngine, mine: list[Case]) -> Counter[int]:
    """How often each id is the right token or the closest rival of a close decision, computed from the cases alone."""
    found: Counter[int] = Counter()
    for ids, answer, _ in groups(mine):
        logits = engine.forward(
            ids, torch.ones_like(ids, dtype=torch.bool), engine.empty_cache(len(ids)), n_last=N_NEW
        )
        best = logits.topk(2)
        assert torch.equal(best.indices[..., 0], answer)
        is_close = best.values[..., 0] - best.values[..., 1] < CLOSE
        found.update(best.indices[is_close].flatten().tolist())
    return found


def test_every_token_id_decides_an_answer(small_family: Path) -> None:
    for name, shape in shapes(small_family).items():
        mine = [case for case in cases(small_family) if case.checkpoint == name]
        found = deciding_tokens(ReferenceEngine(shape, read_weights(small_family / name)), mine)
        assert [token for token in range(N_SPECIAL, shape.vocab) if not found[token]] == []
        asked = {token for case in mine for token in case.prompt}
        assert asked >= set(range(N_SPECIAL, shape.vocab))
        # without the cases that were added for it, some ids decide nothing
        first = [case for case in mine if "/token-" not in case.name]
        fewer = deciding_tokens(ReferenceEngine(shape, read_weights(small_family / name)), first)
        assert any(not fewer[token] for token in range(N_SPECIAL, shape.vocab))


def test_no_tensor_can_change_unnoticed(small_family: Path) -> None:
    """The sign of a weight, for three weights of each tensor."""
    for name, shape in shapes(small_family).items():
        texts = groups([case for case in cases(small_family) if case.checkpoint == name])
        weights = read_weights(small_family / name)
        engine = ReferenceEngine(shape, weights)
        assert not is_noticed(engine, texts)
        sign = 31 if shape.dtype == "float32" else 15
        for tensor, value in weights.items():
            kept = engine.weights[tensor]
            for at in (0, value.numel() // 2, value.numel() - 1):
                if tensor == "model.embed_tokens.weight" and not shape.is_tied and at == 0:
                    at = N_SPECIAL * shape.hidden
                engine.weights[tensor] = flip(value, at, sign).double()
                assert is_noticed(engine, texts), f"{name}: sign of entry {at} of {tensor}"
            engine.weights[tensor] = kept


def test_rows_that_do_not_hold_are_not_chosen() -> None:
    ids = torch.tensor([[0, 5, 2], [0, 6, 2], [0, 7, 3]])
    block = Candidates(ids, torch.tensor([[0.01], [0.02], [0.03]]), torch.tensor([[3], [3], [2]]))
    assert covering_rows([block], 4, [], lambda rows: [True] * len(rows)) == [[0, 5, 2], [0, 6, 2], [0, 7, 3]]
    assert covering_rows([block], 4, [], lambda rows: [row[1] != 5 for row in rows]) == [[0, 6, 2], [0, 7, 3]]
    assert covering_rows([block], 4, ids.tolist(), lambda rows: [True] * len(rows)) == []


class _Logits:
    def __init__(self, change: float) -> None:
        self.change = change

    def logits(self, prompts: list[tuple[int, ...]]) -> list[list[float]]:
        return [[5.0, 2.0 + self.change, -3.0] for _ in prompts]


def test_exact_logits_are_compared_to_the_last_bit(small_family: Path) -> None:
    case = replace(cases(small_family)[0], answer=(0, 9), logits=(5, 2, -3))
    (right,) = compare_logits(_Logits(0.0), [case], "bfloat16")
    (wrong,) = compare_logits(_Logits(2.0**-22), [case], "bfloat16")
    assert right.is_right
    assert not wrong.is_right
    assert wrong.wrong_logits == (1,)


def test_beam_search_finds_another_answer_than_greedy_decoding(small_family: Path) -> None:
    for name, shape in shapes(small_family).items():
        mine = [c for c in cases(small_family) if c.checkpoint == name and c.beam_answer]
        engine = ReferenceEngine(shape, read_weights(small_family / name))
        assert mine
        for case in mine:
            assert case.beam_answer != case.answer
            with torch.no_grad():
                assert tuple(engine.search_beams(case.prompt, N_NEW, N_BEAMS)[0]) == case.beam_answer


def test_the_functions_are_not_hidden_by_modules() -> None:
    """Importing a module of the room, as the pytest plugin does, leaves `golden.cases` and `golden.check` functions."""
    for path in Path(golden.__file__).parent.glob("*.py"):
        assert path.stem not in golden.__all__


def test_some_cases_come_from_all_over_the_list() -> None:
    assert spread(range(7), 10) == list(range(7))
    assert spread(range(10), 4) == [0, 2, 5, 7]


@pytest.mark.slow
def test_processes_make_the_same_family(tmp_path: Path, small_family: Path) -> None:
    make(tmp_path / "again", family=SMALL, counts=COUNTS, lengths=(5, 11), n_processes=2)
    for path in small_family.rglob("*"):
        if path.is_file():
            assert (tmp_path / "again" / path.relative_to(small_family)).read_bytes() == path.read_bytes()
