"""Find the likely fault of an engine: the known fault whose wrong answers are most similar to those of the engine.

If the engine is right without a cache and wrong with one, only faults that need a cache are compared. If it is wrong without a
cache, these faults are left out. If it is right on single prompts but wrong in other ways of running (batches, chunks, reused
prefixes, speculative decoding), and no known fault is similar, the fault is named after such a way of running. If most wrong
answers have a wrong form, such as too many tokens, this is reported and no fault is named.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from byheart.errors import amount
from byheart.golden.case import N_NEW, Case
from byheart.golden.faults import faults_of
from byheart.golden.reference import BEAM_SEARCH
from byheart.golden.shape import Shape
from byheart.golden.signatures import Signature

EXACT_LOGITS = "exact logits"
"""The name of the check that compares logits exactly. An `Outcome` holds it in place of a way of running the engine."""
LOGIT_SUMS = "sums of logits"
"""The name under which the signed sums of an engine's logits are compared with the sums stored in a case. They may differ by the
bounds on the error of float32 that the case stores."""

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
"""The ways of running an engine in which each prompt runs alone. The table of faults has wrong answers for only one of them, "one
by one". These are compared with the engine's answers in the first way of this list in which the engine was run.
"""

LEAST_LIKENESS = 0.12
CLEAR_LIKENESS = 0.5
"""A fault with at least this likeness is named as the likely fault. A fault with a smaller likeness is only called the nearest.
In float32, a fault was named for 52 of the 82 faults of the catalogue in `tests/golden`, and rightly for 51 of these. Of the other
30, the nearest fault was the right one for 15.
"""
SAME_TOKEN, SAME_PLACE, BOTH_WRONG = 0.8, 0.4, 0.2
"""How much a case counts if the engine and the fault give different wrong answers. The first wrong tokens of the two answers are
compared. SAME_TOKEN applies if they are equal and at the same place, SAME_PLACE if they differ but are at the same place, and
BOTH_WRONG if they are at different places. The values were chosen so that most faults of the catalogue in `tests/golden` are
named rightly.
"""
FORM, UNKNOWN = "form of the answers", "unknown"
N_NAMED = 3
"""The maximum number of faults that `headline` names."""

Basis = Literal["known fault", "nearest", "way", "form", "unknown"]


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
    """A likely fault. `basis` is the reason why it is suspected. The meaning of `likeness` depends on `basis`.

    known fault  `likeness` is how similar the engine's wrong answers are to those of this fault, at least `CLEAR_LIKENESS`. It is 1
                 if they are the same
    nearest      `likeness` is the same similarity, but below `CLEAR_LIKENESS`: this fault alone does not give the engine's answers
    form         `likeness` is the share of the wrong answers that have the wrong form `detail`
    way          the engine is wrong only in the ways of running that `detail` lists. `likeness` is 0
    unknown      no known fault is similar. `likeness` is 0
    """

    kind: str
    detail: str
    likeness: float
    basis: Basis

    @property
    def is_clear(self) -> bool:
        """Whether the wrong answers themselves show this fault: they are similar enough to those of a known fault, or many of
        them have the same wrong form. This is False if the fault is only the nearest, if it is unknown, or if it was inferred
        from the ways of running that fail.
        """
        return self.basis in ("known fault", "form")


def headline(suspicions: Sequence[Suspicion]) -> list[str]:
    """Return a line for each of the likeliest faults, at most `N_NAMED`, the likeliest first. Return no lines if nothing failed."""
    if not suspicions:
        return []
    is_near = suspicions[0].basis == "nearest"
    start = "No known fault gives these answers. The nearest is" if is_near else "Likely fault:"
    return [
        f"{'or' if place else start} {_in_words(suspicion)}"
        for place, suspicion in enumerate(suspicions[:N_NAMED])
    ]


def _in_words(suspicion: Suspicion) -> str:
    named = f"{suspicion.kind} ({suspicion.detail})"
    if suspicion.basis == "form":
        return f"{named}, in {suspicion.likeness:.0%} of the wrong answers"
    return named if suspicion.basis in ("way", "unknown") else f"{named}, likeness {suspicion.likeness:.2f}"


def diagnose(
    outcomes: Sequence[Outcome], shapes: dict[str, Shape], table: dict[str, dict[str, Signature]]
) -> list[Suspicion]:
    """Return the likely faults, the likeliest first. The list is empty if nothing failed.

    `table` holds the wrong answers of the known faults, by checkpoint and by name of the fault.
    """
    wrong = [outcome for outcome in outcomes if not outcome.is_right]
    if not wrong:
        return []
    form = _common_form_error(wrong, shapes)
    if form is not None:
        return [form]
    failed = {outcome.way for outcome in wrong}
    asked = {outcome.way for outcome in outcomes}
    plain = next((way for way in PLAIN_WAYS if way in asked), None)
    good = [each for each in _rank(outcomes, shapes, table, plain) if each.likeness >= LEAST_LIKENESS]
    if len(wrong) == len(outcomes) and not any(_is_answer_of_a_fault(outcome, table) for outcome in wrong):
        good = []  # answers that are all wrong in a way of their own are about equally unlike every fault
    if plain is not None and plain not in failed and not good:
        kind = next((BY_WAY[way] for way in BY_WAY if way in failed), UNKNOWN)
        return [Suspicion(kind, f"only with {', '.join(sorted(failed))}", 0.0, "way")]
    return good or [Suspicion(UNKNOWN, "no known fault gives such answers", 0.0, "unknown")]


def _common_form_error(wrong: Sequence[Outcome], shapes: dict[str, Shape]) -> Suspicion | None:
    """Find the most common error in the form of the wrong answers, such as too many tokens (see `_form_error`). Return it as a
    suspicion, or None unless more than half of the wrong answers have this error.

    The likeness of the suspicion is the share of the wrong answers that have the error.
    """
    found = Counter(_form_error(outcome, shapes[outcome.case.checkpoint].vocab) for outcome in wrong)
    error, count = found.most_common(1)[0]
    if error is None or 2 * count <= len(wrong):
        return None
    return Suspicion(FORM, error, count / len(wrong), "form")


def _form_error(outcome: Outcome, vocab: int) -> str | None:
    """Return why the answer is not a list of `N_NEW` tokens of the vocabulary, or None if it is one."""
    answer, prompt = outcome.answer, outcome.case.prompt
    if len(answer) > N_NEW and any(_begin_alike(answer, text) for text in (prompt, prompt[1:])):
        return "the answer starts with the prompt"
    if not all(0 <= token < vocab for token in answer):
        return "not tokens of this vocabulary"
    if len(answer) > N_NEW:
        return f"more than {N_NEW} tokens"
    return None if len(answer) == N_NEW else f"{amount(len(answer), 'token')}, not {N_NEW}"


def _begin_alike(first: Sequence[int], second: Sequence[int]) -> bool:
    return all(a == b for a, b in zip(first, second, strict=False))


def _is_answer_of_a_fault(outcome: Outcome, table: dict[str, dict[str, Signature]]) -> bool:
    """Return whether some known fault gives this answer to this case."""
    return any(
        wrong.get(outcome.case.name) == list(outcome.answer)
        for ways in table.get(outcome.case.checkpoint, {}).values()
        for wrong in ways.values()
    )


def _count(outcome: Outcome, guess: Sequence[int]) -> float:
    """Return how similar two wrong answers to a case are: the engine's, and `guess`, that of a fault."""
    answer, right = list(outcome.answer), outcome.case.expected(outcome.way)
    if answer == guess:
        return 1.0
    at = _first_wrong(answer, right)
    if at != _first_wrong(guess, right):
        return BOTH_WRONG
    return SAME_TOKEN if answer[at : at + 1] == list(guess[at : at + 1]) else SAME_PLACE


