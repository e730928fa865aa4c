"""`Dataset`: the inputs and labels to be memorised."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Unpack, get_args

import numpy as np
from jaxtyping import Bool, Int

from byheart.data.assemble import Content, content_of_arrays, content_of_documents
from byheart.data.check import DataReport
from byheart.data.checked_rows import checked_arrays, checked_content
from byheart.data.consistency import (
    Conflicts,
    conflicting_labels,
    context_ids,
    find_conflicts,
    samples_to_keep,
)
from byheart.data.contexts import Contexts, contexts_of
from byheart.data.digest import digest_of
from byheart.data.frames import frame_columns
from byheart.data.kept_rows import NOTHING, Known, keep_rows
from byheart.data.label_types import type_for
from byheart.data.multiset import Multiset
from byheart.data.options import (
    USUAL_COLUMNS,
    DataSource,
    OnConflict,
    RowOptions,
    Rule,
    TableOptions,
    Task,
)
from byheart.data.readers import READING_STEPS, naming, read_content, read_documents
from byheart.data.row_groups import flat_ranges, representatives
from byheart.data.row_rules import RULES, RowCheck
from byheart.data.sequences import Sequences, TokenSequences, VectorSequences, freeze, offsets_of
from byheart.data.tokenizers import Tokenizer
from byheart.errors import ConflictingLabels, DataError, UsageError, amount
from byheart.process.progress import Progress, report

__all__ = ["Dataset", "OnConflict", "TableOptions", "Task", "TokenSequences", "VectorSequences"]

_SHOWN = 60  # number of characters of an input that a message shows


@dataclass(frozen=True, eq=False)
class Dataset(Content):
    """Inputs with labels, and what is needed to interpret them. A data set is immutable and has a digest.

    inputs: token ids (ragged) or real vectors.
    labels: class numbers in [0, n_classes), as one flat array. For `next-token` and `set`, one per sequence, which belongs to
        the sequence's last token. For `seq-to-seq`, one per token. For `distribution` (documents), all tokens except the
        first of each document; each is the label of the prefix before it.
    label_names: the name of each class.
    tokenizer: the tokenizer that converted texts to ids; None for data given as ids or vectors, unless the caller gave one or
        the ids had large gaps (see `IdTokenizer`).
    ordered: True if positions matter. False if only two things matter: the multiset of tokens and, except for the task `set`, the
        token that carries the label.
    source: how the data set was read from a file or a data frame; None for other data, and for a data frame with the columns
        `key` and `value`.
    rows: the row (from 1) of each sample in the file or list it came from; None if sample i came from row i + 1.
    left_out: the number of rows that each rule left out, such as {"on_conflict=first": 2}.
    label_type: the type that the labels had before they were converted to text.
    """

    def __post_init__(self) -> None:
        """Check the invariants. An error about one sample names its row."""
        object.__setattr__(self, "labels", freeze(self.labels, np.int64))
        if self.rows is not None:
            object.__setattr__(self, "rows", freeze(self.rows, np.int64))
        if self.task not in get_args(Task):
            raise UsageError(f"task {self.task!r} is not one of {', '.join(get_args(Task))}.", task=self.task)
        if self.n_samples == 0:
            raise DataError("the data set has no samples, so there is nothing to memorise.")
        if self.task == "set" and self.ordered:
            raise UsageError("task `set` ignores order; leave out ordered=True, or choose next-token.")
        self._check_inputs()
        self._check_labels()

    def _check_inputs(self) -> None:
        empty = np.flatnonzero(self.lengths == 0)
        if self.task == "distribution":
            if not isinstance(self.inputs, TokenSequences):
                raise UsageError("task `distribution` is for documents of tokens, not for vectors.")
            if empty.size == self.n_samples:
                raise DataError("no document has a token, so there is nothing to memorise.")
        elif empty.size:
            raise DataError(
                f"row {self.row(int(empty[0]))} has an input without tokens "
                f"({amount(empty.size, 'such row')}), "
                "so no token can carry its label.\n"
                "  Remove those rows, or use a tokenizer that makes tokens of their text.",
                row=self.row(int(empty[0])),
            )

    def _check_labels(self) -> None:
        odd = next((name for name in self.label_names if not isinstance(name, str)), "")
        if not isinstance(odd, str):
            raise UsageError(
                f"label names must be texts; got {odd!r} among them.\n  Convert every name to a text.",
                odd=odd,
            )
        n_tokens = int(self.lengths.sum())
        wanted = int(self.labels_per_sample.sum())
        if self.n_labels != wanted:
            raise UsageError(
                f"task {self.task} needs {amount(wanted, 'label')} for {amount(self.n_samples, 'sequence')} with "
                f"{amount(n_tokens, 'token')} in all; got {self.n_labels:,}.",
                wanted=wanted,
                n_labels=self.n_labels,
            )
        if self.n_labels and not 0 <= self.labels.min() <= self.labels.max() < self.n_classes:
            raise UsageError(
                f"class numbers must be from 0 to {self.n_classes - 1}, one for each label name; "
                f"got {self.labels.min()} to {self.labels.max()}.",
                n_classes=self.n_classes,
            )
        if self.task != "distribution" and len(set(self.label_names)) != self.n_classes:
            raise UsageError(
                f"label names must be distinct; got {self.n_classes} names with repeats.",
                n_classes=self.n_classes,
            )
        if self.rows is not None and self.rows.size != self.n_samples:
            raise UsageError(
                f"got {amount(self.rows.size, 'row number')} for {amount(self.n_samples, 'sample')}; give one per sample.",
                n_rows=self.rows.size,
                n_samples=self.n_samples,
            )

    # Sizes

    @property
    def n_samples(self) -> int:
        """Number of sequences."""
        return len(self.inputs)

    @property
    def n_labels(self) -> int:
        """Number of labels to be memorised."""
        return int(self.labels.size)

    @property
    def n_classes(self) -> int:
        """Number of classes, including those that no sample has."""
        return len(self.label_names)

    @property
    def lengths(self) -> Int[np.ndarray, " n_samples"]:
        """Number of tokens in each sequence."""
        return self.inputs.lengths

    @property
    def seq_len(self) -> int:
        """Length of the longest sequence."""
        return int(self.lengths.max())

    @property
    def vocab(self) -> int | None:
        """Number of token ids, or None for vectors."""
        return self.inputs.n_vocab if isinstance(self.inputs, TokenSequences) else None

    @property
    def dim(self) -> int | None:
        """Dimension of the vectors, or None for token ids."""
        return self.inputs.dim if isinstance(self.inputs, VectorSequences) else None

    @property
    def label_bits(self) -> float:
        """Bits of information in the labels if they are arbitrary: the number of distinct contexts times log2(n_classes).

        A repeated sample adds no bits.
        """
        return self.n_contexts * math.log2(self.n_classes)

    @cached_property
    def n_contexts(self) -> int:
        """Number of distinct contexts. A context is everything that a network can use to predict one label."""
        is_distribution = self.task == "distribution"
        return len(self.contexts()) if is_distribution else int(self.context_ids.max()) + 1

    @cached_property
    def label_entropy(self) -> float:
        """Entropy of the labels in bits: n_contexts · H, where H is the entropy of the label frequencies.

        Each context counts once, with its first label. In documents, where a context may have several next tokens,
        each occurrence counts.
        """
        is_distribution = self.task == "distribution"
        labels = self.labels if is_distribution else self.labels[representatives(self.context_ids)]
        counts = np.bincount(labels)
        bits = math.fsum(count * math.log2(labels.size / count) for count in counts[counts > 0].tolist())
        return bits * self.n_contexts / max(1, labels.size) if is_distribution else bits

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hex) of task, order, inputs, vocabulary, labels and label names."""
        words, inputs = None if self.tokenizer is None else self.tokenizer.vocabulary, self.inputs
        arrays = [inputs.offsets, inputs.ids] if isinstance(inputs, TokenSequences) else [inputs.values]
        shape = (len(inputs),) if isinstance(inputs, TokenSequences) else inputs.values.shape
        parts = [(array.size, [array]) for array in (*arrays, self.labels)]
        return digest_of(self.task, self.ordered, shape, self.vocab, words, self.label_names, parts)

    # Contexts and conflicts

    @cached_property
    def context_ids(self) -> Int[np.ndarray, " n_labels"]:
        """For each label, a number that identifies its context. Equal contexts get equal numbers, in order of first appearance."""
        return freeze(context_ids(self.inputs, self.task, self.ordered), np.int64)

    @cached_property
    def conflicts(self) -> Conflicts:
        """The pairs of labels that disagree although their contexts are equal. Documents have none."""
        if self.task == "distribution":
            none = np.zeros((0, 2), dtype=np.int64)
            return Conflicts(none, none, none)
        return find_conflicts(self.inputs, self.labels, self.task, self.context_ids)

    def contexts(self) -> Contexts:
        """Return the distinct contexts of the documents, and the tokens that follow each (task `distribution`)."""
        if self.task != "distribution" or not isinstance(self.inputs, TokenSequences):
            raise UsageError(
                f"contexts() is for documents (task `distribution`); the task of this data set is `{self.task}`.",
                task=self.task,
            )
        return contexts_of(self.inputs)

    def resolved(self, on_conflict: OnConflict, known: Known = NOTHING) -> Dataset:
        """Return the data set without conflicting labels. The value of `on_conflict` decides how.

        `error` raises `ConflictingLabels` if there are any.
        `first`, `last` and `majority` choose one label for each context and drop the samples with another label.
        Among equally frequent labels, `majority` chooses the first. `drop` drops every sample whose context has
        conflicting labels. `keep` changes nothing, so that `check` can report the conflicts. Classes and tokens
        that only dropped samples have are removed too, as far as `keep_rows` describes. `known` tells what the caller gave.
        """
        if on_conflict not in get_args(OnConflict):
            raise UsageError(
                f"on_conflict={on_conflict!r} is not one of {', '.join(get_args(OnConflict))}.",
                on_conflict=on_conflict,
            )
        if on_conflict == "error":
            self.require_consistent()
            return self
        if on_conflict == "keep" or not len(self.conflicts):
            return self
        keep = self._keep_by(on_conflict)
        if not keep.any():
            raise ConflictingLabels(
                f"all {self.n_samples} samples have conflicting labels, so on_conflict={on_conflict!r} leaves no sample.\n"
                "  Correct the labels, or choose another rule.",
                n_samples=self.n_samples,
                on_conflict=on_conflict,
            )
        kept = keep_rows(self, keep, known)
        return replace(kept, left_out={**self.left_out, f"on_conflict={on_conflict}": int((~keep).sum())})

    def _keep_by(self, rule: Rule) -> Bool[np.ndarray, " n_samples"]:
        """Return a mask of the samples that a rule for conflicts keeps."""
        return samples_to_keep(self.inputs, self.labels, self.task, self.context_ids, rule)

    @property
    def n_conflicting(self) -> int:
        """Number of samples whose label differs from that of the first sample with an equal context. These are the samples that
        on_conflict="first" drops.
        """
        return int((~self._keep_by("first")).sum()) if len(self.conflicts) else 0

    def require_consistent(self) -> None:
        """Raise `ConflictingLabels`, naming both rows, if equal contexts have different labels."""
        if len(self.conflicts):
            raise self._conflicting_labels()

    def _conflicting_labels(self) -> ConflictingLabels:
        return conflicting_labels(
            self.describe_conflict(0),
            self.n_conflicting,
            'Drop one of them, or choose a rule: on_conflict="first" in Python, --on-conflict first\n'
            "  on the command line (or last, majority, drop).",
            rows=tuple(self.row(int(i)) for i in self.conflicts.samples[0]),
            samples=tuple(int(i) for i in self.conflicts.samples[0]),
            labels=tuple(self.label_names[c] for c in self.conflicts.labels[0]),
        )

    def describe_conflict(self, pair: int) -> str:
        """Describe one pair of `conflicts`."""
        samples = [int(i) for i in self.conflicts.samples[pair]]
        a, b = (self.label_names[c] for c in self.conflicts.labels[pair])
        shown = sorted({self.describe_input(i) for i in samples})
        where = f"rows {self.row(samples[0])} and {self.row(samples[1])}"
        if self.task == "seq-to-seq":
            where += " (positions {} and {})".format(*self.conflicts.positions[pair])
        are_equal = "are equal" if len(shown) == 1 else "differ only in the order of tokens, which is ignored"
        return f"{where} {are_equal} ({' and '.join(shown)}) but labelled {a!r} and {b!r}"

    def require_finite(self) -> None:
        """Raise `NonFiniteInput`, naming sample, position and coordinate, if a value is NaN or infinite."""
        if isinstance(self.inputs, VectorSequences):
            self.inputs.require_finite(self.rows)

    def check(self) -> DataReport:
        """Report duplicates, label conflicts, separation and non-finite values."""
        return DataReport(self)

    # Looking at samples

    def row(self, sample: int) -> int:
        """Return the number (from 1) of the row in the source from which sample `sample` (from 0) was read."""
        return sample + 1 if self.rows is None else int(self.rows[sample])

    def describe_input(self, sample: int) -> str:
        """Return a short description of one input for display: its text, ids or vectors."""
        if isinstance(self.inputs, TokenSequences) and self.tokenizer is not None:
            text = self.tokenizer.decode(self.inputs[sample].tolist())
            return repr(text) if len(text) <= _SHOWN else repr(text[:_SHOWN]) + "…"
        shown = np.array2string(
            self.inputs[sample], threshold=12, edgeitems=2, precision=17, separator=" ", max_line_width=10**6
        )
        return " ".join(shown.split())

    def multiset(self, sample: int) -> Multiset[int]:
        """Return how often each token occurs in one input. A network without positions sees only these counts and the token that
        carries the label. For the task `set`, it sees only the counts.

        A vector is represented by its number in `VectorSequences.token_ids`.
        """
        inputs = self.inputs
        tokens = inputs[sample] if isinstance(inputs, TokenSequences) else inputs.token_ids[sample]
        return Multiset.of(tokens.tolist())

    # Making other data sets

    def with_labels(
        self, labels: Int[np.ndarray, " n_labels"], label_names: Sequence[str] | None = None
    ) -> Dataset:
        """Return the same inputs with other class numbers and, if given, other label names.

        If a new name does not fit the type of the labels, they are texts from then on.
        """
        names = self.label_names if label_names is None else tuple(label_names)
        return replace(
            self,
            labels=_whole_numbers(labels, "classes", "Give names as label_names."),
            label_names=names,
            label_type=type_for(names, self.label_type),
        )

    def subset(self, indices: Int[np.ndarray, " n_taken"] | Sequence[int]) -> Dataset:
        """Return the chosen samples, in the order given. They keep the vocabulary, the label names and their row numbers."""
        chosen = _whole_numbers(indices, "samples", "Convert a mask with numpy.flatnonzero(mask).")
        if chosen.size and not (chosen.min() >= 0 and chosen.max() < self.n_samples):
            raise UsageError(
                f"samples are numbered 0 to {self.n_samples - 1}; got {chosen.min()} to {chosen.max()}.",
                n_samples=self.n_samples,
                given=(int(chosen.min()), int(chosen.max())),
            )
        per_sample = self.labels_per_sample
        starts = offsets_of(per_sample)[:-1]
        return replace(
            self,
            inputs=self.inputs.take(chosen),
            labels=self.labels[flat_ranges(starts[chosen], per_sample[chosen])],
            rows=chosen + 1 if self.rows is None else self.rows[chosen],
        )

    # Constructors

    @classmethod
    def from_arrays(
        cls,
        inputs: Sequences | np.ndarray | Sequence[Any],
        labels: np.ndarray | Sequence[Any],
        *,
        task: Task | None = None,
        ordered: bool | None = None,
        on_conflict: OnConflict = "error",
        n_vocab: int | None = None,
        label_names: Sequence[str] | None = None,
        **rules: Unpack[RowOptions],
    ) -> Dataset:
        """Make a data set from arrays.

        inputs: vectors (n_samples, seq_len, dim); floats (n_samples, dim), one vector per sample; token ids (n_samples, seq_len);
            or lists of token ids, which may differ in length.
        labels: whole numbers or texts (n_samples,); for seq-to-seq (n_samples, seq_len), or all labels in one flat array. With
            `label_names`, whole numbers are class numbers from 0. Without it, the distinct numbers are sorted, and each is the name
            of a class.
        task: by default, seq-to-seq if `labels` has two dimensions, and next-token otherwise.
        n_vocab: the vocabulary size; by default, the largest id plus one or, if the ids have large gaps, the number of distinct
            ids, which are then renumbered.
        rules: how to treat rows that cannot be memorised (see `TableOptions`).
        """
        content = content_of_arrays(
            inputs, labels, task=task, ordered=ordered, n_vocab=n_vocab, label_names=label_names
        )
        check = RowCheck(rules)
        known = Known(label_names or (), n_vocab is not None)
        return cls._settled(checked_arrays(content, check, known), check, on_conflict, known)

    @classmethod
    def from_pairs(
        cls,
        pairs: Iterable[tuple[Any, Any]],
        *,
        task: Task | None = None,
        tokenizer: str | Path | Tokenizer = "char",
        ordered: bool | None = None,
        on_conflict: OnConflict = "error",
        label_names: Sequence[str] | None = None,
        **rules: Unpack[RowOptions],
    ) -> Dataset:
        """Make a data set from (input, label) pairs.

        An input is a text or a sequence of token ids. A label is a text or a whole number. For `seq-to-seq`, a label is a sequence
        of texts or whole numbers, one per token.

        rules: how to treat rows that cannot be memorised (see `TableOptions`). An empty text is a valid label unless
            `empty_labels` is given.
        """
        listed = list(pairs)
        columns = [pair[0] for pair in listed], [pair[1] for pair in listed]
        how = {"task": task, "tokenizer": tokenizer, "ordered": ordered, "label_names": label_names}
        return cls._of_columns(*columns, on_conflict, rules, {"empty_text_is_label": True, **how})

    @classmethod
    def from_pandas(
        cls, frame: Any, *, input: str | None = None, label: str | None = None, **options: Any
    ) -> Dataset:
        """Make a data set from a pandas or polars data frame or a pyarrow table.

        input, label: the columns that hold the inputs and the labels; by default `key` and `value`, or the only two columns.
        options: as for `from_pairs`. As in a file, a missing or empty label is an error, unless `empty_labels` says otherwise.
        """
        on_conflict = options.pop("on_conflict", "error")
        rules = {name: options.pop(name) for name in RULES if name in options}
        names, inputs, labels = frame_columns(frame, input, label)
        data = cls._of_columns(inputs, labels, on_conflict, rules, options)
        source = DataSource(input=names[0], label=names[1], on_conflict=on_conflict, **rules)
        return data if names == USUAL_COLUMNS else replace(data, source=source)

    @classmethod
    def _of_columns(
        cls,
        inputs: list[Any],
        labels: list[Any],
        on_conflict: OnConflict,
        rules: Mapping[str, Any],
        how: Mapping[str, Any],
    ) -> Dataset:
        if not inputs:
            raise DataError("the data set has no samples, so there is nothing to memorise.")
        check = RowCheck(rules)
        content = checked_content(inputs, labels, check, **how)
        return cls._settled(
            content,
            check,
            on_conflict,
            Known(how.get("label_names") or (), isinstance(how.get("tokenizer"), Tokenizer)),
        )

    @classmethod
    def from_documents(
        cls,
        source: str | Path | Sequence[str],
        *,
        tokenizer: str | Path | Tokenizer = "word",
        input: str | None = None,
        delimiter: str | None = None,
        encoding: str | None = None,
    ) -> Dataset:
        """Make a data set of documents (task `distribution`) from a list of texts, a .txt file with one document per line, or
        a column of a table. The column is `text`, unless `input` names another.
        """
        content = read_documents(
            source, tokenizer=tokenizer, input=input, delimiter=delimiter, encoding=encoding
        )
        if not isinstance(source, (str, Path)):
            return cls._of(content)
        with naming(Path(source), DataError):
            return cls._of(content)

    @classmethod
    def from_token_documents(cls, documents: TokenSequences, tokenizer: Tokenizer | None = None) -> Dataset:
        """Make a data set of documents given as token ids (task `distribution`)."""
        return cls._of(content_of_documents(documents, tokenizer))

    @classmethod
    def from_csv(cls, path: str | Path, **options: Unpack[TableOptions]) -> Dataset:
        """Read comma-separated values with a header line (RFC 4180, UTF-8)."""
        return cls._read(path, "csv", **options)

    @classmethod
    def from_tsv(cls, path: str | Path, **options: Unpack[TableOptions]) -> Dataset:
        """Read tab-separated values with a header line; quotation marks are ordinary characters."""
        return cls._read(path, "tsv", **options)

    @classmethod
    def from_jsonl(cls, path: str | Path, **options: Unpack[TableOptions]) -> Dataset:
        """Read one JSON object per line. An input may be a text or a list of token ids."""
        return cls._read(path, "jsonl", **options)

    @classmethod
    def from_parquet(cls, path: str | Path, **options: Unpack[TableOptions]) -> Dataset:
        """Read a Parquet file (needs the `parquet` extra)."""
        return cls._read(path, "parquet", **options)

    @classmethod
    def from_npz(
        cls,
        path: str | Path,
        *,
        task: Task | None = None,
        ordered: bool | None = None,
        on_conflict: OnConflict = "error",
        label_names: Sequence[str] | None = None,
        **rules: Unpack[RowOptions],
    ) -> Dataset:
        """Read an .npz file with two arrays, `inputs` and `labels`. `from_arrays` describes their shapes."""
        how: dict[str, Any] = {"task": task, "ordered": ordered, "label_names": label_names}
        return cls._read(path, "npz", on_conflict=on_conflict, **how, **rules)

    @classmethod
    def read(
        cls, path: str | Path, *, progress: Progress | None = None, **options: Unpack[TableOptions]
    ) -> Dataset:
        """Read a data file, choosing the reader by the suffix: .csv, .tsv, .jsonl, .parquet, .npz or .txt.

        A .txt is read as documents. A .jsonl is also read as documents if no task and no columns are given and its first object has
        the field `text` but not the field `key`. The default tokenizer of documents is `word`.
        """
        return cls._read(path, None, progress, **options)

    @classmethod
    def _read(
        cls,
        path: str | Path,
        kind: str | None,
        progress: Progress | None = None,
        **options: Unpack[TableOptions],
    ) -> Dataset:
        check = RowCheck(options)
        content = read_content(Path(path), kind, check, progress, **options)
        report(progress, 2, READING_STEPS)
        with naming(Path(path), DataError, *([UsageError] if content.tokenizer is None else [])):
            data = cls._of(content)  # arrays of different lengths are a fault of the file, not of the call
        with naming(Path(path), DataError):
            known = Known(options.get("label_names") or (), isinstance(options.get("tokenizer"), Tokenizer))
            return cls._settled(data, check, options.get("on_conflict", "error"), known)

    @classmethod
    def _of(cls, content: Content) -> Dataset:
        return cls(**vars(content))

    @classmethod
    def _settled(cls, content: Content, check: RowCheck, on_conflict: OnConflict, known: Known) -> Dataset:
        """Return the data set without the rows that `check` and `on_conflict` leave out.

        Faults that are found here are raised as one error, together with those already in `check`.
        """
        data = content if isinstance(content, cls) else cls._of(content)
        n_rows = int(data.rows.max()) if data.rows is not None else data.n_samples
        if isinstance(data.inputs, VectorSequences) and len(data.inputs.non_finite):
            odd = np.zeros(data.n_samples, dtype=bool)
            odd[data.inputs.non_finite[:, 0]] = True
            if check.rule("non_finite") == "drop":
                check.leave_out("non_finite=drop", int(odd.sum()))
                if odd.all():
                    raise DataError("every row contains a value that is not finite, so no row is left.")
                data = keep_rows(data, ~odd, known)
        if on_conflict == "error" and len(data.conflicts):
            check.add(
                "on_conflict",
                get_args(Rule),
                "label differs from that of the first equal input",
                data._row_mask(np.flatnonzero(~data._keep_by("first")), n_rows),
                data._conflicting_labels(),
            )
        if check.faults and isinstance(data.inputs, VectorSequences) and len(data.inputs.non_finite):
            mask = data._row_mask(data.inputs.non_finite[:, 0], n_rows)
            what = "contains a value that is not finite"
            check.settle("non_finite", mask, what, data.inputs.non_finite_values(data.rows))
        if check.faults:
            check.require_none()
        settled = data.resolved(on_conflict, known)
        return replace(settled, left_out={**check.left_out, **settled.left_out})

    def _row_mask(self, samples: Int[np.ndarray, " n"], n_rows: int) -> Bool[np.ndarray, " n_rows"]:
        """Return a mask over the rows of the source. It is True for the rows from which these samples were read."""
        mask = np.zeros(n_rows, dtype=bool)
        mask[(samples if self.rows is None else self.rows[samples] - 1)] = True
        return mask


def _whole_numbers(given: Any, what: str, remedy: str) -> Int[np.ndarray, " n_given"]:
    """Return indices of samples or classes as an array of integers. Raise `UsageError` if they are not integers: NumPy
    would convert floats or a mask to different numbers without an error.
    """
    numbers = np.asarray(given).reshape(-1)
    if numbers.size and numbers.dtype.kind not in "iu":
        raise UsageError(
            f"{what} must be given as whole numbers, not {numbers.dtype}.\n  {remedy}",
            what=what,
            dtype=numbers.dtype,
            remedy=remedy,
        )
    return numbers.astype(np.int64)
