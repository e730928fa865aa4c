"""Tasks that return overviews for the page: size plans with their curves, and the stored training runs."""

from __future__ import annotations

from dataclasses import asdict
from functools import lru_cache

from byheart.bounds import SizePlan, curves, plan
from byheart.construct.estimates import estimates_for_plan
from byheart.measure.records import finite
from byheart.measure.store import Store
from byheart.measure.tabulate import filter_rows, row_of
from byheart.web.context import Context, Document

CURVE_POWERS = tuple(range(2, 13))


def plan_facts(context: Context, facts: int, value_bits: int, vocab: int, seq_len: int) -> Document:
    """Return the document of `byheart plan --json`, with the curves that the page draws: sizes by number of facts."""
    n_questions = vocab**seq_len
    plans = {facts: _plan(facts, value_bits, vocab, seq_len)}
    # a curve ends where there are more facts than questions
    possible = (10**power for power in CURVE_POWERS if 10**power <= n_questions)
    plans |= {n: _plan(n, value_bits, vocab, seq_len) for n in possible}
    lines = [asdict(curve) for curve in curves(list(plans.values()))]
    return {"schema": 1, **plans[facts].to_json(), "vocab": vocab, "seq_len": seq_len, "curves": lines}


@lru_cache(maxsize=512)
def _plan(n_facts: int, value_bits: int, vocab: int, seq_len: int) -> SizePlan:
    return plan(n_facts, value_bits, estimates=estimates_for_plan, vocab=vocab, seq_len=seq_len)


def list_runs(context: Context, store: str, where: list[str], most: int) -> Document:
    """Return the newest runs in the file `store` that meet all conditions in `where`: at most `most`, the newest first.

    Each run is described as in `byheart runs list --json`.
    """
    with Store(store, create=False) as opened:
        rows = [row_of(record) for record in opened.records()]
    kept = filter_rows(rows, where)
    return {"schema": 1, "n_runs": len(rows), "n_kept": len(kept), "runs": finite(kept[-most:][::-1])}


def show_curves(context: Context, store: str, keys: list[str]) -> Document:
    """Return the training curves of the runs with these keys."""
    with Store(store, create=False) as opened:
        records = opened.records(keys)
    found = []
    for record in records:
        values = finite({name: numbers.tolist() for name, numbers in record.curve.items()})
        found.append({"key": record.key, "steps": record.curve_steps.tolist(), "values": values})
    return {"schema": 1, "curves": found}
