"""The native forward pass, reduced to the computations on which the answer depends.

The weights are those of the PyTorch module, in its own float type. Only products with a factor of zero, and numbers that nothing
reads, are left out:

- Tokens that no later layer reads are dropped (`needed_tokens`).
- Each channel (coordinate of the residual stream) is stored contiguously, so a layer accesses only the channels that it reads
  and writes.
- On a CPU, only the units of a wide layer that can fire are computed (see `WideLayer`).

If every sum is exact in any order, as in compiled networks, outputs have the same bits as `module(inputs)`. For infinite
numbers, a product with zero is not zero. So if any number of a batch becomes infinite or NaN, the module itself runs the batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import torch

from byheart.network.transformer.module import (
    AttentionModule,
    FeedForwardModule,
    SumPoolModule,
    TransformerModule,
)
from byheart.network.transformer.needed_tokens import Mixing, Needed, needed_tokens, positions_of
from byheart.network.transformer.wide_layer import WideLayer

WIDE = 64
"""In layers with at least this many units, an `AnswerPlan` on a CPU first determines which units can fire."""


class AnswerPlan:
    """Computes the first output of a `TransformerModule` at each labelled token, faster than the module itself.

    Some modules have no plan; `make_plan` returns None for them.
    """

    def __init__(self, module: TransformerModule, *, last_only: bool) -> None:
        """Reduce the weights of each layer to the channels of the residual stream that it reads or writes.

        With `last_only`, the plan computes only the output at the last token.
        """
        self._module, self._last_only = module, last_only
        on_cpu = module.w_in.device.type == "cpu"
        self._layers = [_cut(layer, on_cpu) for layer in module.layers]
        self._needed = needed_tokens([_mixing(layer) for layer in module.layers], last_only=last_only)
        self._entering = _channels_touched(module.w_in, dim=1)

    def __call__(self, inputs: torch.Tensor) -> torch.Tensor:
        """Map ids (batch, seq) or vectors (batch, seq, d) to outputs (batch,) with `last_only`, else (batch, n_tokens)."""
        is_finite = torch.tensor(True, device=self._module.w_in.device)
        written = set(self._entering)
        for number, stream in self.streams(inputs):
            layer = self._layers[number] if number < len(self._layers) else None
            if layer is None or isinstance(layer, _Attention | _Pool):
                is_finite &= _is_finite(stream, written)
            written.update([] if layer is None else layer.writes)
        if not is_finite:
            whole: torch.Tensor = self._module(inputs, last_only=self._last_only)[:, :, 0]
            return whole[:, -1] if self._last_only else whole
        outputs = (self._module.w_out[:1] @ stream.view(stream.shape[0], -1)).view(stream.shape[1:]).T
        if self._last_only:
            return outputs[:, -1]
        return outputs[:, 1:] if self._module.extra is not None and outputs.shape[1] > 1 else outputs

    def streams(self, inputs: torch.Tensor) -> Iterator[tuple[int, torch.Tensor]]:
        """Yield each layer's number and the residual stream before it, and finally the stream after the last layer.

        A stream has the shape (m, tokens, batch) and contains only the tokens that are needed after this point.
        Layers change the stream in place, so each stream is valid only until the next one is yielded.
        """
        stream, have = self._enter(inputs), self._needed[0]
        for number, (layer, behind) in enumerate(zip(self._layers, self._needed[1:], strict=True)):
            yield number, stream
            if isinstance(layer, _Attention | _Pool):
                stream = layer.mix(stream, have, behind)
            else:
                layer.add_to(stream.view(stream.shape[0], -1))
            have = behind
        yield len(self._layers), stream

    def strongest_units(self, number: int, stream: torch.Tensor) -> torch.Tensor:
        """Return the unit of feed-forward layer `number` with the largest value before ReLU, for each token and sample.

        The result has the shape (tokens, batch). `stream` is the residual stream before the layer. If no value is positive, any
        unit may be returned.
        """
        layer = self._layers[number]
        assert isinstance(layer, _FeedForward | WideLayer)
        return layer.strongest_units(stream.view(stream.shape[0], -1)).view(stream.shape[1:])

    def _enter(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return the initial residual stream (m, tokens, batch) of the tokens on which the answer depends."""
        module = self._module
        vectors = module.vectors(inputs)
        kept = positions_of(self._needed[0], vectors.shape[1])
        entering = vectors[:, kept].permute(2, 1, 0).reshape(vectors.shape[2], -1)
        stream = entering.new_zeros(module.w_in.shape[0], entering.shape[1])
        for run in _runs(self._entering):
            stream[run] = module.w_in[run] @ entering
        return stream.view(len(stream), len(kept), -1)


def make_plan(module: TransformerModule, *, last_only: bool) -> AnswerPlan | None:
    """Return an `AnswerPlan` for the module, or None if the module computes attention scores. Plans do not support such modules,
    because scores depend on all tokens.
    """
    scored = any(isinstance(layer, AttentionModule) and layer.kind != "uniform" for layer in module.layers)
    return None if scored else AnswerPlan(module, last_only=last_only)


