"""Find the weights that hold the facts of a `llama` model, with the tensor names of its checkpoint.

The tables are layers with many hidden units. At each token of an answer, a few of these units are active. An active unit multiplies
its gate by the dot product of its up-projection and the residual stream. So a weight of its up-projection matters only if the
weight multiplies a channel of the stream that is not zero. Such weights are called words. For each word, the layers after the
tables run again with only this word set to zero. The words for which the next token then changes hold the fact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from byheart.errors import UsageError
from byheart.inspect.location import Locations, Place, gather, require_known
from byheart.network.llama.architecture import Llama
from byheart.network.llama.chains import ChainedTexts
from byheart.network.llama.evaluator import SILU_SLOPE, Machine, chunks
from byheart.network.llama.generation import full_prompt, generate
from byheart.network.llama.spec import weight_name


def locate_in_checkpoint(
    llama: Llama, notes: Mapping[str, Any], encoded: np.ndarray, names: Sequence[str], n_asked: int
) -> Locations:
    """For each token of each answer, find the words (weights of the table layers) that hold it. If the model stores facts, and
    not texts to recite, the end token is part of the answer.

    `encoded` holds the inputs as token ids, and `names` their names. Raise `UsageError` if the model does not know one of the first
    `n_asked` inputs.
    """
    layers = table_layers(llama, notes)
    prompts = [full_prompt(llama, row[row != llama.spec.pad].tolist()) for row in encoded]
    answers = generate(llama, prompts, llama.backend)
    is_known = np.array([len(answer) > 0 and answer[-1] not in llama.spec.ends for answer in answers])
    require_known(names[:n_asked], is_known[:n_asked])
    known = np.flatnonzero(is_known)
    ids = [np.array(prompts[at] + answers[at]) for at in known]
    has_end = llama.spec.mode == "facts"  # the end of the answer is part of the fact
    n_tokens = np.array([len(answers[at]) + has_end for at in known], dtype=np.int64)
    if not has_end:
        ids = [each[:-1] for each in ids]
    offsets = np.cumsum([0, *map(len, ids)])
    asked = np.zeros(int(offsets[-1]), dtype=bool)
    for end, n in zip(offsets[1:], n_tokens, strict=True):
        asked[end - n : end] = True
    facts = np.repeat(known, n_tokens)
    positions = np.concatenate([np.arange(n) for n in n_tokens]) if len(known) else np.zeros(0, dtype=int)
    machine = Machine(llama)
    texts = ChainedTexts(np.concatenate([np.zeros(0, dtype=np.int64), *ids]), offsets, asked)
    found: list[dict[str, np.ndarray]] = []
    done = 0
    for run in chunks(texts):
        contexts, layer, cells, values, tokens = _words_read(machine, layers, *run)
        at = contexts + done
        found.append(
            {
                "fact": facts[at],
                "answer": tokens[contexts],
                "position": positions[at],
                "place": layer - layers.start,
                "cells": cells,
                "values": values,
                "fields": np.zeros((len(at), 0, 2), dtype=np.int64),
            }
        )
        done += len(tokens)
    places = tuple(Place(n, n, weight_name(n, "mlp.up_proj")) for n in layers)
    vocabulary = llama.text_tokenizer.vocabulary
    return gather(tuple(names), n_asked, tuple(map(str, vocabulary)), places, found, is_known)


def table_layers(llama: Llama, notes: Mapping[str, Any]) -> range:
    """Return the layers that hold the tables. They are read from the `notes` in the model's record. Raise `UsageError` if the notes
    do not name such layers, or name layers that the model does not have.
    """
    if "pick layer" in notes:
        raise UsageError(
            "an older version of byheart compiled this model, and its tables cannot be found.\n  Compile it again."
        )
    try:
        first, stop = (int(each) for each in notes["table layers"])
    except (KeyError, TypeError, ValueError):
        raise UsageError(
            "the record of this model does not name the layers of its tables.\n  Compile the model again."
        ) from None
    if not 0 < first < stop < llama.spec.n_layers:
        raise UsageError(
            "the record of this model names layers that the model does not have.\n  Compile the model again."
        )
    return range(first, stop)


def _words_read(
    machine: Machine, tables: range, ids: np.ndarray, starts: np.ndarray, asked: np.ndarray
) -> tuple[np.ndarray, ...]:
    """Run the model on some texts and find the words (weights of the table layers) that decide the next tokens: without such a
    word, the next token would be different.

    `asked` marks the positions whose next tokens are examined. Return five arrays. The first four have one item for each word
    found and each position that it decides: the index of this position among those marked, the word's layer, its cell (unit and
    column), and its value. The fifth array holds the next token at each marked position.
    """
    llama = machine.llama
    stream = machine.stream_before(tables.start, ids, starts, asked)
    # position, layer, unit and column of every word that is read, and what its unit adds
    read = []
    for layer in tables:
        contexts, units = np.nonzero(machine.gates(layer, stream) > 0)
        up, down = (llama.weight(layer, f"mlp.{part}_proj") for part in ("up", "down"))
        pair, columns = np.nonzero((stream[contexts] != 0) & (up[units] != 0) & ~machine.pinned.columns)
        contexts, units = contexts[pair], units[pair]
        values = up[units, columns]
        adds = down.T[units] * (values * stream[contexts, columns] * SILU_SLOPE)[:, None]
        read.append(
            (contexts, np.full(len(contexts), layer), np.stack([units, columns], axis=1), values, adds)
        )
        stream = machine.feed(layer, stream)
    before = machine.answer_from(tables.stop, stream)
    found = []
    for contexts, layers, cells, values, adds in read:
        holds = machine.answer_from(tables.stop, stream[contexts] - adds) != before[contexts]
        found.append([each[holds] for each in (contexts, layers, cells, values)])
    return (*(np.concatenate(each) for each in zip(*found, strict=True)), before)
