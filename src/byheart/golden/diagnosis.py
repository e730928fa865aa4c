"""Find the likely fault of an engine: the known fault whose wrong answers are most similar to those of the engine.

If the engine is right without a cache and wrong with one, only faults that need a cache are compared. If it is wrong without a
cache, these faults are left out. If it is right on single prompts but wrong in other ways of running (batches, chunks, reused
prefixes, speculative decoding), and no known fault is similar, the fault is named after such a way of running.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from byheart.golden.case import Case
from byheart.golden.faults import faults_of
from byheart.golden.reference import BEAM_SEARCH
from byheart.golden.shape import Shape
from byheart.golden.signatures import Signature

EXACT_LOGITS = "exact logits"
"""The name under which exact logits are compared. It is not a way of running an engine."""
LOGIT_SUMS = "sums of logits"
"""The name under which sums of all logits are compared, within the bound of rounding to float32."""

BY_WAY = {
    "left padding": "padding mask",
    "batch of 64": "padding mask",
    "right padding": "padding mask",
    "chunked prefill": "chunked prefill",
    "prefix reuse": "prefix reuse",
    "speculative": "speculative decoding",
    "static cache": "cache",
    "concurrent requests": "batching",
    "no cache": "running without a cache",
    BEAM_SEARCH: BEAM_SEARCH,
    EXACT_LOGITS: "number type",
    LOGIT_SUMS: "number type",
}
PLAIN_WAYS = ("one by one", "as given", "server", "no cache")
"""The ways of running an engine in which each prompt runs alone. Of these ways, the table of faults has wrong
answers for "one by one" only. They are compared with the answers of the engine in the first of these ways in which it was run.
"""

LEAST_LIKENESS = 0.12


@dataclass(frozen=True)
class Outcome:
    """The answer of an engine to one case, in one way of running it.

    `wrong_logits` holds the ids of the tokens whose logits are not exactly right. If sums of logits were compared instead, it holds
    the indices of the wrong sums.
    """

    case: Case
    way: str
    answer: tuple[int, ...]
    wrong_logits: tuple[int, ...] = ()

    @property
    def is_right(self) -> bool:
        return self.answer == self.case.expected(self.way) and not self.wrong_logits


@dataclass(frozen=True)
class Suspicion:
    """A likely fault. `likeness` is 1 if the engine's wrong answers are exactly those of this fault."""

    kind: str
    detail: str
    likeness: float


def diagnose(
    outcomes: Sequence[Outcome], shapes: dict[str, Shape], table: dict[str, dict[str, Signature]]
) -> list[Suspicion]:
    """Return the likely faults, the likeliest first. The list is empty if nothing failed.

    `table` holds the wrong answers of the known faults, by checkpoint and by name of the fault.
    """
    failed = {outcome.way for outcome in outcomes if not outcome.is_right}
    if not failed:
        return []
    asked = {outcome.way for outcome in outcomes}
    plain = next((way for way in PLAIN_WAYS if way in asked), None)
    good = [each for each in _rank(outcomes, shapes, table, plain) if each.likeness >= LEAST_LIKENESS]
    if plain is not None and plain not in failed and not good:
        kind = next((BY_WAY[way] for way in BY_WAY if way in failed), "unknown")
        return [Suspicion(kind, f"only with {', '.join(sorted(failed))}", 0.0)]
    return good or [Suspicion("unknown", "no known fault gives such answers", 0.0)]


def _rank(
    outcomes: Sequence[Outcome],
    shapes: dict[str, Shape],
    table: dict[str, dict[str, Signature]],
    plain: str | None,
) -> list[Suspicion]:
    """Return the known faults with their likeness, computed from all checkpoints and ways of running. The likeliest comes first.

    A case counts 1 if the engine and the fault give the same wrong answer, 0.4 if they give different wrong answers, and 0 if only
    one of the two answers is wrong. The likeness is the sum of these counts, divided by the number of cases for which at least one
    of the two answers is wrong. `plain` is the way in which the engine ran each prompt alone, or None.
    """
    without_cache = [outcome for outcome in outcomes if outcome.way == "no cache"]
    cached = [outcome for outcome in outcomes if outcome.way == plain]
    only_cached = (
        bool(without_cache) and all(o.is_right for o in without_cache) and any(not o.is_right for o in cached)
    )
    both = bool(without_cache) and any(not outcome.is_right for outcome in without_cache)
    score: dict[tuple[str, str], float] = defaultdict(float)
    size: dict[tuple[str, str], int] = defaultdict(int)
    simulated = {"one by one": plain} | {way: way for way in BY_WAY}
    needs_cache = {fault.name: fault.needs_cache for shape in shapes.values() for fault in faults_of(shape)}
    ways_of = {fault.name: fault.ways for shape in shapes.values() for fault in faults_of(shape)}
    by_checkpoint: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        by_checkpoint[outcome.case.checkpoint].append(outcome)
    names = sorted({name for faults in table.values() for name in faults})  # so that ties have a fixed order
    for name in names:
        kind, _, detail = name.partition(": ")
        if (only_cached and not needs_cache.get(name, False)) or (both and needs_cache.get(name, False)):
            continue
        for checkpoint, mine in by_checkpoint.items():
            predicted = table.get(checkpoint, {}).get(name)
            if predicted is None:
                # a fault that cannot occur in this checkpoint gives no wrong answers
                size[kind, detail] += sum(o.way == plain and not o.is_right for o in mine)
                continue
            for way in ways_of.get(name, ("one by one",)):
                if simulated.get(way) is None:
                    continue
                wrong = predicted.get(way, {})
                for outcome in mine:
                    if outcome.way != simulated[way]:
                        continue
                    guess = wrong.get(outcome.case.name)
                    if guess is None and outcome.is_right:
                        continue
                    if guess is None and way != "one by one":
                        continue  # not every case was tried in these ways
                    size[kind, detail] += 1
                    if guess is not None and not outcome.is_right:
                        score[kind, detail] += 1.0 if list(outcome.answer) == guess else 0.4
    ranked = [
        Suspicion(kind, detail, score[kind, detail] / size[kind, detail])
        for kind, detail in size
        if size[kind, detail]
    ]
    return sorted(ranked, key=lambda suspicion: -suspicion.likeness)
