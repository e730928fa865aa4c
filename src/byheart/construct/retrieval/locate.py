"""A map of memory: which weights hold a fact, which bits of them, and which other facts read the same words.

Nothing of the compilation is needed but the shape in its notes: the network is run and watched. The unit that fires in a table is
the row; the word slots that are open before the words are summed are the channels; the last digit of z is the plane. Only the
labelled token (the last one) is watched, and in a dual table the extra token too. Where a field is dealt out to several parts,
the map is of the first, which holds the label.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import torch
from jaxtyping import Bool, Int, Shaped

from byheart.construct.retrieval.label_code import (
    LabelField,
    RareField,
    RareFields,
    join_labels,
    label_fields,
    planes_of,
    read_numbers,
    split_labels,
)
from byheart.construct.retrieval.label_reader import WORD_SCALE
from byheart.construct.retrieval.layout import LABEL, SLOTS, Z
from byheart.errors import UsageError
from byheart.network.exact.dyadic import SparseMatrix, Weights
from byheart.network.memoriser import Memoriser
from byheart.network.transformer.architecture import FeedForward, Transformer
from byheart.network.transformer.module import FeedForwardModule, to_module

_BATCH = 2048
_MOST = 1 << 40  # rows, planes or bits that notes may name


@dataclass(frozen=True)
class WeightCell:
    """One weight that holds words: layers[layer].w1[row, column], or .w2[column, row]. Its words are weight · scale."""

    layer: int
    matrix: str
    row: int
    column: int


@dataclass(frozen=True, eq=False)
class MemoryMap:
    """Where every one of some facts lies.

    tables    number of the layer of each segment; in a dual table both are the same layer
    rows      the row each fact reads in each segment
    channels  whether a fact reads a channel of that row
    planes    the field of each kind of every word it reads
    fields    the kinds of fields: that of all labels, then those that rare labels go on in
    rare      which labels go on in them
    n_kinds   how many kinds hold the label of each fact
    n_slots   residual channels before the words
    scales    what makes words of the weights of each segment
    """

    tables: tuple[int, ...]
    rows: Int[np.ndarray, "n_facts n_segments"]
    channels: Bool[np.ndarray, "n_facts n_segments n_channels"]
    planes: Int[np.ndarray, "n_facts n_kinds"]
    fields: tuple[LabelField, ...]
    rare: RareFields
    n_kinds: Int[np.ndarray, " n_facts"]
    n_slots: int
    scales: tuple[float, ...]

    @property
    def is_dual(self) -> bool:
        """Whether the first segment is held in the input weights of the table."""
        return self.tables[0] == self.tables[-1]

    def cells(self, fact: int) -> tuple[WeightCell, ...]:
        """The weights that hold a fact."""
        return tuple(
            WeightCell(
                layer, self._matrix(segment), int(self.rows[fact, segment]), self.n_slots + int(channel)
            )
            for segment, layer in enumerate(self.tables)
            for channel in np.flatnonzero(self.channels[fact, segment])
        )

    def bits(self, fact: int) -> tuple[range, ...]:
        """The bit positions, in the words, of a fact's label: those of its field of each kind, the first kind first."""
        starts = [
            field.start + int(plane) * field.n_bits
            for field, plane in zip(self.fields, self.planes[fact], strict=True)
        ]
        ranges = [
            range(start, start + field.n_bits) for start, field in zip(starts, self.fields, strict=True)
        ]
        return tuple(ranges[: self.n_kinds[fact]])

    def readers(self, cell: WeightCell) -> Int[np.ndarray, " n_readers"]:
        """All facts that read the word in `cell`."""
        segment = self._segment(cell)
        reads = self.channels[:, segment, cell.column - self.n_slots] & (self.rows[:, segment] == cell.row)
        return np.flatnonzero(reads)

    def sharing(self, fact: int) -> Int[np.ndarray, " n_sharing"]:
        """The other facts that read a word of this one in the same plane of a kind that holds both their labels."""
        found = [self.readers(cell) for cell in self.cells(fact)]
        others = np.unique(np.concatenate(found)) if found else np.zeros(0, dtype=np.int64)
        kinds = np.arange(len(self.fields))
        is_read = (kinds < self.n_kinds[fact]) & (kinds < self.n_kinds[others, None])
        meets = ((self.planes[others] == self.planes[fact]) & is_read).any(axis=1)
        return np.asarray(others[(others != fact) & meets])

    def sums(self, network: Transformer) -> Shaped[np.ndarray, " n_facts"]:
        """The sum of the words each fact reads, from the weights."""
        read = [
            (self._words(network, segment)[self.rows[:, segment]] * self.channels[:, segment]).sum(axis=1)
            for segment in range(len(self.tables))
        ]
        return np.asarray(sum(read))

    def labels(self, network: Transformer) -> Int[np.ndarray, " n_facts"]:
        """The class number each fact reads, from the weights."""
        return self._labels(self.sums(network), np.arange(len(self.planes)))

    def changed_by(self, network: Transformer, cell: WeightCell, bit: int) -> Int[np.ndarray, " n_changed"]:
        """The facts whose answer changes when this bit of this word is flipped: exactly these.

        A flip adds or takes 2^bit. Of the facts that read the word it changes those whose field the change reaches: in their
        own plane, or in a higher one by a carry.
        """
        readers = self.readers(cell)
        word = int(self._words(network, self._segment(cell))[cell.row, cell.column - self.n_slots])
        change = -(1 << bit) if word >> bit & 1 else 1 << bit
        before = self.sums(network)[readers]
        moved = self._labels(before, readers) != self._labels(before + change, readers)
        return np.asarray(readers[moved])

    def flip(self, network: Transformer, cell: WeightCell, bit: int) -> Transformer:
        """The network with one bit of one word flipped."""
        layer = network.layers[cell.layer]
        assert isinstance(layer, FeedForward)
        weights = _dense(getattr(layer, cell.matrix))
        at = (cell.row, cell.column) if cell.matrix == "w1" else (cell.column, cell.row)
        segment = self._segment(cell)
        scale, n_bits = self.scales[segment], self.fields[-1].stop
        flipped = int(weights[at] * scale) ^ (1 << bit)
        if self._words(network, segment).min() < 0:  # words are signed, and stay in their range
            flipped = (flipped + (1 << (n_bits - 1))) % (1 << n_bits) - (1 << (n_bits - 1))
        is_exact = network.precision == "exact"
        weights[at] = Fraction(flipped) / Fraction(scale) if is_exact else flipped / scale
        other = replace(layer, **{cell.matrix: SparseMatrix.from_array(weights) if is_exact else weights})
        layers = (*network.layers[: cell.layer], other, *network.layers[cell.layer + 1 :])
        return replace(network, layers=layers)

    def _labels(
        self, sums: Shaped[np.ndarray, " n_readers"], readers: Int[np.ndarray, " n_readers"]
    ) -> Int[np.ndarray, " n_readers"]:
        return join_labels(read_numbers(self.fields, self.planes[readers], sums), self.rare)

    def _matrix(self, segment: int) -> str:
        return "w1" if self.is_dual and segment == 0 else "w2"

    def _segment(self, cell: WeightCell) -> int:
        return next(
            s for s, layer in enumerate(self.tables) if (layer, self._matrix(s)) == (cell.layer, cell.matrix)
        )

    def _words(self, network: Transformer, segment: int) -> Shaped[np.ndarray, "n_rows n_channels"]:
        layer = network.layers[self.tables[segment]]
        assert isinstance(layer, FeedForward)
        matrix = _dense(layer.w1) if self._matrix(segment) == "w1" else _dense(layer.w2).T
        first_part = matrix[:, self.n_slots : self.n_slots + self.channels.shape[-1]]
        if first_part.dtype == object:  # words of exact networks may be longer than 64 bits
            scale = Fraction(self.scales[segment])
            return np.array([[int(weight * scale) for weight in row] for row in first_part], dtype=object)
        return (first_part.astype(np.float64) * self.scales[segment]).astype(np.int64)


