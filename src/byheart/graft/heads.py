"""Design heads that read the token at a fixed distance, using the host's own rotary frequencies. Design layers of such heads, which
gather the last tokens of a text.

Rotary position encoding takes the entries of queries and keys in pairs, as complex numbers, and turns each pair with its own
frequency f. All heads use the n_pairs fastest frequencies; the other pairs are 0. In the pair of frequency f, the head for
distance j has the query A·e^(-i·f·j), where the number A is its amplitude, and the key 1. So its score at distance D is
A·Σ_f cos(f·(D - j)).

Let m be `Kernel.margin`·n_pairs·A. The score at D = j is larger by at least m than at any other distance. The score at D = j - 1 is
larger by at least m than at any distance below j - 1. The second property matters at the beginning of a text (see
`contexts.check_beginnings`).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np

from byheart.errors import AssumptionViolated

NATS = 1000.0
"""Before rounding, the attention score of the right position exceeds every other score by at least this amount. A lead of 104
would be enough in a softmax, because exp(-104) is 0 in float32.
"""

LEAST_MARGIN = 0.04
"""The smallest margin allowed (see `Kernel`).

Rounding to bfloat16 changes a score by less than 0.02 times the highest score (cosines, queries and keys change by 2^-9 each, in
either direction).
"""

MOST_PAIRS = 24


@dataclass(frozen=True)
class Kernel:
    """The rotary frequencies that heads use, and the margin of their scores.

    The highest score of a head exceeds every other score by at least `margin` times the highest score.
    """

    frequencies: tuple[float, ...]
    margin: float

    def amplitude(self, head_dim: int, scaling: float) -> float:
        """Return the factor by which all queries are multiplied. With it, the score of the right position exceeds every other score
        by at least `NATS`.

        Attention divides scores by √head_dim, and YaRN, a method of rotary scaling, multiplies both queries and keys by `scaling`.
        """
        return NATS * sqrt(head_dim) / (self.margin * len(self.frequencies) * scaling**2)

    def query(self, distance: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the two halves of a head's query, with amplitude 1. The head reads the token `distance` positions earlier."""
        angles = np.array(self.frequencies) * distance
        return np.cos(angles), -np.sin(angles)


def choose_kernel(frequencies: np.ndarray, max_positions: int, longest: int) -> Kernel:
    """Choose how many of the rotary `frequencies` (fastest first) the heads use, so that their margin is as large as possible.

    The score of the position that a head must read exceeds every other score by at least the margin, which is a fraction of this
    highest score. Texts have up to `max_positions` tokens, and heads read up to `longest` tokens back. Raise an error if the
    largest possible margin is below `LEAST_MARGIN`.

    Linear rotary scaling by a factor s divides all frequencies by s, so that they are at most 1/s. Then the scores at neighbouring
    positions differ by at most 1 - cos(1/s) of the highest score, which is below `LEAST_MARGIN` from s = 3.53 on.
    """
    distances = np.arange(max(max_positions, longest + 2))
    total = np.zeros(len(distances))
    best = Kernel((), 0.0)
    for n, frequency in enumerate(frequencies[:MOST_PAIRS], start=1):
        total += np.cos(frequency * distances)
        peak = n - total[1:].max()
        second = total[1] - total[2 : longest + 1].max(initial=-np.inf)
        margin = float(min(peak, second)) / n
        if margin > best.margin:
            best = Kernel(tuple(map(float, frequencies[:n])), margin)
    if best.margin < LEAST_MARGIN:
        raise AssumptionViolated(
            f"the rotary frequencies of this host do not distinguish {max_positions:,} distances: the score "
            f"of the token to read exceeds other scores by only {best.margin:.3f} of its value, but {LEAST_MARGIN} is needed.\n"
            "  Choose a host whose heads have more entries (24 are usually enough) and whose rotary frequencies are not "
            "scaled linearly, or only by a small factor: 2 is often possible, 4 never. No option changes this.",
            margin=best.margin,
        )
    return best


@dataclass(frozen=True)
class Gather:
    """What the heads of one layer read.

    The layer has one head for each of the `distances`. A head with distance d reads the position d tokens back. This position
    already holds some gathered tokens: its own token and those just before it. The head copies the last `n_copied` of them.
    """

    distances: tuple[int, ...]
    n_copied: int


def plan_gathers(window: int, n_heads: int, most_copied: int) -> tuple[Gather, ...]:
    """Plan layers of at most `n_heads` heads that gather the last `window` tokens.

    Each head copies at most `most_copied` tokens.

    Suppose that every position has gathered the tokens at the offsets 0 to n - 1 (offset j is j tokens back). The next layer
    chooses some k <= n. It reads the positions that are n, n + k, n + 2k, ... tokens back. From each of them, it copies a block:
    the tokens that this position has gathered at the offsets 0 to k - 1. The first of these is the position's own token.
    Together, the blocks are the tokens at the offsets n, n + 1, ... without gaps.
    """
    gathers, known = [], 1
    while known < window:
        copied = min(known, most_copied)
        distances = tuple(range(known, window, copied))[:n_heads]
        gathers.append(Gather(distances, copied))
        known += copied * len(distances)
    return tuple(gathers)
