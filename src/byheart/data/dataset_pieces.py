"""`DatasetPieces`: a data set that is larger than memory, stored in pieces on disk. Each piece is loaded as a `Dataset`.

A file is read once, piece by piece. Each piece is stored as a data set of its own, with the vocabulary and the label
names that occur in it. When all pieces are stored, the vocabularies are merged. Whenever a piece is loaded, its
tokens and labels are renumbered accordingly. Together, the pieces equal the data set that `Dataset.read` makes of the
whole file, with the same digest.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any, ClassVar, Unpack

import numpy as np
from jaxtyping import Int

from byheart.data.assemble import Content, number_names
from byheart.data.dataset import Dataset
from byheart.data.digest import digest_of
from byheart.data.label_types import type_for
from byheart.data.options import DataSource, TableOptions, Task
from byheart.data.piece_reader import read_pieces
from byheart.data.readers import describe_source
from byheart.data.row_rules import RULES
from byheart.data.sequences import Sequences, TokenSequences, VectorSequences, offsets_of
from byheart.data.tokenizers import IdTokenizer, Tokenizer, make_tokenizer
from byheart.errors import UsageError
from byheart.files.work_folder import read_arrays, read_json, require_json, write_arrays, write_json
from byheart.records.vocabulary import LabelType

_OWN_VOCABULARY = ("char", "word")  # tokenizers whose vocabulary is made of the tokens of the texts


@dataclass(frozen=True, eq=False)
class TokensInPlace:
    """The distinct pairs of a token id and its position, counted from 0. `n_last` is the number of distinct tokens that end a
    sequence.
    """

    ids: Int[np.ndarray, " n_pairs"]
    positions: Int[np.ndarray, " n_pairs"]
    n_last: int


@dataclass(frozen=True, eq=False)
class DatasetPieces:
    """A data set in pieces, with many of the properties of a `Dataset`.

    sizes         number of samples in each piece
    shortest      number of tokens in the shortest sequence
    label_counts  number of contexts with each label; before contexts are counted, number of samples with each label
    n_contexts    number of distinct contexts; None until `count_contexts` has counted them
    """

    folder: Path
    sizes: tuple[int, ...]
    task: Task
    label_names: tuple[str, ...]
    tokenizer: Tokenizer | None
    ordered: bool
    source: DataSource
    vocab: int | None
    dim: int | None
    shortest: int
    seq_len: int
    label_counts: tuple[int, ...]
    n_contexts: int | None = None
    label_type: LabelType = "text"
    left_out: ClassVar[Mapping[str, int]] = {}  # rules that leave out rows are not available here

    @property
    def n_samples(self) -> int:
        """Number of sequences."""
        return sum(self.sizes)

    @property
    def n_labels(self) -> int:
        """Number of labels. Each sequence has one."""
        return self.n_samples

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.label_names)

    @property
    def label_bits(self) -> float:
        """Bits of information in the labels if they are arbitrary: the number of distinct contexts times log2(n_classes).

        If contexts were not counted, all are assumed to be distinct.
        """
        return (self.n_contexts or self.n_labels) * math.log2(self.n_classes)

    @property
    def label_entropy(self) -> float:
        """Entropy of the labels in bits: the number of contexts times the entropy of the label frequencies.

        If contexts were not counted, all are assumed to be distinct.
        """
        total = sum(self.label_counts)
        return math.fsum(n * math.log2(total / n) for n in self.label_counts if n)

    @cached_property
    def digest(self) -> str:
        """The digest of the whole data set; see `Dataset.digest`."""
        words = None if self.tokenizer is None else self.tokenizer.vocabulary
        shape = [self.n_samples] if self.dim is None else [self.n_samples, self.seq_len, self.dim]
        inputs = (piece.inputs for piece in self.pieces())
        numbers = (each.ids if isinstance(each, TokenSequences) else each.values for each in inputs)
        parts: list[tuple[int, Iterable[np.ndarray]]] = [(math.prod(shape), numbers)]
        if self.dim is None:
            n_tokens = sum(int(piece.lengths.sum()) for piece in self.pieces())
            parts = [(self.n_samples + 1, self._offsets()), (n_tokens, numbers)]
        parts.append((self.n_labels, (piece.labels for piece in self.pieces())))
        return digest_of(self.task, self.ordered, shape, self.vocab, words, self.label_names, parts)

    @cached_property
    def tokens_in_place(self) -> TokensInPlace:
        """The token ids that occur at each position."""
        assert self.vocab is not None, "tokens_in_place is defined for token ids only, not for vectors"
        cells, last = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        for piece in self.pieces():
            assert isinstance(piece.inputs, TokenSequences)
            ids, offsets = piece.inputs.ids, piece.inputs.offsets
            cells = np.union1d(cells, ids * self.seq_len + piece.inputs.positions)
            last = np.union1d(last, ids[offsets[1:] - 1])
        return TokensInPlace(cells // self.seq_len, cells % self.seq_len, last.size)

    def _offsets(self) -> Iterator[np.ndarray]:
        """Yield the offsets of all sequences in the whole data set: first the array [0], then one array per piece."""
        last = np.zeros(1, dtype=np.int64)
        yield last
        for piece in self.pieces():
            last = last[-1] + np.cumsum(piece.lengths)
            yield last

    def pieces(self) -> Iterator[Dataset]:
        """Yield the pieces in order. Each is loaded when it is asked for."""
        return map(self.piece, range(len(self.sizes)))

    def piece(self, number: int) -> Dataset:
        """Return one piece; pieces are numbered from 0. Its samples have the row numbers of the whole file."""
        about, arrays = _about(self.folder, number), read_arrays(_arrays(self.folder, number))
        tokens, classes = self._numbers
        inputs: Sequences
        if "values" in arrays:
            inputs = VectorSequences(arrays["values"])
        else:
            ids = arrays["ids"].astype(np.int64)
            if about["vocabulary"] is not None:
                ids = np.array([tokens[word] for word in about["vocabulary"]], dtype=np.int64)[ids]
            assert self.vocab is not None
            inputs = TokenSequences(ids, offsets_of(arrays["lengths"].astype(np.int64)), self.vocab)
        labels = np.array([classes[name] for name in about["label_names"]])[arrays["labels"]]
        first = sum(self.sizes[:number]) + 1
        rows = np.arange(first, first + self.sizes[number])
        return Dataset(
            inputs, labels, self.task, self.label_names, self.tokenizer, self.ordered, self.source, rows
        )

    @cached_property
    def _numbers(self) -> tuple[dict[str, int], dict[str, int]]:
        """Return two dictionaries: from tokens to token ids, and from label names to class numbers."""
        words = () if self.tokenizer is None else self.tokenizer.vocabulary
        tokens, labels = ({name: i for i, name in enumerate(names)} for names in (words, self.label_names))
        return tokens, labels


def spool(path: Path, folder: Path, **options: Unpack[TableOptions]) -> DatasetPieces:
    """Read a file and store it in pieces under `folder`. Pieces that an interrupted call has already stored are kept."""
    rules = {name: options.get(name) or "error" for name in ("on_conflict", *RULES)}
    for name, rule in rules.items():
        if rule not in ("error", "keep"):
            raise UsageError(
                f"{name}={rule} is not available for data that are read in pieces (--shards).\n"
                "  Leave out this option. In the file, correct or remove the rows that it was meant for.",
                name=name,
                rule=rule,
            )
    if options.get("task") not in (None, "next-token", "set"):
        raise UsageError(
            f"only data for the tasks `next-token` and `set` can be read in pieces (--shards), not `{options.get('task')}`.",
            task=options["task"],
        )
    chosen = options.get("tokenizer", "char")
    if not isinstance(chosen, Tokenizer) and chosen not in _OWN_VOCABULARY:
        options["tokenizer"] = make_tokenizer(chosen, ())
    known = read_json(folder / "merged.json")
    if known is None:
        n_known = next(number for number in count() if not (folder / f"{number:06d}.json").exists())
        n_pieces = n_known
        for n_pieces, content in enumerate(read_pieces(path, n_known, **options), start=n_known + 1):
            _write_piece(folder, n_pieces - 1, content)
        known = {"n_pieces": n_pieces}
        write_json(folder / "merged.json", known)
    given = options.get("tokenizer")
    source = describe_source(path, options, _about(folder, 0)["tokenizer"])
    names = options.get("label_names") or ()
    return _merge(folder, known["n_pieces"], source, given if isinstance(given, Tokenizer) else None, names)


def _arrays(folder: Path, number: int) -> Path:
    return folder / f"{number:06d}.npz"


def _about(folder: Path, number: int) -> dict[str, Any]:
    about: dict[str, Any] = require_json(folder / f"{number:06d}.json")
    return about


def _write_piece(folder: Path, number: int, content: Content) -> None:
    inputs, tokenizer = content.inputs, content.tokenizer
    if content.task not in ("next-token", "set"):
        raise UsageError(
            f"only data for the tasks `next-token` and `set` can be read in pieces (--shards), not `{content.task}`.",
            task=content.task,
        )
    if isinstance(tokenizer, IdTokenizer):
        raise UsageError(
            "there are large gaps between the token ids of this file, and ids can be renumbered only if the "
            "whole file is read at once.\n"
            "  Number the tokens from 0, or compile without --shards."
        )
    lengths = inputs.lengths
    Dataset(**vars(content))  # raises the errors of this piece now
    if isinstance(inputs, VectorSequences):
        if len(inputs.non_finite):
            n_before = sum(int(_about(folder, before)["n_samples"]) for before in range(number))
            raise inputs.non_finite_values(n_before + 1 + np.arange(len(inputs)))
        arrays = {"values": inputs.values}
    else:
        arrays = {"ids": _narrow(inputs.ids), "lengths": _narrow(lengths)}
    has_own = tokenizer is not None and tokenizer.name in _OWN_VOCABULARY
    write_arrays(_arrays(folder, number), {**arrays, "labels": _narrow(content.labels)})
    write_json(
        folder / f"{number:06d}.json",
        {
            "n_samples": len(inputs),
            "shortest": int(lengths.min()),
            "longest": int(lengths.max()),
            "n_vocab": inputs.n_vocab if isinstance(inputs, TokenSequences) else None,
            "dim": inputs.dim if isinstance(inputs, VectorSequences) else None,
            "tokenizer": tokenizer and tokenizer.name,
            "vocabulary": list(tokenizer.vocabulary) if tokenizer is not None and has_own else None,
            "task": content.task,
            "ordered": content.ordered,
            "label_names": list(content.label_names),
            "label_type": content.label_type,
            "label_counts": np.bincount(content.labels, minlength=len(content.label_names)).tolist(),
        },
    )


def _narrow(numbers: np.ndarray) -> np.ndarray:
    """Convert non-negative whole numbers to the smallest integer type that holds them."""
    return numbers.astype(np.min_scalar_type(int(numbers.max(initial=0))))


def _merge(
    folder: Path, n_pieces: int, source: DataSource, given: Tokenizer | None, known_names: Sequence[str]
) -> DatasetPieces:
    """Merge the vocabularies and the labels of all pieces, as if the pieces had been read together.

    `given` is the tokenizer and `known_names` are the label names, if they were known before the file was read.
    """
    found = [_about(folder, number) for number in range(n_pieces)]
    counts: dict[str, int] = {}
    for piece in found:
        for name, number in zip(piece["label_names"], piece["label_counts"], strict=True):
            counts[name] = counts.get(name, 0) + number
    types: set[LabelType] = {piece["label_type"] for piece in found}
    # whole numbers in an array are sorted by value, but the labels of a table are texts
    is_array = source.file is not None and source.file.lower().endswith(".npz")
    new_names = set(counts).difference(known_names)
    listed = sorted(new_names, key=int) if is_array and types == {"integer"} else sorted(new_names)
    names = tuple(number_names(known_names, listed))
    tokenizer = None if source.tokenizer is None else given
    vocab = None if found[0]["n_vocab"] is None else max(piece["n_vocab"] for piece in found)
    if found[0]["vocabulary"] is not None:
        words = sorted({word for piece in found for word in piece["vocabulary"]})
        tokenizer = Tokenizer.from_json({"name": source.tokenizer, "vocabulary": words})
        vocab = len(words)
    return DatasetPieces(
        folder,
        tuple(piece["n_samples"] for piece in found),
        found[0]["task"],
        names,
        tokenizer,
        found[0]["ordered"],
        source,
        vocab,
        found[0]["dim"],
        min(piece["shortest"] for piece in found),
        max(piece["longest"] for piece in found),
        tuple(counts[name] for name in names),
        label_type=type_for(names, types.pop()) if len(types) == 1 else "text",
    )
