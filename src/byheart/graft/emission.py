"""Compute the tensors of a grafted checkpoint, one at a time, from the tensors of the host and the stored contexts.

In exact arithmetic, the result is exact, except for the rounding of weights (see 6). The proof follows the order of the
computation. The memory is the layers that are added before the host's own. W is the width of the grafted network, and d the width
of the host. A code is an integer vector that stands for a token; all codes have the squared norm ρ. SCALE, TINY and LEAD are powers
of two.

1. *Pins* are constant columns. In the memory's layers, Σ pins² = W·SCALE². All other squares are too small to change
   this sum: in the host's columns they sum to less than 2^40 (see `check_embedding`), those of codes are smaller still,
   each pins² is at least 2^80, and float32 has 24 bits. RMSNorm therefore divides by SCALE. Its weights are 1 for pins,
   SCALE for codes and 0 for the host's columns, so the layers read pins/SCALE and the unchanged codes. No row of a
   memory layer writes to the host's columns.
2. *Gather.* The softmax of each head is one-hot (see `heads`), so it copies codes exactly.
3. *Move.* silu(128) = 128 and x·128/128 = x, so layer 0 moves the code of the current token exactly: from the
   columns into which the embedding writes it to the columns `got 0`, the first of the columns for gathered codes.
4. *Match.* Let a_j be the codes of a context of m tokens, and x_j those of the last m tokens of the text. The gate of the context
   is 256·Σ a_j·x_j - 128·(2mρ - 1): 128 if all m codes agree, and at most -128 otherwise (see `codes`). silu(-128) = 0 in float32
   and bfloat16. There is no hashing: a unit is active exactly where the text ends in its tokens. It then adds TINY times (code of
   the next token - code of the inherited token). The inherited token follows the longest stored context that is a shorter suffix
   of this one (see `contexts`).
   A unit can also hold two contexts that differ only in their first token. Let u and v be the codes of these two tokens. For the
   first token, the gate then has 128·(u + v)·x in place of 256·a·x, and the threshold is 128·(2mρ - 2). The codes u and v are
   neighbours (see `codes`): (u + v)·x is 2ρ - 1 for x = u and x = v, and less for every other code. The gate is therefore 128
   for both contexts. For all other texts it is at most 0, and silu(0) = 0.
5. *Clear.* The last memory layer subtracts the pins and the gathered codes from their own columns, so exactly 0 remains.
6. *Host.* The weights of the host's final norm and of the norms of its layers (not of `q_norm` and `k_norm`) are multiplied by
   √(d/W), and its epsilon by d/W. Of the W columns, W - d are 0 or at most 2^-45, so RMSNorm over W columns equals the host's
   RMSNorm over d columns, up to the rounding of these products. If W = 4d, the factor is 1/2, and they are not rounded. All
   other weights are rounded only if the graft's number type cannot hold them. All other new entries are 0.
7. *Answer.* The final norm multiplies the code of the answer by `LEAD`, and the new columns of the output head are
   the codes. The answer then leads any other token by at least TINY·LEAD/rms, where rms is the root mean square of the last state.
   `Growth` bounds this rms and the host's own logits by norms of the host's weights, and LEAD is chosen so large that the lead
   exceeds the bound. This proves, without a measurement, that greedy decoding gives the answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import ceil, log2, sqrt
from typing import Protocol

import numpy as np
import torch

from byheart.errors import AssumptionViolated
from byheart.graft.contexts import Context
from byheart.graft.heads import Kernel
from byheart.graft.host import EMBEDDING, FINAL_NORM, HEAD
from byheart.graft.layout import Layout

GATE = 128.0
TINY = 2.0**-50
SCALE = 2.0**40
HALF = 128  # thresholds are written as a multiple of this number plus a remainder, each exact in bfloat16
LARGEST_LEAD = 2.0**127  # the largest power of two in float32 and bfloat16
SPARE_BITS = 4  # the lead is at least 2^4 times as large as needed
LARGEST_EMBEDDING = 2.0**20
"""The rows of a host's embedding must be shorter than this (see `check_embedding`)."""

