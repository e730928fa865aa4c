"""Convert the hash of a key to the address of its label: table rows, channels (the words of a row), and the plane (a bit field of a
word).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from jaxtyping import Int, UInt8, UInt64


@dataclass(frozen=True, eq=False)
class Addresses:
    """For each key, the address of its label.

    rows      the row in each table
    patterns  the channels (words of a row) that the key uses in these rows: one bit for each channel, 64 bits per machine word
    planes    for each kind of label field, the plane (bit field of a word) that the key reads: first the kind that every label
              uses, then the kinds that only rarer labels use
    """

    rows: Int[np.ndarray, "n_keys n_segments"]
    patterns: UInt64[np.ndarray, "n_keys n_segments n_pattern_words"]
    planes: Int[np.ndarray, "n_keys n_kinds"]

    @property
    def n_duplicates(self) -> int:
        """The number of keys with the same rows, channels and first plane (bit field of a word) as an earlier key.

        The equations of two such keys are about the same bits of the same sum of words. Planes that only rarer labels use are not
        compared.
        """
        n_keys, n_segments, n_words = self.patterns.shape
        flat = self.patterns.reshape(n_keys, n_segments * n_words).view(np.int64)
        columns = np.ascontiguousarray(np.concatenate([self.planes[:, :1], self.rows, flat], axis=1))
        mixed = columns.astype(np.uint64) @ _ODD[: columns.shape[1]]  # equal rows have equal sums modulo 2^64
        order = np.argsort(mixed, kind="stable")
        same = mixed[order[1:]] == mixed[order[:-1]]
        left, right = columns[order[:-1][same]], columns[order[1:][same]]
        return int((left == right).all(axis=1).sum())


_ODD = np.random.default_rng(17).integers(0, 2**63, size=4096, dtype=np.uint64) * np.uint64(2) + np.uint64(1)


@dataclass(frozen=True)
class ChannelPatterns:
    """Channels (the words of a table row) divided into groups. A key has one digit per group. Each digit selects one channel of its
    group or, except in the first group, none.

    groups   the number of channels of each group
    choices  the number of values of each group's digit
    """

    groups: Sequence[int]
    choices: Sequence[int]

    def bits(
        self, numbers: Int[np.ndarray, " n_keys"], taken: Sequence[int]
    ) -> UInt8[np.ndarray, "n_keys n_bits"]:
        """Return one bit for each key and channel: 1 if the key selects the channel, else 0.

        Only channels of the groups `taken` are selected. A key's number has one digit for each of these groups, in the order
        of `taken`, starting with the highest digit. Zeros are appended to make the number of bits a multiple of 64.
        """
        channels = np.zeros((len(numbers), -(-sum(self.groups) // 64) * 64), dtype=np.uint8)
        first_channel = np.concatenate([[0], np.cumsum(self.groups)])
        rest = numbers.copy()
        weight = prod(self.choices[g] for g in taken)
        for group in taken:
            weight //= self.choices[group]
            digit, rest = rest // weight, rest % weight
            chosen = digit + first_channel[group] - (group > 0)
            is_one = (digit > 0) | (group == 0)
            channels[np.flatnonzero(is_one), chosen[is_one]] = 1
        return channels


def pack_bits(bits: np.ndarray) -> UInt64[np.ndarray, "n_keys n_pattern_words"]:
    """Pack the bits of each key into machine words, 64 channels per word."""
    return np.packbits(bits, axis=1, bitorder="little").view(np.uint64)


def step_rows(
    rows: Int[np.ndarray, " n_keys"], steps: Int[np.ndarray, " n_keys"], shard_rows: int
) -> Int[np.ndarray, " n_keys"]:
    """Return the next row of each key, `steps` rows after its current one.

    A step that would leave the key's shard (its range of rows) is reflected back into the shard, so that uniformly distributed
    rows stay nearly uniform.
    """
    local = rows % shard_rows
    stepped = local + steps
    stepped = np.where(stepped < 0, -1 - stepped, stepped)
    turned = np.where(stepped >= shard_rows, 2 * shard_rows - 1 - stepped, stepped)
    return np.asarray(rows - local + turned)
