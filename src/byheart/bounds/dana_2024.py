"""Dana, Pydi & Chevaleyre (2024): what a single attention layer without feed-forward layers can store.

Notation in the docstrings: N = `n_tokens` (the size of the dictionary), S = `seq_len`, H = `n_heads`, d = `dim`, d_h =
`head_dim`, T or T₀ = the number of sequences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from byheart.bounds.bound import Bound, Paper, spell
from byheart.bounds.enclosures import DEFAULT_BITS, Interval, Rational, Real, exp2, ln, log2, sqrt
from byheart.bounds.sizes import require_sizes, takes_sizes
from byheart.errors import ImpossibleSize
from byheart.records.arguments import takes_numbers
from byheart.theorems import realises

_PAPER = Paper("DPC24", "Dana, Pydi & Chevaleyre 2024")
THEOREM_1 = _PAPER.theorem("Theorem 1", "DPC24-T1", "Theorem 1 with ε = 0")
THEOREM_2 = _PAPER.theorem("Theorem 2 (repaired)", "DPC24-T2", "Theorem 2 and eq. (6)")
THEOREM_3 = _PAPER.theorem("Theorem 3", "DPC24-T3")
COROLLARY_1 = _PAPER.theorem("Corollary 1", "DPC24-C1")
COROLLARY_2 = _PAPER.theorem("Corollary 2", "DPC24-C2")
PROPOSITION_1 = _PAPER.theorem("Proposition 1", "DPC24-P1")
PROPOSITION_2 = _PAPER.theorem("Proposition 2", "DPC24-P2")
PROPOSITION_3 = _PAPER.theorem("Proposition 3", "DPC24-P3")
REAL = "parameters are real numbers of any precision"
ATTENTION_ONLY = "one attention layer with positions and a skip connection, no feed-forward part (eqs. 1-2)"
ONE_LENGTH = "all sequences have the same length"


@dataclass(frozen=True)
class AttentionOnlyShape:
    """The sizes of an attention-only Transformer, as defined in eqs. (1)-(2) of the paper.

    `n_tokens` is the size of the dictionary. `n_last_tokens` is the number of distinct tokens with which the sequences end, or None
    if it is not known.
    """

    n_tokens: int
    seq_len: int
    dim: int
    head_dim: int
    n_heads: int
    n_last_tokens: int | None = None

    def __post_init__(self) -> None:
        sizes = {name: value for name, value in vars(self).items() if name != "n_heads" and value is not None}
        require_sizes(1, **sizes)
        require_sizes(0, n_heads=self.n_heads)

    @property
    @realises("DPC24-R1")
    def parameters(self) -> int:
        """The number of parameters, dim (seq_len + 2 n_tokens + 4 head_dim n_heads).

        These are the positions, the embedding and the unembedding, and four matrices per head.
        """
        return self.dim * (self.seq_len + 2 * self.n_tokens + 4 * self.head_dim * self.n_heads)

    @property
    def rank(self) -> int:
        """The largest rank of the vectors that represent sequences: H min(d, d_h) + min(d, L).

        H = `n_heads`, d = `dim` and d_h = `head_dim`. The sequences end in L = `n_last_tokens` distinct tokens. If L is None,
        min(d, L) is taken to be d.

        Departs: the paper has H d_h + d. A head that is wider than d has rank d at most, not d_h. The skip connection sees only the
        last token. Sequences with the same last token therefore get the same vector from the skip connection, and the rank of these
        vectors is at most L.
        """
        n_last_tokens = self.dim if self.n_last_tokens is None else self.n_last_tokens
        return self.n_heads * min(self.dim, self.head_dim) + min(self.dim, n_last_tokens)


def _parameters(n_contexts: int, n_tokens: int, seq_len: int, dim: int, n_last_tokens: int | None) -> int:
    """Return the number of parameters with heads of size 1: d (S + 2N + 4 (T - min(d, L))).

    T = `n_contexts`, N = `n_tokens`, S = `seq_len`, d = `dim` and L = `n_last_tokens`, or 1 if it is None."""
    n_heads = max(n_contexts - min(dim, n_last_tokens or 1), 0)
    return AttentionOnlyShape(n_tokens, seq_len, dim, 1, n_heads).parameters


def _last_tokens(shape: AttentionOnlyShape) -> str:
    n_needed = shape.dim if shape.n_last_tokens is None else shape.n_last_tokens
    return f"the number of different tokens with which the sequences end is at least {n_needed}"


@realises("DPC24-T1")
def theorem_1(shape: AttentionOnlyShape) -> Bound:
    """Return a lower bound on the largest T such that this Transformer can imitate any sequence encoder of dimension d on any T
    sequences.

    A sequence encoder of dimension d = `dim` is any function from sequences to vectors of dimension d, followed by a matrix that
    turns these vectors into logits. To imitate it means that the logits of the Transformer can be within any given γ > 0 of those
    of the encoder.
    """
    assumptions = (ATTENTION_ONLY, ONE_LENGTH, REAL, _last_tokens(shape), "distributions of full support")
    sentence = (
        f"This attention-only Transformer comes arbitrarily close to the best sequence encoder of dimension "
        f"{spell(shape.dim)} on any {spell(shape.rank)} sequences."
    )
    return THEOREM_1.bound("contexts", "lower", shape.rank, assumptions, sentence)


@realises("DPC24-T1")
@takes_sizes()
def theorem_1_parameters(
    n_contexts: int, n_tokens: int, seq_len: int, dim: int, n_last_tokens: int | None = None
) -> Bound:
    """Return the number of parameters that suffice by Theorem 1, with heads of size 1: d (S + 2N + 4 (T - min(d, L))).

    With this size, a Transformer comes arbitrarily close to the best sequence encoder of dimension d = `dim` on any T =
    `n_contexts` sequences. L = `n_last_tokens` is the number of their distinct last tokens (1 if it is not given). S = `seq_len`,
    and N = `n_tokens` is the size of the dictionary.
    """
    value = _parameters(n_contexts, n_tokens, seq_len, dim, n_last_tokens)
    exact = dim >= min(n_tokens - 1, n_contexts)
    quantity = "parameters" if exact else f"parameters at embedding dimension {dim}"
    accuracy = (
        "distributions of full support; the logits match those of the encoder to within any given γ > 0"
    )
    assumptions = (ATTENTION_ONLY, ONE_LENGTH, REAL, accuracy)
    sentence = (
        f"An attention-only Transformer of {spell(value)} parameters comes arbitrarily close to the best sequence encoder of "
        f"dimension {spell(dim)} on any {spell(n_contexts)} sequences"
        + ("; in this dimension, the best encoder gives every distribution exactly." if exact else ".")
    )
    more = " and Proposition 2" if exact else ""
    return THEOREM_1.bound(quantity, "upper", value, assumptions, sentence, more=more)


@realises("DPC24-T3")
@takes_sizes()
def theorem_3_parameters(
    n_contexts: int, n_tokens: int, seq_len: int, dim: int, n_last_tokens: int | None = None
) -> Bound:
    """Return the number of parameters that suffice by Theorem 3, which allows next tokens of probability 0.

    Theorem 3 applies Theorem 1 to the `n_contexts` likeliest sequences only, so the number is that of `theorem_1_parameters`. All
    other sequences together have a probability below ε. The divergence exceeds that of the best encoder by O(ε log 1/ε). The paper
    gives no constant for this, so only the size can be computed.
    """
    value = _parameters(n_contexts, n_tokens, seq_len, dim, n_last_tokens)
    quantity = f"parameters at embedding dimension {dim}, with an excess divergence of O(ε log 1/ε)"
    assumptions = (ATTENTION_ONLY, ONE_LENGTH, REAL, "polynomially approximable (Definition 2)")
    held = (
        f"the {spell(n_contexts)} likeliest sequences; the excess divergence is O(ε log 1/ε) "
        "if all others together have a probability below ε"
    )
    return THEOREM_3.bound(
        quantity, "upper", value, assumptions, f"{spell(value)} parameters suffice for {held}."
    )


@realises("DPC24-C1")
@takes_sizes()
def corollary_1_parameters(
    n_contexts: int, n_tokens: int, seq_len: int, n_last_tokens: int | None = None
) -> Bound:
    """Return 2 (S + 2N + 4 (T₀ - min(2, L))), the number of parameters that suffice to memorise any T₀ associations in dimension 2.

    An association is a sequence with its next token. T₀ = `n_contexts`, S = `seq_len`, and N = `n_tokens` is the size of the
    dictionary. L = `n_last_tokens` is the number of distinct tokens with which the sequences end (1 if it is not given).
    """
    value = _parameters(n_contexts, n_tokens, seq_len, 2, n_last_tokens)
    assumptions = (ATTENTION_ONLY, ONE_LENGTH, REAL, "each sequence has one next token (Assumption 1)")
    ending = "" if n_last_tokens is None else f" (number of different last tokens: {spell(n_last_tokens)})"
    held = f"any {spell(n_contexts)} associations{ending}"
    sentence = f"An attention-only Transformer of {spell(value)} parameters memorises {held}."
    return COROLLARY_1.bound("parameters", "upper", value, assumptions, sentence)


@realises("DPC24-C2")
@takes_sizes()
def corollary_2(shape: AttentionOnlyShape, n_contexts: int) -> Bound:
    """Return a lower bound on the accuracy of the best Transformer of this shape: 1/N + (1 - 1/N) R / T₀, or 1 if R > T₀.

    T₀ = `n_contexts` is the number of sequences with a label, N the number of tokens and R the `rank` of the shape.

    Assumes: d >= 2, for d = `dim`. `ImpossibleSize` is raised if d is 1.
    Departs: this holds on average over uniformly random labels for the sequences that are not memorised, but not for
             every choice of these labels. The paper does not repeat d >= 2, which Proposition 3 needs: in dimension 1, all logits
             are one number times fixed weights, so at most two tokens can have the largest logit.
    """
    if shape.dim < 2:
        raise ImpossibleSize(
            f"dim is {shape.dim}; it must be at least 2, because in dimension 1 all answers are among two tokens",
            dim=shape.dim,
        )
    share = min(Fraction(shape.rank, n_contexts), Fraction(1))
    chance = Fraction(1, shape.n_tokens)
    value = chance + (1 - chance) * share
    random = "on average over random labels for the sequences that are not memorised"
    assumptions = (ATTENTION_ONLY, ONE_LENGTH, REAL, "dimension at least 2", _last_tokens(shape), random)
    sentence = f"Some Transformer of this shape has an accuracy of at least about {float(value):.4g} on the labelled sequences."
    return COROLLARY_2.bound("accuracy", "lower", value, assumptions, sentence)


@realises("DPC24-P1")
@takes_numbers
def proposition_1(encoder_divergence: Real) -> Bound:
    """No Transformer of embedding dimension d has a smaller divergence than the best sequence encoder of dimension d.

    A sequence encoder is any function from sequences to vectors of dimension d, followed by a matrix that turns them into logits.
    The value of the returned bound is `encoder_divergence`, a certified lower bound on the divergence of the best encoder, in nats.
    """
    value = Fraction(encoder_divergence)
    if value < 0:
        raise ImpossibleSize(
            f"encoder_divergence is {float(value)}; it must not be negative", encoder_divergence=value
        )
    assumptions = ("logits are a fixed matrix times a sequence embedding of dimension d",)
    sentence = f"No Transformer of this dimension has a divergence below about {float(value):.6g} nats."
    return PROPOSITION_1.bound(
        "divergence in nats", "lower", value, assumptions, sentence, speaks_of="these data"
    )


@realises("DPC24-P2")
@takes_sizes()
def proposition_2(n_tokens: int, n_contexts: int | None = None) -> Bound:
    """Embedding dimension N - 1 is sufficient and necessary to represent every distribution over N tokens.

    For T contexts, this dimension is min(N - 1, T). A distribution with a probability of 0 is approached, not reached.

    Departs: the paper states N - 1 for any number of contexts. But the logits of T contexts are a matrix with N rows and T columns,
    whose rank is at most T. If one row is subtracted from all rows, which does not change the softmax, the rank is also at most
    N - 1.
    """
    assumptions = ("logits are a fixed matrix times a sequence embedding",)
    value = n_tokens - 1 if n_contexts is None else min(n_tokens - 1, n_contexts)
    of = "" if n_contexts is None else f" after each of {spell(n_contexts)} contexts"
    sentence = (
        f"Dimension {spell(value)} is sufficient and necessary to represent every distribution over {spell(n_tokens)} "
        f"tokens{of}."
    )
    quantity = "embedding dimension for every distribution"
    return PROPOSITION_2.bound(
        quantity, "exact", value, assumptions, sentence, speaks_of="arbitrary distributions"
    )


@realises("DPC24-P3")
def proposition_3() -> Bound:
    """To memorise associations, an embedding of dimension 2 suffices for any vocabulary: place the tokens on a circle."""
    assumptions = ("each sequence has one next token (Assumption 1)", REAL)
    sentence = "Any assignment of one next token to each sequence fits in an embedding of dimension 2."
    return PROPOSITION_3.bound("embedding dimension for associations", "upper", 2, assumptions, sentence)


@takes_sizes()
def johnson_lindenstrauss_coherence(n_tokens: int, dim: int) -> Interval:
    """Return an interval around C = √(32 ln(N + 1) / d), the coherence in Theorem 2, for N = `n_tokens` and d = `dim`.

    The coherence is the largest absolute inner product between two of the N unit vectors that represent tokens. If C >= 1/2, the
    theorem gives no bound.
    """
    logarithm = ln(n_tokens + 1)
    return sqrt(Interval(32 * logarithm.low / dim, 32 * logarithm.high / dim))


@realises("DPC24-T2")
@takes_numbers
def theorem_2(
    context_weights: Sequence[Rational], distributions: Sequence[Sequence[Rational]], coherence: Real
) -> Bound:
    """Return an upper bound on the divergence of the best encoder, for distributions that are close to a lookup table.

    `distributions[t]` are the next-token probabilities of context t, whose prior weight is `context_weights[t]`. The table
    maps t to its likeliest token, of probability p_t. `coherence` is a number C >= max |W Wᵀ - I| for a matrix W whose rows are
    unit vectors of dimension d. It must be below 1/2.

    Derivation (repaired): there are N tokens. W_j is row j of W. Give context t the logits λ_t W W_g, where g is its likeliest
    token. Let π_j be the probability of token j after t, H_t the entropy of this distribution, and λ_t the solution of equation
    (6): H_t = ln sum_j exp(λ_t (W_j - W_g)·W_g). Then the divergence of t is sum_j π_j λ_t (W_g - W_j)·W_g <= (1 - p_t) λ_t (1 +
    2C), and (6) gives λ_t <= ln((N - 1) / (e^H_t - 1)) / (1 - 2C). A context whose entropy is 0 adds 0.
    Departs: in the paper's bound the entropy has the wrong sign, and there is an additional term, C times a total variation
    distance, which is not needed.
    """
    c = Fraction(coherence)
    if not 0 <= c < Fraction(1, 2):
        raise ImpossibleSize(
            f"coherence is {float(c)}; it must be at least 0 and below 1/2, because Theorem 2 gives no bound otherwise",
            c=c,
        )
    if len(context_weights) != len(distributions):
        raise ImpossibleSize(
            f"got {len(context_weights)} context weights for {len(distributions)} distributions; give one weight for each",
            n_weights=len(context_weights),
            n_distributions=len(distributions),
        )
    if min(context_weights, default=0) < 0:
        raise ImpossibleSize("context weights must not be negative", least=min(context_weights))
    total = Fraction(0)
    for weight, distribution in zip(context_weights, distributions, strict=True):
        total += Fraction(weight) * _stretched_error(tuple(Fraction(p) for p in distribution))
    value = total * (1 + 2 * c) / (1 - 2 * c)
    n_rows = max(map(len, distributions), default=0)
    assumptions = (
        f"the embedding has {n_rows} rows, unit vectors whose coherence is at most about {float(c):.4g}",
    )
    sentence = f"Some encoder with an embedding of this coherence has a divergence of at most about {float(value):.6g} nats."
    return THEOREM_2.bound("divergence in nats", "upper", value, assumptions, sentence)


def _stretched_error(distribution: tuple[Fraction, ...]) -> Fraction:
    """Return an upper bound on (1 - p) ln((N - 1) / (e^H - 1)), or 0 if H is 0.

    H is the entropy of a distribution over N tokens, and p is its largest probability.
    """
    if sum(distribution) != 1 or min(distribution, default=0) < 0:
        raise ImpossibleSize(
            "the probabilities of each distribution must be non-negative, and their exact sum must be 1"
        )
    miss = 1 - max(distribution)
    if miss == 0:
        return Fraction(0)
    bits = DEFAULT_BITS
    while True:
        # a lower bound on the entropy, in bits, gives an upper bound on λ; a tiny entropy needs more digits
        entropy = sum((p * -log2(p, bits).high for p in distribution if p), Fraction(0))
        excess = exp2(entropy, bits).low - 1
        if excess > 0:
            return miss * max(ln((len(distribution) - 1) / excess).high, Fraction(0))
        bits *= 2
