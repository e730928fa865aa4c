"""Madden, Fox & Thrampoulidis (2024): how many next-token distributions a decoder can store.

Notation in the docstrings: k = number of parameters, ω = number of tokens in the vocabulary, n = number of distinct contexts, T
= length of the longest context, m = number of neurons.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from byheart.bounds.bound import Bound, Paper, Scope, Theorem, spell
from byheart.bounds.enclosures import ceil_fraction, ln
from byheart.bounds.sizes import require_sizes, takes_sizes
from byheart.errors import ImpossibleSize
from byheart.theorems import realises

_PAPER = Paper("MFT24", "Madden, Fox & Thrampoulidis 2024")
LEMMA_1 = _PAPER.theorem("Lemma 1", "MFT24-L1")
LEMMA_2 = _PAPER.theorem("Lemma 2", "MFT24-L2")
THEOREM_1 = _PAPER.theorem("Theorem 1", "MFT24-T1")
THEOREM_5 = _PAPER.theorem("Theorem 5", "MFT24-T5")
THEOREM_7 = _PAPER.theorem("Theorem 7", "MFT24-T7")
EQUATION_3 = _PAPER.theorem("eq. (3)", "MFT24-eq3")
SMOOTH = "outputs depend on the parameters in a continuously differentiable way (tanh, GELU; not ReLU)"
DEFINABLE = "the model is definable with exp and restricted analytic functions (tanh, arctan, GELU, softmax)"
ANALYTIC = "the activation is real analytic at a point and not a polynomial there (tanh, arctan, GELU)"
REAL = "parameters are real numbers of any precision"
BY_LEMMA_1 = (SMOOTH, REAL, "every context must be able to get every distribution of full support")
BY_THEOREM_1 = (
    SMOOTH,
    DEFINABLE,
    REAL,
    "the model must reach the entropy of every corpus with a given number of contexts and any number of documents",
)
ARBITRARY: Scope = "arbitrary distributions"


@realises("MFT24-L1", "MFT24-Tab1")
@takes_sizes(n_parameters=0, vocab=2)
def lemma_1(n_parameters: int, vocab: int) -> Bound:
    """At most k / (ω - 1) contexts can be given arbitrary next-token distributions, for k = `n_parameters` and ω = `vocab`."""
    value = n_parameters // (vocab - 1)
    sentence = (
        f"A smooth model of {spell(n_parameters)} parameters interpolates arbitrary distributions over {spell(vocab)} "
        f"tokens on at most {spell(value)} contexts."
    )
    return LEMMA_1.bound("contexts", "upper", value, BY_LEMMA_1, sentence, speaks_of=ARBITRARY)


@realises("MFT24-L1")
@takes_sizes(n_contexts=0, vocab=2)
def lemma_1_parameters(n_contexts: int, vocab: int) -> Bound:
    """Return the number of parameters that Lemma 1 makes necessary: n (ω - 1), for n = `n_contexts` and ω = `vocab`."""
    value = n_contexts * (vocab - 1)
    sentence = (
        f"Arbitrary next-token distributions over {spell(vocab)} tokens on {spell(n_contexts)} contexts need at least "
        f"{spell(value)} parameters."
    )
    return LEMMA_1.bound("parameters", "lower", value, BY_LEMMA_1, sentence, speaks_of=ARBITRARY)


@realises("MFT24-T1", "MFT24-Tab1")
@takes_sizes(n_parameters=0, vocab=2)
def theorem_1(n_parameters: int, vocab: int) -> Bound:
    """In the empirical setting, where documents determine the distributions, at most (2 + 1/(ω - 1)) k / (ω - 1) + 1 contexts
    can be stored, for k = `n_parameters` and ω = `vocab`.
    """
    step = Fraction(1, vocab - 1)
    value = ((2 + step) * n_parameters * step + 1).__floor__()
    sentence = (
        f"A model of {spell(n_parameters)} parameters can reach the entropy of every corpus over "
        f"{spell(vocab)} tokens with n contexts only if n is at most {spell(value)}."
    )
    return THEOREM_1.bound("contexts", "upper", value, BY_THEOREM_1, sentence, speaks_of=ARBITRARY)


@realises("MFT24-T1")
@takes_sizes(n_contexts=0, vocab=2)
def theorem_1_parameters(n_contexts: int, vocab: int) -> Bound:
    """Return the number of parameters that Theorem 1 makes necessary.

    It is (n - 1) (ω - 1)² / (2ω - 1), rounded up, for n = `n_contexts` and ω = `vocab`.
    """
    value = ceil_fraction(Fraction(max(n_contexts - 1, 0) * (vocab - 1) ** 2, 2 * vocab - 1))
    sentence = (
        f"To reach the entropy of every corpus with {spell(n_contexts)} contexts over {spell(vocab)} tokens, a model needs at "
        f"least {spell(value)} parameters."
    )
    return THEOREM_1.bound("parameters", "lower", value, BY_THEOREM_1, sentence, speaks_of=ARBITRARY)


@dataclass(frozen=True)
class DecoderShape:
    """The sizes of the one-layer decoder of eq. (2), whose heads all have the same size.

    In the paper's symbols, d = `dim`, m₀ = `n_heads`, d₁ = `key_dim`, d₀ = `value_dim`, m = `hidden_width`, ω = `vocab` (of inputs
    and outputs) and T = `seq_len`.
    """

    dim: int
    n_heads: int
    key_dim: int
    value_dim: int
    hidden_width: int
    vocab: int
    seq_len: int

    def __post_init__(self) -> None:
        require_sizes(1, **vars(self))

    @property
    def parameters(self) -> int:
        """The number of parameters, ωm + m(d + 1) + 2 m₀ (d₀ + d₁) d + (ω + T) d: output, hidden layer, attention, embeddings.

        m = `hidden_width`, d = `dim`, m₀ = `n_heads`, d₁ = `key_dim`, d₀ = `value_dim`, ω = `vocab` and T = `seq_len`.
        """
        attention = 2 * self.n_heads * (self.value_dim + self.key_dim) * self.dim
        embeddings = (self.vocab + self.seq_len) * self.dim
        return self.hidden_width * (self.vocab + self.dim + 1) + attention + embeddings


@realises("MFT24-T5")
def theorem_5(shape: DecoderShape) -> Bound:
    """A one-layer decoder with m neurons (its `hidden_width`) can give any m contexts any next-token distributions."""
    form = "one layer of eq. (2), no residual connections or normalisation"
    sentence = f"A one-layer decoder holds any {spell(shape.hidden_width)} contexts, one per neuron."
    return THEOREM_5.bound("contexts", "lower", shape.hidden_width, (ANALYTIC, REAL, form), sentence)


@realises("MFT24-T5")
@takes_sizes()
def theorem_5_parameters(n_contexts: int, vocab: int, seq_len: int, n_outputs: int | None = None) -> Bound:
    """Return the number of parameters that suffice by Theorem 5, with `n_contexts` neurons and every other dimension 1.

    `n_outputs` is the number of labels if it differs from the vocabulary of the inputs.
    """
    n_outputs = vocab if n_outputs is None else n_outputs
    value = n_contexts * (n_outputs + 2) + 4 + vocab + seq_len
    return _sufficient(THEOREM_5, n_contexts, value, "one head of dimension 1")


@realises("MFT24-T7")
@takes_sizes()
def theorem_7(hidden_width: int) -> Bound:
    """A decoder that averages tokens instead of using attention, with m = `hidden_width` neurons, can give any m contexts any
    distributions.
    """
    form = "token averaging in place of attention"
    sentence = f"Token averaging with {spell(hidden_width)} neurons holds any {spell(hidden_width)} contexts."
    return THEOREM_7.bound("contexts", "lower", hidden_width, (ANALYTIC, REAL, form), sentence)


@realises("MFT24-T7")
@takes_sizes()
def theorem_7_parameters(n_contexts: int, vocab: int, seq_len: int, n_outputs: int | None = None) -> Bound:
    """Return the number of parameters that suffice by Theorem 7, with `n_contexts` neurons and embeddings of dimension 1.

    The weights of the paper, Z, u, W, b and V, have ω + T + 2n + n ω_out entries in total, where ω = `vocab`, T = `seq_len`, n
    = `n_contexts` and ω_out = `n_outputs` (by default ω).
    """
    n_outputs = vocab if n_outputs is None else n_outputs
    value = n_contexts * (n_outputs + 2) + vocab + seq_len
    return _sufficient(THEOREM_7, n_contexts, value, "token averaging in dimension 1")


@realises("MFT24-eq3")
def equation_3(shape: DecoderShape) -> Bound:
    """Return the ratio of Lemma 1's upper bound to Theorem 5's lower bound for one architecture, exactly.

    The ratio is 1 + (d + 2)/(ω - 1) + 2 m₀ (d₀ + d₁) d / ((ω - 1) m) + (ω + T) d / ((ω - 1) m). The docstring of `DecoderShape`
    defines the symbols.
    """
    require_sizes(2, vocab=shape.vocab)
    scale = (shape.vocab - 1) * shape.hidden_width
    value = (
        1
        + Fraction(shape.dim + 2, shape.vocab - 1)
        + Fraction(2 * shape.n_heads * (shape.value_dim + shape.key_dim) * shape.dim, scale)
        + Fraction((shape.vocab + shape.seq_len) * shape.dim, scale)
    )
    assumptions = ("the one-layer decoder of eq. (2)",)
    sentence = f"For this decoder the capacity is known up to a factor of about {float(value):.4g}."
    return EQUATION_3.bound("ratio of upper to lower bound", "exact", value, assumptions, sentence)


@realises("MFT24-L2")
def lemma_2(context_counts: Iterable[int], next_token_counts: Iterable[int]) -> Bound:
    """Return the entropy of a corpus in nats, rounded down slightly. No model has a smaller cross-entropy, summed over the corpus.

    `context_counts` holds c_i, how often each distinct context i occurs. `next_token_counts` holds how often each pair of a context
    and its next token occurs; these are the products c_i π̂ that are not zero, where π̂ is the frequency of the next token
    after context i. The entropy is H = sum c_i ln c_i - sum (c_i π̂) ln(c_i π̂).
    """
    contexts, pairs = Counter(map(int, context_counts)), Counter(map(int, next_token_counts))
    if min((*contexts, *pairs), default=1) < 1:
        raise ImpossibleSize("counts must be positive")
    if sum(c * n for c, n in contexts.items()) != sum(c * n for c, n in pairs.items()):
        raise ImpossibleSize("context counts and (context, next token) counts must have the same total")
    low = Fraction(0)
    for count in set(contexts) | set(pairs):
        weight = count * (contexts[count] - pairs[count])
        logarithm = ln(count)
        low += weight * (logarithm.low if weight >= 0 else logarithm.high)
    value = max(low, Fraction(0))
    assumptions = ("any model that predicts the next token from the context",)
    sentence = f"No model's summed cross-entropy on this corpus is below about {float(value):.6g} nats."
    quantity = "summed cross-entropy in nats"
    return LEMMA_2.bound(quantity, "lower", value, assumptions, sentence, speaks_of="these data")


def _sufficient(theorem: Theorem, n_contexts: int, value: int, form: str) -> Bound:
    where = theorem.name.removeprefix("MFT24 ")
    paper = "Madden, Fox & Thrampoulidis (2024)"
    sentence = (
        f"By {where} of {paper}, {spell(value)} parameters suffice for any {spell(n_contexts)} contexts."
    )
    return theorem.bound(
        "parameters", "upper", value, (ANALYTIC, REAL, f"{form}, {spell(n_contexts)} neurons"), sentence
    )
