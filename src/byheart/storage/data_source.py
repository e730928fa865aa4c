"""Read a data file with the options recorded in a saved model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from byheart.construct.retrieval.documents import recitation_of_tokens
from byheart.data.dataset import Dataset
from byheart.data.options import DataSource, TableOptions
from byheart.data.readers import kind_of, texts_of_documents
from byheart.data.sequences import TokenSequences
from byheart.data.textfile import is_encoding
from byheart.data.tokenizers import FileTokenizer, Tokenizer
from byheart.errors import DataError, UsageError
from byheart.process.progress import Progress
from byheart.records.reader import read_values
from byheart.records.refusals import corrupt
from byheart.verify.verifier import Checkable


def source_of(model: Checkable) -> DataSource:
    """Return the options, recorded in the model, with which its data were read."""
    recorded, where = model.record.get("reading") or {}, "the field `reading` in the record of this model"
    source = read_values(recorded, DataSource, where, refuse=corrupt, ignore_unknown=True)
    if source.encoding is not None and not is_encoding(source.encoding):
        raise corrupt(where, f"{source.encoding!r} is not an encoding that byheart reads")
    return source


def read_like(
    model: Checkable, path: str | Path, *, progress: Progress | None = None, **changed: Any
) -> Dataset:
    """Read a data file in the same way as the data of `model`: with the same columns, task and kind of tokenizer. The order of
    tokens matters if it mattered in the data of `model`.

    Rows are left out only according to rules given in `changed`. The rules in the model's record are ignored, because they could
    leave out just those rows that the model gets wrong.
    """
    source = source_of(model)
    tokenizer = model.memoriser.tokenizer
    # build a new vocabulary from the data: the model's own tokenizer would fail at the first unknown token
    kind = None if tokenizer is None else tokenizer if tokenizer.name == "file" else tokenizer.name
    recorded = source.column_options(kind_of(Path(path)), model.memoriser.task)
    written = source.text_options(kind_of(Path(path)))
    if source.recite:
        if kind is None:
            raise corrupt(
                "the record of this model",
                "it says that the model recites texts, but the model has no tokenizer",
            )
        texts: dict[str, Any] = {"tokenizer": kind, **recorded, **written, **changed}
        others = sorted(set(texts) - {"tokenizer", "input", "delimiter", "encoding"})
        if others:
            raise UsageError(
                f"{others[0]} does not apply to a model that recites texts: each label is the next token, and no rows are left "
                "out. Remove the option.",
                option=others[0],
            )
        return read_recitation(path, **texts)
    options: dict[str, Any] = {
        "task": model.memoriser.task,
        "ordered": model.memoriser.ordered,
        "on_conflict": "keep",
        "empty_labels": _kept_labels(model, source),
        **recorded,
        **written,
        **({} if kind is None else {"tokenizer": kind}),
    }
    return Dataset.read(path, progress=progress, **{**options, **changed})


def read_again(model: Checkable, path: str | Path, **changed: Any) -> Dataset:
    """Read the rows from which `model` was compiled. Rows are left out according to the rules in its record.

    Do not use this to check the model, because these rules could leave out just those rows that the model gets wrong.
    """
    source = source_of(model)
    rules: dict[str, Any] = {
        "on_conflict": source.on_conflict,
        "empty_labels": source.empty_labels,
        "empty_inputs": source.empty_inputs,
        "malformed_rows": source.malformed_rows,
        "non_finite": source.non_finite,
        "max_tokens": source.max_tokens,
    }
    chosen = {name: rule for name, rule in rules.items() if rule not in (None, "error")}
    return read_like(model, path, **{**chosen, **changed})


def _kept_labels(model: Checkable, source: DataSource) -> str:
    """Return how to treat rows with empty labels when the data are read again: the rule that is recorded in the model.

    If the recorded rule is "drop", return "error" instead, so that no row is left out. If no rule is recorded, return "keep".
    """
    if "empty_labels" not in (model.record.get("reading") or {}):
        return "keep"
    return "error" if source.empty_labels == "drop" else source.empty_labels


def read_recitation(
    path: str | Path, *, tokenizer: str | Path | Tokenizer = "word", **reading: Any
) -> Dataset:
    """For `byheart recite`, read the texts in a file as windows of consecutive tokens, each labelled with the token that
    follows.
    """
    documents = Dataset.from_documents(path, tokenizer=tokenizer, **reading)
    assert isinstance(documents.inputs, TokenSequences)
    assert documents.source is not None
    if isinstance(documents.tokenizer, FileTokenizer):
        texts = texts_of_documents(Path(path), None, cast(TableOptions, reading))
        _require_restored(Path(path), texts, documents.inputs, documents.tokenizer)
    windows = recitation_of_tokens(documents.inputs, documents.tokenizer)
    return replace(windows, source=replace(documents.source, recite=True))


def _require_restored(
    path: Path, texts: Sequence[str], ids: TokenSequences, tokenizer: FileTokenizer
) -> None:
    """Raise `DataError` if decoding the ids of a text does not give the same text again, apart from white space.

    A model generates ids, so it could not recite such a text.
    """
    restored = tokenizer.decode_all([ids[i].tolist() for i in range(len(ids))])
    for row, (text, found) in enumerate(zip(texts, restored, strict=True), start=1):
        if "".join(text.split()) != "".join(found.split()):
            raise DataError(
                f"{path}: text {row} cannot be recited, because the tokenizer does not restore it: its tokens stand for "
                f"{found[:60]!r}, but the text is {text[:60]!r}.\n"
                "  Use another tokenizer, such as bytes, or one that has a token for every part of the texts.",
                path=str(path),
                row=row,
            )
