"""Which layers of a network do what: stages with a name and a sentence, and the names of the channels.

Read off the record of the construction and the shape of the network. Where the two do not agree, or the construction is another
one, every run of equal layers is a stage of its own: nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from byheart.network.transformer.architecture import FeedForward, SumPool, Transformer

KS25_REGISTERS = (
    ("x", "place on the line"),
    ("keys_high", "key word, upper copy"),
    ("keys_low", "key word, lower copy"),
    ("labels_high", "label word, upper copy"),
    ("labels_low", "label word, lower copy"),
    ("key", "key being compared"),
    ("value", "label being read"),
    ("hit", "1 if the key matches"),
    ("answer", "answer"),
    ("sum", "sum over the sequence"),
)

ADDRESS = (
    "The sum is folded, like paper, until it is the number of a table row. Equal questions get equal rows, "
    "different questions land anywhere: a hash function made of ReLUs."
)
RETRIEVAL_STAGES = {
    "pool": ("mix", "Sum", "The codes of all tokens are added up."),
    "mix": (
        "mix",
        "Sum",
        "One attention head with equal weights adds up the codes of all tokens: the whole question becomes one number.",
    ),
    "sum": (
        "sum",
        "Add words",
        "The words that were read are added up. Somewhere among the bits of the sum lies the label.",
    ),
    "next": (
        "address",
        "Next address",
        "A few more bits of the sum say how far the next row lies from the last.",
    ),
    "stir": (
        "stir",
        "Stir",
        "Each token's code is folded back and forth, so that position and token can no longer be told apart.",
    ),
    "address": ("address", "Address", ADDRESS),
    "peel": (
        "peel",
        "Peel bits",
        "The sum is reflected at powers of two, the highest first. Every reflection removes one bit above the label's field.",
    ),
}
TABLE = "Only the row that the address names fires. Its output weights are words, and they are poured into the stream."
LABEL = "bits of this question's field are read, one a layer, each added to the answer at its place value."


@dataclass(frozen=True)
class Stage:
    """Layers `first` to `last`, both included; layer -1 is the entrance."""

    kind: str
    title: str
    sentence: str
    first: int
    last: int


def stages_of(network: Transformer, record: Mapping[str, Any]) -> tuple[Stage, ...]:
    """The stages of a network in order, from the entrance to the last layer."""
    notes = record.get("notes") or {}
    method = str(record.get("method", ""))
    found: list[Stage] | None = None
    if method == "retrieval":
        found = _retrieval(network, notes)
    elif method.startswith("kajitsuka-sato-2025"):
        found = _kajitsuka_sato(network, notes)
    entrance = Stage(
        "codes", "Codes", "Every token becomes a few numbers, read from the embedding table.", -1, -1
    )
    stages = [entrance, *(found or _plain(network))]
    assert [s.first for s in stages[1:]] == [s.last + 1 for s in stages[:-1]]
    return tuple(stages)


RETRIEVAL_REGISTERS = {
    "chain": (
        ("x", "row number, then the sum of the words"),
        ("J", "copy of the row, then the place of the field"),
        ("G", "square of the row, then the label"),
        ("z", "window and plane"),
    ),
    "dual table": (
        ("x", "row"),
        ("G", "square of the row"),
        ("y", "pattern, then the label"),
        ("z", "window and plane"),
        ("role", "1 for the extra token"),
    ),
}


def channels_of(network: Transformer, record: Mapping[str, Any]) -> list[dict[str, str]]:
    """A name and a meaning for every channel of the residual stream."""
    method, notes = str(record.get("method", "")), record.get("notes") or {}
    width = network.model_width
    if method.startswith("kajitsuka-sato-2025") and width == len(KS25_REGISTERS):
        return [{"name": name, "meaning": meaning} for name, meaning in KS25_REGISTERS]
    layout = str(notes.get("layout")) if method == "retrieval" else ""
    is_dual = layout in ("dual table", "twin")  # the second is its name in older models
    named = list(RETRIEVAL_REGISTERS.get("dual table" if is_dual else layout, ()))
    if is_dual:
        n_digits = width - len(named) - int(notes["channels"])
        named += [(f"d{i + 1}", "digit of the row") for i in range(n_digits)]
    if named:
        named += [(f"w{i + 1}", f"word {i + 1} of the row") for i in range(width - len(named))]
    else:
        named = [(f"c{i}", f"channel {i}") for i in range(width)]
    return [{"name": name, "meaning": meaning} for name, meaning in named[:width]]


def _mixing(network: Transformer) -> list[int]:
    return [at for at, layer in enumerate(network.layers) if not isinstance(layer, FeedForward)]


def _retrieval(network: Transformer, notes: Mapping[str, Any]) -> list[Stage] | None:
    tables, summing, field_bits = notes.get("tables"), notes.get("sum"), notes.get("field_bits")
    n_layers = len(network.layers)
    if not isinstance(tables, list) or not isinstance(summing, int) or not isinstance(field_bits, int):
        return None
    if not all(isinstance(t, int) for t in tables) or not tables or summing + 1 + field_bits >= n_layers:
        return None
    mixing = _mixing(network)
    stages: list[Stage] = []
    for at, layer in enumerate(network.layers):
        if at in tables:
            assert isinstance(layer, FeedForward)
            title = f"Table {tables.index(at) + 1}" if len(tables) > 1 else "Table"
            units = f"A layer of {layer.hidden_width:,} hidden units is a table: one unit, one row."
            stage = ("table", title, f"{units} {TABLE}")
        elif at == summing:
            stage = RETRIEVAL_STAGES["sum"]
        elif at in mixing:
            stage = RETRIEVAL_STAGES["pool" if isinstance(layer, SumPool) else "mix"]
        elif at >= n_layers - field_bits:
            stage = ("label", "Read label", f"The {field_bits} {LABEL}")
        elif at > summing:
            stage = RETRIEVAL_STAGES["peel"]
        elif at > tables[0]:
            stage = RETRIEVAL_STAGES["next"]
        else:
            stage = RETRIEVAL_STAGES["stir" if at < min(mixing, default=-1) else "address"]
        _extend(stages, *stage, at, merge=stage[0] not in ("mix", "table"))
    return stages


def _kajitsuka_sato(network: Transformer, notes: Mapping[str, Any]) -> list[Stage] | None:
    names = (
        "groups_first", "group_size_first", "groups_second", "group_size_second",
        "word_key_bits", "word_weight_bits", "context_key_bits",
    )  # fmt: skip
    if any(not isinstance(notes.get(name), int) for name in names) or network.model_width != len(
        KS25_REGISTERS
    ):
        return None
    mixing = _mixing(network)
    if not mixing or mixing != list(range(mixing[0], mixing[0] + len(mixing))):
        return None
    stages: list[Stage] = []
    n_before = int(notes.get("entrance") == "vectors")
    for at in range(n_before):
        _extend(stages, "place", "Place", "The token's vector is projected onto a line.", at)
    first = _lookup(notes["groups_first"], notes["group_size_first"], n_before, mixing[0], "token", stages)
    for at in mixing:
        sentence = "Equal attention adds up the weights of all tokens: the sequence id, a number no other question has."
        _extend(stages, "mix", "Sequence id", sentence, at)
    start = mixing[-1] + 1
    context = (
        "Last token and sequence id are projected onto one line, on which all questions lie at least 2 apart."
    )
    _extend(stages, "place", "Context", context, start)
    n_layers = len(network.layers)
    second = _lookup(
        notes["groups_second"], notes["group_size_second"], start + 1, n_layers, "question", stages
    )
    return stages if first and second else None


def _lookup(n_groups: int, size: int, start: int, stop: int, what: str, stages: list[Stage]) -> bool:
    """The stages of one lookup: groups, opening, and for each entry of a group its extraction, test and answer."""
    if n_groups == 0:
        return start == stop
    rest = stop - start - n_groups - 1
    if rest <= 0 or rest % size:
        return False
    for at in range(start, start + n_groups):
        sentence = (
            f"{n_groups} bumps stand on the line, one a layer. The bump over this {what}'s group fires and puts two long "
            "words into the stream: the keys of the group, and their labels, packed bit by bit."
        )
        _extend(stages, "lookup", f"Find the {what}'s group", sentence, at)
    sentence = "Each word gets a copy shifted by a hair. The two copies will tell the bits apart."
    _extend(stages, "open", "Open the words", sentence, start + n_groups)
    per_entry = rest // size
    for entry in range(size):
        at = start + n_groups + 1 + entry * per_entry
        sentence = (
            "Telgarsky's triangle wave folds the words: each fold moves the next bit to the front, where it is read. Then "
            "the key is compared with x; if it matches, the label is added to the answer."
        )
        stages.append(Stage("extract", f"Entry {entry + 1} of {size}", sentence, at, at + per_entry - 1))
    return True


def _plain(network: Transformer) -> list[Stage]:
    stages: list[Stage] = []
    kinds = [_kind(layer) for layer in network.layers]
    at = 0
    for (kind, n_units), run in groupby(kinds):
        length = len(list(run))
        titles = {"feed-forward": "Feed-forward", "mix": "Attention", "pool": "Sum"}
        layers = "one layer" if length == 1 else f"{length} layers"
        sentence = {
            "feed-forward": f"{layers} of {n_units:,} hidden units, on each token alone.",
            "mix": f"{layers} of attention with {n_units} heads.",
            "pool": "The tokens are added up.",
        }[kind]
        stages.append(Stage(kind, titles[kind], sentence[0].upper() + sentence[1:], at, at + length - 1))
        at += length
    return stages


def _kind(layer: Any) -> tuple[str, int]:
    if isinstance(layer, FeedForward):
        return "feed-forward", layer.hidden_width
    return ("pool", 0) if isinstance(layer, SumPool) else ("mix", len(layer.heads))


def _extend(
    stages: list[Stage], kind: str, title: str, sentence: str, at: int, *, merge: bool = True
) -> None:
    """Let the last stage go on to layer `at`, or begin a new one there."""
    last = stages[-1] if stages else None
    if merge and last is not None and (last.kind, last.title) == (kind, title) and last.last == at - 1:
        stages[-1] = Stage(kind, title, sentence, last.first, at)
    else:
        stages.append(Stage(kind, title, sentence, at, at))