def _dense(weights: Weights) -> np.ndarray:
    """The weights as an array of their own: floats, or fractions where they are exact."""
    if isinstance(weights, np.ndarray):
        return weights.copy()
    dense = np.full(weights.shape, Fraction(0), dtype=object)
    for at, value in weights.entries.items():
        dense[at] = value.fraction
    return dense


def locate(memoriser: Memoriser, notes: Mapping[str, object], encoded: np.ndarray) -> MemoryMap:
    """Watch the network answer `encoded` and say where each answer comes from. `notes` are those of its construction."""
    shape, rare = _shape(notes), _rare_fields(notes)
    fields = label_fields(shape["field_bits"], shape["planes"], rare)
    network = memoriser.network
    if not isinstance(network, Transformer):
        raise UsageError("a map of memory needs a model compiled by the method retrieval, with its notes.")
    is_dual = notes["layout"] in ("dual table", "twin")  # the second is its name in older models
    tables, summing = _layers(network, notes, shape, fields, is_dual)
    n_slots = network.model_width - shape["parts"] * shape["channels"]
    watched = [_watch(network, batch, tables, summing, shape, is_dual) for batch in _batches(encoded)]
    rows, channels, places = (np.concatenate([part[i] for part in watched]) for i in range(3))
    layer = network.layers[tables[0]]
    assert isinstance(layer, FeedForward)
    gate = -float(_dense(layer.b2).ravel()[SLOTS.index(LABEL)]) if is_dual else 1.0
    scales = (1.0, gate / WORD_SCALE) if is_dual else (1.0 / WORD_SCALE,) * len(tables)
    layers = tables * 2 if is_dual else tables
    planes, one = planes_of(fields, places), np.ones(len(places), dtype=np.int64)
    found = MemoryMap(layers, rows, channels, planes, fields, rare, one, n_slots, scales)
    reached = np.array([each for _, each in split_labels(found.labels(network), rare)])
    return replace(found, n_kinds=reached.sum(axis=0))


