"""Exact evaluation of a network on many sequences at once.

It computes the same numbers as `equations`. Two optimisations change no value:

- *Numbers in columns.* A channel over all tokens is one array of exact fixed-point numbers (`limbs`).
- *Equal tokens once.* Each channel has a `Partition`, which puts tokens into one group if the channel is known to have the same
  value at all of them. The channel is computed once per group. KS25's construction also divides its keys into groups, and the
  long numbers depend only on the group of a key. So ten thousand samples in a few hundred groups cost hardly more than a few
  hundred samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from byheart.network.exact.columns import ONE, Column, Partition, distinct, linear, linear_distinct, terms_of
from byheart.network.exact.dyadic import ZERO, Weights, as_sparse
from byheart.network.exact.limbs import Fixed, divide, segment_sums
from byheart.network.transformer.architecture import Attention, Embedding, FeedForward, Layer, Transformer
from byheart.network.transformer.equations import NotExact, exact_outputs
from byheart.network.transformer.interpreter import Interpreter
from byheart.network.transformer.needed_tokens import Mixing, Needed, needed_tokens, positions_of
from byheart.process.progress import Progress, report


@dataclass(frozen=True, eq=False)
class ExactValues:
    """An array that stores each distinct number once: entry i is `distinct[index[i]]`."""

    distinct: list[Fraction]
    index: np.ndarray  # (n_samples,) or (n_samples, n_tokens)

    def all(self) -> list[Fraction]:
        return [self.distinct[i] for i in self.index.ravel()]


def evaluate(
    network: Transformer,
    encoded: np.ndarray,
    *,
    last_only: bool = False,
    progress: Progress | None = None,
) -> ExactValues:
    """Return the first output of `network` at every token, or only at the last token of each sequence.

    `encoded` holds token ids (n_samples, seq_len) or vectors (n_samples, seq_len, dim). Raises `NotExact` for softmax of unequal
    scores. Some networks are evaluated with fractions (see `_one_by_one`). For all others, a mean that is not a dyadic rational
    (an integer divided by a power of two) also raises `NotExact`.
    """
    n_samples, seq_len = encoded.shape[:2]
    if n_samples == 0:
        return ExactValues([], np.zeros((0,) if last_only else (0, seq_len), dtype=np.int64))
    if any(isinstance(layer, Attention) and not _is_vectorised(layer) for layer in network.layers):
        return _one_by_one(network, encoded, last_only)
    rows = Partition(None, np.zeros(0, dtype=np.int64), n_samples * seq_len)
    tokens = _input_columns(network, encoded, rows)
    if network.extra is not None:
        seq_len += 1
        rows, tokens = _with_extra(network.extra, tokens, rows, seq_len)
    stream = [linear(rows, terms_of(row, tokens)) for row in as_sparse(network.w_in).rows()]
    needed = needed_tokens([_mixing(layer) for layer in network.layers], last_only=last_only)
    n_tokens = seq_len
    rows, stream, n_tokens = _keep(needed[0], stream, rows, n_tokens)
    for at, layer in enumerate(network.layers):
        if isinstance(layer, FeedForward):
            stream = _feed_forward(layer, stream, rows)
        elif isinstance(layer, Attention) and layer.kind == "hardmax":
            attended = _hard_attention(layer, stream, rows, n_tokens)
            if attended is None:
                return _one_by_one(network, encoded, last_only)
            stream = attended
        elif isinstance(layer, Attention):
            if layer.pattern == "gather" and needed[at + 1] == "last":
                layer = replace(layer, pattern="scatter")  # the last token reads the first
            stream = _uniform_attention(layer, stream, rows, n_tokens)
        else:
            rows, stream = _pool(stream, rows, n_tokens)
            n_tokens = 1
        rows, stream, n_tokens = _keep(needed[at + 1], stream, rows, n_tokens)
        report(progress, at + 1, len(network.layers))
    output = linear(rows, terms_of(as_sparse(network.w_out).rows()[0], stream))
    index = output.partition.index_of(rows).reshape(n_samples, n_tokens)
    if network.extra is not None and n_tokens > 1:
        index = index[:, 1:]
    return ExactValues(output.numbers.fractions(), index[:, 0] if last_only else index)


def _feed_forward(layer: FeedForward, stream: Sequence[Column], rows: Partition) -> list[Column]:
    biases = [dict(row).get(0, ZERO) for row in as_sparse(layer.b1).rows()]
    hidden = []
    for row, bias in zip(as_sparse(layer.w1).rows(), biases, strict=True):
        before = linear(rows, terms_of(row, stream), bias)
        hidden.append(Column(before.partition, before.numbers.relu()))
    updated = list(stream)
    shifts = [dict(row).get(0, ZERO) for row in as_sparse(layer.b2).rows()]
    for channel, (row, shift) in enumerate(zip(as_sparse(layer.w2).rows(), shifts, strict=True)):
        if row or shift != ZERO:
            change = linear_distinct(rows, terms_of(row, hidden), shift)
            updated[channel] = linear(rows, [(ONE, stream[channel]), (ONE, change)])
    return updated


def _uniform_attention(
    layer: Attention, stream: Sequence[Column], rows: Partition, n_tokens: int
) -> list[Column]:
    """Add Σ_h W_O W_V (1/n) Σ_k Z_k to every token of the residual stream Z, where Z_k is token k of n. Return the new stream.

    With the pattern `scatter`, Σ_h W_O W_V Z_1 is added to every token instead. With `gather`, it is added to every token except
    the first, which still receives the mean.
    """
    sequences = Partition(rows, np.arange(rows.n_groups) // n_tokens, rows.n_groups // n_tokens)
    updated = list(stream)
    for head in layer.heads:
        firsts, sums = [], []
        for row in as_sparse(head.value).rows():
            value = linear(rows, terms_of(row, stream))
            index = value.partition.index_of(rows)
            firsts.append(Column(sequences, value.numbers.take(index[::n_tokens])))
            if layer.pattern != "scatter":
                sums.append(Column(sequences, segment_sums(value.numbers, index, n_tokens)))
        for channel, row in enumerate(as_sparse(head.output).rows()):
            if row:
                if layer.pattern == "scatter":
                    change = distinct(linear(rows, terms_of(row, firsts)))
                else:
                    change = distinct(_mean(linear(rows, terms_of(row, sums)), n_tokens))
                if layer.pattern == "gather":
                    first = distinct(linear(rows, terms_of(row, firsts)))
                    change = _first_and_others(change, first, rows, n_tokens)
                updated[channel] = linear(rows, [(ONE, updated[channel]), (ONE, change)])
    return updated


def _mean(total: Column, n_tokens: int) -> Column:
    mean = divide(total.numbers, n_tokens)
    if mean is None:
        raise NotExact(
            f"a mean over {n_tokens} tokens is not a dyadic rational (an integer divided by a power of two).\n"
            f"  Scale W_O·W_V by {n_tokens}, or compute exact outputs with byheart.network.transformer.interpreter.",
            n_tokens=n_tokens,
        )
    return Column(total.partition, mean)


def _first_and_others(first: Column, others: Column, rows: Partition, n_tokens: int) -> Column:
    """Return `first` at the first token of each sequence, and `others` at the other tokens."""
    is_first = np.arange(rows.n_groups) % n_tokens == 0
    later = others.partition.index_of(rows) + len(first.numbers)
    index = np.where(is_first, first.partition.index_of(rows), later)
    numbers = Fixed.from_fractions([*first.numbers.fractions(), *others.numbers.fractions()])
    return distinct(Column(Partition(rows, index, len(numbers)), numbers))


def _with_extra(
    extra: Weights, tokens: Sequence[Column], rows: Partition, seq_len: int
) -> tuple[Partition, list[Column]]:
    """Insert the token `extra`, the same for all sequences, before each sequence. `seq_len` is the length with this token."""
    longer = Partition(None, np.zeros(0, dtype=np.int64), rows.n_groups // (seq_len - 1) * seq_len)
    columns = []
    for column, entries in zip(tokens, _table(extra), strict=True):
        values = [*column.numbers.fractions(), entries.get(0, Fraction(0))]
        index = column.partition.index_of(rows).reshape(-1, seq_len - 1)
        first = np.full((len(index), 1), len(values) - 1)
        partition = Partition(longer, np.concatenate([first, index], axis=1).ravel(), len(values))
        columns.append(distinct(Column(partition, Fixed.from_fractions(values))))
    return longer, columns


def _is_vectorised(layer: Attention) -> bool:
    if layer.kind == "hardmax":
        return all(head.value.shape[0] == 1 for head in layer.heads)
    return layer.ignores_scores  # softmax of equal scores is the mean


def _hard_attention(
    layer: Attention, stream: Sequence[Column], rows: Partition, n_tokens: int
) -> list[Column] | None:
    """Apply hard attention with heads of size 1.

    The score of token l for token k is key_l · query_k, so only the order of keys and the query's sign matter.

    Return None if several tokens have the highest score but different values. The result is then the mean of these values. It may
    not be a dyadic rational, so it must be computed with fractions.
    """
    updated = list(stream)
    for head in layer.heads:
        keys, queries, values = (
            distinct(linear(rows, terms_of(as_sparse(weights).rows()[0], stream)))
            for weights in (head.key, head.query, head.value)
            if weights is not None
        )
        rank = keys.numbers.ranks()[keys.partition.index_of(rows)].reshape(-1, n_tokens)
        sign = queries.numbers.signs()[queries.partition.index_of(rows)].reshape(-1, n_tokens)
        value = values.partition.index_of(rows).reshape(-1, n_tokens)  # equal numbers have the same index
        chosen = np.zeros_like(value)
        best = {1: rank.max(axis=1, keepdims=True), -1: rank.min(axis=1, keepdims=True), 0: rank}
        for case, wanted in best.items():
            asked = sign == case
            tied = rank == wanted
            found = np.take_along_axis(value, tied.argmax(axis=1)[:, None], axis=1)
            if (tied & (value != found))[asked.any(axis=1)].any():
                return None
            chosen = np.where(asked, found, chosen)
        groups, index = np.unique(chosen.ravel(), return_inverse=True)
        mixed = Column(Partition(rows, index, len(groups)), values.numbers.take(groups))
        for channel, row in enumerate(as_sparse(head.output).rows()):
            if row:
                updated[channel] = linear(rows, [(ONE, updated[channel]), *terms_of(row, [mixed])])
    return updated


def _pool(stream: Sequence[Column], rows: Partition, n_tokens: int) -> tuple[Partition, list[Column]]:
    """Replace each sequence by one token, the sum of its tokens."""
    pooled = Partition(None, np.zeros(0, dtype=np.int64), rows.n_groups // n_tokens)
    return pooled, [
        distinct(Column(pooled, segment_sums(column.numbers, column.partition.index_of(rows), n_tokens)))
        for column in stream
    ]


def _keep(
    needed: Needed, stream: Sequence[Column], rows: Partition, n_tokens: int
) -> tuple[Partition, list[Column], int]:
    """Drop all tokens of each sequence except the needed ones."""
    positions = np.array(positions_of(needed, n_tokens))
    if len(positions) == n_tokens:
        return rows, list(stream), n_tokens
    n_sequences = rows.n_groups // n_tokens
    kept = (np.arange(n_sequences)[:, None] * n_tokens + positions).ravel()
    fewer = Partition(None, np.zeros(0, dtype=np.int64), len(kept))
    columns = []
    for column in stream:
        groups, index = np.unique(column.partition.index_of(rows)[kept], return_inverse=True)
        columns.append(distinct(Column(Partition(fewer, index, len(groups)), column.numbers.take(groups))))
    return fewer, columns, len(positions)


def _mixing(layer: Layer) -> Mixing:
    if isinstance(layer, Attention):
        return layer.pattern
    return "none" if isinstance(layer, FeedForward) else "pool"


def _input_columns(network: Transformer, encoded: np.ndarray, rows: Partition) -> list[Column]:
    """Return one column for each coordinate of the input vectors of `w_in`."""
    if network.embedding is None:
        # turn -0.0 into 0.0: they are one number
        flat = encoded.reshape(-1, encoded.shape[-1]).astype(np.float64) + 0.0
        bits = np.ascontiguousarray(flat).view(np.uint32).reshape(len(flat), -1)
        kept, index = Fixed(bits, 0).distinct()
        partition = Partition(rows, index, len(kept))
        coordinates = [[Fraction(value) for value in column] for column in flat[kept].T.tolist()]
    else:
        ids = encoded.astype(np.int64).ravel()
        positions = np.tile(np.arange(encoded.shape[1]), len(encoded))
        ordered = network.embedding.positions is not None
        codes, index = np.unique(ids * encoded.shape[1] + positions if ordered else ids, return_inverse=True)
        partition = Partition(rows, index, len(codes))
        coordinates = _embed(network.embedding, codes, encoded.shape[1] if ordered else None)
    return [distinct(Column(partition, Fixed.from_fractions(column))) for column in coordinates]


def _embed(embedding: Embedding, codes: np.ndarray, seq_len: int | None) -> list[list[Fraction]]:
    """Return one list for each coordinate of the input vectors. The list holds the value of this coordinate for every code.

    If `seq_len` is None, a code is a token id, and its vector is tokens[id]. Otherwise a code is id · seq_len + position, and its
    vector is tokens[id] + positions[position].
    """
    tokens = _table(embedding.tokens)
    if seq_len is None:
        return [[row.get(int(code), Fraction(0)) for code in codes] for row in tokens]
    assert embedding.positions is not None
    positions = _table(embedding.positions)
    split = [divmod(int(code), seq_len) for code in codes]
    return [
        [token.get(number, Fraction(0)) + position.get(at, Fraction(0)) for number, at in split]
        for token, position in zip(tokens, positions, strict=True)
    ]


def _table(weights: Weights) -> list[dict[int, Fraction]]:
    """For each coordinate (column) of a lookup table, return its non-zero entries as a dictionary from row to number."""
    matrix = as_sparse(weights)
    columns: list[dict[int, Fraction]] = [{} for _ in range(matrix.shape[1])]
    for (row, col), value in matrix.entries.items():
        columns[col][row] = value.fraction
    return columns


def _one_by_one(network: Transformer, encoded: np.ndarray, last_only: bool) -> ExactValues:
    """Evaluate the network with fractions, sequence by sequence.

    This is used for networks with softmax attention whose scores may differ, with hardmax heads of a size other than 1, or with
    hardmax ties between tokens of different values. If the interpreter checks the answers afterwards (see `second_backend`), they
    are computed with `exact_outputs`, so that the check uses different code. Otherwise they are computed with the interpreter.
    """
    if network.second_backend == "interpreter":
        every = [[vector[0] for vector in exact_outputs(network, sequence)] for sequence in encoded]
        outputs = [row[-1:] for row in every] if last_only else every
    else:
        interpreter = Interpreter(network, last_only=last_only)
        outputs = [interpreter.outputs(sequence) for sequence in encoded]
    numbers: dict[Fraction, int] = {}
    index = np.array([[numbers.setdefault(value, len(numbers)) for value in row] for row in outputs])
    return ExactValues(list(numbers), index[:, 0] if last_only else index)
