"""Which tokens carry a label, and which distinct token each is."""

from __future__ import annotations

from dataclasses import dataclass

from byheart.data.consistency import label_places
from byheart.data.dataset import Dataset
from byheart.program.distinct_tokens import DistinctTokens


@dataclass(frozen=True)
class LabelledTokens:
    """One entry for each label: its sequence, its place in the padded sequence, its token, and the label from 1 to C."""

    samples: list[int]
    columns: list[int]
    tokens: list[int]
    labels: list[int]


def labelled_tokens(data: Dataset, tokens: DistinctTokens) -> LabelledTokens:
    """The labelled tokens of `data`; sequences are filled up on the left, so places move to the right."""
    samples, positions = label_places(data.inputs, data.task)
    columns = positions + tokens.sequences.shape[1] - data.lengths[samples]
    return LabelledTokens(
        samples.tolist(),
        columns.tolist(),
        tokens.sequences[samples, columns].tolist(),
        (data.labels + 1).tolist(),
    )
