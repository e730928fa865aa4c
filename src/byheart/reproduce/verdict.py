"""From the deciding rule, applied under every condition that was tried, to a verdict. Supporting checks have no part in it."""

from __future__ import annotations

from collections.abc import Sequence

from byheart.reproduce.figure import ConditionResult, Scale, Verdict


def decide(scale: Scale, trials: Sequence[ConditionResult], missing: str = "") -> Verdict:
    """What the trials say together.

    not settled              a condition of the paper's own was not tried, or the runs cannot tell; smoke runs never can
    holds                    under every condition that was tried
    holds under conditions   under some of them, which are named
    does not hold            under none of them
    """
    own = [trial for trial in trials if trial.is_own]
    if scale == "smoke":
        said = "The smoke scale shows that the figure can be made; it settles nothing."
        return Verdict("not settled", said, tuple(trials))
    if missing or not own or any(trial.holds is None for trial in own):
        open_ones = ", ".join(trial.condition for trial in own if trial.holds is None)
        said = f"It cannot be told for: {open_ones}. " if open_ones else ""
        said += missing or "Runs of the paper’s own conditions are missing."
        return Verdict("not settled", said, tuple(trials))
    good = "; ".join(trial.condition for trial in trials if trial.holds)
    bad = "; ".join(trial.condition for trial in trials if trial.holds is False)
    if not bad:
        return Verdict("holds", f"Under: {good}.", tuple(trials))
    if not good:
        return Verdict("does not hold", f"Not under: {bad}.", tuple(trials))
    return Verdict("holds under conditions", f"Under: {good}. Not under: {bad}.", tuple(trials))