def _rare_fields(notes: Mapping[str, object]) -> RareFields:
    """The fields for rare labels that the notes name; none in models whose labels are all alike."""
    named, names = notes.get("rare_fields", []), ("n_bits", "n_planes", "first")
    is_known = isinstance(named, list) and all(
        isinstance(each, dict) and {*each} == {*names} for each in named
    )
    numbers = (
        [[each[name] for name in names] for each in named] if isinstance(named, list) and is_known else []
    )
    if not is_known or any(
        type(number) is not int or not least <= number <= most
        for row in numbers
        for number, least, most in zip(row, (1, 1, 0), (64, 64, 1 << 53), strict=True)
    ):
        raise UsageError("a map of memory needs a model compiled by the method retrieval, with its notes.")
    return tuple(RareField(*row) for row in numbers)


def _shape(notes: Mapping[str, object]) -> dict[str, int]:
    names = ("rows", "channels", "segments", "planes", "field_bits")
    named = {
        **{name: notes.get(name) for name in names},
        "parts": notes.get("parts", 1),
    }  # absent in older models
    found = {name: n for name, n in named.items() if type(n) is int and 1 <= n <= _MOST}
    if len(found) < len(named) or "layout" not in notes:
        raise UsageError("a map of memory needs a model compiled by the method retrieval, with its notes.")
    return found


def _layers(
    network: Transformer,
    notes: Mapping[str, object],
    shape: Mapping[str, int],
    fields: Sequence[LabelField],
    is_dual: bool,
) -> tuple[tuple[int, ...], int]:
    """The tables and the layer that sums their words, if the notes are those of this network."""
    named, summing = notes.get("tables"), notes.get("sum")
    widths = {
        number: layer.hidden_width
        for number, layer in enumerate(network.layers)
        if isinstance(layer, FeedForward)
    }
    if (
        not isinstance(named, list)
        or len(named) != (1 if is_dual else shape["segments"])
        or any(type(number) is not int or widths.get(number) != shape["rows"] for number in named)
        or named != sorted(set(named))
        or type(summing) is not int
        or not max(named) < summing < len(network.layers) - shape["field_bits"]
        or widths.get(summing) != _sum_width(shape, fields)
        or network.model_width < len(SLOTS) + shape["parts"] * shape["channels"]
    ):
        raise UsageError("these notes do not belong to this network: its tables cannot be found.")
    return tuple(named), summing


def _sum_width(shape: Mapping[str, int], fields: Sequence[LabelField]) -> int:
    """Units of the layer that sums the words: one per word, one per cleared register, some for the planes of the highest kind."""
    highest = fields[-1]
    n_place_units = (highest.n_planes - 1) * (2 if highest.below > 1 else 1)
    return shape["channels"] + len(fields) - 1 + (n_place_units if shape["parts"] == 1 else 0)


def _batches(encoded: np.ndarray) -> list[np.ndarray]:
    return [encoded[start : start + _BATCH] for start in range(0, len(encoded), _BATCH)]


def _watch(
    network: Transformer,
    batch: np.ndarray,
    tables: tuple[int, ...],
    summing: int,
    shape: Mapping[str, int],
    is_dual: bool,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, open channels and plane of each input of a batch."""
    module = to_module(network).eval()
    n_slots = network.model_width - shape["parts"] * shape["channels"]
    last = n_slots + shape["channels"]
    rows: list[np.ndarray] = []
    channels: list[np.ndarray] = []
    with torch.no_grad():
        entering = torch.from_numpy(np.array(batch))
        stream = module.enter(entering if module.embedding is not None else entering.to(module.w_in.dtype))
        for number, layer in enumerate(module.layers[: summing + 1]):
            if number in tables:
                assert isinstance(layer, FeedForwardModule)
                hidden = torch.nn.functional.linear(stream, layer.w1, layer.b1)[:, :, : shape["rows"]]
                fired = hidden.argmax(dim=-1).numpy()
                if is_dual:
                    rows += [fired[:, 0], fired[:, -1]]
                    channels.append(stream[:, 0, n_slots:last].numpy() > 0.5)
                else:
                    rows.append(fired[:, -1])
            if number == summing:
                open_now = stream[:, -1, n_slots:last].numpy() >= 0
                channels += [open_now] * (len(rows) - len(channels))
                planes = np.rint(stream[:, -1, SLOTS.index(Z)].numpy()).astype(np.int64)
            stream = layer(stream)
    return np.stack(rows, axis=1).astype(np.int64), np.stack(channels, axis=1), planes
