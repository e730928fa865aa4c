"""Find the weights that hold the facts of a `retrieval` model: the words of its tables.

A row of a table has one word in each channel, and each word has several bit fields (planes), which can hold labels. Only the shape
of the tables is taken from the model's record. Everything else is found by running the network.

The first run shows what a token reads. The active unit of a table tells which row is read. Then the network masks all channels that
are not read, so the channels without a mask are the ones that are read. At this point, just before the words are summed, the
register z holds a number that tells which planes hold the label. All words are set to zero during this run. What a token reads
does not depend on them, and without them every number is exact in float64, even if the words of an exact model are long.

After that, the layers that read the label from the words run several times, each time with one word set to zero. If the answer
changes, this word holds a part of the fact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool, Int, Shaped

from byheart.construct.retrieval.label_code import (
    planes_of,
    split_labels,
)
from byheart.construct.retrieval.label_reader import WORD_SCALE
from byheart.construct.retrieval.layout import LIMB_BITS, SLOTS, X, Z
from byheart.construct.retrieval.part_tables import CHOSEN
from byheart.errors import UsageError
from byheart.inspect.table_shape import NO_NOTES, TableShape, table_shape
from byheart.network.batches import batch_size_for, side_by_side
from byheart.network.compiled_module import own_precision
from byheart.network.exact.dyadic import SparseMatrix, Weights, as_dense
from byheart.network.memoriser import Memoriser
from byheart.network.protocol import Evaluation
from byheart.network.transformer.answer_plan import AnswerPlan, make_plan
from byheart.network.transformer.architecture import FeedForward, Transformer
from byheart.network.transformer.module import to_module

_NUMBERS = 1 << 22  # how many numbers of the stream to hold at a time
_LIMB = 50  # a long number enters as several floats of this many bits
Zeroed = Mapping[int, Bool[np.ndarray, "n_tokens n_words"]]
"""Maps some segments (tables) to a mask, which tells which words of each token's row are treated as zero."""


