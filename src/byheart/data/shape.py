"""`DataShape`: the sizes of a data set, without its content. Model sizes, bounds and plans are computed from it.

`DataRecord` adds the digest. Certificates and the records of models hold a `DataRecord`, which
identifies their data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from fractions import Fraction
from math import log2
from pathlib import Path
from typing import Annotated, Any, get_args

import numpy as np

from byheart.data.consistency import flat_tokens
from byheart.data.dataset import Dataset
from byheart.data.dataset_pieces import DatasetPieces
from byheart.data.options import Task
from byheart.data.possible_contexts import SequenceSizes
from byheart.data.row_groups import group_rows, representatives
from byheart.errors import UsageError, amount
from byheart.records.arguments import real_number, whole_number
from byheart.records.reader import LARGEST, read_values, within
from byheart.records.refusals import corrupt

NEEDED = ("n_samples", "seq_len", "n_classes")
COUNTS = (*NEEDED, "vocab", "dim", "n_contexts", "n_sequences", "n_labels", "n_last_tokens")
_MANY = 200
"""If the number of possible vectors may take more than this many bits, it is treated as unlimited."""


@dataclass(frozen=True)
class DataShape:
    """The size and kind of a data set. A context is everything that a network can use to predict one label.

    n_samples      number of sequences; for the task `distribution`, number of documents
    seq_len        number of tokens in the longest sequence or document
    n_classes      number of classes to which labels can belong; for the task `distribution`, number of possible next tokens
    vocab, dim     number of token ids, or dimension of token vectors; exactly one of the two is given
    ordered        whether positions matter
    ragged         whether sequences differ in length
    n_contexts     number of distinct contexts, if known
    n_sequences    number of distinct sequences, if known; sequences that differ in the order of tokens are always distinct
    n_labels       total number of labels, if known; otherwise all sequences are assumed to have full length
    n_last_tokens  number of distinct last tokens of the labelled contexts, if known
    label_counts   number of distinct contexts of each class, the most frequent first, if known
    radius, separation
                   largest norm and smallest distance of tokens (KS25 Assumption 4.1), if known or assumed
    is_consistent  whether equal contexts carry equal labels
    """

    n_samples: int
    seq_len: int = 1
    n_classes: int = 2
    _: KW_ONLY
    task: Task = "next-token"
    vocab: int | None = None
    dim: int | None = None
    ordered: bool = False
    ragged: bool = False
    n_contexts: int | None = None
    n_sequences: int | None = None
    n_labels: int | None = None
    n_last_tokens: int | None = None
    label_counts: tuple[int, ...] = field(default=(), repr=False)
    radius: Fraction | int | float | None = None
    separation: Fraction | int | float | None = None
    is_consistent: bool = True

    @classmethod
    def of(cls, data: Dataset | DatasetPieces) -> DataShape:
        """Return the shape of `data`, without measuring distances between tokens (`bounds.shape_of` measures them too)."""
        known: dict[str, Any]
        if isinstance(data, DatasetPieces):
            known = {
                "ragged": data.shortest != data.seq_len,
                "n_last_tokens": None if data.dim is not None else data.tokens_in_place.n_last,
            }
        else:
            known = {
                "ragged": int(data.lengths.min()) != int(data.lengths.max()),
                "n_sequences": _sequences(data),
                "n_last_tokens": _last_tokens(data),
                "label_counts": () if data.task == "distribution" else _label_counts(data),
                "is_consistent": len(data.conflicts) == 0,
            }
        return cls(
            data.n_samples,
            data.seq_len,
            data.n_classes,
            task=data.task,
            vocab=data.vocab,
            dim=data.dim,
            ordered=data.ordered,
            n_contexts=data.n_contexts,
            n_labels=data.n_labels,
            **known,
        )

    def __post_init__(self) -> None:
        """Refuse an unknown task, sizes below 1, both or none of `vocab` and `dim`, more contexts than labels, and a radius or
        separation that is out of range.
        """
        if self.task not in get_args(Task):
            raise UsageError(f"task {self.task!r} is not one of {', '.join(get_args(Task))}.", task=self.task)
        for name in COUNTS:
            value = getattr(self, name)
            if value is not None or name in NEEDED:
                if type(value) is not int:
                    object.__setattr__(self, name, whole_number(name, value))
                if getattr(self, name) < 1:
                    raise UsageError(f"{name} is {value}; it must be at least 1.", **{name: value})
        for name in ("radius", "separation"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, real_number(name, getattr(self, name)))
        if (self.dim is None) == (self.vocab is None):
            raise UsageError(
                f"dim is {self.dim} and vocab is {self.vocab}; give exactly one of them:\n"
                "  dim for tokens that are vectors, vocab for token ids.",
                dim=self.dim,
                vocab=self.vocab,
            )
        if self.n_contexts is not None and self.n_contexts > self.label_count:
            raise UsageError(
                f"n_contexts is {self.n_contexts}; it must be at most the number of labels, "
                f"{self.label_count}.",
                n_contexts=self.n_contexts,
            )
        if (self.radius is not None and not self.radius >= 0) or (
            self.separation is not None and not self.separation > 0
        ):
            raise UsageError(
                f"radius is {self.radius} and separation is {self.separation}; "
                "radius must not be negative and separation must be positive.",
                radius=self.radius,
                separation=self.separation,
            )

    @property
    def context_len(self) -> int:
        """Number of tokens in the longest context. For the task `distribution`, the last token of a document does not count,
        because it is predicted but never part of a context. The result is at least 1.
        """
        return max(self.seq_len - 1, 1) if self.task == "distribution" else self.seq_len

    @property
    def label_count(self) -> int:
        """Total number of labels. If it is not known, all sequences are assumed to have full length."""
        if self.n_labels is not None:
            return self.n_labels
        return self.n_samples * (self.context_len if self.task in ("seq-to-seq", "distribution") else 1)

    @property
    def context_count(self) -> int:
        """Number of distinct contexts. If it is not known, an upper bound on the number that data of this shape can have.

        For token ids, some data of this shape have that many contexts if `n_labels` is not known. Otherwise, perhaps none have. For
        vectors, perhaps none have either: it is not known exactly how many vectors with this separation fit into a ball, so an
        upper bound on their number is used.
        """
        if self.n_contexts is not None:
            return self.n_contexts
        return min(self.label_count, self.sequence_sizes.most_contexts())

    @property
    def sequence_count(self) -> int:
        """Number of distinct sequences. Sequences that differ in the order of tokens are distinct.

        For ordered data and documents, the number of distinct contexts is returned instead. If the number of distinct sequences is
        not known, the number of labels is returned.
        """
        if self.ordered or self.task == "distribution":
            return self.context_count
        return self.label_count if self.n_sequences is None else self.n_sequences

    @property
    def most_sequences(self) -> int:
        """The largest number of sequences with pairwise different contexts that the sizes of this shape allow."""
        return self.sequence_sizes.most_distinct()

    @property
    def label_bits(self) -> float:
        """Bits of information in the labels if they are arbitrary: the number of distinct contexts times log2(n_classes)."""
        return self.context_count * log2(self.n_classes)

    def require_possible(self) -> None:
        """Raise an error if there are more distinct contexts than the vocabulary allows. For vectors of known norm and separation,
        an upper bound on their number is used instead of the vocabulary. Other vectors are not checked.

        If neither contexts nor labels were counted, all sequences are assumed to be distinct, and their number is checked instead.
        The number of documents is not checked, because documents may repeat: repetition determines the distributions.
        """
        if self._most_tokens is None:
            return
        if self.n_contexts is not None:
            self._require(self.n_contexts, "contexts", self.sequence_sizes.most_contexts())
        elif self.n_labels is None and self.task != "distribution":
            self._require(self.n_samples, "sequences", self.sequence_sizes.most_distinct())

    def _require(self, n_wanted: int, what: str, most: int) -> None:
        if n_wanted > most:
            if self.vocab is not None:
                tokens, remedy = f"vocabulary size {self.vocab:,}", "a larger vocabulary"
            else:
                tokens = (
                    f"vectors of dimension {self.dim}, radius {self.radius} and separation {self.separation}"
                )
                remedy = "a smaller separation relative to the radius"
            raise UsageError(
                f"{n_wanted:,} distinct {what} are impossible: with sequence length {self.seq_len:,} and {tokens}, "
                f"there are at most {most:,}.\n  Give fewer samples, longer sequences or {remedy}.",
                wanted=n_wanted,
                possible=most,
            )

    @property
    def sequence_sizes(self) -> SequenceSizes:
        is_ordered = self.ordered or self.task == "distribution"
        return SequenceSizes(
            self.task, self.n_samples, self.context_len, self._most_tokens, is_ordered, self.ragged
        )

    @property
    def _most_tokens(self) -> int | None:
        """The size of the vocabulary or, for vectors, an upper bound on the number of distinct tokens, if one is known.

        Let r be the radius and δ the separation of the vectors. Balls of radius δ/2 around the vectors do not overlap, and they
        lie in a ball of radius r + δ/2. So there are at most (2r/δ + 1)^d vectors of dimension d.
        """
        if self.dim is None or self.radius is None or self.separation is None:
            return self.vocab
        per_axis = 2 * Fraction(self.radius) / Fraction(self.separation) + 1
        return None if self.dim * int(per_axis).bit_length() > _MANY else int(per_axis**self.dim)

    @property
    def has_positions(self) -> bool:
        """Whether the network needs positions. In sequences of one token, they carry no information."""
        return self.ordered and self.context_len > 1


def _label_counts(data: Dataset) -> tuple[int, ...]:
    """Return the number of contexts of each class, the most frequent first.

    A context with conflicting labels counts for its first label.
    """
    counts = np.bincount(data.labels[representatives(data.context_ids)], minlength=data.n_classes)
    return tuple(np.sort(counts)[::-1].tolist())


def _sequences(data: Dataset) -> int | None:
    """Return the number of distinct token sequences, or None for ordered data and documents (contexts are counted instead)."""
    if data.ordered or data.task == "distribution":
        return None
    return int(group_rows(*flat_tokens(data.inputs)).max()) + 1


def _last_tokens(data: Dataset) -> int:
    """Return the number of distinct tokens that carry a label.

    In documents, these are all tokens that are followed by another token.
    """
    tokens, offsets = flat_tokens(data.inputs)
    if data.task == "seq-to-seq":
        return np.unique(tokens).size
    if data.task != "distribution":
        return np.unique(tokens[offsets[1:] - 1]).size
    is_last = np.zeros(tokens.size, dtype=bool)
    is_last[offsets[1:][data.lengths > 0] - 1] = True
    return np.unique(tokens[~is_last]).size


Count = Annotated[int, within(1, LARGEST)]


@dataclass(frozen=True)
class DataRecord:
    """The digest and shape of a data set. Only the digests of two records are compared, because equal digests mean equal data.

    label_entropy  entropy of the labels in bits; None in records of older versions
    is_complete    False in records of older versions, which lack `ordered`, `ragged` and `n_contexts`; the
                   lengths of token sequences are then assumed to differ
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
        """Return one flat object, as written in model.json and certificate.json."""
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
        """Read a record that `to_json` of this or an older version of byheart wrote. Raise `CorruptModel` if a field is wrong."""
        if not isinstance(document, Mapping):
            raise corrupt(where, "dataset must be a JSON object")
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
        if saved.task in ("next-token", "set"):
            fits = saved.n_labels == saved.n_samples
        else:
            fits = saved.n_labels <= saved.n_samples * saved.seq_len
        if not fits:
            counted = f"{amount(saved.n_labels, 'label')} for {amount(saved.n_samples, 'sample')}"
            raise corrupt(where, f"dataset: with the task {saved.task}, there cannot be {counted}")
        return DataRecord(saved.digest, shape, saved.label_entropy, saved.ragged is not None)


@dataclass(frozen=True)
class _Saved:
    """The fields of `to_json` that `from_json` reads. Older versions did not save `ordered`, `ragged` and `n_contexts`."""

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
