"""The exact interpreter: a faster implementation of `equations.exact_outputs`, in rational numbers, one sequence at a time.

It is tested against the equations, and it uses no code of the batch evaluator in `evaluator.py`. For networks with softmax
attention whose scores may differ, the batch evaluator calls this interpreter. Answers of such networks are checked a second time by
`equations.first_outputs`, not by this interpreter. Two optimisations change no value:

- It computes only what the answer depends on. Starting from the labelled tokens, it walks back through the layers and notes
  which channels of which tokens are read later. Tokens form three groups (the first token, the last token, and all tokens
  between them), so the cost of this walk does not depend on the length of the sequence.
- For the tokens of a group, the values of a channel are stored as integers and one common unit, which is a fraction.
  Therefore uniform attention takes time linear in the number of tokens. Scores of hardmax and softmax are computed for all
  pairs of tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, lcm

import numpy as np

from byheart.network.exact.dyadic import SparseMatrix, Weights, as_sparse
from byheart.network.transformer.architecture import Attention, Embedding, FeedForward, Head, Transformer
from byheart.network.transformer.equations import NotExact
from byheart.process.progress import Progress, report
from byheart.theorems import realises

Vector = list[Fraction]
Row = list[tuple[int, Fraction]]
ZERO = Fraction(0)
FIRST, BETWEEN, LAST = range(3)
Needs = dict[int, frozenset[int]]
"""For each group of tokens, the channels that a later layer reads."""


@dataclass(frozen=True)
class Counts:
    """A number for each token: token k has the number `counts[k] · unit`."""

    unit: Fraction
    counts: list[int]

    @staticmethod
    def of(values: Sequence[Fraction]) -> Counts:
        denominator = lcm(*(value.denominator for value in values))
        return Counts(
            Fraction(1, denominator),
            [value.numerator * (denominator // value.denominator) for value in values],
        )

    def values(self) -> Vector:
        return [self.unit * count for count in self.counts]

    def total(self) -> Fraction:
        return self.unit * sum(self.counts)

    def relu(self) -> Counts:
        return Counts(self.unit, [max(0, count) for count in self.counts])


Stream = dict[int, dict[int, Counts]]
"""For each group of tokens (the first, the last, or all between them), the values of each channel at these tokens. Channels that
do not affect the output are left out.
"""


def interpret(network: Transformer, sequence: np.ndarray) -> list[Vector]:
    """Return the exact output vector of `w_out` for each token of one sequence.

    `sequence` holds `seq_len` token ids, or `seq_len` vectors of floats (each float is a rational number).
    """
    outputs = [
        Interpreter(network, output=number).outputs(sequence) for number in range(int(network.w_out.shape[0]))
    ]
    return [list(token) for token in zip(*outputs, strict=True)]


class Interpreter:
    """A network prepared for computing one of its outputs: the weights as fractions, and for each layer the channels on which
    this output depends.

    last_only  whether only the output of the last token is needed
    output     the row of `w_out` that computes the output
    """

    def __init__(
        self,
        network: Transformer,
        *,
        last_only: bool = False,
        output: int = 0,
        progress: Progress | None = None,
    ) -> None:
        self.network, self.last_only = network, last_only
        self.n_tokens = network.seq_len + (network.extra is not None)
        self.output = _rows(network.w_out)[output]
        self.layers: list[_Layer] = []
        n_tokens = self.n_tokens
        for number, layer in enumerate(network.layers):
            report(progress, number, len(network.layers))
            if isinstance(layer, FeedForward):
                self.layers.append(_FeedForward(layer, n_tokens))
            elif isinstance(layer, Attention):
                self.layers.append(_Attention(layer, n_tokens))
            else:
                self.layers.append(_Pool(n_tokens))
                n_tokens = 1
        self.n_tokens_out = n_tokens
        labelled = (LAST,) if last_only else _groups(n_tokens)
        needs: Needs = dict.fromkeys(labelled, frozenset(channel for channel, _ in self.output))
        self.needs = [needs]  # before each layer, and after the last one
        for each in reversed(self.layers):
            needs = each.needs_before(needs)
            self.needs.insert(0, needs)
        self.w_in = _rows(network.w_in)
        entering = {channel for channels in needs.values() for channel in channels}
        self.coordinates = sorted({at for channel in entering for at, _ in self.w_in[channel]})
        embedding = network.embedding or Embedding(SparseMatrix((0, 0), {}))
        tables = (embedding.tokens, embedding.positions, network.extra)
        self.tables = [_columns(weights, self.coordinates) for weights in tables]

    def outputs(self, sequence: np.ndarray) -> Vector:
        """Return the output at each token, or with `last_only` only at the last token.

        If the network inserts an extra token before the sequence, the output of this token is left out.
        """
        stream = self._enter(sequence)
        for layer, needs in zip(self.layers, self.needs[1:], strict=True):
            stream = layer.apply(stream, needs)
        n_tokens = self.n_tokens_out
        found: Vector = []
        for group in sorted(stream):
            found += _combine(self.output, stream[group], len(_members(group, n_tokens))).values()
        is_extra_first = self.network.extra is not None and n_tokens > 1 and not self.last_only
        return found[1:] if is_extra_first else found

    def _enter(self, sequence: np.ndarray) -> Stream:
        tokens, positions, extra = self.tables
        embedding = self.network.embedding
        if embedding is not None and len(sequence):
            n_rows = int(embedding.tokens.shape[0])
            if not 0 <= int(np.min(sequence)) <= int(np.max(sequence)) < n_rows:
                raise IndexError(f"a token id is outside the embedding table, which has {n_rows} rows")
        vectors: dict[int, Vector] = {}
        for at in self.coordinates:
            if embedding is None:
                values = [Fraction(float(value)) for value in sequence[:, at].tolist()]
            else:
                values = [tokens[at].get(token, ZERO) for token in sequence.tolist()]
                for number, position in positions[at].items():
                    values[number] += position
            if self.network.extra is not None:
                values.insert(0, extra[at].get(0, ZERO))
            vectors[at] = values
        stream: Stream = {}
        for group, channels in self.needs[0].items():
            members = _members(group, self.n_tokens)
            inputs = {at: Counts.of([vector[k] for k in members]) for at, vector in vectors.items()}
            stream[group] = {at: _combine(self.w_in[at], inputs, len(members)) for at in channels}
        return stream


class _Layer:
    """A layer with its weights as fractions, on sequences of `n_tokens` tokens."""

    def __init__(self, n_tokens: int) -> None:
        self.n_tokens = n_tokens

    def size(self, group: int) -> int:
        return len(_members(group, self.n_tokens))

    def needs_before(self, needs: Needs) -> Needs:
        """Return the channels that must be known before this layer so that the channels in `needs` can be computed after it."""
        raise NotImplementedError

    def apply(self, stream: Stream, needs: Needs) -> Stream:
        """Return the values that the channels in `needs` have after this layer, computed from those before it."""
        raise NotImplementedError


class _FeedForward(_Layer):
    """Computes H + W2 ReLU(W1 H + b1) + b2, where H is the residual stream."""

    def __init__(self, layer: FeedForward, n_tokens: int) -> None:
        super().__init__(n_tokens)
        self.w1, self.w2 = _rows(layer.w1), _rows(layer.w2)
        self.b1, self.b2 = ([dict(row).get(0, ZERO) for row in _rows(b)] for b in (layer.b1, layer.b2))

    def _units(self, channels: Iterable[int]) -> set[int]:
        return {unit for channel in channels for unit, _ in self.w2[channel]}

    def needs_before(self, needs: Needs) -> Needs:
        return {
            group: channels.union(channel for unit in self._units(channels) for channel, _ in self.w1[unit])
            for group, channels in needs.items()
        }

    def apply(self, stream: Stream, needs: Needs) -> Stream:
        found: Stream = {}
        for group, channels in needs.items():
            known, n_group = stream[group], self.size(group)
            hidden = {
                unit: _combine(self.w1[unit], known, n_group, self.b1[unit]).relu()
                for unit in self._units(channels)
            }
            found[group] = {channel: known[channel] for channel in channels}
            for channel in channels:
                if self.w2[channel] or self.b2[channel]:
                    change = _combine(self.w2[channel], hidden, n_group, self.b2[channel])
                    found[group][channel] = _plus(known[channel], change)
        return found


class _Attention(_Layer):
    """Computes Z + Σ_h W_O W_V Z A_h, where Z is the residual stream and A_h holds the attention weights of head h."""

    def __init__(self, layer: Attention, n_tokens: int) -> None:
        super().__init__(n_tokens)
        self.kind, self.pattern = layer.kind, layer.pattern
        self.heads = [_Head(head) for head in layer.heads]
        self.groups = _groups(n_tokens)

    def _read_by(self, group: int) -> tuple[int, ...]:
        """Return the groups of tokens that the tokens of `group` read."""
        reads_first = {"full": False, "scatter": True, "gather": group != self.groups[0]}[self.pattern]
        return self.groups[:1] if reads_first else self.groups

    def needs_before(self, needs: Needs) -> Needs:
        found = {group: set(channels) for group, channels in needs.items()}
        for group, channels in needs.items():
            for head in self.heads:
                rows = head.rows(channels)
                if not rows:
                    continue
                for other in self._read_by(group):
                    found.setdefault(other, set()).update(head.channels(rows))
                found[group].update(channel for row in head.query for channel, _ in row)
        return {group: frozenset(channels) for group, channels in found.items()}

    def apply(self, stream: Stream, needs: Needs) -> Stream:
        found = {
            group: {channel: stream[group][channel] for channel in channels}
            for group, channels in needs.items()
        }
        for head in self.heads:
            # the result of uniform attention is the same for all tokens that read the same tokens
            given: dict[tuple[tuple[int, ...], int], Fraction] = {}
            for group, known in found.items():
                rows = head.rows(needs[group])
                if not rows:
                    continue
                n_group = self.size(group)
                if self.kind == "uniform":
                    read = self._read_by(group)
                    for row in rows:
                        if (read, row) not in given:
                            given[read, row] = self._mean(head.value[row], stream, read)
                    mixed = {row: Counts(given[read, row], [1] * n_group) for row in rows}
                else:
                    mixed = self._mix_by_score(head, rows, stream, group)
                for channel in needs[group]:
                    if head.output[channel]:
                        known[channel] = _plus(known[channel], _combine(head.output[channel], mixed, n_group))
        return found

    def _mean(self, row: Row, stream: Stream, groups: tuple[int, ...]) -> Fraction:
        """Return the mean of one channel of W_V Z over all tokens of these groups. `row` is the row of W_V for this channel."""
        totals = (_combine(row, stream[group], self.size(group)).total() for group in groups)
        return sum(totals, ZERO) / sum(map(self.size, groups))

    def _mix_by_score(self, head: _Head, rows: set[int], stream: Stream, group: int) -> dict[int, Counts]:
        """Return the given rows of the matrix W_V Z A, where Z is the stream and A holds the attention weights of the head.

        The matrix has a column for each token of `group`: the head's result for this token, before it is multiplied by W_O.
        """

        def vectors(weights: Iterable[Row], groups: Iterable[int]) -> list[tuple[Fraction, ...]]:
            """Return W z for each token of these groups, in order. W is the matrix with the rows `weights`, and z is the vector
            of the token in the stream.
            """
            columns = ([_combine(row, stream[each], self.size(each)) for each in groups] for row in weights)
            return list(
                zip(*([v for part in parts for v in part.values()] for parts in columns), strict=True)
            )

        everyone, order = sorted(stream), sorted(rows)
        values = vectors([head.value[row] for row in order], everyone)
        keys, queries = vectors(head.key, everyone), vectors(head.query, [group])
        normalise = hardmax if self.kind == "hardmax" else softmax
        given: dict[tuple[Fraction, ...], Vector] = {}  # equal queries receive the same result
        for query in dict.fromkeys(queries):
            shares = normalise([_dot(query, key) for key in keys])
            given[query] = [_dot(shares, column) for column in zip(*values, strict=True)]
        return {row: Counts.of([given[query][at] for query in queries]) for at, row in enumerate(order)}


class _Head:
    """One head with its weights as fractions."""

    def __init__(self, head: Head) -> None:
        self.value, self.output = _rows(head.value), _rows(head.output)
        self.key = [] if head.key is None else _rows(head.key)
        self.query = [] if head.query is None else _rows(head.query)

    def rows(self, channels: Iterable[int]) -> set[int]:
        """Return the rows of W_V from which these channels are computed."""
        return {row for channel in channels for row, _ in self.output[channel]}

    def channels(self, rows: Iterable[int]) -> set[int]:
        """Return the channels that W_K and these rows of W_V read. The head reads them in every token that it attends to."""
        return {channel for row in (*(self.value[row] for row in rows), *self.key) for channel, _ in row}


class _Pool(_Layer):
    """Replaces all tokens by a single one, their sum Σ_k Z_k."""

    def needs_before(self, needs: Needs) -> Needs:
        wanted = frozenset[int]().union(*needs.values())
        return dict.fromkeys(_groups(self.n_tokens), wanted)

    def apply(self, stream: Stream, needs: Needs) -> Stream:
        wanted = frozenset[int]().union(*needs.values())
        totals = {at: sum((known[at].total() for known in stream.values()), ZERO) for at in wanted}
        return {LAST: {channel: Counts(total, [1]) for channel, total in totals.items()}}


@realises("KS25-eq1")
def hardmax(scores: Sequence[Fraction]) -> Vector:
    """Return 1/|I| at the positions I of the largest score, and 0 elsewhere (KS25 eq. 1, one column)."""
    largest = max(scores)
    n_ties = sum(score == largest for score in scores)
    return [Fraction(1, n_ties) if score == largest else ZERO for score in scores]


def softmax(scores: Sequence[Fraction]) -> Vector:
    """Return equal weights if all scores are equal, the only case in which softmax is rational. Otherwise raise `NotExact`."""
    if any(score != scores[0] for score in scores):
        raise NotExact(
            "softmax of unequal scores is irrational, so this network has no exact value.\n"
            "  Evaluate it in floats (network.module), or use hardmax or uniform attention."
        )
    return [Fraction(1, len(scores))] * len(scores)


def _members(group: int, n_tokens: int) -> range:
    """Return the positions of the tokens in a group: the first token, the last token, or all tokens between them.

    The only token of a sequence of length one belongs to the group of the last token.
    """
    if group == LAST:
        return range(n_tokens - 1, n_tokens)
    if group == FIRST:
        return range(min(1, n_tokens - 1))
    return range(1, n_tokens - 1)


def _groups(n_tokens: int) -> tuple[int, ...]:
    return tuple(group for group in (FIRST, BETWEEN, LAST) if _members(group, n_tokens))


def _rows(weights: Weights) -> list[Row]:
    if isinstance(weights, np.ndarray):
        table = weights if weights.ndim == 2 else weights[:, None]  # a vector is one column
        columns = (np.flatnonzero(row) for row in table)
        return [
            [(at, Fraction(value)) for at, value in zip(found.tolist(), row[found].tolist(), strict=True)]
            for row, found in zip(table, columns, strict=True)
        ]
    return [[(column, value.fraction) for column, value in row] for row in as_sparse(weights).rows()]


def _columns(weights: Weights | None, wanted: Sequence[int]) -> dict[int, dict[int, Fraction]]:
    """For each wanted coordinate (column) of a lookup table, return its entries as a dictionary from row to number."""
    found: dict[int, dict[int, Fraction]] = {at: {} for at in wanted}
    for number, row in enumerate([] if weights is None else _rows(weights)):
        for column, value in row:
            if column in found:
                found[column][number] = value
    return found


def _dot(left: Sequence[Fraction], right: Sequence[Fraction]) -> Fraction:
    return sum((a * b for a, b in zip(left, right, strict=True) if a), ZERO)


def _combine(row: Row, known: dict[int, Counts], n_tokens: int, bias: Fraction = ZERO) -> Counts:
    """Return bias + Σ weight · channel for each token."""
    terms = [(weight * known[at].unit, known[at].counts) for at, weight in row if any(known[at].counts)]
    parts = [part for part in (bias, *(factor for factor, _ in terms)) if part]
    if not parts:
        return Counts(Fraction(1), [0] * n_tokens)
    denominator = lcm(*(part.denominator for part in parts))
    # write each term as an integer over that denominator; the common factor goes into the unit
    numerator = gcd(*(part.numerator * (denominator // part.denominator) for part in parts))
    counts = [bias.numerator * (denominator // bias.denominator) // numerator] * n_tokens
    for factor, numbers in terms:
        times = factor.numerator * (denominator // factor.denominator) // numerator
        counts = [count + times * number for count, number in zip(counts, numbers, strict=True)]
    return Counts(Fraction(numerator, denominator), counts)


def _plus(left: Counts, right: Counts) -> Counts:
    return _combine([(0, Fraction(1)), (1, Fraction(1))], {0: left, 1: right}, len(left.counts))
