"""Prove, tensor by tensor, that a grafted checkpoint is its host with the given contexts added, and nothing else.

`structural_faults` compares the tensors and the configuration, and `context_faults` the contexts.

This code is independent of the code that writes grafts.

If no fault is found, then in exact arithmetic every logit after a text that ends in no stored context equals the host's, up to the
rounding of the graft's weights: the norm weights are multiplied by √(d/W), and all weights are stored in the graft's number type.
If W = 4d, √(d/W) is 1/2, so the norm weights are not rounded.

The reasons are: the memory's layers add nothing to the host's columns (see `symbolic_run`); the host's layers read only these
columns; RMSNorm over the W columns of the graft, with weights multiplied by √(d/W), equals RMSNorm over the d columns of the host;
and the other columns of the output head are multiplied by 0. After a stored context, the right token has a larger logit than every
other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
import torch

from byheart.graft.host import EMBEDDING, FINAL_NORM, HEAD, FolderHost, Host, is_used
from byheart.graft.reading import Reading, Tokens
from byheart.process.progress import Progress

SIZES = (
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "rms_norm_eps",
)
NUMBER_TYPE = ("dtype", "torch_dtype")
UNREAD = ("layer_types", "_name_or_path", "byheart_graft")
"""The fields of config.json in which graft and host may differ, because these fields do not change what is computed.
`layer_types` lists the type of every layer, but `shape_of` accepts only one type. The other two fields only say how the
checkpoint was made.
"""

AT_LEAST = {
    "n_tokens": "vocab_size",
    "inner": "intermediate_size",
    "n_heads": "num_attention_heads",
    "n_kv_heads": "num_key_value_heads",
}
"""The sizes in which the graft must not be smaller than the host, as fields of `Shape`, each with its name in config.json."""

MISSING = "missing"
OUTWEIGHS = 2.0**13
"""Each constant column must be more than this many times as large as the length of any row of the host's embedding."""


def structural_faults(grafted: FolderHost, host: Host, reading: Reading, progress: Progress) -> list[str]:
    """Compare `grafted` with what it should be: `host` with a memory. Return the differences.

    Each difference is described by a text. It names the tensor or setting, except if two units match the same context. At most
    three differing entries of a tensor are listed.
    """
    faults = [*reading.faults, *_config_faults(grafted, host, reading), *_shape_faults(grafted, host)]
    if len(reading.units) != len({unit.tokens for unit in reading.units}):
        faults.append("two units match the same context")
    if not _has_columns_of(host, reading):
        faults.append(
            "model.layers.0.input_layernorm.weight: it must be zero in exactly the first "
            f"{host.shape.width:,} columns, which belong to the host"
        )
    if not comparable(grafted, host, reading):
        return faults
    comparison = _Comparison(grafted, host, reading)
    for number, name in enumerate(names := comparison.names()):
        progress(number, len(names), "compare")
        faults += comparison.faults_of(name)
    return [*faults, *comparison.embedding_faults(), *comparison.lead_faults()]


def comparable(grafted: FolderHost, host: Host, reading: Reading) -> bool:
    """Return whether the tensors of `grafted` can be compared with the host's.

    They can if the first columns of the graft are the host's, its layers are the host's and those of the memory, no size is
    smaller than the host's, and both have the same head size and the same kinds of weights, such as biases.
    """
    n_layers = host.shape.n_layers + reading.n_memory_layers
    fits = _has_columns_of(host, reading) and grafted.shape.n_layers == n_layers
    return fits and not any(_shape_faults(grafted, host))


def _shape_faults(grafted: FolderHost, host: Host) -> Iterator[str]:
    """Yield a fault for each way in which the host's tensors do not fit into those of the graft: a size that is too small in the
    graft, or a property, such as having biases, in which the two differ.
    """
    for size, name in AT_LEAST.items():
        found, least = getattr(grafted.shape, size), getattr(host.shape, size)
        if found < least:
            yield f"config.json: {name} is {found:,}, less than the host's {least:,}"
    for name in ("head_dim", "tied", "qk_norm", "qkv_bias", "o_bias", "mlp_bias"):
        found, meant = getattr(grafted.shape, name), getattr(host.shape, name)
        if found != meant:
            yield f"the weights: {name} is {found} in the graft, but {meant} in the host"


