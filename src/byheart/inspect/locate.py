"""Find the weights that hold a fact, in models of `retrieval`, `llama`, and KS25 (`kajitsuka-sato-2025` and its variants)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from byheart.data.sequences import Sequences
from byheart.errors import UsageError
from byheart.inspect.location import Location, Locations, Place, gather, require_known
from byheart.network.llama.architecture import Llama
from byheart.network.memoriser import Memoriser
from byheart.network.protocol import UNKNOWN
from byheart.network.transformer.architecture import Transformer
from byheart.verify.encoded_inputs import encode_inputs

__all__ = ["Location", "Locations", "locate"]

KS25 = "kajitsuka-sato-2025"


def locate(
    memoriser: Memoriser,
    record: Mapping[str, Any],
    sequences: Sequences,
    names: Sequence[str],
    n_asked: int | None = None,
) -> Locations:
    """Find the weights that hold the answer to each known input.

    record   the record of the model
    names    the names of the inputs
    n_asked  how many inputs, counted from the first, to locate (default: all). The others appear only in `Location.sharing`.
             `UsageError` is raised if an input to locate is unknown; other unknown inputs are ignored.
    """
    n_asked = len(names) if n_asked is None else n_asked
    if not n_asked:
        raise UsageError("no facts were given.\n  Give at least one fact to locate.")
    notes = record.get("notes")
    notes = notes if isinstance(notes, Mapping) else {}
    method = str(record.get("method", ""))
    found = encode_inputs(memoriser, sequences, memoriser.tokenizer)
    refused = min(found.refused, default=n_asked)
    if refused < n_asked:
        raise UsageError(f"{names[refused]!r}: {found.refused[refused]}.", facts=[names[refused]])
    encoded, names = found.encoded, [names[at] for at in found.asked.tolist()]
    if isinstance(memoriser.network, Llama):
        from byheart.inspect.checkpoint import locate_in_checkpoint

        return locate_in_checkpoint(memoriser.network, notes, encoded, names, n_asked)
    if method == "retrieval":
        return locate_in_tables(memoriser, notes, encoded, names, n_asked)
    if method.startswith(KS25) and isinstance(memoriser.network, Transformer):
        from byheart.inspect.lookups import locate_in_lookups

        return locate_in_lookups(memoriser, record, encoded, names, n_asked)
    raise UsageError(
        f"facts cannot be located in models of {method or 'this method'}.\n"
        f"  Use a model compiled by `retrieval`, `llama` or a method whose name begins with {KS25}.",
        method=method,
    )


def locate_in_tables(
    memoriser: Memoriser,
    notes: Mapping[str, object],
    encoded: np.ndarray,
    names: Sequence[str],
    n_asked: int,
) -> Locations:
    """Find the words (weights of the tables) of a `retrieval` model that hold each fact."""
    from byheart.inspect.tables import read_tables

    reads = read_tables(memoriser, notes, encoded)
    shape, labels = reads.shape, memoriser.label_names
    before = reads.answers(labels)
    is_known = np.ones(len(names), dtype=bool)
    is_known[reads.samples[before == UNKNOWN]] = False
    require_known(names[:n_asked], is_known[:n_asked])
    places = tuple(Place(layer, layer, f"layers.{layer}.{matrix}") for layer, matrix in shape.places)
    found: list[dict[str, np.ndarray]] = []
    held: dict[int, list[np.ndarray]] = {}
    for segment, tokens, registers in reads.cells():
        is_asked = before[tokens] != UNKNOWN
        tokens, registers = tokens[is_asked], registers[is_asked]
        holds = reads.answers_without(segment, tokens, registers, labels) != before[tokens]
        tokens, registers = tokens[holds], registers[holds]
        held.setdefault(segment, []).append(np.stack([tokens, registers]))
        rows, columns = reads.rows[tokens, segment], shape.channel_of(registers)
        is_input = shape.matrix(segment) == "w1"
        found.append(
            {
                "fact": reads.samples[tokens],
                "answer": before[tokens],
                "position": reads.positions[tokens]
                - _first_positions(reads.samples, reads.positions)[tokens],
                "place": shape.place_of(segment, registers),
                "cells": np.stack([rows, columns] if is_input else [columns, rows], axis=1),
                "values": reads.weights(segment)[rows, registers],
                "fields": reads.powers(segment, tokens, registers, before[tokens]),
            }
        )
    together = {segment: tuple(np.concatenate(cells, axis=1)) for segment, cells in held.items()}
    changes = np.zeros(len(names), dtype=bool)
    changes[reads.samples[reads.answers_without_all(together, labels) != before]] = True
    return gather(tuple(names), n_asked, tuple(labels), places, found, is_known, ~changes)


def _first_positions(samples: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """For each labelled token, return the position of the first labelled token of its input."""
    first = np.searchsorted(samples, samples)
    return np.asarray(positions[first])
