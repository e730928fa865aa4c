"""The free choices of a KS25 network, for a data set or a shape: how tokens enter, and how the two lookups are split into
groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from byheart.construct.kajitsuka_sato_2025.contextual_mapping import ContextualMapping
from byheart.data.shape import DataShape
from byheart.program.lookup import LOOKUP, LookupPlan, Planner, plan_lookup

Entrance = Literal["vectors", "line", "table"]
"""How tokens enter the network, and what gives them the weights φ, which add up to the id of their sequence.

vectors  tokens are vectors and enter through the input matrix E_in; a network computes φ
line     tokens are ids and enter as values on a line; a network computes φ
table    tokens are ids; their values and φ are columns of the embedding table (KS25 Theorem E.1)
"""

AttentionForm = Literal["uniform", "softmax", "sparse"]
"""How the sum over the sequence is computed: by uniform attention, by softmax with zero keys (KS25 eqs. 2 and 39), or through
an extra token."""

MODEL_WIDTH = len(LOOKUP) + 1
"""The number of registers: those of a lookup, and one for the sum over the sequence."""


@dataclass(frozen=True)
class Tuning:
    """Choices that do not affect the guarantee.

    plan         how the points of a lookup are split into groups
    factor_bits  the number of significant bits of the projections' scale factor
    attention    how the sum over the sequence is computed
    has_maps     whether the input matrix E_in projects vectors; if False, it only copies them (KS25 Remark 3.1)
    """

    plan: Planner = plan_lookup
    factor_bits: int = 6
    attention: AttentionForm = "uniform"
    has_maps: bool = True


@dataclass(frozen=True)
class MappingNumbers:
    """The numbers that determine the sizes of the two lookups. One looks up token weights, the other the labels of contexts.

    n_contexts      number of distinct labelled contexts
    n_weights       number of tokens whose counts distinguish the sequences (Lemma B.1)
    token_bits      bits of the largest projected token (Lemma C.2)
    weighting_bits  bits of the largest token weight (Lemma B.2)
    context_bits    bits of the largest projected context
    """

    n_contexts: int
    n_weights: int
    token_bits: int
    weighting_bits: int
    context_bits: int

    @classmethod
    def of(cls, mapping: ContextualMapping) -> MappingNumbers:
        return cls(
            len(mapping.labels),
            len(mapping.weights),
            mapping.token_line.value_bits,
            max(mapping.weights.values(), default=0).bit_length(),
            mapping.context_line.value_bits,
        )

    @classmethod
    def expected_for(cls, shape: DataShape) -> MappingNumbers:
        """Return the values expected for random data of this shape."""
        n_tokens = shape.n_samples * shape.seq_len
        token_bits = 2 * n_tokens.bit_length() + 1
        if shape.vocab is not None:
            n_distinct = (shape.vocab + shape.ragged) * (shape.seq_len if shape.ordered else 1)
            n_tokens = min(n_tokens, n_distinct)
            token_bits = (2 * n_distinct).bit_length()
        n_weights = min(max(0, shape.n_samples - 1), n_tokens)
        weighting_bits = (2 * n_weights).bit_length()
        context_bits = (2 * shape.seq_len).bit_length() + weighting_bits
        if shape.task == "seq-to-seq":
            # a context contains its token as well, but about K² numbers suffice to keep K random contexts apart
            n_labels = shape.n_samples * shape.seq_len
            context_bits = min(context_bits + token_bits, 2 * n_labels.bit_length() + 1)
        return cls(shape.context_count, n_weights, token_bits, weighting_bits, context_bits)


@dataclass(frozen=True)
class LookupSplit:
    """How tokens enter the network, and the plans of its two lookups. `first` looks up the weights of tokens, and `second` looks
    up the labels of contexts.

    `first` is None if no network computes token weights.
    """

    entrance: Entrance
    first: LookupPlan | None
    second: LookupPlan


def split_lookups(shape: DataShape, numbers: MappingNumbers, plan: Planner) -> LookupSplit:
    """Return how tokens enter the network, and the plans of its two lookups (see `LookupSplit`).

    For token ids without positions, the weights of tokens come from a column of the embedding table or from the first lookup,
    whichever has fewer parameters.
    """
    first = None
    if numbers.n_weights:
        first = plan(numbers.n_weights, numbers.token_bits, numbers.weighting_bits, MODEL_WIDTH)
    second = plan(numbers.n_contexts, numbers.context_bits, shape.n_classes.bit_length(), MODEL_WIDTH)
    if shape.vocab is None:
        return LookupSplit("vectors", first, second)
    column = shape.vocab + shape.ragged + MODEL_WIDTH
    if shape.ordered or first is None or column > first.parameters(MODEL_WIDTH):
        return LookupSplit("line", first, second)
    return LookupSplit("table", None, second)
