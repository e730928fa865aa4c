"""Plan a graft for a host and rows of text: compute the contexts to store, the code (an integer vector) of each token, and the
sizes of the grafted network.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from byheart.errors import DataError
from byheart.graft.codes import neighbours
from byheart.graft.contexts import (
    Fact,
    check_beginnings,
    first_token_pairs,
    inherited,
    merge_contexts,
    shared_units,
    twin_contexts,
)
from byheart.graft.emission import Memory, check_embedding
from byheart.graft.heads import choose_kernel
from byheart.graft.host import Host, rotary
from byheart.graft.layout import Layout, plan_layout
from byheart.graft.texts import Row, facts_of


@dataclass(frozen=True)
class GraftPlan:
    """A complete plan of a graft, made before anything is written."""

    facts: tuple[Fact, ...]
    memory: Memory

    @property
    def layout(self) -> Layout:
        return self.memory.layout

    @property
    def ratio(self) -> float:
        """The number of parameters of the grafted network, divided by that of the host."""
        return self.layout.grafted.parameters / self.layout.host.parameters

    def summary(self) -> dict[str, Any]:
        """Return the sizes that `byheart graft --json` prints and graft.json records."""
        layout = self.layout
        return {
            "rows": len({fact.row for fact in self.facts}),
            "prompts": len(self.facts),
            "contexts": len(self.memory.following),
            "longest_context": layout.window,
            "host_parameters": layout.host.parameters,
            "grafted_parameters": layout.grafted.parameters,
            "ratio": self.ratio,
            "width": [layout.host.width, layout.grafted.width],
            "inner": [layout.host.inner, layout.grafted.inner],
            "layers": [layout.host.n_layers, layout.grafted.n_layers],
            "heads": [layout.host.n_heads, layout.grafted.n_heads],
            "code": [layout.code.dimension, layout.code.squared_norm],
            "head_margin": self.memory.kernel.margin,
        }


def plan_graft(host: Host, tokenizer: Any, rows: Sequence[Row], *, bit_identical: bool = False) -> GraftPlan:
    """Plan how to store `rows` in `host`: split the rows into tokens, and plan a graft for them with `plan_facts`.

    Raise an error if a row cannot be stored. The error names the row, except if the row is too long or contains a token that
    the host lacks.
    """
    if not rows:
        raise DataError("there are no rows to store; give at least one.")
    facts = facts_of(tokenizer, rows)
    check_beginnings(facts, [row.key for row in rows])
    return plan_facts(host, facts, bit_identical=bit_identical)


def plan_facts(host: Host, facts: Sequence[Fact], *, bit_identical: bool = False) -> GraftPlan:
    """Plan a graft for facts that are given as tokens: compute the contexts to store, the code (an integer vector) of each token,
    and the sizes of the grafted network.
    """
    check_embedding(host)
    check_beginnings(facts)
    following = merge_contexts(facts)
    used = sorted({token for fact in facts for token in fact.tokens})
    if used[-1] >= host.shape.n_tokens:
        raise DataError(
            f"the facts contain the token id {used[-1]:,}, but the host's vocabulary has only "
            f"{host.shape.n_tokens:,} tokens.\n"
            "  Use the tokenizer that belongs to the host.",
            token=used[-1],
            n_tokens=host.shape.n_tokens,
        )
    window = max(map(len, following))
    before = inherited(following)
    twins = twin_contexts(facts, following, before)
    pairs = first_token_pairs(twins)
    while True:
        units = shared_units(following, twins, pairs)
        layout = plan_layout(host.shape, len(used) + 1, window, len(units), bit_identical=bit_identical)
        # all tokens that occur in no fact share the first code, which no context and no answer contains
        vectors = layout.code.vectors(len(used) + 1)
        rows = neighbours(vectors[1:])
        if len(pairs) <= len(rows):
            break
        pairs = pairs[: len(rows)]
    codes = np.repeat(vectors[:1], host.shape.n_tokens, axis=0)
    codes[used] = _assigned(vectors[1:], used, pairs, rows)
    frequencies, scaling = rotary(host.config)
    longest = max((distance for gather in layout.gathers for distance in gather.distances), default=1)
    kernel = choose_kernel(frequencies, int(host.config["max_position_embeddings"]), longest)
    memory = Memory(layout, codes, tuple(units), following, before, kernel, scaling)
    return GraftPlan(tuple(facts), memory)


def _assigned(
    vectors: np.ndarray,
    used: Sequence[int],
    pairs: Sequence[tuple[int, int]],
    rows: Sequence[tuple[int, int]],
) -> np.ndarray:
    """Return the code (a row of `vectors`) of each token in `used`.

    `pairs` holds pairs of tokens, and `rows` holds pairs of row numbers. The first token of `pairs[i]` gets the first row of
    `rows[i]`, and the second token gets the second row. All other tokens get the remaining rows, in order.
    """
    row_of = {
        token: row
        for pair, both in zip(pairs, rows, strict=False)
        for token, row in zip(pair, both, strict=True)
    }
    left = iter(sorted(set(range(len(vectors))) - set(row_of.values())))
    codes: np.ndarray = vectors[[row_of[token] if token in row_of else next(left) for token in used]]
    return codes
