"""How far theory and construction are apart: what is needed, what suffices and what is built, over many shapes of data."""

from __future__ import annotations

from fractions import Fraction
from math import isqrt

from byheart.bounds import orders
from byheart.bounds.kajitsuka_sato_2025 import corollary_4_1, theorem_4_1
from byheart.bounds.kajitsuka_sato_2025_lower import feed_forward_input, theorem_4_2, theorem_4_3
from byheart.bounds.pigeonhole import label_bits, parameter_floor
from byheart.construct import registry
from byheart.data.dataset import Task
from byheart.data.shape import DataShape

SHAPES = [
    (n_samples, seq_len, dim, n_classes)
    for n_samples in (10**2, 10**4, 10**6)
    for seq_len, dim, n_classes in ((1, 4, 2), (8, 4, 16), (64, 4, 16), (8, 256, 16), (8, 4, 1000))
]


def gap_table(task: Task) -> str:
    """One row for each (N, n, d, C): weights of any length first, then weights of 64 bits."""
    heads = ("N", "n", "d", "C", "at least", "enough", "built", "enough / at least", "built / at least")
    heads += ("64 bits: at least", "64 bits: built", "64 bits: built / at least")
    rows = [_row(task, *shape) for shape in SHAPES]
    return _table(heads, rows)


def _row(task: Task, n_samples: int, seq_len: int, dim: int, n_classes: int) -> tuple[str, ...]:
    shape = DataShape(n_samples, seq_len=seq_len, n_classes=n_classes, dim=dim, task=task)
    # random points of a unit cube: norm at most √d, and closest pairs about (nN)^(-1/2) apart
    points = (n_samples, seq_len, n_classes, dim, isqrt(dim) + 1, Fraction(1, isqrt(n_samples * seq_len)))
    if task == "seq-to-seq":
        n_labels = n_samples * seq_len
        needed, enough = theorem_4_3(n_samples, seq_len, n_labels), corollary_4_1(*points).parameters
    else:
        n_labels = n_samples
        needed, enough = theorem_4_2(n_samples), theorem_4_1(*points).parameters
    built = registry.get("kajitsuka-sato-2025").estimate(shape).parameters_dense
    floor = parameter_floor(label_bits(n_labels, n_classes), 64)
    words = registry.get("retrieval").estimate(shape).parameters_dense
    least, stored = int(needed.value), int(floor.value)
    return (
        *(f"{number:,}" for number in (n_samples, seq_len, dim, n_classes, least, enough, built)),
        *(_ratio(number, least) for number in (enough, built)),
        *(f"{number:,}" for number in (stored, words)),
        _ratio(words, stored),
    )


def order_table() -> str:
    """Results without public constants, and section 6 of DPC24, evaluated for one problem each."""
    found = (
        *orders.fixed_precision(10**6),
        *(
            each
            for ratio in (Fraction(1, 100), Fraction(9, 10))
            for each in orders.robust_memorisation(10**6, 64, ratio)
        ),
        *orders.footnote_2(10**6, 64),
        *orders.section_6(10**6, 10**4, 64, 128),
    )
    heads = ("result", "setting", "side", "order", "evaluated", "source")
    rows = [
        (each.name, each.setting, each.side, each.expression, f"{each.value:,}", each.source)
        for each in found
    ]
    return _table(heads, rows)


def sharing_table() -> str:
    """KS25 section 4.2.1: what reading a sequence as one vector takes, against a Transformer for the same data."""
    rows = []
    for seq_len in (8, 64, 512, 4096):
        shape = DataShape(10**4, seq_len=seq_len, n_classes=16, dim=256)
        built = registry.get("kajitsuka-sato-2025").estimate(shape).parameters_dense
        flat = int(feed_forward_input(seq_len, 256).value)
        rows.append((f"{seq_len:,}", f"{flat:,}", f"{built:,}", _ratio(flat, built)))
    return _table(("n", "feed-forward: at least", "kajitsuka-sato-2025", "ratio"), rows)


def _ratio(above: int, below: int) -> str:
    share = above / max(below, 1)
    return f"{share:,.0f}" if share >= 10 else f"{share:.2f}"


def _table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [f"| {' | '.join(heads)} |", "| ---: " * len(heads) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"
