"""Describe what the layers of a network do, as stages with a name, a sentence and a lemma.

Also name the registers of the residual stream.

Stages are derived from the record of the construction and the shape of the network. If the two do not agree, or the
construction is not known here, each run of similar layers is one stage, and nothing is guessed. The descriptions are
in stages.json.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from byheart.construct.kajitsuka_sato_2025.network_program import REGISTERS
from byheart.construct.retrieval.dual_table import PATTERN
from byheart.construct.retrieval.layout import ONE, SLOTS
from byheart.construct.retrieval.part_tables import PartTables
from byheart.network.exact.dyadic import SparseMatrix
from byheart.network.transformer.architecture import FeedForward, SumPool, Transformer

_WORDS = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
KS25 = "kajitsuka-sato-2025"
LOOKUP_LEMMAS = {"token": "Lemma B.3", "question": "Stage II of Lemma C.1"}
PARTS = PartTables.name
ENTRANCE = -1
"""Stands for the input of the first layer, in places that otherwise hold the number of a layer."""


@dataclass(frozen=True)
class Stage:
    """Layers `first` to `last`, both inclusive and counted from 0 as in `module.layers`. -1 is the input of the first layer.

    lemma  the lemma of the theorem's proof that describes these layers, if there is one
    """

    kind: str
    title: str
    sentence: str
    first: int
    last: int
    lemma: str | None = None


@dataclass(frozen=True)
class Register:
    """One channel of the residual stream, with its name in the compiled program. `others` are its names in other layers."""

    name: str
    meaning: str
    others: tuple[str, ...] = ()  # other names of the same channel, in other layers


def stage_called(name: str, first: int, last: int, **values: Any) -> Stage:
    """Return the stage `name` of stages.json, with `values` inserted into its description."""
    kind, title, sentence = _WORDS["stages"][name]
    lemma = _WORDS["lemmas"].get(name)
    proved_by = None if lemma is None else str(lemma).format(**values)
    return Stage(kind, title.format(**values), sentence.format(**values), first, last, proved_by)


def _extend(stages: list[Stage], name: str, at: int, *, merge: bool = True, **values: Any) -> None:
    """Add layer `at`, which belongs to the stage `name` of stages.json, to `stages`.

    If the last of `stages` ends just before this layer, and its kind and title are those of `name`, extend it.
    Otherwise, or without `merge`, begin a new stage.
    """
    here, last = stage_called(name, at, at, **values), stages[-1] if stages else None
    if (
        merge
        and last is not None
        and (last.kind, last.title) == (here.kind, here.title)
        and last.last == at - 1
    ):
        stages[-1] = replace(here, first=last.first)
    else:
        stages.append(here)


def stages_of(network: Transformer, record: Mapping[str, Any]) -> tuple[Stage, ...]:
    """Return the stages of a network in order, from the input to the last layer."""
    notes = record.get("notes") or {}
    method = str(record.get("method", ""))
    found: list[Stage] | None = None
    if method == "retrieval":
        found = _retrieval(network, notes)
    elif method.startswith(KS25):
        found = _kajitsuka_sato(network, notes)
    stages = [stage_called("codes", -1, -1), *(found or _plain(network))]
    assert [s.first for s in stages[1:]] == [s.last + 1 for s in stages[:-1]]
    return tuple(stages)


def registers_of(network: Transformer, record: Mapping[str, Any]) -> tuple[Register, ...]:
    """Return the name and meaning of every channel of the residual stream.

    A channel without a known name is named by its number.
    """
    method, notes = str(record.get("method", "")), record.get("notes") or {}
    width = network.model_width
    if method.startswith(KS25) and width >= len(REGISTERS):
        meanings = _WORDS["registers"][KS25]
        named = [Register(name, meanings[name]) for name in REGISTERS]
        return (
            *named,
            *(Register(f"input {at}", f"coordinate {at} of the token") for at in range(width - len(named))),
        )
    if method == "retrieval" and isinstance(notes, Mapping):
        slots = _slots(network, notes)
        if slots is not None:
            layout, names = slots
            meanings = _WORDS["registers"][layout]
            names = (*names, *(f"word {number}" for number in range(width - len(names))))
            kinds = ((name, *name.partition(" ")[::2]) for name in names)
            return tuple(Register(name, meanings[kind].format(number=number)) for name, kind, number in kinds)
    return tuple(Register(f"channel {at}", f"channel {at} of the residual stream") for at in range(width))


def _slots(network: Transformer, notes: Mapping[str, Any]) -> tuple[str, tuple[str, ...]] | None:
    """Return how a `retrieval` network arranges its registers: the name of this layout, and the names of the registers that come
    before the word registers (which hold words of the tables). Return None if `notes`, the notes in the record, do not fit the
    network.
    """
    width, n_channels, n_parts = network.model_width, notes.get("channels"), notes.get("parts", 1)
    if not (_is_count(n_channels, width) and _is_count(n_parts, width)):
        return None
    n_slots = width - n_channels * n_parts
    if network.storage is not None:  # in narrow number types, a word may take several registers
        n_slots = notes["slots"] if _is_count(notes.get("slots"), width) else 0
    if notes.get("layout") == PARTS and _is_count(notes.get("groups"), width):
        return _slots_of_parts(network, notes, n_parts)
    if notes.get("layout") == "chain":
        return ("chain", SLOTS) if n_slots == len(SLOTS) else None
    if notes.get("layout") not in ("dual table", "twin") or n_slots < len(SLOTS):  # "twin" in older models
        return None
    older = () if "slots" in notes else ("role",)
    constant = (ONE,) if network.precision == "bfloat16" else ()
    rest = n_slots - len(SLOTS) - len(older) - len(constant)
    before = n_slots - len(constant) - 1
    last = (PATTERN,) if rest > 0 and not _is_read_by_table(network, notes, before) else ()
    digits = (f"digit {number}" for number in range(rest - len(last)))
    return "dual table", (*SLOTS, *older, *digits, *last, *constant)


def _is_count(value: Any, largest: int) -> bool:
    return type(value) is int and 1 <= value <= largest


def _slots_of_parts(
    network: Transformer, notes: Mapping[str, Any], n_parts: int
) -> tuple[str, tuple[str, ...]] | None:
    """Do the same as `_slots` for a `retrieval` network in which each part of a label has its own table.

    Return the name of the layout and the names of the registers that come before the word registers. Return None if `notes` do
    not fit the network.
    """
    constant = (ONE,) if network.precision == "bfloat16" else ()
    choices = tuple(f"choice {group}" for group in range(notes["groups"] - 1))
    sums = tuple(f"sum {part}" for part in range(n_parts))
    n_slots = notes["slots"] if _is_count(notes.get("slots"), network.model_width) else 0
    n_digits = n_slots - len(SLOTS) - len(choices) - len(sums) - len(constant)
    if n_digits < 0:
        return None
    return PARTS, (*SLOTS, *(f"digit {number}" for number in range(n_digits)), *choices, *sums, *constant)


def _is_read_by_table(network: Transformer, notes: Mapping[str, Any], channel: int) -> bool:
    """Return whether the hidden units of the table read this channel. Also return True if the notes name no table.

    `_slots` asks this for one channel, which comes right before the word registers or, if there is a constant before these, right
    before the constant. If the units read that channel, it holds a digit of the row number. Otherwise, it holds the pattern that
    chooses which words are summed.
    """
    tables = notes.get("tables")
    at = tables[0] if isinstance(tables, list) and tables and type(tables[0]) is int else -1
    layer = network.layers[at] if 0 <= at < len(network.layers) else None
    if not isinstance(layer, FeedForward):
        return True
    if isinstance(layer.w1, SparseMatrix):
        return any(column == channel for _, column in layer.w1.entries)
    return bool(layer.w1[:, channel].any())


def _mixing(network: Transformer) -> list[int]:
    return [at for at, layer in enumerate(network.layers) if not isinstance(layer, FeedForward)]


def _retrieval(network: Transformer, notes: Mapping[str, Any]) -> list[Stage] | None:
    tables, summing, field_bits = notes.get("tables"), notes.get("sum"), notes.get("field_bits")
    n_layers = len(network.layers)
    if not isinstance(tables, list) or type(summing) is not int or type(field_bits) is not int:
        return None
    feed_forward = [at for at, layer in enumerate(network.layers) if isinstance(layer, FeedForward)]
    if not tables or any(type(t) is not int or t not in feed_forward for t in tables):
        return None
    if not 0 <= summing < n_layers - 1 - field_bits or field_bits < 1:
        return None
    mixing, rare, rare_fields = _mixing(network), notes.get("rare_layers", []), notes.get("rare_fields", [])
    if not isinstance(rare, list) or not isinstance(rare_fields, list):
        return None
    n_last = 2 * len(rare_fields)  # layers that add the extra bits of rare labels
    stages: list[Stage] = []
    for at, layer in enumerate(network.layers):
        if at in tables:
            assert isinstance(layer, FeedForward)
            number = f" {tables.index(at) + 1}" if len(tables) > 1 else ""
            _extend(stages, "table", at, merge=False, number=number, n_units=layer.hidden_width)
        elif at == summing:
            _extend(stages, "sum", at)
        elif at in mixing:
            _extend(stages, "pool" if isinstance(layer, SumPool) else "mix", at, merge=False)
        elif at in rare:
            _extend(stages, "rare", at)
        elif n_layers - field_bits - n_last <= at < n_layers - n_last:
            _extend(stages, "label", at, field_bits=field_bits)
        elif at > summing:
            _extend(stages, "peel", at)
        elif at > tables[0]:
            _extend(stages, "choose" if notes.get("layout") == PARTS else "next", at)
        else:
            _extend(stages, "fold" if at < min(mixing, default=-1) else "address", at)
    return stages


def _kajitsuka_sato(network: Transformer, notes: Mapping[str, Any]) -> list[Stage] | None:
    names = (
        "groups_first", "group_size_first", "groups_second", "group_size_second",
        "word_key_bits", "word_weight_bits", "context_key_bits",
    )  # fmt: skip
    has_registers = network.model_width >= len(REGISTERS)
    if any(not isinstance(notes.get(name), int) for name in names) or not has_registers:
        return None
    mixing = _mixing(network)
    if not mixing or mixing != list(range(mixing[0], mixing[0] + len(mixing))):
        return None
    stages: list[Stage] = []
    n_before = int(notes.get("entrance") == "vectors")
    for at in range(n_before):
        _extend(stages, "place", at)
    first = _lookup(notes["groups_first"], notes["group_size_first"], n_before, mixing[0], "token", stages)
    for at in mixing:
        _extend(stages, "sequence id", at)
    start, n_layers = mixing[-1] + 1, len(network.layers)
    _extend(stages, "context", start)
    groups, size = notes["groups_second"], notes["group_size_second"]
    second = _lookup(groups, size, start + 1, n_layers, "question", stages)
    return stages if first and second else None


def _lookup(n_groups: int, size: int, start: int, stop: int, what: str, stages: list[Stage]) -> bool:
    """Append to `stages` the stages of one lookup, whose layers are `start` to `stop` - 1. Return False if a lookup in `n_groups`
    groups of `size` entries cannot have this number of layers.

    `what` names the input of the lookup: `token` or `question`. A lookup first finds the group of the input and copies the group's
    words (numbers that pack keys and labels). Then, for each entry, it extracts the key and the label, and compares the key with
    the input. If they are equal, it adds the label to the answer.
    """
    if n_groups == 0:
        return start == stop
    if n_groups < 0 or size < 1:
        return False
    rest = stop - start - n_groups - 1
    if rest <= 0 or rest % size:
        return False
    for at in range(start, start + n_groups):
        _extend(stages, "lookup", at, n_groups=n_groups, what=what, lemma=LOOKUP_LEMMAS[what])
    _extend(stages, "open", start + n_groups)
    per_entry = rest // size
    for entry in range(size):
        at = start + n_groups + 1 + entry * per_entry
        stages.append(stage_called("extract", at, at + per_entry - 1, entry=entry + 1, size=size))
    return True


def _plain(network: Transformer) -> list[Stage]:
    stages: list[Stage] = []
    for (kind, n_units), run in groupby(map(_kind, network.layers)):
        length, at = len(list(run)), stages[-1].last + 1 if stages else 0
        layers = "One layer" if length == 1 else f"{length} layers"
        stages.append(stage_called(f"plain {kind}", at, at + length - 1, layers=layers, n_units=n_units))
    return stages


def _kind(layer: Any) -> tuple[str, int]:
    if isinstance(layer, FeedForward):
        return "feed-forward", layer.hidden_width
    return ("pool", 0) if isinstance(layer, SumPool) else ("mix", len(layer.heads))
