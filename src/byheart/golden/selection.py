"""Search for prompts for which the lead of a right token is small, but rounding cannot change the answer.

The reference engine continues many prompts. A decision is the choice of one token, and its gap is the logit of the right token
minus the next largest logit. A prompt is kept if its answer contains a decision whose gap is just above the error bound of
`golden.rounding`. For float32, this gap is typically 1e-4 of the spread of the logits, so even a fault that changes the logits
by this little can change an answer. For float16 and bfloat16, whose rounding is larger, the gaps are larger.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor

from byheart.golden.case import N_NEW, Case, text_of
from byheart.golden.coverage import MOST_ROUNDS, Candidates, covering_rows
from byheart.golden.reference import N_BEAMS, ReferenceEngine
from byheart.golden.rounding import bounds
from byheart.golden.shape import BOS, N_SPECIAL, Shape
from byheart.golden.weights import fillers
from byheart.process.progress import Progress, Steps, report
from byheart.records.vocabulary import NumberType

N_TEXTS, MOST_LAST = 1_920, 120
"""The maximum number of prompts in one block (a group of prompts of equal length), and the maximum number of last tokens that are
tried after one beginning of a prompt.
"""

LENGTHS = (5, 9, 14, 14, 21, 21, 30, 30, 30, 47, 47, 90)
"""The length of the prompts in tokens, for each block (a group of prompts of equal length)."""

MOST_LOGITS = 6_000_000  # maximum in one block, to limit memory
N_BEAM_CASES, SAFE = 8, 10.0
# cases for every token id are searched if the vocabulary is at most this large; a larger one would take too many
MOST_COVERED = 1_000


def find_cases(
    shape: Shape,
    weights: dict[str, Tensor],
    counts: dict[NumberType, int],
    lengths: Sequence[int],
    progress: Progress | None = None,
) -> list[Case]:
    """For each number type t, find up to `counts[t]` cases in which the lead of a right token is small, but rounding in t cannot
    change the answer. If the vocabulary is small, add cases so that every token id matters for some answer, as far
    as such cases are found.

    `lengths` holds the length of the prompts (in tokens) for each group of prompts that is searched.
    """
    rng = np.random.default_rng([shape.seed, 77])
    engine = ReferenceEngine(shape, weights)
    steps = Steps(progress, {"prompts": 5, **dict.fromkeys(counts, 3), "every token": 4})
    in_blocks = Steps(steps.begin("prompts"), {str(at): length for at, length in enumerate(lengths)})
    blocks = []
    for at, length in enumerate(lengths):
        blocks.append(_continue(engine, _prefixes(shape, length, rng), rng, in_blocks.begin(str(at))))
    found: list[Case] = []
    for number_type, count in counts.items():
        found += _keep(shape, weights, blocks, number_type, count, steps.begin(number_type))
    if shape.vocab <= MOST_COVERED:
        found += _cover(shape, weights, blocks, found, steps.begin("every token"))
    return with_beams(engine, found)


@torch.no_grad()
def with_beams(engine: ReferenceEngine, found: list[Case]) -> list[Case]:
    """Return the cases. Some of them get a second answer, which beam search must give in float32.

    These are the first cases, at most `N_BEAM_CASES`, in which the second answer differs from the greedy one, contains no special
    token, and has a smallest lead in the beam search (see `ReferenceEngine.search_beams`) of more than `SAFE` times the error bound
    of greedy decisions. This bound is estimated as `Case.gap` divided by the float32 margin.
    """
    made, n_found = [], 0
    for case in found:
        if n_found < N_BEAM_CASES:
            answer, gap = engine.search_beams(case.prompt, N_NEW, N_BEAMS)
            bound = case.gap / case.margins["float32"]
            if gap > SAFE * bound and min(answer) >= N_SPECIAL and tuple(answer) != case.answer:
                case, n_found = replace(case, beam_answer=tuple(answer)), n_found + 1
        made.append(case)
    return made


def _cover(
    shape: Shape,
    weights: dict[str, Tensor],
    blocks: list[Candidates],
    found: list[Case],
    progress: Progress | None,
) -> list[Case]:
    """Find more cases, so that every token id matters for some answer, as far as such cases are found (see `coverage`)."""
    steps = Steps(progress, {"search": 1, "margins": 1})
    in_search = steps.begin("search")
    n_rounds = 0

    def holds(rows: list[list[int]]) -> list[bool]:
        is_safe: dict[int, bool] = {}
        for length in {len(row) for row in rows}:
            places = [at for at, row in enumerate(rows) if len(row) == length]
            margins = _margins(shape, weights, [rows[at] for at in places], "float32")
            is_safe |= dict(zip(places, (margins >= 1.0).tolist(), strict=True))
        nonlocal n_rounds
        n_rounds += 1
        report(in_search, n_rounds, MOST_ROUNDS)
        return [is_safe[at] for at in range(len(rows))]

    kept = [[*case.prompt, *case.answer] for case in found]
    rows = covering_rows(blocks, shape.vocab, kept, holds)
    made = _cases(shape, weights, rows, steps.begin("margins"))
    return [replace(case, name=f"{shape.name}/token-{at:03}") for at, case in enumerate(made)]


def _prefixes(shape: Shape, length: int, rng: np.random.Generator) -> Tensor:
    """Return beginnings of prompts that use the token ids in turn: an id is used again only after all others."""
    n_rows = N_TEXTS // _n_last(shape)
    n_wanted = n_rows * (length - 2)
    n_turns = -(-n_wanted // (shape.vocab - N_SPECIAL))
    ids = np.concatenate([N_SPECIAL + rng.permutation(shape.vocab - N_SPECIAL) for _ in range(n_turns)])
    rows = ids[:n_wanted].reshape(n_rows, length - 2)
    return torch.from_numpy(np.concatenate([np.full((n_rows, 1), BOS), rows], 1))


def _n_last(shape: Shape) -> int:
    """Return at most how many last tokens to try after each beginning: all but the special tokens if the vocabulary is small."""
    return min(MOST_LAST, shape.vocab - N_SPECIAL)


@torch.no_grad()
def _continue(
    engine: ReferenceEngine, prefixes: Tensor, rng: np.random.Generator, progress: Progress | None
) -> Candidates:
    """Make several prompts from each prefix, each with a different last token, and generate their answers."""
    vocab = engine.shape.vocab
    cache = engine.empty_cache(len(prefixes))
    engine.forward(prefixes, torch.ones_like(prefixes, dtype=torch.bool), cache, n_last=1)
    n_last = min(_n_last(engine.shape), max(1, MOST_LOGITS // (len(prefixes) * vocab)))
    cache = cache.repeat(n_last)
    lasts = [N_SPECIAL + rng.choice(vocab - N_SPECIAL, n_last, replace=False) for _ in prefixes]
    texts, last = prefixes.repeat_interleave(n_last, 0), torch.from_numpy(np.concatenate(lasts))
    return decode(engine, texts, last, cache, progress)


def decode(
    engine: ReferenceEngine, texts: Tensor, token: Tensor, cache: Any, progress: Progress | None = None
) -> Candidates:
    """Return the greedy answers to prompts. Each prompt is one of `texts`, which are already in the cache, plus one more token.

    Prompts whose answers contain a special token are left out.
    """
    columns, gaps, rivals = [token], [], []
    for step in range(N_NEW):
        logits = engine.forward(token[:, None], torch.ones(len(token), 1, dtype=torch.bool), cache)[:, 0]
        best = logits.topk(2)
        gaps.append(best.values[:, 0] - best.values[:, 1])
        token = best.indices[:, 0]
        rivals.append(best.indices[:, 1])
        columns.append(token)
        report(progress, step + 1, N_NEW)
    ids = torch.cat([texts, torch.stack(columns, 1)], 1)
    is_plain = (ids[:, -N_NEW:] >= N_SPECIAL).all(1)
    return Candidates(ids[is_plain], torch.stack(gaps, 1)[is_plain], torch.stack(rivals, 1)[is_plain])


def _margins(
    shape: Shape, weights: dict[str, Tensor], rows: list[list[int]], number_type: NumberType
) -> Tensor:
    """For each row (a prompt and its answer), return the smallest ratio of a gap (the lead of a right token) to its error bound.

    Only a few rows are computed at a time.
    """
    size = max(1, min(40, MOST_LOGITS // (shape.vocab * N_NEW)))
    parts = []
    for first in range(0, len(rows), size):
        gaps, limits = bounds(shape, weights, rows[first : first + size], N_NEW, number_type)
        parts.append((gaps / limits).min(1).values)
    return torch.cat(parts)


@torch.no_grad()
def smallest_gaps(shape: Shape, weights: dict[str, Tensor], rows: list[list[int]]) -> Tensor:
    """For each row (a prompt and its answer), return the smallest difference between the logit of a right token and the next
    largest logit. Rows have equal length.
    """
    ids = torch.tensor(rows)[:, :-1]
    engine = ReferenceEngine(shape, weights)
    valid = torch.ones_like(ids, dtype=torch.bool)
    best = engine.forward(ids, valid, engine.empty_cache(len(ids)), n_last=N_NEW).topk(2).values
    return (best[..., 0] - best[..., 1]).min(1).values


def _keep(
    shape: Shape,
    weights: dict[str, Tensor],
    blocks: list[Candidates],
    number_type: NumberType,
    count: int,
    progress: Progress | None,
) -> list[Case]:
    """Return up to `count` cases, chosen from the candidates of all blocks (groups of prompts of equal length).

    A gap is the lead of the right token. For each step of the answer, some candidates are tried whose smallest gap is at this step.
    A candidate is suitable if all its gaps are at least as large as their error bounds, so that rounding cannot close them. The
    function keeps the suitable candidates with the smallest ratios of gap to bound.

    The error bound differs between texts. Candidates are tried if their smallest gap is just above the typical bound of their block
    or, for float32, just above half of it.
    """
    kept: list[tuple[float, list[int]]] = []
    per_block = -(-count // len(blocks)) + 1
    steps = Steps(progress, {"blocks": 2, "margins": 1})
    in_blocks = steps.begin("blocks")
    for number, block in enumerate(blocks, start=1):
        smallest, step = block.gaps.min(1)
        widest = smallest.topk(4)
        sample = _margins(shape, weights, block.ids[widest.indices].tolist(), number_type)
        usual = float((widest.values / sample).median())
        order = smallest.argsort()
        # float32: small gaps are rare, so try gaps from half of the typical bound on
        # other types: there are many wide gaps, so try only those that are probably safe
        is_fine = number_type == "float32"
        order = order[smallest[order] > (usual / 2 if is_fine else usual)]
        chosen: list[int] = []
        for wanted in range(N_NEW):  # the first decision uses the prompt, the later ones use decoding steps
            chosen += order[step[order] == wanted][: per_block * (1 if is_fine else 2)].tolist()
        rows = block.ids[chosen].tolist()
        if rows:
            margins = _margins(shape, weights, rows, number_type)
            good = [row for row in margins.argsort().tolist() if margins[row] >= 1.0][:per_block]
            kept += [(float(margins[row]), rows[row]) for row in good]
        report(in_blocks, number, len(blocks))
    kept.sort(key=lambda pair: pair[0])
    made = _cases(shape, weights, [row for _, row in kept[:count]], steps.begin("margins"))
    return [replace(case, name=f"{shape.name}/{number_type}-{at:02}") for at, case in enumerate(made)]


def _cases(
    shape: Shape, weights: dict[str, Tensor], rows: list[list[int]], progress: Progress | None
) -> list[Case]:
    """Convert rows to cases, with their margins for float32 and float16 and, if the checkpoint is stored in bfloat16, for bfloat16.

    Rows of equal length are processed together.
    """
    types = [each for each in get_args(NumberType) if each != "bfloat16" or shape.dtype == "bfloat16"]
    made: dict[int, Case] = {}
    lengths = sorted({len(row) for row in rows})
    in_types = Steps(progress, {f"{each} {length}": length for length in lengths for each in types})
    for length in lengths:
        places = [at for at, row in enumerate(rows) if len(row) == length]
        group = [rows[at] for at in places]
        margins: dict[NumberType, Tensor] = {}
        for each in types:
            in_type = in_types.begin(f"{each} {length}")
            margins[each] = _margins(shape, weights, group, each)
            report(in_type, 1, 1)
        gaps = smallest_gaps(shape, weights, group)
        for place, (at, row) in enumerate(zip(places, group, strict=True)):
            prompt, answer = row[:-N_NEW], row[-N_NEW:]
            made[at] = case_of(
                shape, prompt, answer, float(gaps[place]), {t: float(m[place]) for t, m in margins.items()}
            )
    return [made[at] for at in range(len(rows))]


def case_of(
    shape: Shape, prompt: Sequence[int], answer: Sequence[int], gap: float, margins: dict[NumberType, float]
) -> Case:
    """Return the case of a prompt and its answer. Its name is empty; the caller sets it."""
    return Case(
        "",
        shape.name,
        tuple(prompt),
        tuple(answer),
        text_of(shape.vocab, prompt),
        text_of(shape.vocab, answer),
        gap,
        {each: round(margin, 4) for each, margin in margins.items()},
    )


LONG = {4_000: 6, 32_000: 3}
"""Maps a distance to the number of cases. The distance is the number of tokens between the first needles (tokens that decide the
answer) and the end of the prompt.
"""


@torch.no_grad()
def find_long_cases(shape: Shape, weights: dict[str, Tensor], progress: Progress | None = None) -> list[Case]:
    """Find cases whose answers depend on tokens (needles) that are thousands of tokens back.

    After its first token, each prompt begins with three needles. The answer changes if the second of them is replaced by a filler
    (a token whose keys are zero), or if a filler is inserted after the third.
    """
    rng = np.random.default_rng([shape.seed, 78])
    engine = ReferenceEngine(shape, weights)
    found: list[Case] = []
    needles = range(2, 2 + shape.n_needles)
    steps = Steps(
        progress, {f"{distance} {at}": distance for distance, count in LONG.items() for at in range(count)}
    )
    for distance, count in LONG.items():
        kept = 0
        for _ in range(400):
            if kept == count:
                break
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
                case = _cases(shape, weights, [row], steps.begin(f"{distance} {kept}"))[0]
            if case.holds_for("float32"):
                found.append(replace(case, name=f"{shape.name}/{distance}-{kept:02}"))
                kept += 1
    return found


def _answer(engine: ReferenceEngine, text: np.ndarray) -> list[int]:
    ids = torch.from_numpy(text)[None].long()
    cache = engine.empty_cache(1)
    engine.forward(ids[:, :-1], torch.ones_like(ids[:, :-1], dtype=torch.bool), cache, n_last=1)
    made = decode(engine, ids[:, :-1], ids[:, -1], cache)
    return [int(i) for i in made.ids[0]] if len(made.ids) else [-1]