def _has_columns_of(host: Host, reading: Reading) -> bool:
    return np.array_equal(reading.host_columns, np.arange(host.shape.width))


def _config_faults(grafted: FolderHost, host: Host, reading: Reading) -> Iterator[str]:
    new, old = grafted.config, host.config
    for key in sorted({*new, *old} - {*SIZES, *NUMBER_TYPE, *UNREAD}):
        if (key in new, new.get(key)) != (key in old, old.get(key)):
            own, theirs = (repr(config[key]) if key in config else MISSING for config in (new, old))
            yield f"config.json: {key} is {own}, but {theirs} in the host"
    yield from _number_type_faults(grafted)
    d, width = host.shape.width, grafted.shape.width
    sizes = {
        "rms_norm_eps": (new.get("rms_norm_eps"), float(old["rms_norm_eps"]) * d / width),
        "num_hidden_layers": (grafted.shape.n_layers, host.shape.n_layers + reading.n_memory_layers),
        "head_dim": (grafted.shape.head_dim, host.shape.head_dim),
        "num_attention_heads / num_key_value_heads": (grafted.shape.group, host.shape.group),
    }
    for key, (found, meant) in sizes.items():
        if found != meant:
            yield f"config.json: {key} is {found!r}, but must be {meant!r} in a graft of this host"


def _number_type_faults(grafted: FolderHost) -> Iterator[str]:
    """Yield a fault unless all weights are stored in one number type, and config.json names it.

    transformers converts the weights to the type that config.json names.
    """
    stored = grafted.places[EMBEDDING].dtype
    for name, place in grafted.places.items():
        if place.dtype != stored:
            yield f"{name}: it is stored as {place.dtype}, but {EMBEDDING} is stored as {stored}"
    meant = str(grafted.dtype).removeprefix("torch.")
    named = {name: grafted.config[name] for name in NUMBER_TYPE if name in grafted.config}
    for name, found in (named or {"dtype": MISSING}).items():
        if found != meant:
            yield f"config.json: {name} is {found}, but the weights are {meant}"


@dataclass(frozen=True)
class ContextFault:
    """A context for which the graft and the data disagree about the next token.

    tokens  the context
    stored  the token that the graft stores after it. None if it stores nothing; -1 if what it stores is not a single token
    wanted  the token that the data have after it; None if the data do not have this context
    """

    tokens: Tokens
    stored: int | None
    wanted: int | None

    def in_words(self, decode: Callable[[list[int]], str]) -> str:
        """Describe the fault. `decode` converts tokens to text."""
        return (
            f"after {decode(list(self.tokens))!r}, the graft stores {self._text(self.stored, decode)}, "
            + (
                "but the data do not have this text"
                if self.wanted is None
                else f"but the data have {self._text(self.wanted, decode)}"
            )
        )

    @staticmethod
    def _text(token: int | None, decode: Callable[[list[int]], str]) -> str:
        if token is None:
            return "nothing"
        return "an unknown token" if token < 0 else repr(decode([token]))


def context_faults(reading: Reading, wanted: Mapping[Tokens, int]) -> Iterator[ContextFault]:
    """Compare the contexts that a graft stores with those that it should store, and yield the differences."""
    found = reading.answers()
    for tokens in {**found, **wanted}:
        if found.get(tokens) != wanted.get(tokens):
            yield ContextFault(tokens, found.get(tokens), wanted.get(tokens))


