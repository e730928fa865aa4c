"""Find the tables of a `retrieval` network, from the notes in its record. The notes are checked against the layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from jaxtyping import Int

from byheart.construct.retrieval.label_code import (
    LabelField,
    RareField,
    RareFields,
    label_fields,
)
from byheart.construct.retrieval.label_reader import WORD_SCALE
from byheart.construct.retrieval.layout import LABEL, SLOTS, T
from byheart.construct.retrieval.part_tables import PartTables
from byheart.errors import UsageError
from byheart.network.exact.dyadic import as_dense
from byheart.network.transformer.architecture import FeedForward, Transformer
from byheart.records.reader import read_values

_MOST = 1 << 40  # limit for the numbers of rows, planes and bits in the notes


@dataclass(frozen=True)
class TableShape:
    """The place and shape of the tables of a network, from the notes of its construction.

    A segment is one table. A dual table is one layer that holds two segments: one in its input weights, one in its output weights.

    tables   the layer of each segment; in a dual table, both segments have the same layer
    sums     the layers that sum words: one layer for each part of a label, in the order of the parts
    n_channels
             number of words that a row has for each part of a label
    n_slots  number of registers before those of the words
    fields   the kinds of bit fields in a word: first the field that every label has, then the fields in which rare labels continue
    rare     which labels continue in further fields
    gate     output of an active unit of a dual table; 1 if the tables are not dual
    n_limbs  number of registers for each word; more than one only if weights are stored in few bits
    parts    the layers of the tables if each part of a label has its own table; all these tables have the same rows and channels
    n_constants
             number of registers, right before those of the words, that hold a constant; 0 if not each part of a label has its
             own table
    """

    tables: tuple[int, ...]
    sums: tuple[int, ...]
    n_rows: int
    n_channels: int
    n_slots: int
    fields: tuple[LabelField, ...]
    rare: RareFields
    gate: Fraction
    n_limbs: int = 1
    parts: tuple[int, ...] = ()
    n_constants: int = 0

    @property
    def places(self) -> list[tuple[int, str]]:
        """The layer and name of each matrix that holds words, ordered by segment (table) and then by part of the label."""
        layers = [self.parts or (table,) for table in self.tables]
        return [(layer, self.matrix(segment)) for segment, each in enumerate(layers) for layer in each]

    def place_of(self, segment: int, registers: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
        """Return the matrix from which the words of each register are read, as an index into `places`."""
        if not self.parts:
            return np.full(len(registers), segment)
        return segment * len(self.parts) + registers // self.n_channels

    def channel_of(self, registers: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
        """For each word register, return the channel of the residual stream into which its word is read. If each part of a label
        has its own table, all parts use the same channels.
        """
        return self.n_slots + (registers % self.n_channels if self.parts else registers)

    @property
    def sum_channels(self) -> slice:
        """The columns of the residual stream that hold the sums of the parts of a label, if each part has its own table."""
        return slice(self.n_slots - self.n_constants - len(self.parts), self.n_slots - self.n_constants)

    @property
    def is_dual(self) -> bool:
        """Whether the words are in a dual table: one layer whose input weights hold the first segment (table), and whose output
        weights hold the second.
        """
        return self.tables[0] == self.tables[-1] and len(self.tables) > 1

    def matrix(self, segment: int) -> str:
        """Return the name of the weight matrix that holds the words of a segment (table)."""
        return "w1" if self.is_dual and segment == 0 else "w2"

    def scale(self, segment: int) -> Fraction:
        """Return the factor that converts the weights of a segment (table) to words."""
        if not self.is_dual:
            return Fraction(1, WORD_SCALE)
        return Fraction(1) if segment == 0 else self.gate / WORD_SCALE


NO_NOTES = "facts can be located only in a model that the method `retrieval` compiled and whose record describes its tables."


@dataclass(frozen=True)
class _Notes:
    """The notes about the tables that the method `retrieval` left in the model's record. The fields with defaults are missing in
    older models, and in models that do not need these fields.
    """

    layout: str
    rows: int
    channels: int
    segments: int
    planes: int
    field_bits: int
    tables: list[int]
    sum: int
    parts: int = 1
    slots: int | None = None
    rare_fields: tuple[RareField, ...] = ()


def _another_network(why: str) -> UsageError:
    return UsageError(f"the record of this model describes another network: {why}.", why=why)


def table_shape(network: Transformer, notes: Mapping[str, object]) -> TableShape:
    """Find the tables and the layers that sum their words. Raise an error if the notes belong to another network."""
    read = _read_notes(notes)
    if max(read.parts, read.segments) > len(network.layers) or read.channels > network.model_width:
        raise _another_network("the network has fewer layers or columns than the record names")
    if read.layout == PartTables.name:
        return _shape_of_parts(network, read)
    is_dual = read.layout in ("dual table", "twin")  # the second name is used in older models
    fields = label_fields(read.field_bits, read.planes, read.rare_fields)
    widths = {
        number: layer.hidden_width
        for number, layer in enumerate(network.layers)
        if isinstance(layer, FeedForward)
    }
    n_limbs = _count_limbs(network, read)
    # every part of a label is read by the same number of layers: those from the last sum on, and one that clears the sum before it
    sums = [read.sum - part * (len(network.layers) - read.sum + 1) for part in range(read.parts)]
    if (
        len(read.tables) != (1 if is_dual else read.segments)
        or any(widths.get(number) != read.rows for number in read.tables)
        or read.tables != sorted(set(read.tables))
        or not max(read.tables) < min(sums)
        or not read.sum < len(network.layers) - read.field_bits
        or widths.get(read.sum) != _sum_width(read, fields, n_limbs) + (network.storage is not None)
        or any(number not in widths for number in sums)
        or network.model_width < len(SLOTS) + read.parts * read.channels * n_limbs
    ):
        raise _another_network("the network lacks the tables that the record names")
    layer = network.layers[read.tables[0]]
    assert isinstance(layer, FeedForward)
    gate = -Fraction(as_dense(layer.b2).ravel().tolist()[SLOTS.index(LABEL)]) if is_dual else Fraction(1)
    if gate <= 0:
        raise _another_network("according to the weights, the output of an active table unit is not positive")
    return TableShape(
        tuple(read.tables) * (2 if is_dual else 1),
        tuple(sums),
        read.rows,
        read.channels,
        network.model_width - read.parts * read.channels * n_limbs,
        fields,
        read.rare_fields,
        gate,
        n_limbs,
    )


def _shape_of_parts(network: Transformer, read: _Notes) -> TableShape:
    """Find the tables and the layers that sum their words, in a network in which each part of a label has its own table."""
    n_after = len(network.layers) - read.sum + 1
    sums = [read.sum - part * n_after for part in range(read.parts)]
    layers = [network.layers[at] if 0 <= at < len(network.layers) else None for at in (*read.tables, *sums)]
    n_units = [read.rows] * len(read.tables) + [1] * (read.parts - 1)
    widths = [layer.hidden_width if isinstance(layer, FeedForward) else 0 for layer in layers]
    is_right = len(read.tables) == read.parts and read.tables == sorted(set(read.tables))
    is_right &= widths[: len(n_units)] == n_units and min(widths) > 0 and max(read.tables) + 2 < min(sums)
    is_right &= read.slots is not None and network.model_width == read.slots + read.channels
    n_constants = int(network.precision == "bfloat16")
    is_right &= (read.slots or 0) >= len(SLOTS) + read.parts + n_constants
    if not is_right or read.rare_fields:
        raise _another_network("the network lacks the tables that the record names")
    layer = layers[0]
    assert isinstance(layer, FeedForward)
    gate = -Fraction(as_dense(layer.w1)[0, SLOTS.index(T)].item()) / 2  # the weight of the square of a row
    if gate <= 0:
        raise _another_network("according to the weights, the output of an active table unit is not positive")
    return TableShape(
        (read.tables[0], read.tables[0]),
        tuple(sums),
        read.rows,
        read.channels,
        network.model_width - read.channels,
        label_fields(read.field_bits, read.planes, ()),
        (),
        gate,
        parts=tuple(read.tables),
        n_constants=n_constants,
    )


def _read_notes(notes: Mapping[str, object]) -> _Notes:
    try:
        read = read_values(notes, _Notes, "notes", ignore_unknown=True)
    except UsageError:
        raise UsageError(NO_NOTES) from None
    sizes = (read.rows, read.channels, read.segments, read.planes, read.field_bits, read.parts)
    is_right = all(1 <= size <= _MOST for size in sizes) and read.sum >= 0
    for rare in read.rare_fields:
        is_right &= 1 <= rare.n_bits <= 64 and 1 <= rare.n_planes <= 64 and 0 <= rare.first <= 1 << 53
    if not is_right:
        raise UsageError(NO_NOTES)
    return read


def _count_limbs(network: Transformer, read: _Notes) -> int:
    """Return the number of registers per word.

    If weights are stored in few bits, one weight holds only a part of a long word.
    """
    if network.storage is None or read.slots is None:
        return 1
    return max(1, (network.model_width - read.slots) // (read.parts * read.channels))


def _sum_width(read: _Notes, fields: Sequence[LabelField], n_limbs: int) -> int:
    """Return the number of units of the layer that sums the words.

    One unit is needed for each register that holds a word or a piece of one, and one unit for each kind of label field that only
    rare labels use. If labels are not divided into parts, further units choose one of the planes (ranges of bits) in which a
    field of the last kind can be.

    If weights are stored in few bits, the layer has one more unit, which is not counted here.
    """
    highest = fields[-1]
    n_place_units = (highest.n_planes - 1) * (2 if highest.below > 1 else 1)
    return read.channels * n_limbs + len(fields) - 1 + (n_place_units if read.parts == 1 else 0)