Parts = dict[str, torch.Tensor]


class HostTensors(Protocol):
    """An object from which the host's weights are read one at a time, in float32."""

    def tensor(self, name: str) -> torch.Tensor: ...


def check_embedding(host: HostTensors) -> None:
    """Refuse a host whose embedding has a row of length `LARGEST_EMBEDDING` or more.

    Its squares could change the number by which the norms of the memory's layers divide, which must be exactly SCALE.
    """
    longest = host.tensor(EMBEDDING).norm(dim=1).max().item()
    if not longest < LARGEST_EMBEDDING:  # also if the norm overflowed to NaN
        raise AssumptionViolated(
            f"the embedding of this host has a row of length {longest:.3g}, but its rows must be shorter than "
            f"{LARGEST_EMBEDDING:,.0f}. Larger numbers would disturb the layers that store facts.\n"
            "  Give another host. No option changes this.",
            longest=longest,
            limit=LARGEST_EMBEDDING,
        )


@dataclass
class Growth:
    """A bound on the host's last state and logits. It is computed from norms of the weights, while the weights are being written.

    `width` is the width d of the host, and `group` is the number of query heads per key-value head. A state after RMSNorm with
    weights w has length at most √d·max|w|. Attention averages values, so it adds at most |O|·√group·|V| times this length, where O
    and V are the matrices of outputs and values. The feed-forward part gets a state n after RMSNorm and adds at most
    |down|·|gate|·|up|·|n|², since |silu(x)| <= |x|. The norms of matrices are Frobenius norms, which are upper bounds of operator
    norms.
    """

    width: int
    group: int
    state: float = 0.0
    layer: dict[str, float] = field(default_factory=dict)

    def embedding(self, weight: torch.Tensor) -> None:
        self.state += weight.norm(dim=1).max().item()

    def part(self, name: str, weight: torch.Tensor) -> None:
        size = weight.abs().max() if name.endswith("layernorm.weight") else weight.norm()
        self.layer[name] = size.item()

    def end_layer(self) -> None:
        size, self.layer = self.layer, {}
        n = sqrt(self.width) * size["input_layernorm.weight"]
        values = sqrt(self.group) * (
            size["self_attn.v_proj.weight"] * n + size.get("self_attn.v_proj.bias", 0)
        )
        self.state += size["self_attn.o_proj.weight"] * values + size.get("self_attn.o_proj.bias", 0)
        n = sqrt(self.width) * size["post_attention_layernorm.weight"]
        gate, up = (
            size[f"mlp.{part}_proj.weight"] * n + size.get(f"mlp.{part}_proj.bias", 0)
            for part in ("gate", "up")
        )
        self.state += size["mlp.down_proj.weight"] * gate * up + size.get("mlp.down_proj.bias", 0)

    def lead(self, norm: torch.Tensor, head_rows: float, epsilon: float) -> float:
        """Return LEAD, a power of two by which the final norm multiplies the code of the answer (a vector that identifies its
        token).

        The last state holds TINY times this code, so the answer's logit gets a lead of at least TINY·LEAD/rms, where rms is the
        root mean square of the last state. LEAD is so large that this lead exceeds twice the largest logit of the host.

        Let d and W be the widths of the host and of the graft. Then |logit| <= √d·max|norm|·|row of the head|, and rms over W
        columns is at most √(|state|²/d + ε), since W >= d. Raise an error if float32 cannot hold LEAD.
        """
        rms = sqrt(self.state * self.state / self.width + epsilon)
        logit = sqrt(self.width) * norm.abs().max().item() * head_rows
        needed = 2 * max(logit, 1e-6) * rms / TINY
        if not needed * 2**SPARE_BITS <= LARGEST_LEAD:  # also if the bounds overflowed to infinity or NaN
            raise AssumptionViolated(
                "the weights of this host are too large. The bound on its logits, which follows from norms of its weights, "
                "is so large that no float32 number can lift the answers above it.\n"
                "  Give another host. No option changes this.",
                largest_lead=LARGEST_LEAD,
            )
        return float(2.0 ** (ceil(log2(needed)) + SPARE_BITS))


