"""Choose the sizes of a grafted network, and what each column of its residual stream holds.

d is the width of the host, W the number of tokens in the longest context, and SCALE a power of two. The code of a token is an
integer vector. The memory is the layers that are added before the host's own.

0 .. d-1        the host's own stream, which the memory's layers do not change
pins            constants whose squares sum to SCALE² times the grafted width, so that RMSNorm divides by exactly SCALE
token           the code of the token at this position, which layer 0 moves to `got 0`; from layer 1 on, the answer's code
got 0 .. W-1    the codes of the last W tokens, newest first
spare           zero everywhere
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import ceil

import numpy as np

from byheart.errors import AssumptionViolated, amount
from byheart.graft.codes import Code, possible_codes
from byheart.graft.heads import Gather, plan_gathers

MOST_WINDOW = 256
"""The maximum number of tokens in a context. Longer contexts would take more columns than hosts have."""

MOST_KV_HEADS = 6
ROUND_INNER = 32


@dataclass(frozen=True)
class Shape:
    """The sizes that determine the number of parameters of a Llama or a similar model.

    n_tokens  size of the vocabulary
    width     width of the residual stream
    inner     hidden units of a feed-forward part
    tied      whether the output head is the embedding
    qk_norm   whether queries and keys are normalised
    """

    n_tokens: int
    width: int
    inner: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    tied: bool
    qk_norm: bool = False
    qkv_bias: bool = False
    o_bias: bool = False
    mlp_bias: bool = False

    @property
    def group(self) -> int:
        """Number of query heads per key head."""
        return self.n_heads // self.n_kv_heads

    @cached_property
    def parameters(self) -> int:
        """Total number of parameters. Tied embeddings are counted once."""
        rows = self.head_dim * (self.n_heads + 2 * self.n_kv_heads)
        attention = self.width * (rows + self.head_dim * self.n_heads)
        layer = attention + 3 * self.width * self.inner + 2 * self.width
        layer += 2 * self.head_dim * self.qk_norm + rows * self.qkv_bias + self.width * self.o_bias
        layer += (2 * self.inner + self.width) * self.mlp_bias
        return self.n_layers * layer + (2 - self.tied) * self.n_tokens * self.width + self.width


@dataclass(frozen=True)
class Layout:
    """The sizes of the host and of the grafted network, and the columns and units that the memory adds. The memory is the layers
    that are added before the host's own.

    code     the integer vectors that stand for tokens
    window   the number of tokens of the longest context
    n_units  the number of units that match contexts
    gathers  the tokens that the heads of each memory layer read
    """

    host: Shape
    grafted: Shape
    code: Code
    window: int
    n_units: int
    gathers: tuple[Gather, ...]

    @property
    def n_memory_layers(self) -> int:
        return self.grafted.n_layers - self.host.n_layers

    @property
    def first_match_layer(self) -> int:
        """The first layer with units that match contexts.

        This is the last layer that gathers tokens. But it is at least layer 1, because layer 0 first moves the code (an integer
        vector) of the current token to the columns in which contexts are matched.
        """
        return max(1, len(self.gathers) - 1)

    @cached_property
    def pins(self) -> tuple[float, ...]:
        return pins_of(self.grafted.width)

    @property
    def pin_columns(self) -> slice:
        return slice(self.host.width, self.host.width + len(self.pins))

    @property
    def token_columns(self) -> slice:
        start = self.pin_columns.stop
        return slice(start, start + self.code.dimension)

    def got_columns(self, offset: int) -> slice:
        """Return the columns that receive the code (an integer vector) of the token `offset` tokens back."""
        start = self.token_columns.stop + offset * self.code.dimension
        return slice(start, start + self.code.dimension)

    @property
    def n_clearing(self) -> int:
        """How many units of the last memory layer set a column of the stream to zero. These columns hold the constants and the
        codes (integer vectors) of the tokens in the window.
        """
        return len(self.pins) + self.window * self.code.dimension

    def units_of_layer(self, layer: int) -> range:
        """Return the numbers of the context-matching units in this layer of the memory. Such units are numbered from 0 to
        `n_units` - 1 through all layers.
        """
        first = (layer - self.first_match_layer) * self.grafted.inner
        return range(max(0, min(first, self.n_units)), max(0, min(first + self.grafted.inner, self.n_units)))


def pins_of(width: int) -> tuple[float, ...]:
    """Return at least two powers of two whose squares sum to `width`, largest first."""
    pins: list[float] = []
    power, rest = 1.0, width
    while rest:
        pins += [power] * (rest % 4)
        rest //= 4
        power *= 2
    if len(pins) == 1:  # a power of four: split its single pin into four of half the size
        pins = [pins[0] / 2] * 4
    return tuple(reversed(pins))


def plan_layout(
    host: Shape, n_codes: int, window: int, n_units: int, *, bit_identical: bool = False
) -> Layout:
    """Find the smallest network with `n_units` units that match contexts of up to `window` tokens. It must have a code (an integer
    vector) for each of `n_codes` tokens.

    The search tries all possible codes, several numbers of memory layers, and one to six additional key-value heads.

    With `bit_identical`, the grafted network is exactly four times as wide as the host. This width must be a multiple of the number
    of heads, which excludes some numbers of heads. If the host has more than six key-value heads, the search therefore tries up to
    as many additional ones as the host has. Raise an error if there is no suitable network.
    """
    if window > MOST_WINDOW:
        raise AssumptionViolated(
            f"the longest key with its answer has {window:,} tokens, not counting the last; "
            f"at most {MOST_WINDOW} are allowed.\n"
            "  Shorten it, or store the rest of a long answer as a separate fact.",
            window=window,
        )
    codes = [code for code in possible_codes(n_codes) if code.dimension <= host.head_dim]
    if not codes:
        raise AssumptionViolated(
            f"the heads of this host have {host.head_dim} entries, too few to distinguish {n_codes:,} tokens.\n"
            "  Choose a host whose heads have at least 16 entries. No option changes this.",
            head_dim=host.head_dim,
        )
    best = min(
        _layouts(host, codes, window, n_units, bit_identical),
        key=lambda layout: (layout.grafted.parameters, layout.code.squared_norm),
        default=None,
    )
    if best is None:  # without `bit_identical`, some width is always suitable
        helps = any(_layouts(host, codes, 1, n_units, bit_identical))
        which = f"for keys and answers of {amount(window, 'token')}" if helps else "of this host"
        also = ", or shorten the longest key and its answer" if helps else ""
        raise AssumptionViolated(
            f"bit_identical=True (--bit-identical) requires a graft of exactly {4 * host.width:,} columns, four times the host's "
            f"width, but no graft {which} has this width.\n  Leave out this option{also}.",
            window=window,
            width=4 * host.width,
            shorter_keys_help=helps,
        )
    return best


def _layouts(
    host: Shape, codes: Iterable[Code], window: int, n_units: int, bit_identical: bool
) -> Iterator[Layout]:
    most = max(MOST_KV_HEADS, host.n_kv_heads) if bit_identical else MOST_KV_HEADS
    for code in codes:
        for n_more in range(1, most + 1):
            n_heads = n_more * host.group
            gathers = plan_gathers(window, n_heads, host.head_dim // code.dimension)
            n_kv_heads = host.n_kv_heads + n_more
            total_heads = host.n_heads + n_heads
            used = host.width + code.dimension * (window + 1)
            width = 4 * host.width if bit_identical else _width(used, total_heads)
            if width < used + len(pins_of(width)) or width % total_heads:
                continue
            before = max(1, len(gathers) - 1)
            clearing = len(pins_of(width)) + code.dimension * window
            for inner, n_match in _splits(host.inner, n_units + clearing, clearing):
                grafted = Shape(
                    host.n_tokens,
                    width,
                    inner,
                    host.n_layers + before + n_match,
                    total_heads,
                    n_kv_heads,
                    host.head_dim,
                    host.tied,
                    host.qk_norm,
                    host.qkv_bias,
                    host.o_bias,
                    host.mlp_bias,
                )
                yield Layout(host, grafted, code, window, n_units, gathers)


def _splits(inner: int, n_rows: int, least: int) -> Iterator[tuple[int, int]]:
    """Yield possible numbers of hidden units in a layer, each with the number of layers that then have room for `n_rows` units.

    Each number of hidden units is at least `inner`, the host's number, and at least `least`.
    """
    n_layers = ceil(n_rows / max(inner, least))
    while True:
        wide = max(inner, least, ceil(n_rows / n_layers))
        wide = ROUND_INNER * ceil(wide / ROUND_INNER) if wide > inner else inner
        yield wide, n_layers
        if n_layers <= 1:
            return
        n_layers = min(n_layers - 1, int(n_layers * 0.9))


def _width(used: int, n_heads: int) -> int:
    """Return the smallest suitable width of the residual stream.

    It must hold `used` columns and the pins (constant columns). It must be a multiple of 8 and, as transformers requires, of the
    number of heads. In float32, width·(1/width) must be exactly 1. Then the mean of the pins' squares, which RMSNorm computes as
    sum·(1/width), is exact.
    """
    step = np.lcm(n_heads, 8)
    width = int(-(-used // step) * step)
    while width < used + len(pins_of(width)) or np.float32(width) * np.float32(1 / width) != 1:
        width += int(step)
    return width
