"""Which tokens carry a label, and of which word each is one."""

from __future__ import annotations

from dataclasses import dataclass

from byheart.data.consistency import label_places
from byheart.data.dataset import Dataset
from byheart.program.construction import Statistics
from byheart.program.distinct_tokens import Words


@dataclass(frozen=True)
class Labelled:
    """One entry for each label: its sequence, its place in the padded sequence, its word, and the label from 1 to C."""

    samples: list[int]
    columns: list[int]
    words: list[int]
    labels: list[int]


def labelled_tokens(data: Dataset, words: Words) -> Labelled:
    """The labelled tokens of `data`; sequences are filled up on the left, so places move to the right."""
    samples, positions = label_places(data.inputs, data.task)
    columns = positions + words.sequences.shape[1] - data.lengths[samples]
    return Labelled(
        samples.tolist(),
        columns.tolist(),
        words.sequences[samples, columns].tolist(),
        (data.labels + 1).tolist(),
    )


def n_labelled(statistics: Statistics) -> int:
    """Distinct labelled contexts: as measured, or one for every token or sequence."""
    if statistics.n_contexts is not None:
        return statistics.n_contexts
    return statistics.n_samples * (statistics.seq_len if statistics.task == "seq-to-seq" else 1)