@dataclass(frozen=True, eq=False)
class TableReads:
    """What each labelled token reads from the tables.

    samples   the input that the token belongs to
    positions  the position of the token in its input, padding included; 0 if only the last token of an input has a label
    rows      the row that the token reads in each segment
    channels  whether the token reads each channel of that row
    planes    for each kind of bit field, which of the fields of this kind (planes) holds the token's label, counted from 0
    stream    the residual stream of the token before the words are summed, with all words set to zero
    """

    network: Transformer
    shape: TableShape
    samples: Int[np.ndarray, " n_tokens"]
    positions: Int[np.ndarray, " n_tokens"]
    rows: Int[np.ndarray, "n_tokens n_segments"]
    channels: Bool[np.ndarray, "n_tokens n_segments n_channels"]
    planes: Int[np.ndarray, "n_tokens n_kinds"]
    stream: Shaped[np.ndarray, "n_tokens model_width"]

    def weights(self, segment: int) -> Shaped[np.ndarray, "n_rows n_words"]:
        """Return the weights that hold the words of a segment (table).

        Each row starts with the words of the first part of a label. The words of the other parts follow in order.
        """
        return self._weights[segment]

    @cached_property
    def _weights(self) -> list[np.ndarray]:
        found = []
        for number, name in self.shape.places:
            layer = self.network.layers[number]
            assert isinstance(layer, FeedForward)
            matrix = as_dense(getattr(layer, name))
            found.append((matrix if name == "w1" else matrix.T)[:, self.shape.n_slots :])
        n_parts = len(self.shape.parts) or 1
        return [np.concatenate(found[at : at + n_parts], axis=1) for at in range(0, len(found), n_parts)]

    def words(self, segment: int) -> Shaped[np.ndarray, "n_rows n_words"]:
        """Return the words of a segment (table) as integers. In exact models, these may have any number of bits."""
        return self._words[segment]

    @cached_property
    def _words(self) -> list[np.ndarray]:
        found = []
        for segment, weights in enumerate(self._weights):
            scale = self.shape.scale(segment)
            if weights.dtype == object:
                words = [[int(weight * scale) for weight in row] for row in weights]
                found.append(np.array(words, dtype=object).reshape(weights.shape))
            else:
                found.append((weights.astype(np.float64) * float(scale)).astype(np.int64))
        return found

    def bits(
        self, tokens: Int[np.ndarray, " n"], registers: Int[np.ndarray, " n"], classes: Int[np.ndarray, " n"]
    ) -> Int[np.ndarray, "n n_kinds 2"]:
        """For each token, return which bits of a word hold the token's label, as ranges (upper ends exclusive).

        For tokens[i], registers[i] is the register of the word, and classes[i] the class of the label. A label may use bit fields
        of several kinds, so there is one range for each kind. It is empty if the label does not use this kind. If a word takes
        several registers, the ranges are cut to the bits that are in this register.
        """
        shape = self.shape
        reached = np.array([each for _, each in split_labels(classes, shape.rare)])
        found = np.zeros((len(tokens), len(shape.fields), 2), dtype=np.int64)
        for kind, field in enumerate(shape.fields):
            start = field.start + self.planes[tokens, kind] * field.n_bits
            found[:, kind, 0] = start
            found[:, kind, 1] = np.where(reached[kind], start + field.n_bits, start)
        if shape.n_limbs > 1:
            lowest = LIMB_BITS * (registers // shape.n_channels % shape.n_limbs)
            found = np.clip(found, lowest[:, None, None], lowest[:, None, None] + LIMB_BITS)
        return found

    def powers(
        self,
        segment: int,
        tokens: Int[np.ndarray, " n"],
        registers: Int[np.ndarray, " n"],
        classes: Int[np.ndarray, " n"],
    ) -> Int[np.ndarray, "n n_kinds 2"]:
        """Return the same ranges as the method `bits`, but as exponents of 2 in the weights of a segment (table).

        A weight is a word divided by the `scale` of the segment, so bit b of the word has the value 2^b / scale in the weight. If
        the scale is not a power of two, all ranges are empty.
        """
        scale = self.shape.scale(segment)
        shift = scale.numerator.bit_length() - scale.denominator.bit_length()
        if scale != Fraction(2) ** shift:  # the bits of the word are not bits of the weight
            return np.zeros((len(tokens), len(self.shape.fields), 2), dtype=np.int64)
        return self.bits(tokens, registers, classes) - shift

    def cells(self) -> Iterator[tuple[int, Int[np.ndarray, " n"], Int[np.ndarray, " n"]]]:
        """Yield the weights that tokens may read, in batches (segment, tokens, registers).

        A batch belongs to one segment (table). Its i-th weight is in the row that tokens[i] reads, and writes to the word register
        registers[i]. All weights that a token could read are included. Batches are ordered by segment and by part of the label.
        """
        n_runs = self.shape.n_limbs * len(self.shape.sums)
        for segment in range(len(self.shape.tables)):
            # a limb may be read although its word is masked, so all weights that a token could read are tried
            is_tried = self.channels[:, segment] | (
                self.shape.n_limbs > 1 and self.shape.matrix(segment) == "w2"
            )
            tokens, channels = np.nonzero(is_tried)
            for run in range(n_runs):
                yield segment, tokens, channels + run * self.shape.n_channels

    def answers(self, label_names: Sequence[str]) -> Int[np.ndarray, " n_tokens"]:
        """Return the class of each token, read from its words."""
        tokens = np.arange(len(self.rows))
        return self._read_labels(tokens, None, label_names)

    def answers_without(
        self,
        segment: int,
        tokens: Int[np.ndarray, " n"],
        registers: Int[np.ndarray, " n"],
        label_names: Sequence[str],
    ) -> Int[np.ndarray, " n"]:
        """Return the class that each of `tokens` would get if one word in a segment (table) were zero.

        For tokens[i], this is the word with the number registers[i], in the row that the token reads.
        """

        def one_word(here: slice) -> Zeroed:
            mask = np.zeros((len(registers[here]), self.words(segment).shape[1]), dtype=bool)
            mask[np.arange(len(mask)), registers[here]] = True
            return {segment: mask}

        return self._read_labels(tokens, one_word, label_names)

    def answers_without_all(
        self, cells: Mapping[int, tuple[np.ndarray, np.ndarray]], label_names: Sequence[str]
    ) -> Int[np.ndarray, " n_tokens"]:
        """Return the class that each token would get if some words were zero.

        `cells` lists these words. For each segment (table), it has two arrays (tokens, registers): the i-th word is the one that
        tokens[i] reads in the register registers[i]. It is zero for all tokens of the input to which tokens[i] belongs. For other
        inputs it is unchanged.
        """
        every, zeroed = np.arange(len(self.rows)), {}
        for segment, (tokens, registers) in cells.items():
            held = self._cell_numbers(segment, tokens, registers)
            read = [
                self._cell_numbers(segment, every, np.full(len(every), register))
                for register in range(self.words(segment).shape[1])
            ]
            zeroed[segment] = np.isin(np.stack(read, axis=1), held)
        return self._read_labels(
            every, lambda here: {segment: mask[here] for segment, mask in zeroed.items()}, label_names
        )

    def _cell_numbers(self, segment: int, tokens: np.ndarray, registers: np.ndarray) -> np.ndarray:
        """For each i, return a number for the word that tokens[i] reads in registers[i], together with the input to which this
        token belongs. Two of these numbers are equal only if both the word and the input are the same.
        """
        table = self.words(segment)
        words = self.rows[tokens, segment] * table.shape[1] + registers
        return np.asarray(self.samples[tokens] * table.size + words)

    def _read_labels(
        self, tokens: np.ndarray, without: Callable[[slice], Zeroed] | None, label_names: Sequence[str]
    ) -> np.ndarray:
        found = []
        step = max(1, _NUMBERS // self.stream.shape[1])
        for start in range(0, len(tokens), step):
            here = slice(start, start + step)
            stream = self._stream(tokens[here], {} if without is None else without(here))
            found.append(self._tail.answer(stream, label_names))
        return np.concatenate([np.zeros(0, dtype=np.int64), *found])

    def _stream(self, tokens: np.ndarray, without: Zeroed) -> np.ndarray:
        """Return the residual stream before the layer that sums the words, with some words of each token set to zero.

        Earlier layers have already summed some of the words. In a dual table, these are the words in the input weights, and the
        register x holds WORD_SCALE times their sum. If each part of a label has its own table, these are all words, and each part
        has a register that holds its sum.
        """
        shape = self.shape
        is_long = self.words(0).dtype == object
        stream = self.stream[tokens].astype(object if is_long else np.float64)
        if is_long:
            stream = np.array([[int(value) for value in row] for row in stream], dtype=object).reshape(
                stream.shape
            )
        for segment in range(len(shape.tables)):
            read = WORD_SCALE * self.words(segment)[self.rows[tokens, segment]]
            if segment in without:
                read[without[segment]] = 0
            if shape.parts:
                is_open = np.tile(self.channels[tokens, segment], (1, len(shape.parts)))
                sums = (read * is_open).reshape(len(tokens), len(shape.parts), shape.n_channels).sum(axis=2)
                stream[:, shape.sum_channels] += sums
            elif shape.matrix(segment) == "w1":
                is_open = np.tile(self.channels[tokens, segment], (1, shape.n_limbs * len(shape.sums)))
                stream[:, SLOTS.index(X)] += (read * is_open).sum(axis=1)
            else:
                stream[:, shape.n_slots :] += read
        return np.asarray(stream)

    @cached_property
    def _tail(self) -> _Tail:
        return _Tail(self.network, min(self.shape.sums))


class _Tail:
    """A network that consists of the last layers of another network, from layer `first` on. Its input is the residual stream
    before this layer.
    """

    def __init__(self, network: Transformer, first: int) -> None:
        self.network, self.first = network, first

    def answer(self, stream: np.ndarray, label_names: Sequence[str]) -> np.ndarray:
        width, is_exact = stream.shape[1], self.network.precision == "exact"
        w_in: Weights
        if is_exact:  # a long number enters as several floats, starting with the lowest bits
            longest = max(int(abs(stream).max(initial=1)).bit_length(), 1)
            n_limbs = -(-longest // _LIMB)
            sign, rest, limbs = np.where(stream < 0, -1, 1), abs(stream), []
            for _ in range(n_limbs):
                limbs.append((sign * (rest % (1 << _LIMB))).astype(np.float64))
                rest = rest // (1 << _LIMB)
            entering = np.concatenate(limbs, axis=1)
            w_in = SparseMatrix.of(
                (width, width * n_limbs),
                {
                    (at, limb * width + at): 1 << _LIMB * limb
                    for limb in range(n_limbs)
                    for at in range(width)
                },
            )
        else:
            entering = stream
            w_in = np.eye(width, dtype=as_dense(self.network.w_out).dtype)
        tail = Transformer(w_in, self.network.layers[self.first :], self.network.w_out, 1)
        how = Evaluation("exact" if is_exact else "module", True, "cpu", None)
        return np.asarray(tail.answer(entering[:, None, :], label_names, how)[:, 0])


def read_tables(memoriser: Memoriser, notes: Mapping[str, object], encoded: np.ndarray) -> TableReads:
    """Run the network on `encoded` and return what every labelled token reads from the tables. `notes` are the notes that the
    construction left in the model's record.
    """
    network = memoriser.network
    if not isinstance(network, Transformer):
        raise UsageError(NO_NOTES)
    shape = table_shape(network, notes)
    last_only = memoriser.answers_last_token_only
    plan = make_plan(to_module(_without_words(network, shape)).eval(), last_only=last_only)
    if plan is None:
        raise UsageError(
            "the notes in the record of this model do not belong to its network, because its attention is not uniform."
        )
    n_tokens = network.seq_len + (network.extra is not None)
    step = batch_size_for(n_tokens * 3 * network.model_width)

    def watch(start: int) -> tuple[np.ndarray, ...]:
        return _watch(plan, encoded[start : start + step], shape, last_only)

    parts = [found for _, found in side_by_side(watch, range(0, max(1, len(encoded)), step))]
    rows, channels, places, stream = (np.concatenate(each) for each in zip(*parts, strict=True))
    n_labelled = len(rows) // max(1, len(encoded))
    samples, positions = np.divmod(np.arange(len(rows)), n_labelled)
    found = TableReads(
        network, shape, samples, positions, rows, channels, planes_of(shape.fields, places), stream
    )
    if last_only:
        return found
    is_token = np.ones(len(rows), dtype=bool) if network.pad is None else (encoded != network.pad).ravel()
    kept = {name: getattr(found, name)[is_token] for name in _BY_TOKEN}
    return replace(found, **kept)


_BY_TOKEN = ("samples", "positions", "rows", "channels", "planes", "stream")


def _without_words(network: Transformer, shape: TableShape) -> Transformer:
    """Return the layers before the first sum of words, with all words set to zero."""
    layers = list(network.layers[: min(shape.sums)])
    for table, name in shape.places:
        layer = layers[table]
        assert isinstance(layer, FeedForward)
        if name == "w1":
            layers[table] = replace(layer, w1=_cleared(layer.w1, shape.n_slots, axis=1))
        else:
            layers[table] = replace(layer, w2=_cleared(layer.w2, shape.n_slots, axis=0))
    return replace(network, layers=tuple(layers), storage=None)


def _cleared(weights: Weights, first: int, axis: int) -> Weights:
    """Return a copy of the weights with zeros from row or column `first` on."""
    if isinstance(weights, SparseMatrix):
        kept = {at: value for at, value in weights.entries.items() if at[axis] < first}
        return SparseMatrix(weights.shape, kept)
    copy = weights.copy()
    copy[(slice(None),) * axis + (slice(first, None),)] = 0
    return copy


def _watch(
    plan: AnswerPlan, batch: np.ndarray, shape: TableShape, last_only: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Run a batch. For each labelled token, return four things: the table rows that it reads, the channels (words) that it reads
    in each of these rows, a number that encodes its planes (bit fields), and its residual stream before the words are summed.
    """
    words = slice(shape.n_slots, shape.n_slots + shape.n_channels)
    labelled = slice(-1, None) if last_only else slice(1 if shape.is_dual else 0, None)
    rows: list[torch.Tensor] = []
    channels: list[torch.Tensor] = []
    inputs = torch.from_numpy(np.array(batch))
    with torch.no_grad(), own_precision(inputs):
        for number, stream in plan.streams(inputs):
            if number in shape.tables:
                fired = plan.strongest_units(number, stream)  # shape (tokens, batch)
                own = fired[labelled]
                if shape.is_dual:
                    rows.append(fired[:1].expand_as(own))
                    first_open = stream[words, :1] > 0.5
                    channels.append(first_open.expand(-1, len(own), -1))
                rows.append(own)
            # the words are chosen here, before they are summed
            if shape.parts and number == shape.parts[0] + 2:
                own_open = stream[words, labelled] >= CHOSEN
        last = stream[:, labelled]
        is_open = own_open if shape.parts else last[words] >= 0
        channels += [is_open] * (len(rows) - len(channels))
        places = np.rint(last[SLOTS.index(Z)].T.numpy()).astype(np.int64)
        flat = last.permute(2, 1, 0).reshape(-1, len(last)).numpy()
        read = torch.stack(rows, dim=-1).transpose(0, 1).reshape(-1, len(rows)).numpy()
        open_now = torch.stack(channels).permute(3, 2, 0, 1).reshape(-1, len(rows), shape.n_channels).numpy()
    return read, open_now, places.reshape(-1), flat
