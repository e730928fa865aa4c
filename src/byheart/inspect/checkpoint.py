"""Where the facts of a `llama` model live: the words of its tables, by the names of the checkpoint.

At each token of an answer a few units of the table layers are open, and the pick layer multiplies some columns of what they
wrote: each weight from such a unit to such a column is a word that is read. Then the layers from the pick on run again without
one word at a time: the words whose absence changes the next token hold the fact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from byheart.errors import UsageError
from byheart.inspect.location import Locations, Place, gather, require_known
from byheart.network.llama.architecture import Llama
from byheart.network.llama.chains import ChainedTexts
from byheart.network.llama.evaluator import Machine, chunks
from byheart.network.llama.generation import full_prompt, generate
from byheart.network.llama.spec import weight_name


def locate_in_checkpoint(
    llama: Llama, notes: Mapping[str, Any], encoded: np.ndarray, names: Sequence[str], n_asked: int
) -> Locations:
    """The words that hold each token of each answer, and the end behind it."""
    first, stop, pick = _layers(llama, notes)
    prompts = [full_prompt(llama, row[row != llama.spec.pad].tolist()) for row in encoded]
    answers = generate(llama, prompts, llama.backend)
    is_known = np.array([len(answer) > 0 and answer[-1] not in llama.spec.ends for answer in answers])
    require_known(names[:n_asked], is_known[:n_asked])
    known = np.flatnonzero(is_known)
    ids = [np.array(prompts[at] + answers[at]) for at in known]
    has_end = llama.spec.mode == "facts"  # a fact must also end where it does
    n_tokens = np.array([len(answers[at]) + has_end for at in known], dtype=np.int64)
    if not has_end:
        ids = [each[:-1] for each in ids]
    offsets = np.cumsum([0, *map(len, ids)])
    asked = np.zeros(int(offsets[-1]), dtype=bool)
    for end, n in zip(offsets[1:], n_tokens, strict=True):
        asked[end - n : end] = True
    facts = np.repeat(known, n_tokens)
    positions = np.concatenate([np.arange(n) for n in n_tokens]) if len(known) else np.zeros(0, dtype=int)
    machine, layers = Machine(llama), range(first, stop)
    texts = ChainedTexts(np.concatenate([np.zeros(0, dtype=np.int64), *ids]), offsets, asked)
    found: list[dict[str, np.ndarray]] = []
    done = 0
    for run in chunks(texts):
        contexts, layer, cells, values, tokens = _words_read(machine, layers, pick, *run)
        at = contexts + done
        found.append(
            {
                "fact": facts[at],
                "answer": tokens[contexts],
                "position": positions[at],
                "place": layer - first,
                "cells": cells,
                "values": values,
                "fields": np.zeros((len(at), 0, 2), dtype=np.int64),
            }
        )
        done += len(tokens)
    places = tuple(Place(n, n, weight_name(n, "mlp.down_proj")) for n in layers)
    vocabulary = llama.text_tokenizer.vocabulary
    return gather(tuple(names), n_asked, tuple(map(str, vocabulary)), places, found)


def _layers(llama: Llama, notes: Mapping[str, Any]) -> tuple[int, int, int]:
    """The first table layer, the layer behind the last, and the layer that picks the words."""
    try:
        first, stop = (int(each) for each in notes["table layers"])
        pick = int(notes["pick layer"])
    except (KeyError, TypeError, ValueError):
        raise UsageError("the record of this model does not say where its tables are.") from None
    if not 0 < first < stop <= pick < llama.spec.n_layers:
        raise UsageError("the record of this model names layers that it does not have.")
    return first, stop, pick


def _words_read(
    machine: Machine, tables: range, pick: int, ids: np.ndarray, starts: np.ndarray, asked: np.ndarray
) -> tuple[np.ndarray, ...]:
    """Of one run of texts: asked position, layer, cell and value of each word that decides a next token; and all next tokens."""
    llama = machine.llama
    stream = machine.stream_before(tables.start, ids, starts, asked)
    opened = []  # asked position and unit of every open unit of the tables, layer after layer
    for layer in range(tables.start, pick):
        if layer in tables:
            opened.append(np.nonzero(machine.gates(layer, stream) > 0))
        stream = machine.feed(layer, stream)
    # the columns that open units of the pick multiply; pinned columns are constants
    multiplied = (llama.weight(pick, "mlp.up_proj") != 0) & ~machine.pinned.columns
    read = (machine.gates(pick, stream) > 0).astype(np.float64) @ multiplied.astype(np.float64) > 0
    before = machine.answer_from(pick, stream)
    found = []
    for layer, (contexts, units) in zip(tables, opened, strict=True):
        pair, columns = np.nonzero(read[contexts])
        contexts, units = contexts[pair], units[pair]
        values = llama.weight(layer, "mlp.down_proj")[columns, units]
        is_word = values != 0
        contexts, units, columns, values = (each[is_word] for each in (contexts, units, columns, values))
        without = stream[contexts]
        without[np.arange(len(contexts)), columns] -= values
        holds = machine.answer_from(pick, without) != before[contexts]
        cells = np.stack([columns, units], axis=1)
        columns_found = (contexts, np.full(len(contexts), layer), cells, values)
        found.append([each[holds] for each in columns_found])
    return (*(np.concatenate(each) for each in zip(*found, strict=True)), before)
