"""A question's way through a model as one document: tokens, stages, the residual stream, and what each stage shows."""

from __future__ import annotations

import math
from dataclasses import asdict
from fractions import Fraction
from typing import Any

import numpy as np

from byheart.data.sequences import TokenSequences
from byheart.errors import UsageError
from byheart.model import Model
from byheart.network.exact.dyadic import as_sparse
from byheart.network.transformer.architecture import FeedForward, Transformer
from byheart.verify.encoded_inputs import encode_inputs
from byheart.web.circuit import Stage, channels_of, stages_of
from byheart.web.forward import Snapshot, output_of, snapshots

MOST_VALUES = 400_000
LARGEST_EXACT = 1 << 53


def trace(model: Model, text: str) -> dict[str, Any]:
    """Ask `text` and keep everything. `UsageError` where the model cannot be asked it, or is of another family."""
    network, tokenizer = model.network, model.memoriser.tokenizer
    if not isinstance(network, Transformer):
        raise UsageError(
            f"only networks of KS25's family can be stepped through; this one is of the family {network.spec.family}."
        )
    if tokenizer is None:
        raise UsageError("this model has no tokenizer, so it cannot be asked a text.")
    ids = np.array(tokenizer.encode(text), dtype=np.int64)
    asked = TokenSequences(ids, np.array([0, len(ids)]), len(tokenizer.vocabulary))
    found = encode_inputs(model.memoriser, asked, tokenizer)
    if not len(found.asked):
        raise UsageError(f"{text!r}: {found.refused[0]}.")
    encoded = found.encoded[0]
    if (len(network.layers) + 1) * network.model_width > MOST_VALUES:
        raise UsageError("this network is too large to be drawn.")
    taken = list(snapshots(network, encoded, last_only=model.memoriser.answers_last_token_only))
    stages = stages_of(network, model.record)
    output = output_of(network, taken[-1].stream)
    (answer,) = model.predict([text])
    kept = slice(None) if len(taken) * taken[0].stream.size <= MOST_VALUES else slice(-1, None)
    return {
        "question": text,
        "answer": answer,
        "output": [_number(value) for value in output],
        "method": model.record.get("method"),
        "precision": model.precision,
        "tokens": _tokens(model, network, encoded),
        "channels": channels_of(network, model.record),
        "stages": [{**asdict(stage), "details": _details(model, network, stage, taken)} for stage in stages],
        "layers": [
            {
                "kind": snapshot.kind,
                "n_units": snapshot.n_units,
                "active": list(snapshot.active[:16]),
                "n_active": len(snapshot.active),
                "stream": [[_number(value) for value in token] for token in snapshot.stream[kept]],
            }
            for snapshot in taken
        ],
    }


def _tokens(model: Model, network: Transformer, encoded: np.ndarray) -> list[dict[str, Any]]:
    assert model.memoriser.tokenizer is not None
    vocabulary = model.memoriser.tokenizer.vocabulary
    tokens = [{"text": "", "kind": "extra", "id": None}] if network.extra is not None else []
    for token in encoded.tolist():
        is_pad = token == network.pad or token >= len(vocabulary)
        shown = "" if is_pad else str(vocabulary[token])
        tokens.append({"text": shown, "kind": "pad" if is_pad else "token", "id": token})
    return tokens


def _number(value: Any) -> float | str | None:
    """A number as JSON has it; as text where no float is equal to it; None where it is not finite."""
    if isinstance(value, Fraction):
        try:
            near = float(value)
        except OverflowError:
            return f"{'-' if value < 0 else ''}2^{abs(value.numerator).bit_length() - value.denominator.bit_length()}"
        if Fraction(near) != value:
            return repr(near)
        value = near
    number = float(value)
    if not math.isfinite(number):
        return None
    return int(number) if number.is_integer() and abs(number) < LARGEST_EXACT else number


# --- what a stage shows -----------------------------------------------------------------------------------------


def _details(model: Model, network: Transformer, stage: Stage, taken: list[Snapshot]) -> dict[str, Any]:
    before, after = taken[max(0, stage.first)], taken[stage.last + 1]
    if stage.kind == "table":
        n_rows = (model.record.get("notes") or {}).get("rows")
        is_told = isinstance(n_rows, int)
        return {"row": next(iter(after.active), None), "n_rows": n_rows if is_told else after.n_units}
    if stage.kind == "lookup":
        return _lookup(network, stage, before, taken)
    if stage.kind == "extract":
        return _extraction(network, stage, taken)
    if stage.kind == "label":
        return {"bits": _label_bits(stage, taken)}
    return {}


def _lookup(network: Transformer, stage: Stage, before: Snapshot, taken: list[Snapshot]) -> dict[str, Any]:
    """The bumps on the line, where x stands among them, and the words that were put into the stream."""
    intervals = []
    for layer in network.layers[stage.first : stage.last + 1]:
        assert isinstance(layer, FeedForward)
        biases = {row: value.fraction for (row, _), value in as_sparse(layer.b1).entries.items()}
        low, high = -biases.get(1, Fraction(0)) / 2, -biases.get(2, Fraction(0)) / 2
        intervals.append([_number(low), _number(high)])
    hits = [
        at - stage.first
        for at in range(stage.first, stage.last + 1)
        if (taken[at + 1].stream[-1] != taken[at].stream[-1]).any()
    ]
    return {"x": _number(before.stream[-1][0]), "intervals": intervals, "hit": hits[0] if hits else None}


def _extraction(network: Transformer, stage: Stage, taken: list[Snapshot]) -> dict[str, Any]:
    """The triangle waves of one entry, its key and label once read, and whether the key was the question's."""
    layers = taken[stage.first : stage.last + 2]
    waves = {
        name: [_number(snapshot.stream[-1][channel]) for snapshot in layers]
        for name, channel in (("keys_high", 1), ("labels_high", 3))
    }
    read = taken[stage.last - 1].stream[-1]  # before the two blocks that compare and answer
    return {
        "waves": waves,
        "key": _number(read[5]),
        "value": _number(read[6]),
        "x": _number(read[0]),
        "hit": _number(taken[stage.last].stream[-1][7]),
    }


def _label_bits(stage: Stage, taken: list[Snapshot]) -> list[int]:
    """What each reading layer added to the answer, as bits; the last of all also adds 1, since 0 means "unknown"."""
    channel = 2
    bits = []
    for at in range(stage.first, stage.last + 1):
        change = taken[at + 1].stream[-1][channel] - taken[at].stream[-1][channel]
        bits.append(int(change - (at == len(taken) - 2) > 0))
    return bits
