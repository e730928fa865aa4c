"""Prompts whose answers have small margins: searched among many, and kept where rounding cannot change the answer.

Many prompts are continued by the reference engine. Of the decisions taken on the way, those are kept whose gap is just above the
bound of `rounding`: for float32 some 1e-5 of the spread of logits, so that a fault of a few units in the last place turns one of
them over; for float16 and bfloat16, whose rounding is larger, wider gaps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from byheart.golden.cases import N_NEW, NUMBER_TYPES, Case, text_of
from byheart.golden.reference import ReferenceEngine
from byheart.golden.rounding import NumberType, bounds
from byheart.golden.shape import BOS, Shape
from byheart.golden.weights import fillers
from byheart.process.progress import Progress

N_PREFIXES, MOST_LAST = 16, 120
"""Prompts of one block: the number of beginnings, and the most last tokens of each."""

LENGTHS = (5, 9, 14, 14, 21, 21, 30, 30, 30, 47, 47, 90)
"""Tokens of the prompts, one block each."""

MOST_LOGITS = 6_000_000  # of one block, for memory


@dataclass(frozen=True)
class Candidates:
    """Texts of one length, and the gap of each decision of their answers."""

    ids: Tensor
    gaps: Tensor


def find_cases(
    shape: Shape,
    weights: dict[str, Tensor],
    counts: dict[NumberType, int],
    lengths: Sequence[int],
    progress: Progress,
) -> list[Case]:
    """`counts[t]` cases each that rounding to type t cannot change, with gaps as small as that allows."""
    rng = np.random.default_rng([shape.seed, 77])
    engine = ReferenceEngine(shape, weights)
    blocks = []
    for at, length in enumerate(lengths):
        progress(at, len(lengths), f"{shape.name}: prompts")
        blocks.append(_continue(engine, _prefixes(shape, length, rng), rng))
    found: list[Case] = []
    for number_type, count in counts.items():
        found += _keep(shape, weights, blocks, number_type, count, progress)
    return found


def _prefixes(shape: Shape, length: int, rng: np.random.Generator) -> Tensor:
    """Beginnings of prompts in which the ids of the vocabulary take turns, so that each occurs."""
    n_wanted = N_PREFIXES * (length - 2)
    n_turns = -(-n_wanted // (shape.vocab - 2))
    ids = np.concatenate([2 + rng.permutation(shape.vocab - 2) for _ in range(n_turns)])
    rows = ids[:n_wanted].reshape(N_PREFIXES, length - 2)
    return torch.from_numpy(np.concatenate([np.full((N_PREFIXES, 1), BOS), rows], 1))


@torch.no_grad()
def _continue(engine: ReferenceEngine, prefixes: Tensor, rng: np.random.Generator) -> Candidates:
    """All prefixes with each of some last tokens, and what follows."""
    vocab = engine.shape.vocab
    cache = engine.empty_cache(len(prefixes))
    engine.forward(prefixes, torch.ones_like(prefixes, dtype=torch.bool), cache, n_last=1)
    n_last = min(MOST_LAST, max(1, MOST_LOGITS // (len(prefixes) * vocab)))
    cache = cache.repeat(n_last)
    lasts = [2 + rng.choice(vocab - 2, n_last, replace=False) for _ in prefixes]
    return _decode(
        engine, prefixes.repeat_interleave(n_last, 0), torch.from_numpy(np.concatenate(lasts)), cache
    )


def _decode(engine: ReferenceEngine, texts: Tensor, token: Tensor, cache: Any) -> Candidates:
    """Greedy answers after `texts`, which are in the cache, and one more token each."""
    columns, gaps = [token], []
    for _ in range(N_NEW):
        logits = engine.forward(token[:, None], torch.ones(len(token), 1, dtype=torch.bool), cache)[:, 0]
        best = logits.topk(2)
        gaps.append(best.values[:, 0] - best.values[:, 1])
        token = best.indices[:, 0]
        columns.append(token)
    ids = torch.cat([texts, torch.stack(columns, 1)], 1)
    is_plain = (ids[:, -N_NEW:] >= 2).all(1)
    return Candidates(ids[is_plain], torch.stack(gaps, 1)[is_plain])


def _margins(
    shape: Shape, weights: dict[str, Tensor], rows: list[list[int]], number_type: NumberType
) -> Tensor:
    """The smallest gap of each answer in units of its bound, a few rows at a time."""
    size = max(1, min(40, MOST_LOGITS // (shape.vocab * N_NEW)))
    parts = []
    for first in range(0, len(rows), size):
        gaps, limits = bounds(shape, weights, rows[first : first + size], N_NEW, number_type)
        parts.append((gaps / limits).min(1).values)
    return torch.cat(parts)


def _keep(
    shape: Shape,
    weights: dict[str, Tensor],
    blocks: list[Candidates],
    number_type: NumberType,
    count: int,
    progress: Progress,
) -> list[Case]:
    """Of every block the candidates with the smallest gaps that hold, some for each step of the answer.

    The bound differs from text to text, so the search starts at the bound that is usual in the block.
    """
    kept: list[tuple[float, list[int]]] = []
    per_block = -(-count // len(blocks)) + 1
    for at, block in enumerate(blocks):
        progress(at, len(blocks), f"{shape.name}: rounding bounds for {number_type}")
        smallest, step = block.gaps.min(1)
        widest = smallest.topk(4)
        sample = _margins(shape, weights, block.ids[widest.indices].tolist(), number_type)
        usual = float((widest.values / sample).median())
        order = smallest.argsort()
        # rare small gaps from half of a usual bound; of the wide ones, which are many, those that hold with some certainty
        is_fine = number_type == "float32"
        order = order[smallest[order] > (usual / 2 if is_fine else usual)]
        chosen: list[int] = []
        for wanted in range(N_NEW):  # the first decision follows the prompt, the later ones decoding
            chosen += order[step[order] == wanted][: per_block * (1 if is_fine else 2)].tolist()
        rows = block.ids[chosen].tolist()
        if rows:
            margins = _margins(shape, weights, rows, number_type)
            good = [row for row in margins.argsort().tolist() if margins[row] >= 1.0][:per_block]
            kept += [(float(margins[row]), rows[row]) for row in good]
    kept.sort(key=lambda pair: pair[0])
    made = _cases(shape, weights, [row for _, row in kept[:count]])
    return [replace(case, name=f"{shape.name}/{number_type}-{at:02}") for at, case in enumerate(made)]


def _cases(shape: Shape, weights: dict[str, Tensor], rows: list[list[int]]) -> list[Case]:
    """The rows as cases, with their margins for every number type; rows of one length go together."""
    types = [each for each in NUMBER_TYPES if each != "bfloat16" or shape.dtype == "bfloat16"]
    made: dict[int, Case] = {}
    for length in sorted({len(row) for row in rows}):
        places = [at for at, row in enumerate(rows) if len(row) == length]
        group = [rows[at] for at in places]
        margins = {each: _margins(shape, weights, group, each) for each in types}
        gaps = bounds(shape, weights, group, N_NEW, "float32")[0].min(1).values
        for place, (at, row) in enumerate(zip(places, group, strict=True)):
            prompt, answer = row[:-N_NEW], row[-N_NEW:]
            made[at] = Case(
                "",
                shape.name,
                tuple(prompt),
                tuple(answer),
                text_of(shape.vocab, prompt),
                text_of(shape.vocab, answer),
                float(gaps[place]),
                {each: round(float(values[place]), 4) for each, values in margins.items()},
            )
    return [made[at] for at in range(len(rows))]


LONG = {4_000: 6, 32_000: 3}
"""Tokens between the first needles and the end, and how many cases of each."""


@torch.no_grad()
def find_long_cases(shape: Shape, weights: dict[str, Tensor], progress: Progress) -> list[Case]:
    """Cases whose answer depends on needles thousands of tokens back: without one of them, or with all moved by one, it changes."""
    rng = np.random.default_rng([shape.seed, 78])
    engine = ReferenceEngine(shape, weights)
    found: list[Case] = []
    needles = range(2, 2 + shape.n_needles)
    for distance, count in LONG.items():
        kept = 0
        for _ in range(400):
            if kept == count:
                break
            progress(kept, count, f"{shape.name}: texts of {distance:,} tokens")
            text = rng.choice(np.array(fillers(shape)), distance + 4)
            text[0] = BOS
            text[1:4] = rng.choice(needles, 3)
            for place in rng.integers(4, distance, 3):
                text[place] = rng.choice(needles)
            row = _answer(engine, text)
            changed = text.copy()
            changed[2] = fillers(shape)[0]
            moved = np.insert(text, 4, fillers(shape)[0])
            if min(row) < 0 or any(
                _answer(engine, other)[-N_NEW:] == row[-N_NEW:] for other in (changed, moved)
            ):
                continue
            with torch.enable_grad():
                case = _cases(shape, weights, [row])[0]
            if case.holds_for("float32"):
                found.append(replace(case, name=f"{shape.name}/{distance}-{kept:02}"))
                kept += 1
    return found


def _answer(engine: ReferenceEngine, text: np.ndarray) -> list[int]:
    ids = torch.from_numpy(text)[None].long()
    cache = engine.empty_cache(1)
    engine.forward(ids[:, :-1], torch.ones_like(ids[:, :-1], dtype=torch.bool), cache, n_last=1)
    made = _decode(engine, ids[:, :-1], ids[:, -1], cache)
    return [int(i) for i in made.ids[0]] if len(made.ids) else [-1]