class _Comparison:
    """Compares a graft with its host, one tensor at a time.

    It also collects the norms of the host's weights. From these norms, `lead_faults` computes a bound on the host's logits.
    """

    def __init__(self, grafted: FolderHost, host: Host, reading: Reading) -> None:
        self.grafted, self.host, self.reading = grafted, host, reading
        self.norms: dict[str, float] = {}
        self.factor = sqrt(host.shape.width / grafted.shape.width)

    def names(self) -> list[str]:
        return [name for name in self.grafted.places if self._host_name(name) is not None]

    def _host_name(self, name: str) -> str | None:
        """Return the name of the host's tensor to which a tensor of the graft corresponds.

        Return None for tensors of the memory (the added layers), and for tensors that are not used.
        """
        if not is_used(name, self.host.shape.tied):
            return None
        if not name.startswith("model.layers."):
            return name
        number, rest = name.removeprefix("model.layers.").split(".", 1)
        layer = int(number) - self.reading.n_memory_layers
        return f"model.layers.{layer}.{rest}" if layer >= 0 else None

    def faults_of(self, name: str) -> Iterator[str]:
        source = self._host_name(name)
        assert source is not None
        old, new = self.host.tensor(source), self.grafted.stored(name)
        is_norm = source.endswith("layernorm.weight") or source == FINAL_NORM
        by_rows = source in (EMBEDDING, HEAD)
        self.norms[source] = (
            old.abs().max() if is_norm else old.norm(dim=1).max() if by_rows else old.norm()
        ).item()
        if is_norm:
            old = (old.double() * self.factor).float()
        wanted = torch.zeros(new.shape, dtype=new.dtype)
        wanted[tuple(slice(n) for n in old.shape)] = old.to(new.dtype)
        columns = torch.from_numpy(self.reading.message_columns)
        codes = torch.from_numpy(self.reading.codes).to(new.dtype)
        if source == FINAL_NORM:
            wanted[columns] = new[columns[0]]
        elif by_rows:
            wanted[:, columns] = codes
            if source == EMBEDDING:
                for column, size in self.reading.pins.items():
                    wanted[:, column] = size
        differing = (new.view(_BITS[new.dtype]) != wanted.view(_BITS[new.dtype])) & ~(
            (new == 0) & (wanted == 0)
        )
        for place in differing.nonzero()[:3].tolist():
            at = tuple(place)
            yield f"{name}{place} is {new[at].item()!r}, but it must be {wanted[at].item()!r}"

    def embedding_faults(self) -> Iterator[str]:
        """Yield a fault if the host's embedding is so large that it could change the sums of squares in the memory's norms.

        In float32, which has 24 bits, a number does not change the sum if it is less than 2^-25 times the square of any constant
        column. `OUTWEIGHS` leaves half of this for the squares of codes (integer vectors that stand for tokens).
        """
        limit = min(map(abs, self.reading.pins.values())) / OUTWEIGHS
        longest = self.norms[EMBEDDING]
        if not longest < limit:  # also if it overflowed to NaN
            yield (
                f"{EMBEDDING}: the host has a row of length {longest:.3g}, so the norms of the added layers may divide by a wrong "
                f"number; beside these constant columns, rows must be shorter than {limit:,.0f}"
            )

    def lead_faults(self) -> Iterator[str]:
        """Yield a fault if the host's own logits could outweigh what the memory adds to the logit of an answer.

        The bound on the host's logits is computed from the norms of its weights, without running the host.
        """
        shape, norms = self.host.shape, self.norms
        state, root = norms[EMBEDDING], sqrt(shape.width)
        for layer in range(shape.n_layers):
            get: Any = lambda part, at=f"model.layers.{layer}.": norms.get(at + part, 0.0)  # noqa: E731  # short for what follows
            n = root * get("input_layernorm.weight")
            values = get("self_attn.v_proj.weight") * n + get("self_attn.v_proj.bias")
            state += get("self_attn.o_proj.weight") * sqrt(shape.group) * values + get(
                "self_attn.o_proj.bias"
            )
            n = root * get("post_attention_layernorm.weight")
            gate, up = (
                get(f"mlp.{part}_proj.weight") * n + get(f"mlp.{part}_proj.bias") for part in ("gate", "up")
            )
            state += get("mlp.down_proj.weight") * gate * up + get("mlp.down_proj.bias")
        rms = sqrt(state * state / shape.width + float(self.host.config["rms_norm_eps"]))
        rows = norms[EMBEDDING if shape.tied else HEAD]
        largest = root * norms[FINAL_NORM] * rows
        factor = float(self.grafted.stored(FINAL_NORM)[self.reading.message_columns[0]])
        lead = self.reading.message * factor / rms
        if self.reading.units and not lead > 2 * largest:  # also if a bound overflowed to NaN
            yield (
                f"{FINAL_NORM}: in the logits that the memory adds, the answer leads by only {lead:.3g}, but the host's own "
                f"logits can differ by up to {2 * largest:.3g}"
            )


_BITS = {torch.float32: torch.int32, torch.bfloat16: torch.int16, torch.float16: torch.int16}
