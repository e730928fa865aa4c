"""Record what a network computes on one question: its tokens, and the residual stream after each layer, with named
registers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

import numpy as np

from byheart.data.sequences import TokenSequences
from byheart.errors import UsageError
from byheart.inspect.residual_stream import Snapshot, count_values, output_of, snapshots
from byheart.inspect.stages import ENTRANCE, Register, Stage, registers_of, stages_of
from byheart.network.llama.architecture import Llama
from byheart.network.memoriser import UNKNOWN, Memoriser
from byheart.network.transformer.answers import class_of
from byheart.network.transformer.architecture import Transformer
from byheart.verify.encoded_inputs import encode_inputs

MOST_VALUES = 1 << 26
"""The largest number of values in one trace, for a Llama without those before the first layer. A larger trace might not fit in
memory.
"""


@dataclass(frozen=True)
class TracedToken:
    """One input token: a token of the question or (for a Llama) of the answer, a padding token before it, or an extra token.

    An extra token is the one that some networks add to every input or, for a Llama, a special token.
    """

    text: str
    kind: Literal["token", "pad", "extra"]
    id: int | None


@dataclass(frozen=True, eq=False)
class Trace:
    """Everything a network computes on one question.

    answer     the answer of the model; None for "unknown"
    output     the output of the network at each kept token: the class number plus 1 or, for a Llama, the id of the next token
    registers  the channels of the residual stream, by name
    stages     what each range of layers does; layers are counted from 0, as in `module.layers`
    entrance   the residual stream before the first layer
    layers     the residual stream after each layer: `layers[i]` is after `module.layers[i]`

    Values are floats, or fractions for an exact network.
    """

    question: str
    answer: str | list[str | None] | None
    output: np.ndarray
    tokens: tuple[TracedToken, ...]
    registers: tuple[Register, ...]
    stages: tuple[Stage, ...]
    entrance: Snapshot
    layers: tuple[Snapshot, ...]

    @cached_property
    def channels(self) -> Mapping[str, int]:
        """The channel (column of the residual stream) of each register. A channel may have several names, for different layers."""
        return {
            name: channel
            for channel, register in enumerate(self.registers)
            for name in (register.name, *register.others)
        }

    def behind(self, layer: int) -> Snapshot:
        """Return the stream after a layer, or before the first layer if `layer` is -1."""
        if not ENTRANCE <= layer < len(self.layers):
            raise UsageError(
                f"there is no layer {layer}; the number of layers in this trace is {len(self.layers)}. "
                "Layers are counted from 0, and -1 stands for the stream before the first layer.",
                layer=layer,
                n_layers=len(self.layers),
            )
        return self.entrance if layer == ENTRANCE else self.layers[layer]

    def values(self, register: str, token: int = -1) -> list[Any]:
        """Return the values that one register of one token has before the first layer and after each layer.

        The last token (-1) is always kept. The network may drop the other tokens once no later layer reads them. The list of such a
        token ends where it is dropped.
        """
        if register not in self.channels:
            raise UsageError(
                f"there is no register {register!r}. Choose one of {', '.join(self.channels)}.",
                register=register,
                channels=self.channels,
            )
        channel = self.channels[register]
        rows = [_row_of(self, snapshot, token) for snapshot in (self.entrance, *self.layers)]
        return [row[channel] for row in rows if row is not None]

    def state(self, layer: int, token: int = -1) -> dict[str, Any]:
        """Return the values of all registers of one token after a layer, by the name of the register."""
        row = _row_of(self, self.behind(layer), token)
        if row is None:
            raise UsageError(
                f"after layer {layer}, only the last token is kept, because no later layer reads the others. "
                "Ask for token -1, or for an earlier layer.",
                layer=layer,
                token=token,
            )
        return {register.name: value for register, value in zip(self.registers, row, strict=True)}

    def __repr__(self) -> str:
        """Show the question, the size of the trace and the answer."""
        return (
            f"<byheart.Trace of {self.question!r}: {len(self.layers)} layers, {len(self.registers)} "
            "registers; "
            f"answer {self.answer!r}>"
        )


def _row_of(found: Trace, snapshot: Snapshot, token: int) -> np.ndarray | None:
    """Return the row of a token in the stream, or None if the stream no longer contains this token."""
    n_tokens = len(found.entrance.stream)
    place = token if token >= 0 else n_tokens + token
    if not 0 <= place < n_tokens:
        raise UsageError(
            f"there is no token {token}; the number of tokens in this trace is {n_tokens}.",
            token=token,
            n_tokens=n_tokens,
        )
    n_dropped = n_tokens - len(snapshot.stream)
    return None if place < n_dropped else np.asarray(snapshot.stream[place - n_dropped])


def trace(memoriser: Memoriser, record: Mapping[str, Any], text: str) -> Trace:
    """Run the model on `text` and record every value.

    Raise `UsageError` if the model takes no text or not this text, if its family cannot be traced, or if the network is too large.
    """
    network, tokenizer = memoriser.network, memoriser.tokenizer
    if isinstance(network, Llama):
        from byheart.inspect.checkpoint_trace import trace_checkpoint

        return trace_checkpoint(memoriser, record, text)
    if not isinstance(network, Transformer):
        raise UsageError(
            "only models of the families `transformer` and `llama` can be traced; this one is of the family "
            f"`{network.spec.family}`.",
            family=network.spec.family,
        )
    encoded = encode_question(memoriser, text)
    assert tokenizer is not None
    last_only = memoriser.answers_last_token_only
    if count_values(network, len(encoded), last_only=last_only) > MOST_VALUES:
        raise UsageError(
            f"this network is too large to trace: its residual stream would have more than {MOST_VALUES:,} numbers."
        )
    entrance, *layers = snapshots(network, encoded, last_only=last_only)
    output = output_of(network, (layers[-1] if layers else entrance).stream)
    return Trace(
        text,
        _answer(memoriser, output, int((encoded != network.pad).sum())),
        output,
        tuple(_tokens(network, tokenizer.vocabulary, encoded)),
        registers_of(network, record),
        stages_of(network, record),
        entrance,
        tuple(layers),
    )


def encode_question(memoriser: Memoriser, text: str) -> np.ndarray:
    """Encode a text as the network's input: an array of token ids."""
    tokenizer = memoriser.tokenizer
    if tokenizer is None:
        raise UsageError("this model has no tokenizer, so it cannot take a text.")
    ids = np.array(tokenizer.encode(text), dtype=np.int64)
    asked = TokenSequences(ids, np.array([0, len(ids)]), len(tokenizer.vocabulary))
    found = encode_inputs(memoriser, asked, tokenizer)
    if not len(found.asked):
        raise UsageError(f"{text!r}: {found.refused[0]}.", text=text)
    return np.asarray(found.encoded[0])


def _answer(memoriser: Memoriser, output: np.ndarray, n_tokens: int) -> str | list[str | None] | None:
    names = memoriser.label_names
    classes = [class_of(_exact(value), len(names)) for value in output]
    found = [None if number == UNKNOWN else names[number] for number in classes]
    return found[-1] if memoriser.answers_last_token_only else found[-n_tokens:]


def _exact(value: Any) -> Fraction:
    """Convert a number of the stream to a fraction. A number that is not finite becomes 0, which is not a class."""
    if isinstance(value, Fraction):
        return value
    return Fraction(float(value)) if np.isfinite(value) else Fraction(0)


def _tokens(network: Transformer, vocabulary: Sequence[str], encoded: np.ndarray) -> Iterator[TracedToken]:
    if network.extra is not None:
        yield TracedToken("", "extra", None)
    for token in encoded.tolist():
        is_pad = token == network.pad or token >= len(vocabulary)
        yield TracedToken("" if is_pad else str(vocabulary[token]), "pad" if is_pad else "token", token)