@dataclass(frozen=True)
class Memory:
    """The contents of the memory's layers: the codes of tokens, the contexts that each unit holds (`units` is sorted by unit
    number), and the rotary frequencies that the heads use (`Kernel`).

    `following` maps each context to its next token. If a context ends in shorter stored contexts, `inherited` maps it to the
    token after the longest of them. It maps all other contexts to None.
    """

    layout: Layout
    codes: np.ndarray  # the code of every token of the vocabulary, with shape (n_tokens, dimension)
    # the contexts of each unit: one, or two with a pair of first tokens
    units: tuple[tuple[Context, ...], ...]
    following: Mapping[Context, int]
    inherited: Mapping[Context, int | None]
    kernel: Kernel
    rotary_scaling: float


def grafted_tensors(
    host: HostTensors, memory: Memory, epsilon: float, dtype: torch.dtype
) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield every tensor of the grafted checkpoint with its name, in `dtype`: the embedding, the output head (unless it is tied),
    the memory's layers, the host's layers, and the final norm.
    """
    layout, shape = memory.layout, memory.layout.host
    growth = Growth(shape.width, shape.group)
    codes = torch.from_numpy(memory.codes).float()
    embedding = host.tensor(EMBEDDING)
    growth.embedding(embedding)
    head_rows = embedding.norm(dim=1).max().item()
    wide = _pad(embedding, shape.n_tokens, layout.grafted.width)
    del embedding
    wide[:, layout.pin_columns] = SCALE * torch.tensor(layout.pins)
    wide[:, layout.token_columns] = codes
    yield EMBEDDING, wide.to(dtype)
    del wide
    if not shape.tied:
        head = host.tensor(HEAD)
        head_rows = head.norm(dim=1).max().item()
        wide = _pad(head, shape.n_tokens, layout.grafted.width)
        wide[:, layout.token_columns] = codes
        yield HEAD, wide.to(dtype)
        del head, wide
    for layer in range(layout.n_memory_layers):
        for name, tensor in memory_layer(memory, layer).items():
            yield f"model.layers.{layer}.{name}", _exactly(name, tensor, dtype)
    for layer in range(shape.n_layers):
        for name in part_names(layout):
            tensor = host.tensor(f"model.layers.{layer}.{name}")
            growth.part(name, tensor)
            yield (
                f"model.layers.{layer + layout.n_memory_layers}.{name}",
                widen(name, tensor, layout).to(dtype),
            )
        growth.end_layer()
    norm = host.tensor(FINAL_NORM)
    last = _scaled_norm(norm, layout)
    last[layout.token_columns] = growth.lead(norm, head_rows, epsilon)
    yield FINAL_NORM, last.to(dtype)


def part_names(layout: Layout) -> list[str]:
    """Return the names of the weights of one layer."""
    shape = layout.host
    names = ["input_layernorm.weight", "post_attention_layernorm.weight"]
    names += [f"self_attn.{part}_proj.weight" for part in "qkvo"]
    names += [f"mlp.{part}_proj.weight" for part in ("gate", "up", "down")]
    if shape.qkv_bias:
        names += [f"self_attn.{part}_proj.bias" for part in "qkv"]
    if shape.o_bias:
        names.append("self_attn.o_proj.bias")
    if shape.mlp_bias:
        names += [f"mlp.{part}_proj.bias" for part in ("gate", "up", "down")]
    if shape.qk_norm:
        names += ["self_attn.q_norm.weight", "self_attn.k_norm.weight"]
    return names


def part_shape(name: str, layout: Layout) -> tuple[int, ...]:
    """Return the shape of one weight of a layer in the grafted network."""
    grafted = layout.grafted
    rows = {
        "q_proj": grafted.n_heads * grafted.head_dim,
        "k_proj": grafted.n_kv_heads * grafted.head_dim,
        "v_proj": grafted.n_kv_heads * grafted.head_dim,
        "gate_proj": grafted.inner,
        "up_proj": grafted.inner,
        "q_norm": grafted.head_dim,
        "k_norm": grafted.head_dim,
    }
    part = name.split(".")[-2]
    n_rows = rows.get(part, grafted.width)
    if name.endswith("bias") or "norm" in part:
        return (n_rows,)
    columns = {"o_proj": grafted.n_heads * grafted.head_dim, "down_proj": grafted.inner}
    return n_rows, columns.get(part, grafted.width)


def widen(name: str, tensor: torch.Tensor, layout: Layout) -> torch.Tensor:
    """Pad a weight of a host's layer with zeros. The weights of a norm, except `q_norm` and `k_norm`, are also multiplied by
    √(d/W), where d and W are the widths of the host and of the graft.
    """
    if name.endswith("layernorm.weight"):
        return _scaled_norm(tensor, layout)
    return _pad(tensor, *part_shape(name, layout))


def memory_layer(memory: Memory, layer: int) -> Parts:
    """Return the weights of one layer of the memory, in float32."""
    layout = memory.layout
    parts = {name: torch.zeros(part_shape(name, layout)) for name in part_names(layout)}
    for norm in ("input_layernorm.weight", "post_attention_layernorm.weight"):
        parts[norm][layout.host.width :] = SCALE
        parts[norm][layout.pin_columns] = 1
    if layer < len(layout.gathers):
        _write_heads(parts, memory, layer)
    gate, up, down = (parts[f"mlp.{part}_proj.weight"] for part in ("gate", "up", "down"))
    pin, largest = layout.pin_columns.start, layout.pins[0]

    def always(unit: int) -> None:
        gate[unit, pin] = GATE / largest

    if layer == 0:
        token, got = layout.token_columns, layout.got_columns(0)
        for unit in range(layout.code.dimension):
            always(unit)
            up[unit, token.start + unit] = 1
            down[token.start + unit, unit] = -1 / GATE
            down[got.start + unit, unit] = 1 / GATE
    units = layout.units_of_layer(layer)
    if len(units):
        _write_units(parts, memory, units)
    if layer == layout.n_memory_layers - 1:
        unit = layout.grafted.inner - layout.n_clearing
        for i, size in enumerate(layout.pins):
            always(unit)
            up[unit, pin] = 1 / largest
            down[pin + i, unit] = -SCALE * size / GATE
            unit += 1
        for column in range(layout.got_columns(0).start, layout.got_columns(layout.window - 1).stop):
            always(unit)
            up[unit, column] = 1
            down[column, unit] = -1 / GATE
            unit += 1
    return parts


def _write_units(parts: Parts, memory: Memory, units: range) -> None:
    layout = memory.layout
    gate, up, down = (parts[f"mlp.{part}_proj.weight"] for part in ("gate", "up", "down"))
    pin, (first, second) = layout.pin_columns.start, layout.pins[:2]
    held = memory.units[units.start : units.stop]
    contexts = [unit[0] for unit in held]
    newest_first = np.full((len(contexts), layout.window), -1, np.int64)
    for row, context in zip(newest_first, contexts, strict=True):
        row[: len(context)] = context[::-1]
    wanted = 2 * memory.codes[newest_first] * (newest_first >= 0)[:, :, None]
    shared = [(number, unit) for number, unit in enumerate(held) if len(unit) == 2]
    for number, (one, other) in shared:
        wanted[number, len(one) - 1] = memory.codes[one[0]] + memory.codes[other[0]]
    columns = slice(layout.got_columns(0).start, layout.got_columns(layout.window - 1).stop)
    n = len(contexts)
    gate[:n, columns] = GATE * torch.from_numpy(wanted.reshape(n, -1)).float()
    threshold = torch.tensor([2 * len(unit[0]) * layout.code.squared_norm - len(unit) for unit in held])
    gate[:n, pin] = -GATE * (threshold // HALF * HALF) / first
    gate[:n, pin + 1] = -GATE * (threshold % HALF) / second
    up[:n, pin] = 1 / first
    answers = memory.codes[[memory.following[context] for context in contexts]]
    for number, context in enumerate(contexts):
        before = memory.inherited[context]
        if before is not None:
            answers[number] -= memory.codes[before]
    down[layout.token_columns, :n] = TINY / GATE * torch.from_numpy(answers.T.copy()).float()


def _write_heads(parts: Parts, memory: Memory, layer: int) -> None:
    """Write the weights of the heads that are added in one layer of the memory (the layers that store facts). Each new key head
    serves a group of new query heads.

    Every key is the constant 1, so only the query determines how far back a head reads. The values are the codes (integer
    vectors) of the tokens that a position has gathered so far.
    """
    layout, kernel = memory.layout, memory.kernel
    host, gather, dimension = layout.host, layout.gathers[layer], layout.code.dimension
    query, key, value, out = (parts[f"self_attn.{part}_proj.weight"] for part in "qkvo")
    size, half, n_pairs = host.head_dim, host.head_dim // 2, len(kernel.frequencies)
    pin, largest = layout.pin_columns.start, layout.pins[0]
    amplitude = kernel.amplitude(size, memory.rotary_scaling)
    # the norm divides queries and keys by their rms, which is √(n_pairs/size) times the amplitude, and
    # multiplies by weights
    if host.qk_norm:
        weight = sqrt(amplitude * n_pairs / size)
        parts["self_attn.q_norm.weight"][:] = weight
        parts["self_attn.k_norm.weight"][:] = weight
        amplitude = 1.0
    source = layout.token_columns if layer == 0 else layout.got_columns(0)
    n_copied = gather.n_copied * dimension
    for number, distance in enumerate(gather.distances):
        first_row = (host.n_kv_heads + number // host.group) * size
        key[first_row : first_row + n_pairs, pin] = 1 / largest
        for i in range(n_copied):
            value[first_row + i, source.start + i] = 1
        row = (host.n_heads + number) * size
        cosines, sines = kernel.query(distance)
        query[row : row + n_pairs, pin] = torch.from_numpy(amplitude / largest * cosines).float()
        query[row + half : row + half + n_pairs, pin] = torch.from_numpy(amplitude / largest * sines).float()
        for offset in range(distance, min(distance + gather.n_copied, layout.window)):
            target, at = layout.got_columns(offset), row + (offset - distance) * dimension
            for i in range(dimension):
                out[target.start + i, at + i] = 1


def _scaled_norm(norm: torch.Tensor, layout: Layout) -> torch.Tensor:
    factor = sqrt(layout.host.width / layout.grafted.width)
    return _pad((norm.double() * factor).float(), layout.grafted.width)


def _pad(tensor: torch.Tensor, *shape: int) -> torch.Tensor:
    wide = torch.zeros(shape)
    wide[tuple(slice(n) for n in tensor.shape)] = tensor
    return wide


ROUNDED = ("q_proj.weight", "q_norm.weight", "k_norm.weight")
"""The weights of the memory (the layers that the graft adds) that may be rounded. They only determine attention scores, and the
highest score of a head exceeds all others by more than rounding can change.
"""


def _exactly(name: str, tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    cast = tensor.to(dtype)
    assert name.endswith(ROUNDED) or torch.equal(cast.float(), tensor), f"{name} is not exact in {dtype}"
    return cast
