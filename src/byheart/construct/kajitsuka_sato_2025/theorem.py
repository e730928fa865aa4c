"""The theorems of KS25, one function each. Each function turns a data set into a network that gives every label exactly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from byheart.bounds.kajitsuka_sato_2025 import (
    TheoremSize,
    corollary_4_1,
    theorem_4_1,
    theorem_d_1,
    theorem_e_1,
)
from byheart.construct.kajitsuka_sato_2025.contextual_mapping import contextual_mapping
from byheart.construct.kajitsuka_sato_2025.lookup_split import (
    LookupSplit,
    MappingNumbers,
    Tuning,
    split_lookups,
)
from byheart.construct.kajitsuka_sato_2025.network_program import network_outline, network_program
from byheart.construct.registry import Example, Method
from byheart.data.dataset import Dataset
from byheart.data.generators import random_tokens
from byheart.data.shape import DataShape
from byheart.network.size import Size
from byheart.network.transformer.architecture import Precision
from byheart.process.progress import Progress
from byheart.program.construction import ProgramPlan
from byheart.program.count import count
from byheart.program.distinct_tokens import assume_contexts, assume_separated, radius_and_separation
from byheart.theorems import realises

NAME = "kajitsuka-sato-2025"


PLAIN = Tuning()


@realises("KS25-T4.1", "KS25-T B.1")
def memorise_next_token(
    data: Dataset, rng: np.random.Generator, progress: Progress | None = None, tuning: Tuning = PLAIN
) -> ProgramPlan:
    """Compile next-token data into E_out ∘ F2 ∘ uniform attention ∘ F1 ∘ E_in.

    E_in and E_out are linear maps. F1 is a feed-forward network that gives each token a number, and uniform attention sums these
    numbers. F2 is a feed-forward network that looks up the label of the last token in its context.

    Source:     KS25 Theorem 4.1, stated in full as Theorem B.1; proof in Appendix B.1.1.
    Assumes:    finite inputs; equal contexts carry equal labels, where a context is the last token with the multiset of
                all tokens (with their positions, where order matters). The separation (r, δ) is computed from the data.
    Guarantee:  for every sample the output at the last token equals label + 1 exactly, over the rationals. Other inputs have no
                guarantee.
    In floats:  not meant for floats: some weights have about √(N·b) bits. See `limited_bits` for shorter weights.
    Size:       for N samples about 2·√(N·b) blocks with skip connections in each of F1 and F2, if the tokens and contexts that
                they look up are numbers of b bits; residual width 10, hidden width at most 8.
    Departs:    feed-forward blocks are residual, as in the paper's architecture (erratum 6). One block replaces two or three
                of the proof's plain layers, so the width is 10 instead of 14. W_O·W_V is scaled by n, so that means become
                sums and all numbers stay dyadic (erratum 8). The projection of Stage I stays in its register, and also serves as
                the proof's function F. Projections are found by search instead of being computed for the worst case; group sizes
                minimise the number of parameters.
    """
    return _plan(data, rng, progress, tuning, "KS25 Theorem 4.1 (B.1 in full), repaired", theorem_4_1)


@realises("KS25-C4.1")
def memorise_seq_to_seq(
    data: Dataset, rng: np.random.Generator, progress: Progress | None = None, tuning: Tuning = PLAIN
) -> ProgramPlan:
    """Compile seq-to-seq data, with a label for every token, into the network of `memorise_next_token`.

    Source:     KS25 Corollary 4.1, which applies Theorem 4.1 with each token as the last token.
    Assumes:    finite inputs; equal contexts carry equal labels, where a context is a token with the multiset of all tokens of
                its sequence (with their positions, where order matters).
    Guarantee:  for every token of every sample the output equals its label + 1 exactly.
    Size:       that of `memorise_next_token`, except that F2, which looks up the labels, has up to nN contexts to look up, for
                N samples of n tokens.
    Departs:    see `memorise_next_token`. Padding tokens of short sequences have no label, and their outputs have no meaning.
    """
    return _plan(data, rng, progress, tuning, "KS25 Corollary 4.1, repaired", corollary_4_1)


@realises("KS25-T D.1", "KS25-R4.1")
def memorise_sets(
    data: Dataset, rng: np.random.Generator, progress: Progress | None = None, tuning: Tuning = PLAIN
) -> ProgramPlan:
    """Compile a labelled family of multisets into a deep set ρ(Σ φ): a network ρ of the sum of φ over the elements.

    Source:     KS25 Theorem D.1.
    Assumes:    finite inputs; equal multisets carry equal labels.
    Guarantee:  the output equals label + 1 exactly, whatever the order of the elements.
    Size:       that of `memorise_next_token`, without attention.
    Departs:    see `memorise_next_token`. φ and ρ are residual blocks before and after one pooling layer. Small sets are padded
                with an extra token on which φ is 0, so the network also answers small sets without padding.
    """
    return _plan(data, rng, progress, tuning, "KS25 Theorem D.1, repaired", theorem_d_1)


@realises("KS25-T E.1", "KS25-R4.2")
def memorise_token_ids(
    data: Dataset, rng: np.random.Generator, progress: Progress | None = None, tuning: Tuning = PLAIN
) -> ProgramPlan:
    """Compile token ids without positions. The embedding table has two columns: a number that identifies the token, and a weight φ.

    Attention sums the weights φ of all tokens of a sequence.

    Source:     KS25 Theorem E.1.
    Assumes:    token ids; equal contexts carry equal labels (see `memorise_next_token`).
    Guarantee:  for every sample the output at the last token equals label + 1 exactly, over the rationals.
    Size:       two numbers per vocabulary entry instead of the network F1, which computes φ. If the vocabulary is so large that a
                column has more parameters than F1, the network keeps F1 and has no column for φ: the smaller network is built.
    Departs:    the paper's third embedding row is zero. It is left out, because the residual stream already contains that zero.
    """

    def size(n_samples: int, seq_len: int, n_classes: int, *_: object) -> TheoremSize:
        assert data.vocab is not None
        return theorem_e_1(n_samples, seq_len, n_classes, data.vocab)

    return _plan(data, rng, progress, tuning, "KS25 Theorem E.1, repaired", size)


Theorem = Callable[[Dataset, np.random.Generator, Progress | None, Tuning], ProgramPlan]


def theorem_for(data: Dataset) -> Theorem:
    """Return the function of this module that fits these data."""
    if data.task == "set":
        return memorise_sets
    if data.task == "seq-to-seq":
        return memorise_seq_to_seq
    return memorise_token_ids if data.vocab is not None and not data.ordered else memorise_next_token


def _plan(
    data: Dataset,
    rng: np.random.Generator,
    progress: Progress | None,
    tuning: Tuning,
    theorem: str,
    promised: Callable[..., TheoremSize],
) -> ProgramPlan:
    """Check the data, map contexts to numbers, and describe the network. All the theorems share these steps."""
    data.require_finite()
    data.require_consistent()
    mapping = contextual_mapping(data, rng, progress, tuning.factor_bits)
    numbers = MappingNumbers.of(mapping)
    split = split_lookups(DataShape.of(data), numbers, tuning.plan)
    program = network_program(mapping, data, split, tuning)
    separation = mapping.tokens.separation
    return ProgramPlan(
        program=program,
        data=data,
        method=NAME,
        theorem=theorem,
        assumptions=(
            *assume_contexts(data, len(mapping.labels)),
            assume_separated("tokens are (r, δ)-separated (KS25 Assumption 4.1)", separation),
        ),
        theorem_size=promised(
            data.n_samples, data.seq_len, data.n_classes, program.dim, *radius_and_separation(separation)
        ),
        notes=_notes(numbers, split, separation.n_distinct),
    )


def _notes(numbers: MappingNumbers, split: LookupSplit, n_distinct: int) -> dict[str, object]:
    return {
        "contexts": numbers.n_contexts,
        "distinct_tokens": n_distinct,
        "distinguishing_words": numbers.n_weights,
        "word_key_bits": numbers.token_bits,
        "word_weight_bits": numbers.weighting_bits,
        "context_key_bits": numbers.context_bits,
        "entrance": split.entrance,
        "groups_first": split.first.n_groups if split.first else 0,
        "group_size_first": split.first.group_size if split.first else 0,
        "groups_second": split.second.n_groups,
        "group_size_second": split.second.group_size,
    }


def estimate(shape: DataShape, tuning: Tuning = PLAIN, precision: Precision = "exact") -> Size:
    """Return the estimated size for data of this shape.

    How many tokens and contexts are looked up, and how many bits they have, is estimated for random data. The non-zero count and
    the bits of weights are upper estimates: every coordinate of a projection counts as non-zero. The ends of intervals, and numbers
    that pack several keys or labels, count with their full length.
    """
    numbers = MappingNumbers.expected_for(shape)
    split = split_lookups(shape, numbers, tuning.plan)
    return count(network_outline(shape, numbers, split, tuning), precision)


@realises("KS25-R3.1")
@dataclass(frozen=True)
class ArchitectureOptions:
    """Variants of the architecture that compute the same function.

    attention   uniform: without keys and queries. softmax: with zero keys and queries, as in KS25 eq. 2, which takes two more
                matrices per head.
    input_map   linear: E_in projects a vector. none: E_in only copies it, and the first block projects (KS25 Remark 3.1).
                Every block then has d more channels, so for N samples of vectors in dimension d the parameters grow as d·√N
                instead of d + √N.
    """

    attention: Literal["uniform", "softmax"] = "uniform"
    input_map: Literal["linear", "none"] = "linear"

    @property
    def tuning(self) -> Tuning:
        return Tuning(attention=self.attention, has_maps=self.input_map == "linear")


def plan(
    data: Dataset, options: ArchitectureOptions, rng: np.random.Generator, progress: Progress | None = None
) -> ProgramPlan:
    """Apply the theorem that fits the task and the inputs."""
    return theorem_for(data)(data, rng, progress, options.tuning)


METHOD = Method(
    name=NAME,
    source="Kajitsuka & Sato 2025, Theorems 4.1, D.1, E.1 and Corollary 4.1",
    tasks=("next-token", "seq-to-seq", "set"),
    precisions=("exact",),
    size_of=lambda shape, options: estimate(shape, options.tuning),
    plan=plan,
    options=ArchitectureOptions,
    example=lambda: Example(random_tokens(30, 4, 20, seed=0)),
    page="how-it-works.md",
    statements=("KS25-T4.1", "KS25-T B.1", "KS25-C4.1", "KS25-T D.1", "KS25-T E.1"),
)
