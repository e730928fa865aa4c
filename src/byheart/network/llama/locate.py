"""Where a fact lives: the words of the tables that its tokens are read from, by the names of the checkpoint.

A context reads one unit in each of three tables, and of each unit's output weights the one of its channel (and the side words').
These weights are found by running the network: the units that fire in the table layers, and the columns that the pick layer reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from byheart.errors import UsageError
from byheart.network.llama.architecture import Llama
from byheart.network.llama.chains import ChainedTexts
from byheart.network.llama.evaluator import pinned_columns, trace_units
from byheart.network.llama.spec import weight_name


@dataclass(frozen=True)
class Parameter:
    """One entry of the checkpoint."""

    layer: int
    column: int
    unit: int

    @property
    def name(self) -> str:
        """As `state_dict()[tensor][i, j]`."""
        return f"{weight_name(self.layer, 'mlp.down_proj')}[{self.column}, {self.unit}]"


def locate(
    llama: Llama, notes: Mapping[str, Any], texts: list[tuple[list[int], list[int]]]
) -> list[frozenset[Parameter]]:
    """The words that each text is read from: (prompt, answer) pairs of ids, the answer without its end."""
    try:
        first, stop = (int(each) for each in notes["table layers"])
        pick = int(notes["pick layer"])
    except (KeyError, TypeError, ValueError):
        raise UsageError("the record of this model does not say where its tables are.") from None
    if not 0 < first < stop <= pick < llama.spec.n_layers:
        raise UsageError("the record of this model names layers that it does not have.")
    ids = [np.array(prompt + answer) for prompt, answer in texts]
    asked = []
    for prompt, answer in texts:
        here = np.zeros(len(prompt) + len(answer), dtype=bool)
        here[len(prompt) - 1 : -1] = True
        asked.append(here)
    owners = np.repeat(np.arange(len(texts)), [len(answer) for _, answer in texts])
    offsets = np.cumsum([0, *map(len, ids)])
    layers = [*range(first, stop), pick]
    fired = trace_units(llama, ChainedTexts(np.concatenate(ids), offsets, np.concatenate(asked)), layers)
    up = llama.weight(pick, "mlp.up_proj")
    found: list[set[Parameter]] = [set() for _ in texts]
    columns: list[list[int]] = [[] for _ in owners]
    free = ~pinned_columns(llama).columns
    for context, unit in zip(*fired[pick], strict=True):
        columns[context] += [int(c) for c in np.flatnonzero(up[unit] * free)]
    for layer in range(first, stop):
        down = llama.weight(layer, "mlp.down_proj")
        for context, unit in zip(*fired[layer], strict=True):
            found[owners[context]] |= {
                Parameter(layer, c, int(unit)) for c in columns[context] if down[c, unit]
            }
    return [frozenset(each) for each in found]
