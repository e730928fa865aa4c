"""Find the weights that hold facts in the models of KS25 (`kajitsuka-sato-2025` and its variants): the packed words of a group,
and the layers that unpack them.

In these models, a context is a number x on a line. The contexts are divided into groups. Each group has a bump function, which adds
two long words to the stream. These words pack the keys and the labels of the whole group (Lemma G.3). The key and the label of one
context form one entry of the words. Each entry (the first, the second and so on) has its own layers, which extract it from the
words (Lemma G.6). A fact therefore shares every weight with other facts, and only the bits of the words distinguish the facts of a
group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from byheart.errors import UsageError
from byheart.inspect.location import Locations, Place, gather, require_known
from byheart.inspect.stages import Stage, registers_of, stages_of
from byheart.network.exact.dyadic import SparseMatrix, Weights, as_sparse
from byheart.network.memoriser import UNKNOWN, Memoriser
from byheart.network.transformer.architecture import FeedForward, Transformer
from byheart.network.transformer.evaluator import evaluate
from byheart.program.lookup import KEYS_HIGH, X


def locate_in_lookups(
    memoriser: Memoriser, record: Mapping[str, Any], encoded: np.ndarray, names: Sequence[str], n_asked: int
) -> Locations:
    """Find the layer that holds the packed keys and labels of each fact's group, and the layers that extract the fact's entry.

    A group is the facts whose keys are packed into one number, and whose labels are packed into another.
    """
    network = memoriser.network
    assert isinstance(network, Transformer)
    groups, entries = _last_lookup(stages_of(network, record))
    last_only, found_answers = memoriser.answers_last_token_only, memoriser.answer(encoded)
    # for each labelled token: its input, and its index among the labelled tokens of that input; padding comes first
    is_token = np.ones(found_answers.shape, dtype=bool)
    if not last_only and network.pad is not None:
        is_token = encoded != network.pad
    samples, columns = np.nonzero(is_token.reshape(len(encoded), -1))
    first = columns[np.searchsorted(samples, samples)]
    answers = found_answers[is_token]
    is_known = np.ones(len(encoded), dtype=bool)
    is_known[samples[answers == UNKNOWN]] = False
    require_known(names[:n_asked], is_known[:n_asked])
    known = is_known[samples]
    channel = {register.name: at for at, register in enumerate(registers_of(network, record))}
    values = _values_before(network, groups.first, channel[X], encoded, last_only)
    points = [values[at] for at in np.flatnonzero(is_token)[known].tolist()]
    lows = [bump_interval(network, layer)[0] for layer in range(groups.first, groups.last + 1)]
    group = np.searchsorted(np.array(lows, dtype=object), np.array(points, dtype=object), side="right") - 1
    n_keys = (record.get("notes") or {}).get("context_key_bits")
    assert isinstance(n_keys, int)
    keys = [
        _keys(network, groups.first + int(g), channel[KEYS_HIGH], n_keys, len(entries))
        for g in np.unique(group)
    ]
    by_group = dict(zip(np.unique(group).tolist(), keys, strict=True))
    numbers = [(by_group[int(g)], int(x // 1)) for g, x in zip(group, points, strict=True)]
    if any(number not in stored for stored, number in numbers):
        raise UsageError(
            "the weights do not hold the keys of all known inputs, so the model's record describes another network.\n"
            "  `byheart verify` says what is wrong with the folder."
        )
    entry = np.array([stored.index(number) for stored, number in numbers])
    holding = [
        Place(layer, layer, f"layers.{layer}.w2", groups.lemma)
        for layer in range(groups.first, groups.last + 1)
    ]
    reading = [Place(each.first, each.last, f"layers.{each.first}.w2", each.lemma) for each in entries]
    found = [
        {
            "fact": samples[known],
            "answer": answers[known],
            "position": (columns - first)[known],
            "place": place,
            "cells": np.full((len(points), 2), -1),
            "values": np.zeros(len(points)),
            "fields": np.zeros((len(points), 0, 2), dtype=np.int64),
        }
        for place in (group, len(holding) + entry)
    ]
    return gather(tuple(names), n_asked, memoriser.label_names, (*holding, *reading), found, is_known)


def _last_lookup(stages: Sequence[Stage]) -> tuple[Stage, list[Stage]]:
    """Return two parts of the last lookup, the one that maps contexts to labels: the stage that finds the group of a context, and
    the stages after it. Each of these reads one key and its label from the words of the group.
    """
    found = [at for at, stage in enumerate(stages) if stage.kind == "lookup"]
    if not found:
        raise UsageError(
            "the record of this model does not say which layers implement which lemma, so facts cannot be "
            "located.\n  Compile the model again."
        )
    return stages[found[-1]], [stage for stage in stages[found[-1] :] if stage.kind == "extract"]


def _values_before(
    network: Transformer, layer: int, channel: int, encoded: np.ndarray, last_only: bool
) -> list[Fraction]:
    """Return the exact values of a channel before a layer, for all tokens of each input or only for the last one."""
    row = SparseMatrix.of((1, network.model_width), {(0, channel): 1})
    w_out: Weights = row if network.precision == "exact" else row.toarray().astype(network.precision)
    before = replace(network, layers=network.layers[:layer], w_out=w_out)
    return evaluate(before, encoded, last_only=last_only).all()


def bump_interval(network: Transformer, layer: int) -> tuple[Fraction, Fraction]:
    """Return the ends (low, high) of the interval on which the bump function that `layer` computes is 1.

    The units of the layer are ReLU(2x - 2·low + 1), ReLU(2x - 2·low), ReLU(2x - 2·high), …
    """
    bump = network.layers[layer]
    assert isinstance(bump, FeedForward)
    biases = {unit: value.fraction for (unit, _), value in as_sparse(bump.b1).entries.items()}
    return -biases.get(1, Fraction(0)) / 2, -biases.get(2, Fraction(0)) / 2


def _keys(network: Transformer, layer: int, channel: int, key_bits: int, n_entries: int) -> list[int]:
    """Return the keys of a group of contexts, which are packed in one long weight. `layer` computes the bump function of this
    group. The weight is the one with which its first unit writes to `channel`.
    """
    bump = network.layers[layer]
    assert isinstance(bump, FeedForward)
    word = as_sparse(bump.w2).entries.get((channel, 0))
    packed = 0 if word is None else int(word.fraction * (1 << key_bits * n_entries))
    places = range(n_entries - 1, -1, -1)
    return [packed >> place * key_bits & ((1 << key_bits) - 1) for place in places]
