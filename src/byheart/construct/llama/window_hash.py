"""A hash of the last tokens of a text. It is computed by SwiGLU blocks and by heads that each read one earlier token.

Every token has a few random numbers below 2^11, called its limbs. At each position, each level of the hash adds random multiples of
the limbs at earlier positions, and then folds each sum back into the range below 2^11. With H heads the first level covers H + 1
tokens, the second (H + 1)², and so on, so the number of layers grows with the logarithm of the window. The sums are linear, but the
folds between them are not, and each level has its own coefficients for every limb and offset. So windows that differ in one token,
in the order of two tokens, or in their length get the same hash only by chance. Positions before the beginning count as the first
token.

Fold:  `mirror` reflects x at 0, m, 2m, ...: one unit per reflection, values 0 to m.
       `spread` reflects x between integers, at -1/2, m - 1/2, ...: two units per reflection, values 0 to m - 1. A uniform x
       stays uniform.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import no_type_check

import numpy as np
from jaxtyping import Bool, Int
from numba import njit

LIMB = 2047
"""The largest value of a limb (a part of the hash). A float16 cache stores integers up to 2^11 exactly."""
N_VALUES = LIMB + 1
N_LIMBS = 5
"""The hash has one limb for each of three table rows, one for the table column (channel), and one for the fingerprint, which
identifies the context: 55 bits in all."""


@dataclass(frozen=True, eq=False)
class WindowHash:
    """The random choices of a hash.

    codes         the limbs of each token, which are random numbers
    offsets       for each level of the hash, the distances of the earlier positions that it adds
    coefficients  for each level, the factors of the limbs at these positions
    folds         for each level, the largest value of each limb after its sum is folded into range
    """

    codes: Int[np.ndarray, "n_vocab n_limbs"]
    offsets: tuple[tuple[int, ...], ...]
    coefficients: tuple[Int[np.ndarray, "n_limbs n_heads n_limbs"], ...]
    folds: tuple[tuple[int, ...], ...]

    def limbs(
        self,
        ids: Int[np.ndarray, " n_tokens"],
        starts: Int[np.ndarray, " n_tokens"],
        asked: Bool[np.ndarray, " n_tokens"],
    ) -> Int[np.ndarray, "n_asked n_limbs"]:
        """Compute the limbs (hash values) of the windows that end at the tokens `asked`, in concatenated texts. `starts` holds, for
        each token, the position at which its text begins.
        """
        state = self.codes.astype(np.int32)[ids]
        here = np.arange(len(ids))
        for level, (offsets, coefficients, folds) in enumerate(
            zip(self.offsets, self.coefficients, self.folds, strict=True)
        ):
            if level == len(self.offsets) - 1:
                here = np.flatnonzero(asked)
            state = _hash_level(
                state, here, starts, np.array(offsets), coefficients.astype(np.int32), np.array(folds)
            )
        return np.asarray(state, dtype=np.int64)

    def largest(self, level: int) -> list[int]:
        """For each limb (one of the numbers of a hash), return the largest sum that it can reach at this level before it is
        folded (reflected into a smaller range).
        """
        before = self.folds[level - 1] if level else (LIMB,) * N_LIMBS
        totals = (self.coefficients[level] * np.array(before)).sum((1, 2))
        return [int(total) + own for total, own in zip(totals, before, strict=True)]


@njit(cache=True, nogil=True)
@no_type_check
def mirror(x, m):
    """Fold x >= 0 into the range 0 to m, with reflections at 0 and m."""
    return m - abs(x % (2 * m) - m)


@njit(cache=True, nogil=True)
@no_type_check
def _hash_level(state, here, starts, offsets, coefficients, folds):
    """Return the limbs (hash values) at the positions `here` after one more level."""
    found = np.empty((len(here), N_LIMBS), dtype=np.int32)
    for i in range(len(here)):
        at = here[i]
        for limb in range(N_LIMBS):
            found[i, limb] = state[at, limb]
        for head in range(len(offsets)):
            source = max(at - offsets[head], starts[at])
            for limb in range(N_LIMBS):
                for k in range(N_LIMBS):
                    found[i, limb] += coefficients[limb, head, k] * state[source, k]
        for limb in range(N_LIMBS):
            found[i, limb] = mirror(found[i, limb], folds[limb])
    return found


def spread(x: np.ndarray, m: int) -> np.ndarray:
    """Fold x >= 0 into the range 0 to m - 1, with reflections at -1/2 and m - 1/2."""
    y = x % (2 * m)
    return np.where(y < m, y, 2 * m - 1 - y)


def level_offsets(window: int, n_heads: int) -> tuple[tuple[int, ...], ...]:
    """For each level (round) of the hash, return `n_heads` offsets: the distances to the earlier tokens whose values it adds. All
    levels together cover exactly `window` tokens.

    In addition, every level keeps each token's own value (offset 0).
    """
    levels: list[tuple[int, ...]] = []
    covered = 1
    while covered < window or not levels:
        following = min(window, covered * (n_heads + 1))
        levels.append(tuple(min(j * covered, following - covered) for j in range(1, n_heads + 1)))
        covered = following
    return tuple(levels)


def draw_hash(
    n_vocab: int, window: int, n_heads: int, n_units: int, last_folds: Sequence[int], rng: np.random.Generator
) -> WindowHash:
    """Draw a hash in which every level needs at most `n_units` hidden units.

    At each level, every limb (one of the numbers of the hash) becomes a sum of limbs of several tokens. Then a fold (reflections
    by hidden units) brings the sum back into the range of a limb. `last_folds` holds the largest value of each limb after the
    last level.
    """
    offsets = level_offsets(window, n_heads)
    coefficients, folds = [], []
    before: Sequence[int] = (LIMB,) * N_LIMBS
    for level in range(len(offsets)):
        after = tuple(last_folds) if level == len(offsets) - 1 else (LIMB,) * N_LIMBS
        coefficients.append(_draw_level(n_heads, n_units // N_LIMBS, before, after, rng))
        folds.append(after)
        before = after
    codes = rng.integers(0, LIMB + 1, (n_vocab, N_LIMBS))
    return WindowHash(codes, offsets, tuple(coefficients), tuple(folds))


def n_turns(largest: int, m: int) -> int:
    """Return how many positive multiples of m are below `largest`. At each of them, `mirror` changes direction."""
    return max(0, -(-largest // m) - 1)


def _draw_level(
    n_heads: int, n_units: int, before: Sequence[int], after: Sequence[int], rng: np.random.Generator
) -> np.ndarray:
    """Draw the random coefficients with which each limb (number of the hash) adds limbs at earlier positions.

    All coefficients are zero at first. Then one random coefficient at a time is increased by 1, until the fold (the reflections
    that bring the sum back into range) would need more than `n_units` units for this limb, or each head had 64 turns. The heads
    take turns, so every head is used if there are enough units. `Layout` requires at least three units for each head.
    """
    chosen = np.zeros((N_LIMBS, n_heads, N_LIMBS), dtype=np.int64)
    for limb in range(N_LIMBS):
        largest = before[limb]
        place = np.concatenate([rng.permutation(n_heads) + n_heads * k for k in range(64)]) % n_heads
        for head in place:
            source = int(rng.integers(N_LIMBS))
            if n_turns(largest + before[source], after[limb]) > n_units:
                break
            chosen[limb, head, source] += 1
            largest += before[source]
    return chosen