def _first_wrong(answer: Sequence[int], right: Sequence[int]) -> int:
    """Return the first index at which `answer` and `right` differ. If there is none, return the length of the shorter one."""
    pairs = enumerate(zip(answer, right, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(answer), len(right)))


def _rank(
    outcomes: Sequence[Outcome],
    shapes: dict[str, Shape],
    table: dict[str, dict[str, Signature]],
    plain: str | None,
) -> list[Suspicion]:
    """Return the known faults with their likeness, computed from all checkpoints and ways of running. The likeliest comes first.

    A case counts 1 if the engine and the fault give the same wrong answer, less if they give different wrong answers (see
    `_count`), and 0 if only one of the two answers is wrong. The likeness is the sum of these counts, divided by the number of
    cases for which at least one of the two answers is wrong. If the prompts are not run one by one, cases without a wrong answer
    of the fault are left out: they may not have been tried with the fault. `plain` is the way in which the engine ran each prompt
    alone, or None.
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
    # The order decides ties. A missing beginning-of-text token has the effect of a missing first key, and is more common.
    names = sorted({name for faults in table.values() for name in faults}, key=_tie_order)
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
                        score[kind, detail] += _count(outcome, guess)
    ranked = [
        _similar(kind, detail, score[kind, detail] / size[kind, detail])
        for kind, detail in size
        if size[kind, detail]
    ]
    return sorted(ranked, key=lambda suspicion: -suspicion.likeness)


def _similar(kind: str, detail: str, likeness: float) -> Suspicion:
    return Suspicion(kind, detail, likeness, "known fault" if likeness >= CLEAR_LIKENESS else "nearest")


def _tie_order(name: str) -> tuple[bool, str]:
    return not name.startswith("tokenizer"), name
