"""Random problems over twelve orders of magnitude, and the rule that no lower bound may exceed an upper one."""

from __future__ import annotations

import sys
from fractions import Fraction
from random import Random

from byheart.bounds import BoundTable, DataShape, for_shape
from byheart.errors import UsageError


def size(rng: Random, orders: float = 12) -> int:
    """A whole number, uniform in its logarithm."""
    return int(10 ** rng.uniform(0, orders))


def random_problem(rng: Random) -> DataShape:
    """A problem that data can have: no more samples than there are sequences."""
    while True:
        problem = any_problem(rng)
        try:
            problem.require_possible()
        except UsageError:
            continue
        return problem


def any_problem(rng: Random) -> DataShape:
    """A problem with N, C, ω, 1/δ over twelve orders of magnitude, n and d over six; δ sometimes far smaller."""
    task = rng.choice(["next-token", "next-token", "seq-to-seq", "set", "distribution"])
    is_ordered = task != "set" and rng.random() < 0.5
    sizes = {"n_samples": size(rng), "seq_len": size(rng, 6), "n_classes": size(rng)}
    if task == "distribution" or rng.random() < 0.4:
        return DataShape(**sizes, task=task, ordered=is_ordered, vocab=size(rng))
    if rng.random() < 0.25:
        return DataShape(**sizes, task=task, ordered=is_ordered, dim=size(rng, 6))
    separation = Fraction(1, size(rng)) if rng.random() < 0.8 else Fraction(1, 10 ** rng.randrange(1, 400))
    return DataShape(
        **sizes,
        task=task,
        ordered=is_ordered,
        dim=size(rng, 6),
        radius=10 ** rng.uniform(-6, 6),
        separation=separation,
    )


def contradictions(table: BoundTable) -> list[str]:
    """Every pair of applicable bounds of which the lower exceeds the upper."""
    found = []
    for quantity in {bound.quantity for bound in table.applicable}:
        exact = table.of(quantity, "exact")
        for low in (*table.of(quantity, "lower"), *exact):
            for high in (*table.of(quantity, "upper"), *exact):
                if low.value > high.value:
                    found.append(f"{low.name}: {quantity} >= {low.value}, {high.name}: <= {high.value}")
    return found


def comparisons(table: BoundTable) -> int:
    """How many pairs `contradictions` compares."""
    quantities = {bound.quantity for bound in table.applicable}
    return sum(len(table.of(q, "lower")) * len(table.of(q, "upper")) for q in quantities)


def main(n_settings: int, seed: int) -> None:
    """Try many settings and print how many were tried and how many pairs compared; exit 1 on a contradiction."""
    rng = Random(seed)
    n_compared = 0
    for _ in range(n_settings):
        problem = random_problem(rng)
        table = for_shape(problem)
        n_compared += comparisons(table)
        if found := contradictions(table):
            sys.exit(f"{problem}: {found}")
    sys.stdout.write(f"{n_settings} {n_compared}\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
