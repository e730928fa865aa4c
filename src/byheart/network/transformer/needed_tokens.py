"""Find the tokens on which an answer depends, layer by layer, starting from the tokens with labels.

Layers that do not mix tokens act on each token separately, so only the attention patterns matter. If only the last token has a
label, a compiled network that sums its tokens in one attention layer needs at most two tokens after this layer, for any sequence
length.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

Needed: TypeAlias = Literal["all", "ends", "last"]
"""A set of tokens: all, the first and the last one, or only the last one."""

Mixing: TypeAlias = Literal["none", "full", "gather", "scatter", "pool"]
"""How a layer mixes tokens: not at all, by an attention pattern (see `Attention`), or by summing them into one token."""


def needed_tokens(mixing: Sequence[Mixing], *, last_only: bool) -> list[Needed]:
    """For each point of the network, return the tokens that later computations need.

    The points are before each layer, and after the last one.
    """
    needed: list[Needed] = ["last" if last_only else "all"]
    for kind in reversed(mixing):
        needed.insert(0, _before(kind, needed[0]))
    return needed


def _before(kind: Mixing, behind: Needed) -> Needed:
    if kind in ("full", "pool"):
        return "all"
    if kind == "gather" and behind != "last":  # the first token reads all others, and they read it
        return "all"
    return "ends" if kind != "none" and behind == "last" else behind


def positions_of(needed: Needed, n_tokens: int) -> list[int]:
    if needed == "all":
        return list(range(n_tokens))
    return [n_tokens - 1] if needed == "last" or n_tokens == 1 else [0, n_tokens - 1]
