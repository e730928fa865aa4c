"""Design heads that read the token at a fixed distance, using the host's own rotary frequencies. Design layers of such heads, which
gather the last tokens of a text.

Rotary positions turn pairs of entries of queries and keys, each pair with its own frequency f. The head for distance j uses the
n_pairs fastest frequencies. In their pairs, its query is A·e^(-i·f·j), where A is its amplitude, and its key is 1. Its score at
distance D is A·Σ_f cos(f·(D - j)). The score at D = j exceeds that at every other distance by at least `Kernel.margin`·n_pairs·A,
and the score at D = j - 1 exceeds those at all smaller distances by at least as much. The second property matters at the beginning
of a text (see `contexts.check_beginnings`).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np

from byheart.errors import AssumptionViolated

NATS = 1000.0
"""How much the attention score of the right position exceeds every other score, before rounding. A lead of 104 would be enough in a
softmax, because exp(-104) is 0 in float32.
"""

LEAST_MARGIN = 0.04
"""The smallest margin allowed. A margin is how much the highest score of a head exceeds every other, as a fraction of the highest.

Rounding to bfloat16 changes a score by less than 0.02 of the highest (cosines, queries and keys by 2^-9 each, in either direction).
"""

MOST_PAIRS = 24


@dataclass(frozen=True)
class Kernel:
    """The rotary frequencies that heads use, and their margin: the lead of the highest score over every other, as a fraction of the
    highest.
    """

    frequencies: tuple[float, ...]
    margin: float

    def amplitude(self, head_dim: int, scaling: float) -> float:
        """Return the factor by which all queries are multiplied, so that the score of the right position exceeds every other score
        by `NATS`.

        Attention divides scores by √head_dim, and YaRN, a method of rotary scaling, multiplies both queries and keys by `scaling`.
        """
        return NATS * sqrt(head_dim) / (self.margin * len(self.frequencies) * scaling**2)

    def query(self, distance: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the two halves of a head's query, with amplitude 1. The head reads the token `distance` positions earlier."""
        angles = np.array(self.frequencies) * distance
        return np.cos(angles), -np.sin(angles)


def choose_kernel(frequencies: np.ndarray, max_positions: int, longest: int) -> Kernel:
    """Choose how many of the rotary `frequencies` (fastest first) the heads use, so that the score of the position that a head must
    read exceeds every other score by as much as possible.

    Texts have up to `max_positions` tokens, and heads read up to `longest` tokens back. Raise an error if no choice has the margin
    `LEAST_MARGIN`.
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
            "  Choose a host whose heads have at least 16 entries. No option changes this.",
            margin=best.margin,
        )
    return best


@dataclass(frozen=True)
class Gather:
    """What the heads of one layer read.

    For each of the `distances`, the layer reads the position that many tokens back. It copies the newest `n_copied` of the tokens
    that this position has gathered.
    """

    distances: tuple[int, ...]
    n_copied: int


def plan_gathers(window: int, n_heads: int, most_copied: int) -> tuple[Gather, ...]:
    """Plan layers of at most `n_heads` heads that gather the last `window` tokens.

    Each head copies at most `most_copied` tokens.

    Suppose that every position has gathered the tokens at the offsets 0 to n - 1 (offset j is j tokens back). The next layer
    chooses some k <= n. From each of the positions n, n + k, n + 2k, ... tokens back, it copies what was gathered there at the
    offsets 0 to k - 1. Each of these positions gives one block, and together the blocks give the offsets n, n + 1, ... without
    gaps. The first token of each block is the token at that position itself.
    """
    gathers, known = [], 1
    while known < window:
        copied = min(known, most_copied)
        distances = tuple(range(known, window, copied))[:n_heads]
        gathers.append(Gather(distances, copied))
        known += copied * len(distances)
    return tuple(gathers)
