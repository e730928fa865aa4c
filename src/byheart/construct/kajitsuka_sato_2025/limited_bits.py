"""Lemma F.1 and Theorem F.1: the same memory with short weights, at the price of more of them; in floats where they fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import ceil, isqrt, log2

import numpy as np

from byheart.bounds.kajitsuka_sato_2025 import theorem_f_1
from byheart.construct.kajitsuka_sato_2025.sizes import guessed
from byheart.construct.kajitsuka_sato_2025.sizes import size_of as size_of_unlimited
from byheart.construct.kajitsuka_sato_2025.theorem import Tuning, theorem_for
from byheart.construct.registry import Method
from byheart.data.dataset import Dataset
from byheart.errors import AssumptionViolated, InexactWeights, UsageError
from byheart.network.memory import Progress
from byheart.network.size import Size
from byheart.network.transformer.float_exactness import MANTISSA_BITS, FloatExactness, float_exactness
from byheart.network.transformer.floats import as_floats
from byheart.program.construction import Construction, Statistics
from byheart.program.distinct_tokens import radius_and_separation, words_of
from byheart.program.lookup import LookupPlan, Planner, plan_lookup
from byheart.theorems import realises

NAME = "kajitsuka-sato-2025-bits"
DEFAULT_B = 4
_FIRST_LOOK = 32


def fields_per_word(B: int) -> int:
    """B/√log2 B keys in a word (eq. 137); 1 for B = 1, where the paper divides by zero (erratum 7)."""
    if B < 1:
        raise UsageError(f"B must be a positive whole number; got {B}.")
    return 1 if B == 1 else max(1, round(B / log2(B) ** 0.5))


@realises("KS25-L F.1")
def plan_short_words(n_fields: int) -> Planner:
    """Lookup with at most `n_fields` keys or labels in a word.

    Source:     KS25 Lemma F.1 (Vardi et al. 2022, Theorem 6.2).
    Guarantee:  that of `memorise_points`; words of n_fields·max(key bits, label bits) bits.
    Size:       ⌈N/n_fields⌉ blocks of lookup and n_fields·(bits + 2) + 1 of extraction, so O(N/B).
    Departs:    the paper runs Lemma C.1 on N/B² subsets one after the other, projecting anew each time (erratum 7) and extracting
                B fields N/B² times. One lookup over all groups followed by a single extraction does the same, and
                B² need not divide N.
    """

    def plan(n_points: int, key_bits: int, label_bits: int, model_width: int) -> LookupPlan:
        best = plan_lookup(n_points, key_bits, label_bits, model_width)
        return best if best.group_size <= n_fields else replace(best, group_size=n_fields)

    return plan


@realises("KS25-T F.1")
def memorise_with_short_weights(
    data: Dataset, options: Mapping[str, object], rng: np.random.Generator, progress: Progress | None = None
) -> Construction:
    """Compile with words of limited length; as a float64 network that runs natively in PyTorch, if asked.

    Source:     KS25 Theorem F.1, for next-token data and, in the same way, for seq-to-seq data and sets.
    Assumes:    as the theorem it limits. Option B as in the paper, at least 1; option precision "exact" or "float64".
    Guarantee:  as the theorem it limits. In float64, every sum the network computes on these data is exact in any
                order of summation, which is checked before the network is returned (`float_exactness`).
    In floats:  exact when the widest sum needs at most 53 bits; otherwise fewer fields are tried, then the data are refused.
                Token ids and grids fit; uniform random floats do not, for their own 53 bits leave no room for a projection.
                The same bits on every device, layer by layer (`benchmarks/device_identity.py`).
    Size:       `size_of`; Õ(N/B) parameters of Õ(B) bits.
    Departs:    see `plan_short_words`.
    """
    precision = options.get("precision", "exact")
    unknown = sorted(set(options) - {"B", "precision"})
    if unknown or precision not in ("exact", "float64"):
        raise UsageError(f"{NAME} takes the option B and precision exact or float64; got {dict(options)}.")
    B = options.get("B")
    if B is not None and not isinstance(B, int):
        raise UsageError(f"B must be a whole number; got {B!r}.")
    n_fields = fields_per_word(DEFAULT_B if B is None else B)
    if precision == "exact":
        return _named(
            theorem_for(data)(data, rng, progress, Tuning(plan_short_words(n_fields))), data, n_fields, B
        )
    if B is None:
        n_fields = MANTISSA_BITS["float64"]  # as many as fit
    return _in_floats(data, rng, progress, n_fields, B)


def _in_floats(
    data: Dataset,
    rng: np.random.Generator,
    progress: Progress | None,
    n_fields: int,
    B: int | None,
) -> Construction:
    """The network with the most fields per word whose sums all fit a mantissa, found by halving: more fields take more bits."""
    seed = int(rng.integers(2**63))
    reason = ""

    def attempt(limit: int) -> tuple[int, Construction | None]:
        """The largest group of the network with at most `limit` fields, and the network if it fits."""
        nonlocal reason
        # no bits after the point beyond the data's own
        tuning = Tuning(plan_short_words(limit), factor_bits=1)
        found = theorem_for(data)(data, np.random.default_rng(seed), progress, tuning)
        largest = max(int(found.notes[f"group_size_{part}"]) for part in ("first", "second"))  # type: ignore[call-overload]
        try:
            network = as_floats(found.memory.transformer)
            encoded = found.memory.encode(data.inputs)
            exactness = float_exactness(network, encoded[:_FIRST_LOOK])  # what does not fit mostly fails here
            if exactness.holds:
                exactness = float_exactness(network, encoded)
        except InexactWeights as error:
            reason = str(error).splitlines()[0]
            return largest, None
        if not exactness.holds:
            reason = f"{exactness.where} needs {ceil(exactness.bits_needed)} bits"
            return largest, None
        memory = replace(found.memory, network=network)
        return largest, _named(replace(found, memory=memory), data, limit, B, exactness)

    too_many, best = attempt(n_fields)
    fitting = too_many if best is not None else 0
    while too_many - fitting > 1:
        middle = (fitting + too_many) // 2
        _, found = attempt(middle)
        fitting, too_many = (fitting, middle) if found is None else (middle, too_many)
        best = found or best
    if best is None:
        raise AssumptionViolated(
            f"these data do not fit float64 with even one key in a word: {reason}; a mantissa has 53.\n"
            "  Compile with precision exact, or round the inputs to a coarser grid."
        )
    return best


def _named(
    found: Construction,
    data: Dataset,
    n_fields: int,
    B: int | None,
    exactness: FloatExactness | None = None,
) -> Construction:
    assert found.statistics is not None
    statistics = replace(found.statistics, n_fields=n_fields, precision=found.memory.network.precision)
    largest = max(int(found.notes[f"group_size_{part}"]) for part in ("first", "second"))  # type: ignore[call-overload]
    notes = {**found.notes, "fields_per_word": largest}
    if exactness is not None:
        notes["mantissa_bits_needed"] = exactness.bits_needed
    if data.task == "next-token":
        scale = radius_and_separation(words_of(data).separation)
        dim = found.memory.network.dim
        within = min(B or largest, isqrt(data.n_samples))  # the theorem has B in [√N]
        promised = theorem_f_1(data.n_samples, data.seq_len, data.n_classes, dim, *scale, within)
        found = replace(found, theorem_size=promised)
    return replace(
        found,
        method=NAME,
        theorem=f"KS25 Theorem F.1 over {found.theorem}",
        notes=notes,
        statistics=statistics,
    )


def size_of(statistics: Statistics) -> Size:
    """The size, without building; exact where that of the theorem it limits is.

    `statistics.n_fields` is the most fields a word may have. Unless it is known, it is that of the default B for exact
    weights, and for floats as many as usually fit a mantissa.
    """
    n_fields = statistics.n_fields
    if n_fields is None:
        is_exact = statistics.precision in (None, "exact")
        n_fields = fields_per_word(DEFAULT_B) if is_exact else _fields_that_fit(statistics)
    return size_of_unlimited(statistics, plan_short_words(n_fields))


def _fields_that_fit(statistics: Statistics) -> int:
    """Extracting from a word of k fields takes sums of about (k + 1) fields' bits, which a mantissa must hold."""
    known = guessed(statistics)
    assert known.context_bits is not None
    assert known.token_bits is not None
    assert known.weighting_bits is not None
    longest = max(known.context_bits, known.token_bits, known.weighting_bits, known.n_classes.bit_length())
    return max(1, MANTISSA_BITS["float64"] // longest - 1)


METHOD = Method(
    name=NAME,
    source="Kajitsuka & Sato 2025, Theorem F.1",
    tasks=("next-token", "seq-to-seq", "set"),
    precisions=("exact", "float64"),
    size_of=size_of,
    build=memorise_with_short_weights,
)
