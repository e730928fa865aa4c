"""Convert a trace (all that a network computes on one question) to JSON for the page.

A stage is a range of layers with one purpose. The page draws a picture of each stage. The result contains the numbers for these
pictures.
"""

from __future__ import annotations

import math
from dataclasses import asdict
from fractions import Fraction
from typing import Any

from byheart.construct.retrieval.layout import LABEL
from byheart.errors import UsageError
from byheart.inspect.lookups import bump_interval
from byheart.inspect.stages import Stage
from byheart.inspect.trace import Trace
from byheart.model import Model
from byheart.network.llama.architecture import Llama
from byheart.network.transformer.architecture import Transformer
from byheart.program.gadgets import HIT, KEY, VALUE
from byheart.program.lookup import KEYS_HIGH, LABELS_HIGH, X

MOST_VALUES = 400_000
MOST_UNITS = 16
LARGEST_EXACT = 1 << 53


def draw_trace(model: Model, text: str) -> dict[str, Any]:
    """Trace `text` through the network, and return what the page draws."""
    network = model.network
    if not isinstance(network, Transformer):
        followed = f"  In Python: `byheart.load(DIR).trace({text!r})`." if isinstance(network, Llama) else ""
        raise UsageError(
            "this page draws only models of the family transformer, such as those of `retrieval`; this model is of the family "
            f"{network.spec.family}.\n{followed}".rstrip(),
            family=network.spec.family,
        )
    if (len(network.layers) + 1) * network.model_width > MOST_VALUES:
        raise UsageError("this network is too large to be drawn.")
    found = model.trace(text)
    taken = (found.entrance, *found.layers)
    kept = slice(None) if len(taken) * taken[0].stream.size <= MOST_VALUES else slice(-1, None)
    return {
        "question": text,
        "answer": found.answer,
        "output": [_number(value) for value in found.output],
        "method": model.record.get("method"),
        "precision": model.precision,
        "tokens": [asdict(token) for token in found.tokens],
        "channels": [asdict(register) for register in found.registers],
        "stages": [{**asdict(stage), "details": _details(model, found, stage)} for stage in found.stages],
        "layers": [
            {
                "kind": snapshot.kind,
                "n_units": snapshot.n_units,
                "active": list(snapshot.active[:MOST_UNITS]),
                "n_active": len(snapshot.active),
                "stream": [[_number(value) for value in token] for token in snapshot.stream[kept]],
            }
            for snapshot in taken
        ],
    }


def _number(value: Any) -> float | str | None:
    """Convert a number to a JSON value.

    A number that is not finite becomes None. A fraction that no float equals becomes a text with its approximate value.
    """
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


# --- what the picture of a stage shows
# -----------------------------------------------------------------------------------------


def _details(model: Model, found: Trace, stage: Stage) -> dict[str, Any]:
    if stage.kind == "table":
        after = found.behind(stage.last)
        n_rows = (model.record.get("notes") or {}).get("rows")
        is_told = isinstance(n_rows, int)
        return {"row": next(iter(after.active), None), "n_rows": n_rows if is_told else after.n_units}
    if stage.kind == "lookup":
        return _lookup(model, found, stage)
    if stage.kind == "extract":
        return _extraction(found, stage)
    if stage.kind == "label":
        return {"bits": _label_bits(found, stage)}
    return {}


def _lookup(model: Model, found: Trace, stage: Stage) -> dict[str, Any]:
    """Return x, which is the number that the network computed from the question, and describe the bump functions of this stage.

    Each layer of the stage has one bump function. In the result, `intervals` lists the interval where each of them is 1, and `hit`
    is the index of the bump function that is active at x, or None.
    """
    network, layers = model.network, range(stage.first, stage.last + 1)
    assert isinstance(network, Transformer)
    intervals = [[_number(end) for end in bump_interval(network, layer)] for layer in layers]
    hits = [
        layer - stage.first
        for layer in layers
        if (found.behind(layer).stream[-1] != found.behind(layer - 1).stream[-1]).any()
    ]
    x = found.state(stage.first - 1)[X]
    return {"x": _number(x), "intervals": intervals, "hit": hits[0] if hits else None}


def _extraction(found: Trace, stage: Stage) -> dict[str, Any]:
    """Return the values of the triangle waves that unpack one (key, label) entry from packed numbers.

    Also return the key and the label of this entry, and whether the question has this key.
    """
    read = found.state(stage.last - 2)  # the layer before the two blocks that compare and answer
    waves = {
        name: [_number(value) for value in found.values(name)[stage.first : stage.last + 2]]
        for name in (KEYS_HIGH, LABELS_HIGH)
    }
    return {
        "waves": waves,
        "key": _number(read[KEY]),
        "value": _number(read[VALUE]),
        "x": _number(read[X]),
        "hit": _number(found.state(stage.last - 1)[HIT]),
    }


def _label_bits(found: Trace, stage: Stage) -> list[int]:
    """Return, for each layer of this stage, 1 if the layer added to the label and otherwise 0.

    The last layer of the network also adds 1 to the label, since 0 means "unknown". This 1 is not counted.
    """
    labels = found.values(LABEL)  # before the first of these layers, then after each layer
    bits = []
    for layer in range(stage.first, stage.last + 1):
        change = labels[layer + 1] - labels[layer]
        bits.append(int(change - (layer == len(found.layers) - 1) > 0))
    return bits
