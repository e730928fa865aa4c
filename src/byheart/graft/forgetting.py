"""Remove single facts from a graft. Each context of these facts is matched by a hidden unit, whose weights are set to zero.

A context is a key, possibly followed by the first tokens of its answer. Its unit adds the code (a vector) of the token that follows
the context. If shorter stored contexts are suffixes of this one, the unit also subtracts the code of the token that follows the
longest of them. If that shorter context is forgotten, the unit's output weights, which hold these codes, are rewritten. A context
that a remaining fact also needs is kept. All other weights stay the same, bit for bit.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from byheart.errors import UsageError
from byheart.graft.contexts import Fact, inherited
from byheart.graft.host import FolderHost
from byheart.graft.reading import Reading
from byheart.graft.symbolic_run import SATURATED

PARTS = ("gate", "up", "down")


@dataclass(frozen=True)
class Forgotten:
    """The result of removing facts from a graft.

    zeroed           the units that were set to zero, each as (layer, unit)
    rewritten        the units that were rewritten, each as (layer, unit)
    n_contexts       number of contexts that remain
    longest_context  number of tokens in the longest remaining context; 0 if none remains
    """

    zeroed: tuple[tuple[int, int], ...]
    rewritten: tuple[tuple[int, int], ...]
    n_contexts: int
    longest_context: int


def forget_facts(
    checkpoint: FolderHost, reading: Reading, facts: Iterable[Fact], kept: Iterable[Fact], target: Path
) -> Forgotten:
    """Remove the contexts of `facts`, except those that `kept` needs, and write the weights to `target`.

    `reading` is the memory that was read from the checkpoint. `target` is a copy of the checkpoint's folder.
    """
    staying = {context for fact in kept for context, _ in fact.contexts()}
    going = {context for fact in facts for context, _ in fact.contexts()} - staying
    place = {unit.tokens: (unit.layer, unit.unit) for unit in reading.units}
    answers = reading.answers()
    remaining = {tokens: token for tokens, token in answers.items() if tokens not in going}
    before = inherited(remaining)
    rewritten: dict[tuple[int, int], np.ndarray] = {}
    for unit in reading.units:
        if unit.tokens in remaining:
            parent = before[unit.tokens]
            change = reading.codes[remaining[unit.tokens]] - (0 if parent is None else reading.codes[parent])
            if tuple(int(x) for x in change) != unit.change:
                rewritten[unit.layer, unit.unit] = change
    zeroed = sorted({place[tokens] for tokens in going if tokens in place})
    needed = {place[tokens] for tokens in remaining}
    if torn := needed.intersection(zeroed):
        layer, number = min(torn)
        raise UsageError(
            f"hidden unit {number} of layer {layer} stores both a text of a fact to forget and a text of a fact "
            "that stays. The two texts differ only in their first token.\n"
            "  Forget both facts, or graft the host again without the fact to forget.",
            layer=layer,
            unit=number,
        )
    changed = {
        f"model.layers.{layer}.mlp.{part}_proj.weight" for layer, _ in (*zeroed, *rewritten) for part in PARTS
    }
    for file in sorted({checkpoint.places[name].file for name in changed}):
        _rewrite(checkpoint, file, target / file.name, reading, zeroed, rewritten)
    longest = max(map(len, remaining), default=0)
    return Forgotten(tuple(zeroed), tuple(sorted(rewritten)), len(remaining), longest)


def _rewrite(
    checkpoint: FolderHost,
    file: Path,
    target: Path,
    reading: Reading,
    zeroed: list[tuple[int, int]],
    rewritten: dict[tuple[int, int], np.ndarray],
) -> None:
    from safetensors.torch import save_file

    tensors = {
        name: checkpoint.stored(name) for name, place in checkpoint.places.items() if place.file == file
    }
    for layer, unit in zeroed:
        for part in PARTS:
            weight = tensors.get(f"model.layers.{layer}.mlp.{part}_proj.weight")
            if weight is not None:
                (weight[:, unit] if part == "down" else weight[unit]).zero_()
    for (layer, unit), change in rewritten.items():
        weight = tensors.get(f"model.layers.{layer}.mlp.down_proj.weight")
        if weight is not None:
            column = torch.from_numpy(change * (reading.message / SATURATED)).to(weight.dtype)
            weight[torch.from_numpy(reading.message_columns), unit] = column
    save_file(tensors, target, metadata={"format": "pt"})


def copy_folder(source: Path, target: Path) -> None:
    """Copy every file of a grafted folder, including those in its subfolder `host`."""
    shutil.copytree(source, target, dirs_exist_ok=True)
