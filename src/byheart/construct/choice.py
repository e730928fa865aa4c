"""The constructions that `auto` tries, their order, and the explanation of the choice.

Most users want a model that runs natively in PyTorch and answers "unknown" to inputs that were not stored. So `auto` first tries
`retrieval` in float precision, with as many reject bits as fit: with F reject bits, about one in 2^F unknown inputs gets
another answer. It then tries the other constructions in that precision, in the order of their estimated sizes, and then exact
arithmetic. With precision `exact` it begins with the smallest estimated size.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from byheart.construct.registry import Method, candidates, get, names
from byheart.data.dataset import Dataset
from byheart.data.options import Task
from byheart.data.shape import DataShape
from byheart.errors import AssumptionViolated, UsageError, did_you_mean
from byheart.network.transformer.architecture import Precision
from byheart.process.progress import Progress, Steps
from byheart.program.construction import Construction

USUAL = "retrieval"
_MOST_REJECT_BITS = 64  # the largest number that the record of a model may contain


@dataclass(frozen=True)
class Trial:
    """One construction to try, with a precision and options.

    `is_last` marks the last trial of a method that the caller named. If this trial fails, its error is raised.
    """

    method: Method
    precision: Precision
    options: Mapping[str, object]
    is_last: bool = False


def build(
    method: str,
    data: Dataset,
    precision: Precision | None,
    seed: int,
    options: dict[str, object],
    progress: Progress | None,
) -> tuple[Construction, dict[str, object]]:
    """Build the first construction that accepts the data. Return it with the record of how it was chosen."""
    if not isinstance(seed, int | np.integer) or seed < 0:
        raise UsageError(f"seed must be a whole number of at least 0, not {seed!r}.", seed=str(seed))
    refused: dict[str, str] = {}
    shape, steps = DataShape.of(data), Steps(progress, {"plan": 0.97, "emit": 0.03})
    for trial in trials(method, precision, shape, options):
        chosen = trial.method
        given = (
            {**trial.options, "precision": trial.precision} if len(chosen.precisions) > 1 else trial.options
        )
        read = chosen.read_options(trial.options, trial.precision)
        if trial.options:  # options may enlarge the network, so memory must be checked first
            chosen.require_memory(shape, read)
        try:
            plan = chosen.plan(data, read, np.random.default_rng(seed), steps.begin("plan"))
        except AssumptionViolated as error:
            if trial.is_last:
                raise
            refused[chosen.name] = str(error)
            continue
        construction = plan.emit(steps.begin("emit"))
        assert construction.memoriser.network.precision == trial.precision, (
            f"{chosen.name} built a network of another precision than it was asked for"
        )
        refused.pop(chosen.name, None)  # it was refused only with more reject bits or in another precision
        choice = {"choice": explain(trial, data.task, refused)} if method == "auto" else {}
        return construction, {"options": dict(given), **choice, **({"refused": refused} if refused else {})}
    reasons = "\n".join(f"    {name}: {reason}" for name, reason in refused.items())
    raise AssumptionViolated(f"no construction accepts this data set.\n{reasons}", refused=refused)


def trials(
    name: str, precision: Precision | None, shape: DataShape, options: Mapping[str, object]
) -> Iterator[Trial]:
    """Yield what to try, in order of preference: constructions with a precision and options.

    If `name` is a method, only this method is tried, with its usual options in turn. For `auto`, all suitable constructions are
    tried.
    """
    if name != "auto":
        wanted = precision or get(name).precisions[0]
        (method,) = candidates(name, wanted, shape, options)
        *others, last = method.usual_options(options, wanted)
        yield from (Trial(method, wanted, each) for each in others)
        yield Trial(method, wanted, last, is_last=True)
        return
    if options:
        _require_known(options)
    wanted_precisions: tuple[Precision, ...] = ("float64", "exact") if precision is None else (precision,)
    n_tried = 0
    for each in wanted_precisions:
        for trial in _usual(each, shape, options) if each != "exact" else ():
            n_tried += 1
            yield trial
        try:  # the other constructions are sized only when they are needed
            methods = candidates("auto", each, shape, options)
        except UsageError as error:  # no construction supports this precision for the task; the next precision may be supported
            if each == wanted_precisions[-1] and not n_tried:
                asked = f"\n  Options asked for: {', '.join(options)}." if options else ""
                raise UsageError(f"{error}{asked}", **error.facts) from None
            continue
        for method in methods:
            if each == "exact" or method.name != USUAL:
                n_tried += 1
                yield Trial(method, each, options)


def _require_known(options: Mapping[str, object]) -> None:
    """Raise `UsageError` unless each option is an option of some construction."""
    if set(options) <= _option_names(get(USUAL)):  # the others need not be imported
        return
    known = {name for each in names() for name in _option_names(get(each))}
    for name in options:
        if name not in known:
            raise UsageError(
                f"no construction has an option `{name}`.{did_you_mean(name, known)}", option=name
            )


def note_on_options(options: Collection[str]) -> str | None:
    """Return a sentence if `auto` cannot choose `retrieval`, its usual construction, because only other constructions have all of
    these options.
    """
    if set(options) <= _option_names(get(USUAL)):  # the others need not be imported
        return None
    having = [name for name in names() if set(options) <= _option_names(get(name))]
    wanted = f"option{'s' if len(options) > 1 else ''} {', '.join(options)}"
    return (
        f"{USUAL}, the usual choice of auto, does not have the {wanted}; auto chooses from: {', '.join(having)}."
        if having
        else None
    )


def _option_names(method: Method) -> set[str]:
    return {field.name for field in fields(method.options)}


def _usual(precision: Precision, shape: DataShape, options: Mapping[str, object]) -> Iterator[Trial]:
    """Yield trials of `retrieval` with fewer and fewer reject bits (the bits that recognise unknown inputs).

    Yield nothing if `retrieval` does not support this task or precision, or does not have these options. Raise `UsageError` if an
    option has a wrong value.
    """
    method = get(USUAL)
    if shape.task not in method.tasks or precision not in method.precisions:
        return
    if options and not set(options) <= _option_names(method):  # the options belong to another construction
        return
    method.read_options(options, precision)
    yield from (Trial(method, precision, each) for each in method.usual_options(options, precision))


def explain(trial: Trial, task: Task, refused: Mapping[str, str]) -> dict[str, str]:
    """Explain why `auto` made this choice, and list the alternatives."""
    native = trial.precision != "exact"
    bits = trial.options.get("reject_bits", 0)
    why = "runs natively in PyTorch" if native else "the smallest estimated size in exact arithmetic"
    if trial.method.name == USUAL:
        why += f"; {unknown_input(bits if isinstance(bits, int) else 0)}"
    if refused:
        why += f" (refused: {', '.join(refused)})"
    instead = ["--recite to memorise the texts word for word"] if task == "distribution" else []
    if bits:
        instead.append("--reject-bits 0 for fewer parameters")
    elif trial.method.name == USUAL:
        instead.append("--reject-bits 16 to reject unknown inputs")
    if native and ("exact" in trial.method.precisions or _some_offer_exact(task)):
        instead.append("--precision exact to compute in exact arithmetic")
    instead.append("`byheart compare DATA` to compare all methods")
    return {"why": why, "instead": "; ".join(instead)}


def _some_offer_exact(task: Task) -> bool:
    return any("exact" in method.precisions and task in method.tasks for method in map(get, names()))


def describe_unknown_input(record: Mapping[str, Any]) -> str:
    """Describe what the model with this record answers to an input that was not in its data."""
    bits = (record.get("notes") or {}).get("reject_bits")
    if type(bits) is int and 0 <= bits <= _MOST_REJECT_BITS:
        return unknown_input(bits)
    method = record.get("method") or "this model"
    return f"an unknown input may get any label: {method} guarantees nothing for it"


def unknown_input(reject_bits: int) -> str:
    """Describe what a model with this many reject bits answers to an input that was not in its data."""
    if not reject_bits:
        return "an unknown input gets some label"
    return f'an unknown input gets "unknown", except about one in {2**reject_bits:,}'
