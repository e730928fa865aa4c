"""Choose the layout for data of a given shape, estimate the size of its network, and register the construction."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

from byheart.construct.registry import Example, Method, deferred_plan
from byheart.construct.retrieval.layout import Entrance, RetrievalLayout, ShortWeights
from byheart.construct.retrieval.program import describe
from byheart.construct.retrieval.search import find_layout
from byheart.construct.retrieval.short_search import find_short_layout
from byheart.data.generators import random_tokens
from byheart.data.shape import DataShape
from byheart.errors import AssumptionViolated, UsageError
from byheart.network.size import Size
from byheart.network.transformer.architecture import Precision
from byheart.program.count import count, stored_bits
from byheart.records.reader import within

NAME = "retrieval"
MANTISSA_BITS: dict[Precision, int] = {
    "float64": 53,
    "float32": 24,
    "bfloat16": 24,
    "int8": 24,
    "exact": 1 << 30,
}
"""The number of bits that the longest number of a network may have, by precision.

Exact networks have practically no limit. The layout search then chooses the length of words that makes the network smallest.
"""

MIXING_FOLDS, ROBUST_FOLDS = 2, 6
"""The numbers of extra reflections in the mixed hash and in the robust hash. These hashes are tried if the usual hash fails, which
happens mainly if inputs are similar.
"""

USUAL_REJECT_BITS = tuple({"reject_bits": bits} for bits in (16, 12, 8, 4, 0))
"""The options that are tried by default, in this order, except with precision exact. The first number of reject bits is used with
which all numbers of the network fit into the chosen precision.
"""

_USUAL_LEVELS = 16  # assumed levels of a coordinate before the data are known
_SPREADS = ((1, 2), (1, 3), (1, 4), (2, 2), (2, 3), (2, 4), (3, 3), (3, 4))
"""Two choices for a layout, as pairs that are tried in this order until one fits: the number of words over which a label and its
reject bits are distributed, and the least number of hashed fields. In float32, which holds shorter numbers, later pairs may be
needed. Without reject bits, only the first pair is tried.
"""


@dataclass(frozen=True)
class RetrievalOptions:
    """The options of `retrieval`.

    reject_bits  f: about one in 2^f unknown inputs gets an answer other than "unknown"
    shards       number of ranges of rows that are solved separately, each with its own random bits; together they form one
                 network
    word_bits    only for precision exact: the number of bits of the longest number; by default the value that makes the network
                 smallest
    """

    precision: Precision = "float64"
    reject_bits: Annotated[int, within(0, 24)] = 0
    word_bits: Annotated[int, within(24, 1 << 30)] | None = None
    shards: Annotated[int, within(1, 4096)] | None = None

    def __post_init__(self) -> None:
        if self.word_bits is not None and self.precision != "exact":
            raise UsageError(
                f"word_bits is an option of precision exact; the word size of {self.precision} is fixed.\n"
                "  Leave word_bits out, or use precision exact.",
                precision=self.precision,
            )

    @property
    def mantissa_bits(self) -> int:
        """The number of bits of the longest number that a network may have."""
        return self.word_bits or MANTISSA_BITS[self.precision]


@dataclass(frozen=True)
class Tokens:
    """Properties of the tokens that are known only from the data themselves.

    token_bits     for vectors on a grid, the number of bits of the sum of (largest - smallest) over all coordinates; for other
                   vectors, the number of bits of each projection; None for ids
    n_projections  number of projections in which vectors that are not on a grid are quantised
    more_folds     extra reflections, to mix tokens that are similar
    """

    token_bits: int | None = None
    n_projections: int = 0
    more_folds: int = 0


def size_of(shape: DataShape, options: RetrievalOptions) -> Size:
    """Return the estimated size for data of this shape.

    Two things are assumed. The first kind of hash that `plan` tries can store every label, as is nearly always the case. Vectors
    are on a grid of 16 levels.
    """
    return count(describe(layout_of(shape, options)), options.precision)


def layout_of(
    shape: DataShape, options: RetrievalOptions, tokens: Tokens | None = None, n_keys: int | None = None
) -> RetrievalLayout:
    """Search for the smallest layout for data of this shape, with room for `n_keys` contexts (by default as many as the shape has).

    `tokens` holds what is known about the tokens; by default, usual values are assumed. Raise `AssumptionViolated` if no layout
    fits.
    """
    found = tokens or Tokens()
    has_ids, n_projections = shape.vocab is not None, found.n_projections
    dim, bits = shape.dim or 1, found.token_bits
    if bits is None:
        bits = (dim * (_USUAL_LEVELS - 1)).bit_length()
    entrance = Entrance(
        kind="table" if has_ids else "real" if n_projections else "grid",
        n_rows=(shape.vocab or 0) + shape.ragged if has_ids else 0,
        dim=0 if has_ids else dim,
        seq_len=shape.seq_len,
        ordered=shape.ordered and has_ids,
        pooling="sum" if shape.task == "set" else "attention",
        n_folds=0,
        spread=0 if has_ids else max(1, n_projections) * ((1 << bits) - 1),
        n_varied=1 if found.more_folds >= ROBUST_FOLDS or shape.ragged else shape.seq_len,
        n_bits=bits if n_projections else 0,
        n_projections=n_projections,
    )
    if options.precision == "int8" or options.precision == "bfloat16":
        return _short_layout(entrance, shape, options, options.precision, found, n_keys)
    refused: AssumptionViolated | None = None
    for n_parts, least_fields in _SPREADS if options.reject_bits else _SPREADS[:1]:
        n_folds = _n_folds(has_ids, shape.ordered, n_projections > 0, options.reject_bits, least_fields)
        try:
            return find_layout(
                replace(entrance, n_folds=n_folds + found.more_folds, least_fields=least_fields),
                shape.context_count if n_keys is None else n_keys,
                label_bits(shape.n_classes) + options.reject_bits,
                options.mantissa_bits,
                reject_bits=options.reject_bits,
                n_parts=n_parts,
                n_shards=options.shards or 1,
                label_counts=_counts_per_shard(shape, options),
                allow_dual=shape.task != "seq-to-seq" and not n_projections,
            )
        except AssumptionViolated as error:
            refused = refused or error
    assert refused is not None
    raise refused


def _short_layout(
    entrance: Entrance,
    shape: DataShape,
    options: RetrievalOptions,
    stored: ShortWeights,
    found: Tokens,
    n_keys: int | None,
) -> RetrievalLayout:
    """Search for the layout with the fewest stored bits whose weights are stored as int8 or bfloat16.

    The result is always a `DualTable` or `PartTables`.
    """
    if shape.task == "seq-to-seq" or found.n_projections:
        what = "a label for each token" if shape.task == "seq-to-seq" else "vectors that are not on a grid"
        raise AssumptionViolated(
            f"precision {stored} does not support data with {what}.\n  Use precision float32 or float64.",
            stored=stored,
            what=what,
        )
    refused: AssumptionViolated | None = None
    layouts: list[RetrievalLayout] = []
    for in_parts, fewest in (False, (2, 3, 4)), (True, (4, 6, 8)):
        for least_fields in fewest if options.reject_bits else fewest[:1]:
            n_folds = _n_folds(
                shape.vocab is not None, shape.ordered, False, options.reject_bits, least_fields
            )
            try:
                layout = find_short_layout(
                    replace(entrance, n_folds=n_folds + found.more_folds, least_fields=least_fields),
                    shape.context_count if n_keys is None else n_keys,
                    label_bits(shape.n_classes) + options.reject_bits,
                    stored,
                    reject_bits=options.reject_bits,
                    n_shards=options.shards or 1,
                    label_counts=_counts_per_shard(shape, options),
                    in_parts=in_parts,
                )
            except AssumptionViolated as error:
                refused = refused or error
            else:
                layouts.append(layout)
                break
    if not layouts:
        assert refused is not None
        raise refused
    return min(layouts, key=lambda layout: stored_bits(describe(layout), stored))


def _counts_per_shard(shape: DataShape, options: RetrievalOptions) -> tuple[int, ...]:
    """For each label, return about how many contexts of one shard (a range of table rows that is solved separately) have it.

    These counts determine how labels are encoded in bits. All shards use the same encoding, chosen for a shard of average size.
    """
    n_shards = options.shards or 1
    return tuple(-(-count // n_shards) for count in shape.label_counts)


def label_bits(n_classes: int) -> int:
    """Return the number of bits of a class number, at least one."""
    return max(1, (n_classes - 1).bit_length())


def _n_folds(has_ids: bool, ordered: bool, is_quantised: bool, reject_bits: int, least_fields: int) -> int:
    """Return the number of reflections before pooling (the sum over the tokens). It is 0 for ids without order, because the table
    of their values is already random.

    Quantised vectors get at least four reflections instead of two: their hashed fields are weighted sums of only two projections,
    and these are more similar to each other than weighted sums of, for example, four coordinates.

    Each token enters as the sum of two numbers: one for the token, and one for its position. So without reflections, a sequence and
    the same sequence with two tokens exchanged have the same sums. Let g be a chain of F reflections at random places, a and b the
    numbers of two tokens, and p and q the numbers of two positions. Then g(a + p) + g(b + q) = g(a + q) + g(b + p) still holds for
    a share of about 0.35 · 0.73^F of all a, b, p and q (measured). A hash has H >= 2 fields. So with F = 2 · reject_bits / H + 2,
    two such sequences agree in all fields with a probability below 2^-reject_bits, the intended share of unknown inputs that are
    answered. `benchmarks/reject_rates.py` counts how often unknown inputs of several kinds are answered.
    """
    if has_ids and not ordered:
        return 0
    usual = 2 + 2 * is_quantised
    return max(usual, -(-2 * reject_bits // least_fields) + 2) if reject_bits else usual


METHOD = Method(
    name=NAME,
    source="byheart: retrieval structures in the weights",
    tasks=("next-token", "seq-to-seq", "set"),
    precisions=("float64", "float32", "bfloat16", "int8", "exact"),
    size_of=size_of,
    plan=deferred_plan("byheart.construct.retrieval.method"),
    options=RetrievalOptions,
    example=lambda: Example(random_tokens(40, 3, 12, seed=0)),
    page="retrieval.md",
    usual=lambda precision: ({},) if precision == "exact" else USUAL_REJECT_BITS,
)
