"""Kajitsuka & Sato (2025): sizes that suffice according to the theorems, with all constants.

Notation in the docstrings:

    N  n_samples      n  seq_len      C  n_classes      d  dim      r  radius      δ  separation of tokens

The module `lookup` gives the depths and bits of the parts, which are added up as in the proofs. Two steps of the proofs had to be
repaired, which does not raise the depths or the bits. First, the proof of Lemma B.2 is replaced by one whose weights are far below
4N³√π. Second, W_O W_V is multiplied by n, so that attention sums instead of averaging. The weights of these matrices then have
⌊log2 n⌋ + 1 bits, so they are never the longest weights. As in the paper, feed-forward layers are counted without skip connections.
The models that we build do have skip connections, and `network.size` counts these models as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from byheart.bounds.bound import KS25, Bound, Theorem, spell
from byheart.bounds.enclosures import Real, floor_log2
from byheart.bounds.lookup import (
    LookupSize,
    Points,
    RootOfPi,
    batched_lookup_size,
    dense_parameters,
    lookup_size,
    normalise,
)
from byheart.bounds.sizes import takes_sizes
from byheart.theorems import realises

THEOREM_4_1 = KS25.theorem(
    "Theorem 4.1", "KS25-T4.1", "Theorem 4.1 in the form of Theorem B.1, eqs. (61), (110), (111)"
)
COROLLARY_4_1 = KS25.theorem("Corollary 4.1", "KS25-C4.1", "Corollary 4.1: Theorem B.1 for nN sequences")
THEOREM_D_1 = KS25.theorem("Theorem D.1", "KS25-T D.1", "Theorem D.1, eqs. (113)-(126)")
THEOREM_E_1 = KS25.theorem("Theorem E.1", "KS25-T E.1", "Theorem E.1, eqs. (127)-(135)")
THEOREM_F_1 = KS25.theorem("Theorem F.1", "KS25-T F.1", "Theorem F.1 and Lemma F.1, eqs. (136)-(150)")
SEPARATED = "tokens have norm at most r and distinct tokens differ by at least δ (Assumption 4.1)"
CONSISTENT = "equal contexts carry equal labels"
NO_SKIP = "feed-forward parts of any depth, without skip connections, with weights of unlimited precision"


@dataclass(frozen=True)
class TheoremSize:
    """The size that suffices by a theorem: width, depth in layers, number of parameters and bits of the longest weight.

    The parameters include those that are zero. `weight_bits` is 0 if the theorem needs real numbers as weights.
    """

    theorem: Theorem
    width: int
    depth: int
    parameters: int
    weight_bits: int
    assumptions: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.theorem.name

    @property
    def total_bits(self) -> int:
        """The bits of the whole model as the paper measures them: number of parameters times bits of the longest weight."""
        return self.parameters * self.weight_bits

    def parameter_bound(self) -> Bound:
        """Return an upper bound on the number of parameters that memorising needs."""
        sentence = f"By {self.name}, {spell(self.parameters)} parameters suffice."
        return self.theorem.bound("parameters", "upper", self.parameters, self.assumptions, sentence)

    def bounds(self) -> tuple[Bound, ...]:
        """Return four upper bounds on what memorising needs: parameters, depth at this width, bits per weight and bits in all."""
        width, bits, total = self.width, self.weight_bits, self.total_bits
        numbers = (
            ("parameters", self.parameters, f"{spell(self.parameters)} parameters suffice"),
            (f"depth at width {width}", self.depth, f"{spell(self.depth)} layers of width {width} suffice"),
            ("bits per weight", bits, f"weights of at most {spell(bits)} bits suffice"),
            ("bits", total, f"{spell(total)} bits in all suffice"),
        )
        said = f"By {self.name}, {{}} to memorise every data set that meets the assumptions."
        return tuple(
            self.theorem.bound(quantity, "upper", value, self.assumptions, said.format(words))
            for quantity, value, words in numbers
        )


@realises("KS25-T4.1", "KS25-T B.1")
@takes_sizes()
def theorem_4_1(
    n_samples: int, seq_len: int, n_classes: int, dim: int, radius: Real = 1, separation: Real = 1
) -> TheoremSize:
    """Return the size that Theorem 4.1 (in full, B.1) guarantees for next-token prediction, with its constants.

    Source:   KS25 Theorem B.1. Width 14. The depth is the sum of the depths of both feed-forward parts, plus one for attention
              (equation 61). Equation (110) gives the depth of each part, and equation (111) its bits. Both equations use a range R
              and a number C of values: R₁ = 20 r (nN)² δ⁻¹ √(πd) and C₁ = ⌈4N³√π⌉ in the first part, R₂ = 400 √(3d) n³ r N⁵ δ⁻¹ π
              and C₂ = `n_classes` in the second. Here N = `n_samples`, n = `seq_len`, d = `dim`, r = `radius` and δ =
              `separation`.
    Counts:   dense parameters: layers of 14 x 14 with bias (210 each), E_in (14 d), E_out (14) and the four
              14 x 14 matrices of one attention head (784).
    Assumes:  equal contexts have equal labels. Tokens have norm at most r, and distinct tokens are at least δ apart. Order does not
              matter: a sequence is a multiset with a marked last token.
    """
    points = _tokens_and_contexts(n_samples, seq_len, dim, radius, separation)
    return _size_of_two_lookups(THEOREM_4_1, points, n_samples, n_classes)


@realises("KS25-C4.1")
@takes_sizes()
def corollary_4_1(
    n_samples: int, seq_len: int, n_classes: int, dim: int, radius: Real = 1, separation: Real = 1
) -> TheoremSize:
    """Return the size that Corollary 4.1 guarantees for sequence-to-sequence prediction.

    It is the size that Theorem 4.1 gives for `n_samples` x `seq_len` sequences: one for each token of each sample, with this
    token marked as the last.
    """
    n_rows = n_samples * seq_len
    points = _tokens_and_contexts(n_rows, seq_len, dim, radius, separation)
    return _size_of_two_lookups(COROLLARY_4_1, points, n_rows, n_classes)


@realises("KS25-T F.1")
@takes_sizes()
def theorem_f_1(
    n_samples: int,
    seq_len: int,
    n_classes: int,
    dim: int,
    radius: Real = 1,
    separation: Real = 1,
    batch_root: int = 1,
) -> TheoremSize:
    """Return the size that Theorem F.1 guarantees for next-token prediction with short weights. The width is 15.

    The network looks up `batch_root`² points at a time; the paper calls this root B.
    """
    tokens, contexts = _tokens_and_contexts(n_samples, seq_len, dim, radius, separation)
    theorem = replace(THEOREM_F_1, name=f"{THEOREM_F_1.name} with B = {batch_root}")
    first = batched_lookup_size(tokens, n_samples, _id_count(n_samples), batch_root)
    second = batched_lookup_size(contexts, n_samples, n_classes, batch_root)
    return _transformer_size(theorem, 15, dim, first, second)


@realises("KS25-T D.1")
@takes_sizes()
def theorem_d_1(
    n_samples: int, seq_len: int, n_classes: int, dim: int, radius: Real = 1, separation: Real = 1
) -> TheoremSize:
    """Return the size that Theorem D.1 guarantees for deep sets, which compute ρ(Σ φ(x)). The width is 12.

    The depth is the sum of the depths of the network φ (equations 33 and 34) and the network ρ (equation 120). In ρ, the range of
    the projected sums is R = 80 M N⁵ π, where N is `n_samples`, and M = `seq_len` is the largest number of elements of a set. The
    parameters are those of dense 12 x 12 layers with bias for both networks, with their input maps and output rows.
    """
    r, delta = normalise(radius, separation)
    elements = Points(n_samples * seq_len, dim, r**2, 0, delta)
    sums = Points(n_samples, 1, Fraction(16 * seq_len**2 * n_samples**6), 1, Fraction(1))
    first = lookup_size(elements, n_samples, _id_count(n_samples))
    second = lookup_size(sums, n_samples, n_classes)
    return TheoremSize(
        THEOREM_D_1,
        width=12,
        depth=first.depth + second.depth,
        parameters=dense_parameters(12, first.depth, dim) + dense_parameters(12, second.depth, 1),
        weight_bits=max(first.weight_bits, second.weight_bits),
        assumptions=("distinct multisets, each with one label", SEPARATED, NO_SKIP),
    )


@realises("KS25-T E.1")
@takes_sizes()
def theorem_e_1(n_samples: int, seq_len: int, n_classes: int, vocab: int) -> TheoremSize:
    """Return the size that Theorem E.1 guarantees for token ids. The embedding has 3ω parameters, where ω = `vocab`.

    After the embedding come one attention head and one lookup, a ReLU network of width 12 that turns each context into its label.
    The embedding of token x is (f(x), x, 0). Attention combines the numbers f(x) into the sequence id. So contexts have norm at
    most 2⌈4N²√π min(ω, N)⌉ + ω and differ by at least 1/n, where N = `n_samples` and n = `seq_len`.

    Departs: the theorem expresses R, the range of the projected contexts, in terms of r and δ, which are not defined for token ids.
    Here R is taken from the proof.
    """
    n_weights = RootOfPi(Fraction(16 * n_samples**4 * min(vocab, n_samples) ** 2), 1).ceil()
    contexts = Points(n_samples, 3, Fraction(2 * n_weights + vocab) ** 2, 0, Fraction(1, seq_len))
    lookup = lookup_size(contexts, n_samples, n_classes)
    embedding_bits = max(floor_log2(n_weights), floor_log2(vocab)) + 1
    return TheoremSize(
        THEOREM_E_1,
        width=12,
        depth=lookup.depth + 1,
        parameters=3 * vocab + 4 * 3**2 + dense_parameters(12, lookup.depth, 3),
        weight_bits=max(lookup.weight_bits, embedding_bits),
        assumptions=(CONSISTENT, NO_SKIP),
    )


def _tokens_and_contexts(
    n_samples: int, seq_len: int, dim: int, radius: Real, separation: Real
) -> tuple[Points, Points]:
    """Return the points that the two feed-forward parts of Theorem B.1 look up: first the tokens, then the contexts of
    equation 53.
    """
    r, delta = normalise(radius, separation)
    tokens = Points(n_samples * seq_len, dim, r**2, 0, delta)
    # (56): contexts have norm at most 20 r n² N³ δ⁻¹ √(πd); (55): they differ by at least 1/n
    square = 400 * r**2 * seq_len**4 * n_samples**6 * dim / delta**2
    return tokens, Points(n_samples, 3, square, 1, Fraction(1, seq_len))


def _id_count(n_samples: int) -> int:
    """Return C₁ = ⌈4N³√π⌉, the number of values of φ in equation 33, where N = `n_samples`."""
    return RootOfPi(Fraction(16 * n_samples**6), 1).ceil()


def _size_of_two_lookups(
    theorem: Theorem, points: tuple[Points, Points], n_stored: int, n_classes: int
) -> TheoremSize:
    """Return the size of the network of Theorem B.1, of width 14.

    The network looks up a number for each token, adds these numbers by attention, and looks up the resulting contexts. `points` are
    the tokens and the contexts. In each lookup, `n_stored` points have a value, and the others get 0.
    """
    tokens, contexts = points
    first = lookup_size(tokens, n_stored, _id_count(n_stored))
    second = lookup_size(contexts, n_stored, n_classes)
    return _transformer_size(theorem, 14, tokens.dim, first, second)


def _transformer_size(
    theorem: Theorem, width: int, dim: int, first: LookupSize, second: LookupSize
) -> TheoremSize:
    layers = first.depth + second.depth
    return TheoremSize(
        theorem,
        width=width,
        depth=layers + 1,
        parameters=dense_parameters(width, layers, dim) + 4 * width**2,
        weight_bits=max(first.weight_bits, second.weight_bits),
        assumptions=(CONSISTENT, SEPARATED, NO_SKIP),
    )
