"""`DataRecord`: what certificates and records of models say of their data: the digest, and the shape behind it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from byheart.data.dataset import Dataset
from byheart.data.dataset_pieces import DatasetPieces
from byheart.data.options import Task
from byheart.data.shape import DataShape
from byheart.errors import UsageError
from byheart.records.reader import read_values, within
from byheart.records.refusals import corrupt

_MOST = 2**62
Count = Annotated[int, within(1, _MOST)]


@dataclass(frozen=True)
class DataRecord:
    """Which data set, and of what shape. Two records are equal if their digests are: equal digests mean equal data.

    label_entropy  bits that a code for the labels must pay; None in records of older versions
    is_complete    False in records of older versions, which do not say whether positions matter, whether sequences differ
                   in length and how many contexts there are: then lengths are taken to differ
    """

    digest: str
    shape: DataShape = field(compare=False)
    label_entropy: float | None = field(default=None, compare=False)
    is_complete: bool = field(default=True, compare=False)

    @classmethod
    def of(cls, data: Dataset | DatasetPieces) -> DataRecord:
        return cls(data.digest, DataShape.of(data), data.label_entropy)

    @property
    def label_bits(self) -> float:
        return self.shape.label_bits

    def to_json(self) -> dict[str, Any]:
        """One flat object, as model.json and certificate.json have it."""
        shape = self.shape
        newer = {"ordered": shape.ordered, "ragged": shape.ragged, "n_contexts": shape.n_contexts}
        return {
            "digest": self.digest,
            "task": shape.task,
            "n_samples": shape.n_samples,
            "n_labels": shape.label_count,
            "n_classes": shape.n_classes,
            "seq_len": shape.seq_len,
            "vocab": shape.vocab,
            "dim": shape.dim,
            "label_bits": shape.label_bits,
            "label_entropy": self.label_entropy,
            **(newer if self.is_complete else {}),
        }

    @staticmethod
    def from_json(document: object, where: str | Path) -> DataRecord:
        """From `to_json`, of this version or an older one; `CorruptModel` where a field is not as it should be."""
        if not isinstance(document, Mapping):
            raise corrupt(where, "dataset must be an object")
        saved = read_values(document, _Saved, f"{where}, dataset", refuse=corrupt, ignore_unknown=True)
        may_be_ragged = saved.vocab is not None and saved.seq_len > 1
        try:
            shape = DataShape(
                saved.n_samples,
                saved.seq_len,
                saved.n_classes,
                task=saved.task,
                vocab=saved.vocab,
                dim=saved.dim,
                ordered=bool(saved.ordered),
                ragged=may_be_ragged if saved.ragged is None else saved.ragged,
                n_contexts=saved.n_contexts,
                n_labels=saved.n_labels,
            )
        except UsageError as error:
            raise corrupt(where, f"dataset: {error}".rstrip(".")) from None
        return DataRecord(saved.digest, shape, saved.label_entropy, saved.ragged is not None)


@dataclass(frozen=True)
class _Saved:
    """The fields of `to_json` that are read. Older versions did not save `ordered`, `ragged` and `n_contexts`."""

    digest: str
    task: Task
    n_samples: Count
    n_labels: Count
    n_classes: Count
    seq_len: Count
    vocab: Count | None = None
    dim: Count | None = None
    ordered: bool | None = None
    ragged: bool | None = None
    n_contexts: Count | None = None
    label_entropy: float | None = None
