"""Check an engine: run the cases of a golden family in each way of running, and report the likely fault."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, get_args

from byheart.errors import UsageError, amount, did_you_mean
from byheart.golden.case import N_NEW, Case, cases, require_fit, require_known, shapes
from byheart.golden.diagnosis import EXACT_LOGITS, LOGIT_SUMS, Outcome, diagnose
from byheart.golden.digests import require_intact
from byheart.golden.engines.engine import (
    LONG_TEXT,
    Engine,
    FunctionEngine,
    Generate,
    Session,
    ShowsLogits,
    UnansweredPrompt,
)
from byheart.golden.logit_sums import wrong_sums
from byheart.golden.refusals import require_checkpoints
from byheart.golden.report import Report
from byheart.golden.signatures import read_signatures, spread
from byheart.process.progress import Progress, silent
from byheart.records.vocabulary import NumberType

ASKED_ALL = ("one by one", "no cache", "batch of 64", "as given", "server")
N_ASKED = 32
"""The maximum number of cases of a checkpoint per way of running. The ways in `ASKED_ALL` run all cases."""


def check(
    engine: Engine | Generate,
    folder: str | Path,
    *,
    number_type: NumberType = "float32",
    only: Iterable[str] = (),
    long_texts: bool = False,
    progress: Progress = silent,
) -> Report:
    """Run `engine` on the cases of `folder` whose answers cannot be changed by rounding in the engine's number type.

    `engine` is one of `byheart.golden.engines`, or your own function `generate(checkpoint_folder, prompts, n_new)`. Each prompt is
    a list of token ids. For each prompt, the function returns the list of `n_new` token ids that greedy decoding generates.
    `number_type` is the type that your function computes with. `only` names the checkpoints to check; if it is empty, all are
    checked. With `long_texts`, cases with thousands of tokens are also run. Raise `CorruptModel` if a file of the folder is not the
    one that `golden.make` wrote.
    """
    driver = engine if isinstance(engine, Engine) else _function_engine(engine, number_type)
    root = Path(folder)
    known = shapes(root)
    wanted = require_checkpoints(only, known, str(root))
    chosen = {name: shape for name, shape in known.items() if not wanted or name in wanted}
    require_intact(root, chosen)
    found = cases(root)
    require_known(found, known, root)
    outcomes: list[Outcome] = []
    left_out: dict[str, set[str]] = {}
    for name, shape in chosen.items():
        of_checkpoint = [case for case in found if case.checkpoint == name]
        require_fit(of_checkpoint, shape, root)
        mine = []
        for case in of_checkpoint:
            reason = _why_not(case, driver.number_type, long_texts)
            if reason is None:
                mine.append(case)
            else:
                left_out.setdefault(reason, set()).add(case.name)
        if not mine:
            continue
        session = driver.open(shape, root / name)
        try:
            for at, way in enumerate(session.ways()):
                progress(at, len(session.ways()), f"{name}, {way}")
                able = [case for case in mine if case.expected(way)]
                outcomes += _ask(session, way, able if way in ASKED_ALL else spread(able, N_ASKED), left_out)
            if isinstance(session, ShowsLogits):
                outcomes += compare_logits(session, mine, driver.number_type)
        finally:
            session.close()
    if not outcomes:
        raise UsageError(
            f"none of the selected cases can be run in {driver.number_type}.\n"
            "  Choose another number_type (--number-type), or other checkpoints with only=... (--only).",
            number_type=driver.number_type,
        )
    suspicions = diagnose(outcomes, known, read_signatures(root))
    n_left_out = {reason: len(names) for reason, names in left_out.items()}
    return Report(driver.name, driver.number_type, tuple(outcomes), n_left_out, tuple(suspicions))


def _why_not(case: Case, number_type: NumberType, long_texts: bool) -> str | None:
    """Return why a case cannot be asked of any engine with this number type, or None."""
    if not case.margins.get(number_type):
        return f"they are not made for {number_type}"
    if not case.holds_for(number_type):
        return f"rounding in {number_type} might change their answers"
    if len(case.prompt) > LONG_TEXT and not long_texts:
        return "long texts (long_texts=True, or --long, runs them)"
    return None


def _function_engine(function: object, number_type: NumberType) -> FunctionEngine:
    """Return the function of a user as an engine."""
    if not callable(function):
        raise UsageError(
            f"the engine is {function!r}, which is not a function.\n"
            "  Give a function generate(checkpoint_folder, prompts, n_new).",
            engine=function,
        )
    known = get_args(NumberType)
    if number_type not in known:
        raise UsageError(
            f"{number_type!r} is not a known number type.{did_you_mean(str(number_type), known)}\n"
            f"  Choose from: {', '.join(known)}",
            number_type=number_type,
        )
    return FunctionEngine(function, number_type)


def compare_logits(session: ShowsLogits, mine: Sequence[Case], number_type: NumberType) -> list[Outcome]:
    """Compare the logits of an engine with those of the cases.

    If a case stores exact logits, the engine's logits must equal them exactly. If it stores signed sums of logits and the number
    type is float32, the engine's sums must agree with these within the error bounds of the case.
    """
    asked = [case for case in mine if case.logits or (case.sums and number_type == "float32")]
    made = session.logits([case.prompt for case in asked]) if asked else []
    outcomes = []
    for case, row in zip(asked, made, strict=True):
        answer = (max(range(len(row)), key=row.__getitem__), *case.answer[1:])
        if case.logits:
            wrong = tuple(token for token, value in enumerate(row) if value != case.logits[token])
            outcomes.append(Outcome(case, EXACT_LOGITS, answer, wrong))
        else:
            outcomes.append(Outcome(case, LOGIT_SUMS, answer, wrong_sums(case, row)))
    return outcomes


def _ask(session: Session, way: str, mine: Sequence[Case], left_out: dict[str, set[str]]) -> list[Outcome]:
    asked = []
    for case in mine:
        reason = session.why_not(way, case)
        if reason is None:
            asked.append(case)
        else:
            left_out.setdefault(reason, set()).add(case.name)
    if not asked:
        return []
    try:
        answers = session.generate(way, [case.prompt for case in asked], N_NEW)
    except UnansweredPrompt as error:
        names = [case.name for case in asked if case.prompt == error.prompt]
        what = ", ".join([*names[:1], way])
        raise UsageError(f"{error}\n  This happened in: {what}.", **error.facts, case=what) from error
    return [
        Outcome(case, way, answer) for case, answer in zip(asked, read_answers(answers, asked), strict=True)
    ]


def read_answers(answers: object, asked: Sequence[Case]) -> list[tuple[int, ...]]:
    """Return the answers of an engine as tuples of token ids. Raise `UsageError` unless each prompt has a list of integers."""
    try:
        rows = list(answers)  # type: ignore[call-overload] # this is what is tried
    except TypeError as error:
        raise _refuse_answers(f"the engine returned {answers!r:.60}", answers) from error
    if len(rows) != len(asked):
        raise _refuse_answers(
            f"the engine returned {amount(len(rows), 'answer')} to {amount(len(asked), 'prompt')}", len(rows)
        )
    return [_read_answer(row, case) for row, case in zip(rows, asked, strict=True)]


def _read_answer(row: Any, case: Case) -> tuple[int, ...]:
    """Return the ids of one answer. Numbers of numpy and torch are accepted if they are integers."""
    try:
        return tuple(operator.index(token) for token in row)
    except TypeError as error:
        raise _refuse_answers(f"the answer to the case {case.name} is {row!r:.60}", case.name) from error


def _refuse_answers(problem: str, value: object) -> UsageError:
    return UsageError(
        f"{problem}.\n  An engine returns one list of token ids, which are integers, for each prompt.",
        value=value,
    )
