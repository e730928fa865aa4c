"""Check a data set before memorising it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Int

from byheart.data.consistency import Conflicts, flat_tokens
from byheart.data.row_groups import group_rows, representatives
from byheart.data.separation import Separation, separation_of
from byheart.data.sequences import Sequences, VectorSequences, freeze, offsets_of

if TYPE_CHECKING:
    from byheart.data.dataset import Dataset

EXAMPLES = 5  # number of conflicts that a report describes in full


@dataclass(frozen=True, eq=False)
class DataReport:
    """The duplicates, label conflicts, non-finite values and separation of one data set; `str()` gives a readable report."""

    data: Dataset

    @property
    def inputs(self) -> Sequences:
        return self.data.inputs

    @cached_property
    def duplicates(self) -> Int[np.ndarray, "n_duplicates 2"]:
        """Pairs of equal samples (same contexts, same labels). Each repeated sample is paired with the first sample that
        equals it.
        """
        data = self.data
        # the labels of a document are its own tokens, so equal tokens imply equal labels
        if data.task == "distribution":
            groups = group_rows(*flat_tokens(data.inputs))
        else:
            words = np.stack([data.context_ids, data.labels], axis=1).reshape(-1)
            groups = group_rows(words, 2 * offsets_of(data.labels_per_sample))
        first = representatives(groups)[groups]
        later = np.flatnonzero(first != np.arange(groups.size))
        return freeze(np.stack([first[later], later], axis=1), np.int64)

    @property
    def conflicts(self) -> Conflicts:
        """Pairs of different labels whose contexts (everything that may be used to predict a label) are equal."""
        return self.data.conflicts

    @property
    def examples(self) -> tuple[str, ...]:
        """Descriptions of the first few conflicts."""
        return tuple(self.data.describe_conflict(k) for k in range(min(EXAMPLES, len(self.conflicts))))

    @property
    def non_finite(self) -> Int[np.ndarray, "n_bad 3"]:
        """The sample, position and coordinate of every NaN and infinity."""
        if isinstance(self.inputs, VectorSequences):
            return self.inputs.non_finite
        return np.zeros((0, 3), dtype=np.int64)

    @property
    def is_memorisable(self) -> bool:
        """Whether the data set can be memorised: it has no label conflict, no NaN and no infinity."""
        return len(self.conflicts) == 0 and len(self.non_finite) == 0

    @cached_property
    def separation(self) -> Separation | None:
        """The largest norm of a token and the smallest distance between two distinct tokens (see `separation_of` for token ids).
        They are computed at the first access. None if a value is not finite.
        """
        return None if len(self.non_finite) else separation_of(self.inputs, self.data.ordered)

    def __str__(self) -> str:
        size = (
            f"{len(self.inputs):,} samples, {self.data.n_labels:,} labels of {self.data.n_classes:,} classes"
        )
        lengths = self.inputs.lengths
        length = " to ".join(map(str, dict.fromkeys((lengths.min(), lengths.max()))))
        if isinstance(self.inputs, VectorSequences):
            kind = f"vectors per sample: {length}; dimension: {self.inputs.dim}"
        else:
            kind = f"tokens per sample: {length}; size of the vocabulary: {self.inputs.n_vocab:,}"
        return "\n".join(
            [
                f"{size} ({self.data.task}, {'positions matter' if self.data.ordered else 'order ignored'})",
                f"  inputs       {kind}",
                f"  label bits   {self.data.label_bits:,.0f}",
                f"  duplicates   {len(self.duplicates):,}",
                f"  conflicts    {self.data.n_conflicting:,}",
                *(f"    {line}" for line in self.examples),
                f"  not finite   {len(self.non_finite):,}",
                f"  separation   {self._separation_in_words()}",
            ]
        )

    def _separation_in_words(self) -> str:
        found = self.separation
        if found is None:
            return "undefined, because some values are not finite"
        if found.delta is None:
            return (
                f"largest norm r = {found.r:.6g}; only one distinct token, so there is no smallest distance δ"
            )
        return (
            f"largest norm r = {found.r:.6g}, smallest distance δ = {found.delta:.6g} "
            f"({found.n_distinct:,} distinct tokens)"
        )