@dataclass(frozen=True, eq=False)
class _FeedForward:
    """Adds W2 ReLU(W1 H + b1) + b2 to the residual stream H, only on the channels that the layer reads or writes."""

    reads: list[int]
    writes: list[int]
    w1: torch.Tensor
    b1: torch.Tensor
    w2: list[tuple[slice, torch.Tensor]]  # rows of W2, with b2 as an additional column

    def add_to(self, stream: torch.Tensor) -> None:
        """Add the layer's output to the stream (m, n_columns), in place."""
        hidden = stream.new_ones(len(self.w1) + 1, stream.shape[1])
        torch.addmm(self.b1, self.w1, _rows(stream, self.reads), out=hidden[:-1])
        hidden[:-1].relu_()
        for run, weights in self.w2:
            stream[run] += weights @ hidden  # compute the sum first: only then is it exact in any order

    def strongest_units(self, stream: torch.Tensor) -> torch.Tensor:
        """For each column of the stream (m, n_columns), return the index of the unit with the largest value before ReLU."""
        return torch.addmm(self.b1, self.w1, _rows(stream, self.reads)).argmax(dim=0)


@dataclass(frozen=True, eq=False)
class _Attention:
    """Adds W_O W_V Z A to the residual stream Z. A holds the weights of uniform attention; W_O and W_V combine all heads."""

    reads: list[int]
    writes: list[int]
    value: torch.Tensor
    output: torch.Tensor
    pattern: str
    n_tokens: torch.Tensor

    def mix(self, stream: torch.Tensor, have: Needed, behind: Needed) -> torch.Tensor:
        """Return the stream (m, tokens, batch) after the layer, given the stream before it.

        `have` says which tokens the given stream contains, and `behind` says which tokens the returned stream contains.
        """
        kept, read = _keep(stream, have, behind), _rows(stream, self.reads)
        reads_first = self.pattern == "scatter" or (self.pattern == "gather" and behind == "last")
        n_first = 0 if reads_first else 1 if self.pattern == "gather" else kept.shape[1]
        if n_first:  # these tokens receive the mean of all
            values = (self.value @ read.reshape(len(read), -1)).view(-1, *stream.shape[1:])
            mean = self.output @ values.sum(dim=1) / self.n_tokens
        if n_first < kept.shape[1]:  # the others receive the value of the first token
            first = self.output @ (self.value @ read[:, 0])
        at = 0
        for run in _runs(self.writes):
            rows = slice(at, at + run.stop - run.start)
            if n_first:
                kept[run, :n_first] += mean[rows, None]
            if n_first < kept.shape[1]:
                kept[run, n_first:] += first[rows, None]
            at = rows.stop
        return kept


@dataclass(frozen=True, eq=False)
class _Pool:
    """Replaces all tokens by a single one, their sum Σ_k Z_k."""

    writes: tuple[int, ...] = ()

    def mix(self, stream: torch.Tensor, have: Needed, behind: Needed) -> torch.Tensor:
        """Return the sum over the tokens of the stream (m, tokens, batch), as a stream (m, 1, batch)."""
        return stream.sum(dim=1, keepdim=True)


def _cut(layer: torch.nn.Module, on_cpu: bool) -> _FeedForward | WideLayer | _Attention | _Pool:
    if isinstance(layer, SumPoolModule):
        return _Pool()
    if isinstance(layer, AttentionModule):
        value = layer.value.flatten(0, 1)  # (heads · s, m)
        output = layer.output.transpose(1, 2).flatten(0, 1).T  # (m, heads · s)
        reads, writes = _channels_touched(value, dim=0), _channels_touched(output, dim=1)
        cut = value[:, reads].contiguous(), output[writes].contiguous()
        return _Attention(reads, writes, *cut, layer.pattern, layer.n_tokens)
    assert isinstance(layer, FeedForwardModule)
    biased = torch.cat([layer.w2, layer.b2[:, None]], dim=1)
    reads, writes = _channels_touched(layer.w1, dim=0), _channels_touched(biased, dim=1)
    if on_cpu and len(layer.w1) >= WIDE:
        return WideLayer(reads, writes, layer.w1, layer.b1, layer.w2, layer.b2)
    w1 = layer.w1[:, reads].contiguous()
    return _FeedForward(
        reads, writes, w1, layer.b1[:, None], [(run, biased[run].contiguous()) for run in _runs(writes)]
    )


def _mixing(layer: torch.nn.Module) -> Mixing:
    if isinstance(layer, AttentionModule):
        return cast(Mixing, layer.pattern)
    return "pool" if isinstance(layer, SumPoolModule) else "none"


def _channels_touched(weights: torch.Tensor, *, dim: int) -> list[int]:
    """Return the indices of the rows (dim=1) or columns (dim=0) of `weights` that have a non-zero entry.

    If all entries are zero, return [0]. The layer then still computes one product with zero. If the other factor of this product is
    infinite, the product is NaN, and `AnswerPlan` notices the NaN.
    """
    found: list[int] = (weights != 0).any(dim=dim).nonzero().flatten().tolist()
    return found or [0]


def _runs(rows: list[int]) -> list[slice]:
    """Group ascending numbers into slices of consecutive numbers."""
    found: list[slice] = []
    for row in rows:
        if found and found[-1].stop == row:
            found[-1] = slice(found[-1].start, row + 1)
        else:
            found.append(slice(row, row + 1))
    return found


def _rows(stream: torch.Tensor, rows: list[int]) -> torch.Tensor:
    """Return these rows of the stream: a view if they are adjacent, otherwise a copy."""
    runs = _runs(rows)
    return stream[runs[0]] if len(runs) == 1 else stream[rows]


def _keep(stream: torch.Tensor, have: Needed, behind: Needed) -> torch.Tensor:
    """Return the stream with only the tokens that are needed after a layer.

    The given stream has the tokens in `have`, and the returned stream has those in `behind`.
    """
    if have == behind or stream.shape[1] == 1:
        return stream
    return stream[:, positions_of(behind, stream.shape[1])].contiguous()


def _is_finite(stream: torch.Tensor, rows: set[int]) -> torch.Tensor:
    return torch.isfinite(_rows(stream, sorted(rows))).all()
