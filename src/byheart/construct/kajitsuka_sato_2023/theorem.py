"""One softmax head and one wide hidden layer, natively in float64."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from byheart.construct.kajitsuka_sato_2023.context_ids import (
    ContextIds,
    ids_for,
    scan,
    theorem_beta,
)
from byheart.construct.kajitsuka_sato_2023.hidden_layer import HiddenLayer, interpolation
from byheart.construct.kajitsuka_sato_2023.sizes import (
    ANSWER,
    MODEL_WIDTH,
    PLACE,
    REGISTERS,
    VALUE,
    size_of,
    theorem_size,
)
from byheart.construct.kajitsuka_sato_2023.staircase import round_to_whole
from byheart.construct.kajitsuka_sato_2023.token_line import places_of, table_scale
from byheart.construct.registry import Method
from byheart.data.dataset import Dataset
from byheart.data.row_groups import representatives
from byheart.errors import AssumptionViolated, UsageError
from byheart.network.exact.dyadic import SparseMatrix, Weights
from byheart.network.memory import Memory, Progress
from byheart.network.transformer.architecture import (
    Attention,
    Embedding,
    FeedForward,
    Head,
    Layer,
    Transformer,
)
from byheart.program.construction import Assumption, Construction, statistics_of
from byheart.program.distinct_tokens import Words, words_of
from byheart.program.emit import emit_layers
from byheart.program.labelled_tokens import labelled_tokens
from byheart.program.weight_count import (
    tally,
)

NAME = "kajitsuka-sato-2023"
_LEAST_GAP_IN_ERRORS = 8.0


def memorise_by_one_head(
    data: Dataset, options: Mapping[str, object], rng: np.random.Generator, progress: Progress | None = None
) -> Construction:
    """Compile a label for every token: one softmax head gives every context its id, one hidden layer the id its label.

    Source:     Kajitsuka & Sato (2023), Theorem 2 and Corollary 1: one layer, one head with weight matrices
                of rank 1, separation by the Boltzmann operator; 4(s + d) + d(2nN + d) parameters for
                sequences without repeated tokens.
    Assumes:    equal contexts carry equal labels; contexts that float64 can tell apart (measured, see below).
    Guarantee:  at every labelled token the output equals label + 1 exactly, run natively in float64, in any
                order of summation: the ids' gap is compared with a bound on their rounding error, the hidden
                layer's error is bounded below 1/4, and what is within 1/4 of a whole number is rounded to it
                exactly (`round_to_whole`).
    Size:       `size_of`. One attention layer, one block with a unit for each context, 2·log2 C small blocks.
    Departs:    the theorem's β makes ids that differ by e^-hundreds; β, the projection and the mixture of
                place and context are scanned for the largest gap instead, which also allows repeated tokens
                (reconstructed). Since all weights have rank 1, the token's place on the line is all the
                network keeps of it: d + O(nN) parameters. One ReLU a context instead of two. Options:
                beta="theorem" takes the theorem's β, a number takes that one.
    """
    beta = _beta_option(options)
    data.require_finite()
    data.require_consistent()
    words = words_of(data)
    labelled = labelled_tokens(data, words)
    first = representatives(data.context_ids)
    samples, columns = np.array(labelled.samples)[first], np.array(labelled.columns)[first]
    labels = np.array(labelled.labels)[first].astype(np.float64)
    candidates = places_of(data, words, rng)
    if beta is None:
        ids = scan(candidates, samples, columns, rng)
    else:
        tried = [
            ids_for(
                places, samples, columns, theorem_beta(places) if beta == "theorem" else float(beta), angle
            )
            for places in candidates
            for angle in rng.uniform(0, np.pi / 2, size=16)
        ]
        ids = max(tried, key=lambda found: found.gap / found.error)
    if progress is not None:
        progress(1, 2)
    _require_gap(ids)
    hidden = interpolation(ids, labels)
    network = _network(data, words, ids, hidden)
    margin = _measured_error(network, data, samples, columns, labels)
    if progress is not None:
        progress(2, 2)
    return Construction(
        memory=Memory(network, data.task, data.label_names, data.tokenizer, data.ordered),
        method=NAME,
        theorem="KS23 Corollary 1, sharpness scanned",
        assumptions=_assumptions(data, ids, hidden),
        theorem_size=theorem_size(data.n_samples, data.seq_len, network.dim),
        notes={
            "contexts": len(ids.ids),
            "beta": ids.beta,
            "id_gap": ids.gap,
            "id_error_bound": ids.error,
            "value_error_bound": hidden.error,
            "value_error_measured": margin,
        },
        statistics=replace(
            statistics_of(data),
            n_contexts=len(ids.ids),
            numbers={
                "axes": tally([1.0] if ids.places.direction is None else ids.places.direction.tolist()),
                "mixture": tally([ids.place_weight, ids.context_weight]),
                "knots": tally(hidden.knots.tolist()),
                "slope changes": tally(hidden.slope_changes.tolist()),
            },
        ),
    )


def _beta_option(options: Mapping[str, object]) -> str | float | None:
    unknown = sorted(set(options) - {"beta"})
    if unknown:
        raise UsageError(f"{NAME} takes the option beta; got {', '.join(unknown)}.")
    beta = options.get("beta")
    if beta is None or beta == "theorem":
        return None if beta is None else "theorem"
    if isinstance(beta, (int, float)) and 0 < beta < np.inf:
        return float(beta)
    raise UsageError(f"beta must be a positive number or 'theorem', not {beta!r}.", beta=beta)


def _require_gap(ids: ContextIds) -> None:
    if ids.gap < _LEAST_GAP_IN_ERRORS * ids.error:
        raise AssumptionViolated(
            f"float64 cannot tell all {len(ids.ids)} contexts apart after one softmax head: with "
            f"β = {ids.beta:.4g} the closest two ids\n  differ by {ids.gap:.3g}, and rounding may move an id by "
            f"{ids.error:.3g}.\n  Use an exact construction, such as kajitsuka-sato-2025.",
            gap=ids.gap,
            error=ids.error,
            beta=ids.beta,
        )


def _network(data: Dataset, words: Words, ids: ContextIds, hidden: HiddenLayer) -> Transformer:
    place, context, value, answer = range(MODEL_WIDTH)
    layers: list[Layer] = []
    if ids.places.direction is not None:
        layers.append(_block(1, {}, {}, {}, {place: 1.5}))

    def row(entry: float) -> np.ndarray:
        return _matrix((1, MODEL_WIDTH), {(0, place): entry})

    output = _matrix((MODEL_WIDTH, 1), {(context, 0): 1.0})
    layers.append(Attention((Head(row(1.0), output, row(ids.beta), row(1.0)),), "softmax"))
    n_units = max(1, len(hidden.knots))
    first = {(unit, place): ids.place_weight for unit in range(len(hidden.knots))}
    first |= {(unit, context): ids.context_weight for unit in range(len(hidden.knots))}
    second = {(value, unit): float(change) for unit, change in enumerate(hidden.slope_changes)}
    # the last unit takes the place away, so that its register can help with rounding: places are positive
    first[n_units, place], second[place, n_units] = 1.0, -1.0
    biases = {unit: -float(knot) for unit, knot in enumerate(hidden.knots)}
    layers.append(_block(n_units + 1, first, biases, second, {value: hidden.first_value}))
    layers += emit_layers(
        round_to_whole(VALUE, ANSWER, PLACE, data.n_classes.bit_length()), REGISTERS, "float64"
    )
    w_out = _matrix((1, MODEL_WIDTH), {(0, answer): 1.0})
    if ids.places.direction is None:
        w_in = _matrix((MODEL_WIDTH, 1), {(place, 0): 1.0})
        embedding = _table(words)
    else:
        w_in = np.zeros((MODEL_WIDTH, len(ids.places.direction)))
        w_in[place] = ids.places.direction
        embedding = None
    return Transformer(w_in, tuple(layers), w_out, words.sequences.shape[1], embedding, words.pad)


def _table(words: Words) -> Embedding:
    """1 + (place of the word)/scale, as token entry plus position entry, both without rounding."""
    assert words.embedding is not None
    scale = table_scale(words)
    tokens = 1 + _dense(words.embedding.tokens) / scale
    positions = words.embedding.positions
    return Embedding(tokens, None if positions is None else _dense(positions) / scale)


def _dense(weights: Weights) -> np.ndarray:
    assert isinstance(weights, SparseMatrix)
    array = np.zeros(weights.shape)
    for index, entry in weights.entries.items():
        array[index] = float(entry)
    return array


def _matrix(shape: tuple[int, int], entries: Mapping[tuple[int, int], float]) -> np.ndarray:
    array = np.zeros(shape)
    for index, entry in entries.items():
        array[index] = entry
    return array


def _block(
    hidden: int,
    first: Mapping[tuple[int, int], float],
    biases: Mapping[int, float],
    second: Mapping[tuple[int, int], float],
    shifts: Mapping[int, float],
) -> FeedForward:
    b1, b2 = np.zeros(hidden), np.zeros(MODEL_WIDTH)
    b1[list(biases)] = list(biases.values())
    b2[list(shifts)] = list(shifts.values())
    return FeedForward(_matrix((hidden, MODEL_WIDTH), first), b1, _matrix((MODEL_WIDTH, hidden), second), b2)


def _measured_error(
    network: Transformer, data: Dataset, samples: np.ndarray, columns: np.ndarray, labels: np.ndarray
) -> float:
    """How far the native network is from the labels before it rounds."""
    from byheart.network.transformer.module import run_module

    n_rounding = 2 * data.n_classes.bit_length()
    w_out = _matrix((1, MODEL_WIDTH), {(0, REGISTERS.index(VALUE)): 1.0})
    unrounded = replace(network, layers=network.layers[:-n_rounding], w_out=w_out)
    memory = Memory(unrounded, data.task, data.label_names, data.tokenizer, data.ordered)
    outputs = run_module(unrounded, memory.encode(data.inputs))
    return float(np.abs(outputs[samples, columns] - labels).max())


def _assumptions(data: Dataset, ids: ContextIds, hidden: HiddenLayer) -> tuple[Assumption, ...]:
    return (
        Assumption("inputs are finite", True, f"{data.n_samples} sequences of at most {data.seq_len} tokens"),
        Assumption("equal contexts carry equal labels", True, f"{len(ids.ids)} distinct contexts"),
        Assumption(
            "float64 tells all contexts apart",
            True,
            f"β = {ids.beta:.4g}: ids differ by at least {ids.gap:.3g} and are off by at most {ids.error:.3g}; "
            f"labels before rounding are off by at most {hidden.error:.3g}",
        ),
    )


METHOD = Method(
    name=NAME,
    source="Kajitsuka & Sato 2023, Corollary 1",
    tasks=("seq-to-seq", "next-token"),
    precisions=("float64",),
    size_of=size_of,
    build=memorise_by_one_head,
)
