"""Kajitsuka & Sato (2025): sizes that are necessary, with explicit constants in place of Ω."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from byheart.bounds.bound import KS25, Bound, spell
from byheart.bounds.enclosures import log2
from byheart.bounds.sizes import require_sizes, takes_sizes
from byheart.bounds.vc_dimension import (
    depth_limited_vc_dimension,
    log2_e_times,
    log2_sign_patterns,
    smallest,
    smallest_relu_parameters,
    uniform_width_vc_dimension,
)
from byheart.errors import ImpossibleSize
from byheart.theorems import realises

SHATTERED = "one architecture memorises every labelling with two classes, by choice of its parameters alone"
REAL = "parameters are real numbers of any precision, none shared between layers; hidden units have biases"
CONSTANT = "only sequences of n equal tokens are counted, and all of them may be inputs; there is no positional encoding"
HARD = "attention is hardmax or uniform, not softmax"
_SUMMED_LAYERS = 16
REMARK_4_3 = KS25.theorem("Remark 4.3", "KS25-R4.3", "Remark 4.3 and eq. (4)")
SECTION_4_2_1 = KS25.theorem("section 4.2.1", "KS25-R4.3", "section 4.2.1, after Remark 4.3")
THEOREM_4_2 = KS25.theorem(
    "Theorem 4.2",
    "KS25-T4.2",
    "Theorem 4.2, using Goldberg & Jerrum 1995, Corollary 2.1",
    networks="Transformers with ReLU units",
)
THEOREM_4_3 = KS25.theorem(
    "Theorem 4.3",
    "KS25-T4.3",
    "Theorem 4.3, eqs. (94)-(96)",
    networks="Transformers with ReLU units and hardmax or uniform attention",
)
BY_BARTLETT = "Theorem 4.2, using Bartlett et al. 2019, Theorem 7"


def _to_hold(network: str, inputs: str, value: int, what: str = "parameters") -> str:
    """Return the sentence that states a lower bound on the size of a network that can hold every labelling of `inputs`."""
    return f"To hold every labelling of {inputs}, {network} needs at least {spell(value)} {what}."


@realises("KS25-R4.3")
@takes_sizes()
def remark_4_3(dim: int) -> Bound:
    """The input matrix E_in of eq. (4) is m x d with d = `dim` and m >= 1, so a network that reads d-dimensional tokens has at
    least d parameters.
    """
    assumptions = ("every entry of the input map is counted, zero or not",)
    sentence = (
        f"Reading tokens of dimension {spell(dim)} takes an input map of at least {spell(dim)} parameters."
    )
    return REMARK_4_3.bound("parameters", "lower", dim, assumptions, sentence, speaks_of="these data")


@takes_sizes()
def feed_forward_input(seq_len: int, dim: int) -> Bound:
    """A feed-forward network that reads the whole sequence as one vector has at least `dim` x `seq_len` weights in its first
    layer.
    """
    value = seq_len * dim
    quantity = "parameters of a feed-forward network"
    assumptions = (
        "the network reads the sequence as one vector; every entry of the first layer is counted, zero or not",
    )
    sentence = (
        f"A feed-forward network that reads {spell(seq_len)} tokens of dimension {spell(dim)} as one vector has at least "
        f"{spell(value)} parameters; a Transformer uses the same parameters for every token."
    )
    return SECTION_4_2_1.bound(quantity, "lower", value, assumptions, sentence, speaks_of="these data")


@realises("KS25-T4.2", "KS25-T B.2")
@takes_sizes(n_samples=0)
def theorem_4_2(n_samples: int) -> Bound:
    """At least Ω(√N) parameters are needed for next-token prediction, for N = `n_samples`; here with an explicit constant.

    Source:    KS25 Theorem 4.2. On a sequence whose tokens are all equal, softmax attention is a linear map, so the Transformer is
               a ReLU network. Goldberg & Jerrum (1995), Corollary 2.1, then bounds the number of points that it shatters.
    Constant:  the smallest W with W (W / 2 + log2(16 e N)) >= N, derived in `smallest_relu_parameters`. It
               is about √(2N).
    Assumes:   of the sequences that may have to be memorised, `n_samples` counts only those whose tokens are all equal. For token
               ids with an embedding layer, there are at most as many of these as tokens in the vocabulary.
    """
    value = smallest_relu_parameters(n_samples)
    sentence = _to_hold("a Transformer", f"{spell(n_samples)} sequences of equal tokens", value)
    return THEOREM_4_2.bound("parameters", "lower", value, (SHATTERED, CONSTANT, REAL), sentence)


@realises("KS25-T4.2")
@takes_sizes(n_samples=0)
def theorem_4_2_depth(n_samples: int, dim: int, width: int = 14) -> Bound:
    """Return the fewest layers with which a network of this width could hold every labelling of `n_samples` sequences, each
    consisting of equal tokens of dimension `dim`.

    This follows from Theorem 4.2 with the bound on the VC dimension in Theorem 7 of Bartlett et al. (2019).
    """
    value = smallest(lambda depth: uniform_width_vc_dimension(width, depth, dim) >= n_samples)
    theorem = KS25.theorem(f"Theorem 4.2 at width {width}", "KS25-T4.2", BY_BARTLETT)
    layer = f"one affine map and at most {width} ReLU units per layer"
    network = f"a ReLU network of width {width} on {spell(dim)} inputs"
    sentence = _to_hold(network, f"{spell(n_samples)} points", value, "layer(s)")
    return theorem.bound(
        f"depth at width {width}", "lower", value, (SHATTERED, CONSTANT, REAL, layer), sentence
    )


@realises("KS25-T4.2")
@takes_sizes(n_samples=0)
def theorem_4_2_shallow(n_samples: int, n_maps: int) -> Bound:
    """Return the fewest parameters with which a network of limited depth could hold every labelling of N = `n_samples` sequences,
    each consisting of equal tokens.

    It is about N / (L log N), where no path through the network has more than L = `n_maps` affine maps. A block of eq. (4) has four
    (two in attention, two in the feed-forward part), and E_in and E_out have one each. This follows from Theorem 4.2 with Theorem 7
    of Bartlett et al. (2019).
    """
    value = 0
    if n_samples:
        enough = smallest(lambda w: depth_limited_vc_dimension(w, n_maps) >= n_samples)
        value = min(n_samples, enough)
    theorem = KS25.theorem(f"Theorem 4.2 with {n_maps} maps", "KS25-T4.2", BY_BARTLETT)
    quantity = f"parameters of a network with at most {n_maps} affine maps on each path"
    inputs = f"{spell(n_samples)} sequences of equal tokens"
    sentence = _to_hold(f"a network with at most {spell(n_maps)} affine maps on each path", inputs, value)
    return theorem.bound(quantity, "lower", value, (SHATTERED, CONSTANT, REAL), sentence)


@realises("KS25-T4.3", "KS25-T B.3")
@takes_sizes(n_outputs=0)
def theorem_4_3(n_samples: int, seq_len: int, n_outputs: int | None = None) -> Bound:
    """With hard attention, at least Ω(√(nN / log nN)) parameters are needed; here with an explicit constant.

    Source:    KS25 Theorem B.3. Its proof bounds the number of sign patterns of all outputs by (48 e n³ N)^W̄ (equation 94),
               for N = `n_samples` sequences of n = `seq_len` tokens. If `n_outputs` outputs take all 2^n_outputs patterns, then
               W̄ log2(48 e n³ N) >= n_outputs. By (96), the exponent W̄ is at most W + 2 L W for W parameters and L layers.
               Every layer has at least two parameters, so L <= W / 2 and

                   n_outputs <= (W² + W) log2(48 e n³ N).

               (Lemma B.4 requires at least as many polynomials as variables. If there are fewer, W > n_outputs.)
    Departs:   `n_outputs` is nN in the paper (the default). The same count bounds any set of outputs, so it
               also applies to next-token prediction (N outputs) and to data with repeated contexts. The
               parameters of a block are counted as 4msH + 2mq + q + m (see `BlockShape`), because (92) drops m when q < m.
               Blocks may also differ in shape. A head has at least 4 parameters and a hidden unit at least 3, so the sum in (93) is
               still at most 2 L W. With W̄ <= W + 2 L W, the base of the power in (94) stays below 48 e n³ N.
    """
    n_outputs = n_samples * seq_len if n_outputs is None else n_outputs
    if n_outputs > n_samples * seq_len:
        raise ImpossibleSize(
            f"n_outputs is {n_outputs}; it must be at most n_samples x seq_len = {n_samples * seq_len}",
            n_outputs=n_outputs,
        )
    value = 0
    if n_outputs:
        logarithm = log2_e_times(48 * seq_len**3 * n_samples).high
        value = min(n_outputs, smallest(lambda w: (w * w + w) * logarithm >= n_outputs))
    sentence = _to_hold("a hard-attention Transformer", f"{spell(n_outputs)} distinct contexts", value)
    return THEOREM_4_3.bound("parameters", "lower", value, (SHATTERED, HARD, REAL), sentence)


@dataclass(frozen=True)
class BlockShape:
    """The sizes, except the depth, of a Transformer as defined in eq. (4) of the paper.

    d is the dimension of tokens, m that of the residual stream, s the head size, H the number of heads, and q the hidden width.
    """

    dim: int
    model_width: int
    head_size: int
    n_heads: int
    hidden_width: int

    def __post_init__(self) -> None:
        require_sizes(1, **vars(self))

    @property
    def block_parameters(self) -> int:
        """The number of parameters of a block, 4msH + 2mq + q + m: four matrices per head, and two layers with biases.

        m is the dimension of the residual stream, s the head size, H the number of heads, and q the hidden width.
        """
        m, q = self.model_width, self.hidden_width
        return 4 * m * self.head_size * self.n_heads + 2 * m * q + q + m

    def parameters(self, depth: int) -> int:
        """Return the number of all parameters: m·d in E_in, those of `depth` blocks, and m in E_out.

        m is the dimension of the residual stream, and d that of tokens.
        """
        return self.model_width * self.dim + depth * self.block_parameters + self.model_width


@realises("KS25-T B.3")
@takes_sizes()
def log2_hard_attention_patterns(shape: BlockShape, depth: int, n_samples: int, seq_len: int) -> Fraction:
    """Return an upper bound on log2 K, where K is the number of sign patterns that nN outputs take as the parameters vary.

    N = `n_samples`, n = `seq_len` and L = `depth`. Equation (90) of the paper bounds K. Its third line is computed in closed form:
    over the layers l = 1, ..., L, the sum of 8l - 4 is 4L², and the sum of 4l is 2L(L + 1). For L <= 16, the product in the second
    line is also computed, and the smaller result is returned. If there are more parameters than outputs, (90) does not
    apply. The result is then nN·log2(3), because each sign is -1, 0 or 1. No lower bound on the size follows from it.
    """
    n_outputs, total = n_samples * seq_len, shape.parameters(depth)
    if n_outputs < total:
        return n_outputs * log2(3).high
    attention = 2 * shape.model_width * shape.head_size * shape.n_heads
    hidden = (shape.model_width + 1) * shape.hidden_width
    base = shape.model_width * shape.dim
    comparisons = seq_len**3 * shape.n_heads * n_samples
    units = n_outputs * shape.hidden_width
    below = depth * base + shape.block_parameters * (depth * (depth - 1) // 2)  # sum of W_{l-1}
    exponent = total + 2 * below + depth * (2 * attention + hidden)
    polynomials = n_outputs * (4 * depth + 2) + comparisons * 4 * depth**2 + units * 2 * depth * (depth + 1)
    closed = exponent * log2_e_times(Fraction(8 * polynomials, exponent)).high
    if depth > _SUMMED_LAYERS:
        return closed
    product = log2_sign_patterns(n_outputs, 4 * depth + 2, total)
    for layer in range(1, depth + 1):
        earlier = base + (layer - 1) * shape.block_parameters
        product += log2_sign_patterns(comparisons, 8 * layer - 4, earlier + attention)
        product += log2_sign_patterns(units, 4 * layer, earlier + attention + hidden)
    return min(closed, product)


@realises("KS25-T4.3")
@takes_sizes()
def theorem_4_3_depth(shape: BlockShape, n_samples: int, seq_len: int) -> Bound:
    """Return the fewest blocks of this shape that could hold every labelling of nN distinct tokens, by equation (90).

    There are N = `n_samples` sequences of n = `seq_len` tokens.
    """
    n_outputs = n_samples * seq_len

    def could(depth: int) -> bool:
        if shape.parameters(depth) > n_outputs:
            return True
        return log2_hard_attention_patterns(shape, depth, n_samples, seq_len) >= n_outputs

    value = smallest(could)
    theorem = KS25.theorem("Theorem 4.3 for this shape", "KS25-T4.3", "Theorem B.3, eq. (90)")
    assumptions = (SHATTERED, HARD, REAL, "all nN tokens are distinct")
    sentence = (
        f"Hard-attention blocks of this shape must be stacked at least {value} deep "
        f"({shape.parameters(value)} parameters) to hold every labelling of {n_outputs} distinct tokens."
    )
    return theorem.bound("blocks", "lower", value, assumptions, sentence)
