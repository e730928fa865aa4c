"""Follow a question through a compiled Llama: show the registers of the residual stream after each layer, for prompt
and answer.

The numbers are computed exactly, and float32 gives the same numbers (see `network.llama.evaluator`). A column is
reused once no later layer reads its value, so it may have a different name in early and in late layers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from byheart.construct.llama.registers import FIELD_AT_LEAST, FIXED, REUSED, SIDE_SUMS, hot
from byheart.errors import UsageError
from byheart.inspect.checkpoint import table_layers
from byheart.inspect.residual_stream import Snapshot
from byheart.inspect.stages import Register, Stage, stage_called
from byheart.inspect.trace import MOST_VALUES, Trace, TracedToken, encode_question
from byheart.network.llama.architecture import Llama
from byheart.network.llama.evaluator import Machine
from byheart.network.llama.generation import full_prompt, generate
from byheart.network.memoriser import Memoriser

PINNED = "pinned"


def trace_checkpoint(memoriser: Memoriser, record: Mapping[str, Any], text: str) -> Trace:
    """Generate the model's answer to `text`. Record the residual stream at every token of the prompt and of the answer."""
    llama = memoriser.network
    assert isinstance(llama, Llama)
    encoded = encode_question(memoriser, text)
    prompt = full_prompt(llama, encoded[encoded != llama.spec.pad].tolist())
    (answer,) = generate(llama, [prompt], "exact")
    ids = np.array(prompt + answer)
    if llama.spec.n_layers * llama.spec.hidden * len(ids) > MOST_VALUES:
        raise UsageError(
            f"this network is too large to trace: its residual stream would have more than {MOST_VALUES:,} numbers."
        )
    is_known = bool(answer) and answer[-1] not in llama.spec.ends
    names = llama.text_tokenizer.vocabulary
    special = {*llama.spec.ends, llama.spec.bos, llama.spec.sep}
    machine = Machine(llama)
    entrance, *layers = _snapshots(machine, ids)
    return Trace(
        text,
        llama.text_tokenizer.decode_all([answer], skip_special=True)[0] if is_known else None,
        machine.answer(ids, np.zeros_like(ids), np.ones(len(ids), dtype=bool)),
        tuple(
            TracedToken(str(names[token]), "extra" if token in special else "token", token)
            for token in ids.tolist()
        ),
        registers_of_llama(machine, record),
        stages_of_llama(llama, machine, record),
        entrance,
        tuple(layers),
    )


def _snapshots(machine: Machine, ids: np.ndarray) -> list[Snapshot]:
    """Compute the stream before the first layer and after every layer, including the constant columns."""
    llama, starts = machine.llama, np.zeros_like(ids)
    pinned = machine.pinned.columns * machine.pinned.value
    stream = machine.enter(ids)
    found = [Snapshot("enter", stream + pinned)]
    for layer in range(llama.spec.n_layers):
        stream = machine.mix(layer, stream, starts)
        opened = np.flatnonzero(machine.gates(layer, stream[-1:])[0] > 0)
        stream = machine.feed(layer, stream)
        kind = "feed-forward" if machine.reads[layer] is None else "attention"
        found.append(Snapshot(kind, stream + pinned, tuple(opened.tolist()), llama.spec.inner))
    return found


def registers_of_llama(machine: Machine, record: Mapping[str, Any]) -> tuple[Register, ...]:
    """Return a register for each column of the residual stream. If a column is reused, its register has several names.

    If the record does not fit the network, the columns are named by their numbers.
    """
    notes = record.get("notes")
    starts = notes.get("channel starts") if isinstance(notes, Mapping) else None
    hidden, n_pinned = machine.llama.spec.hidden, int(machine.pinned.columns.sum())
    side = (*FIXED, *FIELD_AT_LEAST, *SIDE_SUMS)
    n_channels = len(starts) if isinstance(starts, list) else 0
    own = side[: hidden - n_pinned - n_channels]
    names = [*(f"{PINNED} {at}" for at in range(n_pinned)), *own, *map(hot, range(n_channels))]
    if len(names) != hidden or len(own) < len(FIXED):  # the record does not fit, so no name is guessed
        return tuple(Register(f"column {at}", f"column {at} of the stream") for at in range(hidden))
    others: dict[str, list[str]] = {}
    for name, other in REUSED.items():
        others.setdefault(other, []).append(name)
    return tuple(
        Register(
            name,
            f"in other layers: {', '.join(others[name])}" if name in others else name,
            tuple(others.get(name, ())),
        )
        for name in names
    )


def stages_of_llama(llama: Llama, machine: Machine, record: Mapping[str, Any]) -> tuple[Stage, ...]:
    """Describe what the layers do. Those before the tables gather tokens and compute the address; those after them choose the next
    token.
    """
    notes = record.get("notes")
    tables = table_layers(llama, notes if isinstance(notes, Mapping) else {})
    parts = [
        ("llama codes", -1, -1),
        ("llama gather", 0, machine.last_gather),
        ("llama address", machine.last_gather + 1, tables.start - 1),
        ("llama tables", tables.start, tables.stop - 1),
        ("llama decide", tables.stop, llama.spec.n_layers - 1),
    ]
    return tuple(stage_called(name, begin, end) for name, begin, end in parts if begin <= end)
