"""Data with one vector or one token per sample, for associative memories and for the feed-forward constructions before KS25."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from byheart.data.assumption import Assumption
from byheart.data.dataset import Dataset, Task
from byheart.data.shape import DataShape
from byheart.errors import AssumptionViolated
from byheart.network.attention_only.architecture import AttentionOnly
from byheart.program.blocks import TokenTable
from byheart.program.distinct_tokens import DistinctTokens, distinct_tokens, table_of_shape

TASKS: tuple[Task, ...] = ("next-token", "set")


@dataclass(frozen=True, eq=False)
class LabelledVectors:
    """The distinct samples of a data set, and the label of each: its class number plus 1."""

    tokens: DistinctTokens
    labels: tuple[int, ...]

    def __len__(self) -> int:
        return self.tokens.points.n_points


def require_single(method: str, seq_len: int) -> None:
    if seq_len > 1:
        raise AssumptionViolated(
            f"{method} memorises one vector per sample, but these samples have up to {seq_len} tokens.\n"
            "  It has no attention, so it sees each token alone. Choose a construction with attention, such as "
            "kajitsuka-sato-2025,\n  or join the tokens of each sample into one vector.",
            method=method,
            seq_len=seq_len,
        )


def labelled_vectors(method: str, data: Dataset) -> LabelledVectors:
    """Return the distinct samples of `data` with their labels.

    Raises `AssumptionViolated` if a sample has more than one token.
    """
    require_single(method, data.seq_len)
    data.require_finite()
    data.require_consistent()
    tokens = distinct_tokens(replace(data, ordered=False))  # a single token has no order
    labels = np.zeros(tokens.points.n_points, dtype=np.int64)
    labels[tokens.sequences[:, -1]] = data.labels + 1
    return LabelledVectors(tokens, tuple(labels.tolist()))


def assume_single(data: Dataset, vectors: LabelledVectors) -> tuple[Assumption, Assumption]:
    """Return the assumptions of the feed-forward constructions, with the values found in the data."""
    delta = vectors.tokens.separation.delta
    apart = "no distance to another" if delta is None else f"smallest distance: {delta:.6g}"
    return (
        Assumption("one vector per sample", True, f"samples of one token: {data.n_samples}"),
        Assumption("equal samples carry equal labels", True, f"distinct samples: {len(vectors)}, {apart}"),
    )


def outline_table(method: str, shape: DataShape) -> TokenTable | None:
    """Return the table that maps single tokens of this shape to their vectors; None if the inputs are vectors already.

    Raises `AssumptionViolated` if samples have more than one token.
    """
    require_single(method, shape.seq_len)
    return table_of_shape(replace(shape, ordered=False))


def expected_line_bits(shape: DataShape) -> int:
    """Return the expected number of bits of the largest value, once every sample is mapped to a number.

    If samples are token ids, the numbers are those of `line_table`. For N random points, which are projected to a line, the largest
    number is about N².
    """
    if shape.vocab is not None:
        return (2 * shape.vocab).bit_length()
    return 2 * shape.n_samples.bit_length() + 1


def require_one_token(method: str, shape: DataShape) -> tuple[int, int]:
    """Return the number of token ids and the number of distinct tokens to store.

    Raises `AssumptionViolated` if samples are vectors or have more than one token.
    """
    if shape.vocab is None:
        raise AssumptionViolated(
            f"{method} embeds token ids, but these inputs are vectors.\n"
            "  Choose a construction for one vector per sample, such as two-layer-relu.",
            method=method,
        )
    if shape.seq_len > 1:
        raise AssumptionViolated(
            f"{method} associates one token with one label, but these samples have up to {shape.seq_len} tokens.\n"
            "  Choose a construction that mixes tokens, such as dana-2024, or make each sample one token.",
            method=method,
            seq_len=shape.seq_len,
        )
    return shape.vocab, shape.context_count


def count_wrong(network: AttentionOnly, tokens: np.ndarray, next_tokens: np.ndarray) -> int:
    """Count the tokens for which the network, computed in floats, does not answer with the entry of `next_tokens`."""
    return int((network.compute_logits(tokens[:, None]).argmax(axis=1) != next_tokens).sum())
