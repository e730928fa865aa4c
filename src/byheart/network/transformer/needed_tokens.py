"""Which tokens an answer depends on, layer by layer, walking back from the tokens that carry a label.

Layers between mixing act on each token alone, so what matters is what each attention pattern reads. A compiled network that
gathers its sequence in one attention layer needs only two tokens after it, whatever the length of the sequence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

Needed: TypeAlias = Literal["all", "ends", "last"]
"""All tokens, the first and the last one, or the last one alone."""

Mixing: TypeAlias = Literal["none", "full", "gather", "scatter", "pool"]
"""How a layer mixes tokens: not at all, by an attention pattern (see `Attention`), or into one token that is their sum."""


def needed_tokens(mixing: Sequence[Mixing], *, last_only: bool) -> list[Needed]:
    """The tokens that a later layer reads, before each layer and after the last one."""
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
