"""Lemma F.1 and Theorem F.1: the networks of the module `theorem`, with more but shorter weights, which may even fit
into floats.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import isqrt, log2
from typing import Literal

import numpy as np

from byheart.bounds.kajitsuka_sato_2025 import theorem_f_1
from byheart.construct.kajitsuka_sato_2025.lookup_split import MappingNumbers, Tuning
from byheart.construct.kajitsuka_sato_2025.theorem import estimate, theorem_for
from byheart.construct.registry import Example, Method
from byheart.data.dataset import Dataset
from byheart.data.generators import random_tokens
from byheart.data.shape import DataShape
from byheart.errors import AssumptionViolated, UsageError
from byheart.network.size import Size
from byheart.network.transformer.float_exactness import MANTISSA_BITS
from byheart.process.progress import Progress, in_stage
from byheart.program.construction import ProgramPlan
from byheart.program.distinct_tokens import distinct_tokens, radius_and_separation
from byheart.program.lookup import LookupPlan, Planner, plan_lookup
from byheart.theorems import realises

NAME = "kajitsuka-sato-2025-bits"
DEFAULT_B = 4


@dataclass(frozen=True)
class ShortWeightOptions:
    """The options of `kajitsuka-sato-2025-bits`.

    B          the paper's B, at least 1. A packed number is a weight that holds several keys or labels side by side, here about
               B/√(log2 B) of them. So a smaller B gives shorter weights, but more of them. Default: 4, but at most √N; in float
               precision, as many keys per packed number as fit. The theorem requires B from 1 to √N. A larger B is accepted, but
               the result is called Theorem F.1 only if no packed number holds more keys than with B = √N.
    attention  `uniform` or `softmax`, as for `kajitsuka-sato-2025`. In floats, softmax over n tokens divides by n before it adds,
               which is exact only if n is a power of two.
    """

    B: int | None = None
    precision: Literal["exact", "float64"] = "exact"
    attention: Literal["uniform", "softmax"] = "uniform"

    def __post_init__(self) -> None:
        if self.B is not None and self.B < 1:
            raise UsageError(f"B must be a positive whole number; got {self.B}.", B=self.B)


def default_B(n_samples: int) -> int:
    """Return the default of the option B: 4, but at most √N for N samples, as KS25 Theorem F.1 requires."""
    return max(1, min(DEFAULT_B, isqrt(n_samples)))


def fields_for(B: int) -> int:
    """Return the number of keys per packed number, B/√log2 B (KS25 eq. 137), rounded.

    For B = 1, where the paper divides by zero, return 1 (erratum 7).
    """
    return 1 if B == 1 else max(1, round(B / log2(B) ** 0.5))


@realises("KS25-L F.1")
def plan_short_lookup(n_fields: int) -> Planner:
    """Return a planner, which splits the points of a lookup into groups. Here a group has at most `n_fields` points.

    The keys of a group are packed into one number, and its labels into another.

    Source:     KS25 Lemma F.1 (Vardi et al. 2022, Theorem 6.2).
    Guarantee:  that of `memorise_points`. Packed numbers have at most n_fields·max(key bits, label bits) bits.
    Size:       for N points in groups of k, ⌈N/k⌉ blocks that load packed numbers, and k·(max(key bits, label bits) + 2) + 1 blocks
                that extract bits. Here k is n_fields, or less if that gives fewer parameters. With n_fields = `fields_for(B)` for
                the paper's B, from 1 to √N, these are Õ(N/B) blocks.
    Departs:    the paper divides the points into N/B² subsets and runs all of Lemma C.1 on one after the other. So each subset
                has its own projection (erratum 7) and its own extraction, of B keys. Here one lookup over all groups and a
                single extraction give the same result, and B² need not divide N.
    """

    def plan(n_points: int, key_bits: int, label_bits: int, model_width: int) -> LookupPlan:
        best = plan_lookup(n_points, key_bits, label_bits, model_width)
        return best if best.group_size <= n_fields else replace(best, group_size=n_fields)

    return plan


@realises("KS25-T F.1")
def memorise_with_short_weights(
    data: Dataset, options: ShortWeightOptions, rng: np.random.Generator, progress: Progress | None = None
) -> ProgramPlan:
    """Compile with short weights: in exact precision, or as a float64 network that runs natively in PyTorch.

    A packed number is a weight that holds several keys or labels. The fewer it holds, the shorter it is.

    Source:     KS25 Theorem F.1, for next-token data and, in the same way, for seq-to-seq data and sets.
    Assumes:    the same as the theorem without short weights (Theorem 4.1 for next-token data). Option B is at least 1, as in the
                paper; precision is "exact" or "float64".
    Guarantee:  the same as the theorem without short weights. In float64, every sum that the network computes on these data is
                exact in any order of summation. This is checked before the network is returned (`float_exactness`).
    In floats:  exact if the widest sum needs at most 53 bits. Otherwise fewer keys per packed number are tried. If even one key
                is too many, the data are rejected. Token ids and vectors on a coarse grid fit. Uniform random floats do not:
                their own 53 bits leave no room for a projection. Every device computes the same bits, layer by layer
                (`benchmarks/device_identity.py`).
    Size:       Õ(N/B) parameters of Õ(B) bits for N samples.
    Departs:    see `plan_short_lookup`.
    """
    if options.precision == "exact":
        n_fields = fields_for(options.B or default_B(data.n_samples))
        tuning = Tuning(plan_short_lookup(n_fields), attention=options.attention)
        plan = theorem_for(data)(data, rng, progress, tuning)
    else:
        plan = _plan_in_floats(data, rng, progress, options)
    fields = max(_group_sizes(plan.notes))
    most = max(1, isqrt(data.n_samples))  # the theorem requires B from 1 to √N
    is_within = fields <= fields_for(most)
    if data.task == "next-token" and is_within:
        scale = radius_and_separation(distinct_tokens(data).separation)
        within = min(options.B or fields, most)
        promised = theorem_f_1(data.n_samples, data.seq_len, data.n_classes, plan.program.dim, *scale, within)
        plan = replace(plan, theorem_size=promised)
    notes = {**plan.notes, "fields_per_word": fields}
    limit = (
        "KS25 Theorem F.1 applied to "
        if is_within
        else f"packed numbers longer than in KS25 Theorem F.1 (B <= {most}), applied to "
    )
    return replace(plan, method=NAME, theorem=limit + plan.theorem, notes=notes)


def _plan_in_floats(
    data: Dataset, rng: np.random.Generator, progress: Progress | None, options: ShortWeightOptions
) -> ProgramPlan:
    """Return a plan that packs as many fields as possible into each number while every sum of the network fits into the mantissa
    of a float64.

    A field holds one key or one label. The sums need more bits if a number has more fields, so the largest number of fields that
    fits is found by bisection. If `options.B` is given, it also limits the number of fields. If the sums do not fit even with one
    field, the data are rejected.
    """
    seed = int(rng.integers(2**63))
    reason: object = ""

    def attempt(limit: int) -> tuple[int, ProgramPlan | None]:
        """Plan a network with at most `limit` fields per packed number.

        Return the largest number of fields in a packed number of this network. Also return the plan, or None if a sum does not
        fit into a mantissa.
        """
        nonlocal reason
        # with one factor bit, projections have few bits after the binary point
        tuning = Tuning(plan_short_lookup(limit), factor_bits=1, attention=options.attention)
        plan = theorem_for(data)(data, np.random.default_rng(seed), progress, tuning)
        largest = max(_group_sizes(plan.notes))
        try:
            return largest, plan.in_floats("float64", progress and in_stage(progress, "check sums"))
        except AssumptionViolated as error:
            reason = error.facts["reason"]
            return largest, None

    too_many, best = attempt(MANTISSA_BITS["float64"] if options.B is None else fields_for(options.B))
    fitting = too_many if best is not None else 0
    while too_many - fitting > 1:
        middle = (fitting + too_many) // 2
        _, found = attempt(middle)
        fitting, too_many = (fitting, middle) if found is None else (middle, too_many)
        best = found or best
    if best is None:
        raise AssumptionViolated(
            f"a float64 network would round on these data, even with one key in each packed number: {reason}.\n"
            "  Compile with precision exact, round the inputs to a coarser grid or, with softmax attention, use attention=uniform.",
            reason=reason,
        )
    return best


def _group_sizes(notes: Mapping[str, object]) -> list[int]:
    return [int(str(notes[f"group_size_{part}"])) for part in ("first", "second")]


def size_of(shape: DataShape, options: ShortWeightOptions) -> Size:
    """Return the estimated size for data of this shape. For floats, assume as many keys per packed number as usually fit."""
    n_fields = fields_for(options.B or default_B(shape.n_samples))
    if options.precision != "exact":
        n_fields = _fields_that_fit(shape) if options.B is None else min(n_fields, _fields_that_fit(shape))
    tuning = Tuning(plan_short_lookup(n_fields), attention=options.attention)
    return estimate(shape, tuning, options.precision)


def _fields_that_fit(shape: DataShape) -> int:
    """Estimate how many fields (keys) of a packed number fit into a mantissa, but return at least 1.

    Extracting one of k fields needs about as many bits as k + 1 fields have.
    """
    numbers = MappingNumbers.expected_for(shape)
    longest = max(
        numbers.context_bits, numbers.token_bits, numbers.weighting_bits, shape.n_classes.bit_length()
    )
    return max(1, MANTISSA_BITS["float64"] // longest - 1)


METHOD = Method(
    name=NAME,
    source="Kajitsuka & Sato 2025, Theorem F.1",
    tasks=("next-token", "seq-to-seq", "set"),
    precisions=("exact", "float64"),
    size_of=size_of,
    plan=memorise_with_short_weights,
    options=ShortWeightOptions,
    example=lambda: Example(random_tokens(30, 4, 20, seed=0)),
    page="how-it-works.md",
    statements=("KS25-L F.1", "KS25-T F.1"),
)
