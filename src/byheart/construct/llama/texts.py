"""Convert a data set to texts of token ids. Errors name the rows that cannot be converted."""

from __future__ import annotations

from typing import Any

import numpy as np

from byheart.construct.llama.compiler import TokenTexts
from byheart.data.dataset import Dataset
from byheart.data.sequences import TokenSequences, offsets_of
from byheart.errors import AssumptionViolated
from byheart.network.llama.chains import chain_windows
from byheart.network.llama.prompts import find_misread, spell
from byheart.network.llama.vocabulary import TextVocabulary

_SHOWN = 5


def fact_texts(data: Dataset, vocabulary: TextVocabulary) -> TokenTexts:
    """Return one text `bos key sep value` for each row of the data.

    After the separator `sep`, the network must predict every token of the value, and then the end token.
    """
    keys = data.inputs
    assert isinstance(keys, TokenSequences)
    backend = vocabulary.backend()
    values = _spell(data, vocabulary, backend)
    _check_keys(data, vocabulary)
    n_key = keys.lengths
    lengths = n_key + np.array([len(value) for value in values])[data.labels] + 2
    offsets = offsets_of(lengths)
    place = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
    separator = np.repeat(n_key + 1, lengths)
    ids = np.where(place == 0, vocabulary.bos, vocabulary.sep)
    ids[(place > 0) & (place < separator)] = keys.ids
    ids[place > separator] = np.concatenate([values[label] for label in data.labels.tolist()])
    following = np.append(ids[1:], vocabulary.eos)
    following[offsets[1:] - 1] = vocabulary.eos
    asked = place >= separator
    return TokenTexts(
        ids,
        offsets,
        asked,
        following[asked],
        vocabulary.n_tokens,
        vocabulary.bos,
        vocabulary.eos,
        np.unique(np.concatenate(values)),
    )


def window_texts(data: Dataset, vocabulary: TextVocabulary, max_positions: int) -> TokenTexts:
    """Join windows (each a few consecutive tokens) into the texts from which they were cut. A text that could exceed
    `max_positions` is split. The last class of labels means the end of a text.

    The network must predict the label of each window after the last token of the window.
    """
    windows = data.inputs
    assert isinstance(windows, TokenSequences)
    _check_windows(data, vocabulary)
    pad, bos, eos = vocabulary.n_tokens, vocabulary.bos, vocabulary.eos
    rows = windows.pad(pad, windows.max_len)
    texts = chain_windows(rows, pad=pad, bos=bos, max_positions=max_positions, window=windows.max_len)
    following = np.where(data.labels == data.n_classes - 1, eos, data.labels)
    return TokenTexts(texts.ids, texts.offsets, texts.asked, following, vocabulary.n_tokens, bos, eos)


def _spell(data: Dataset, vocabulary: TextVocabulary, backend: Any) -> list[np.ndarray]:
    """Return the token ids of every label's text. Raise `AssumptionViolated` if the network could not generate the text of a label
    that occurs.
    """
    used = np.zeros(data.n_classes, dtype=bool)
    used[data.labels] = True
    values, empty, wrong, special = [], [], [], []
    for label, text in enumerate(data.label_names):
        found = backend.encode(text, add_special_tokens=False).ids
        values.append(np.array(found, dtype=np.int64))
        if not used[label]:
            continue
        if not found:
            empty.append(label)
        elif any(name in text for name in vocabulary.names):
            special.append(label)
        elif backend.decode(found, skip_special_tokens=True) != text:
            wrong.append(label)
    _refuse(
        data, special, "a value that contains the text of a special token", "Change such values in the data."
    )
    _refuse(data, empty, "a value without tokens, which looks the same as no answer", "Remove such rows.")
    _refuse(
        data,
        wrong,
        "a value that this tokenizer cannot spell",
        "Compile with --tokenizer char or bytes, which spell every text.",
    )
    return values


def _check_keys(data: Dataset, vocabulary: TextVocabulary) -> None:
    """Check that transformers will convert every key to the same ids as byheart does."""
    found = _first_misread(data, vocabulary, [vocabulary.sep])
    if found is None:
        return
    row, text = data.row(found), _text(data, found)
    if any(name in text for name in vocabulary.names):
        raise AssumptionViolated(
            f"row {row} has a key that contains the text of a special token: {text!r}.\n"
            "  Rename the key in the data.",
            row=row,
        )
    raise AssumptionViolated(
        f"row {row}: the tokenizer that transformers loads converts the key {text!r} to other ids than byheart's tokenizer.\n"
        "  Compile with --tokenizer char or bytes.",
        row=row,
    )


def _check_windows(data: Dataset, vocabulary: TextVocabulary) -> None:
    """Check that transformers will convert every window that is a text to the same ids as byheart does.

    A window that is not a text, such as a part of the bytes of a character, cannot be given to transformers.
    """
    found = _first_misread(data, vocabulary, [], skip_fragments=True)
    if found is None:
        return
    text = _text(data, found)
    if any(name in text for name in vocabulary.names):
        raise AssumptionViolated(
            f"the texts contain the text of a special token, in {text!r}.\n  Change it in the data.",
            text=text,
        )
    raise AssumptionViolated(
        f"the tokenizer that transformers loads converts {text!r}, a part of the texts, to other ids than byheart's tokenizer.\n"
        "  Compile with --tokenizer char or bytes.",
        text=text,
    )


def _first_misread(
    data: Dataset, vocabulary: TextVocabulary, after: list[int], *, skip_fragments: bool = False
) -> int | None:
    """Return the index of the first input that transformers will convert to other ids than byheart, or None if there is none.

    after: the ids that the template of the tokenizer adds after an input.
    """
    assert data.tokenizer is not None
    assert isinstance(data.inputs, TokenSequences)
    inputs, bos = data.inputs, vocabulary.bos
    misread = find_misread(
        vocabulary.document,
        data.tokenizer,
        inputs,
        lambda i: [bos, *inputs[i].tolist(), *after],
        skip_fragments=skip_fragments,
    )
    return misread[0] if misread else None


def _text(data: Dataset, sample: int) -> str:
    assert data.tokenizer is not None
    return spell(data.tokenizer, [data.inputs[sample].tolist()])[0]


def _refuse(data: Dataset, labels: list[int], what: str, remedy: str) -> None:
    if not labels:
        return
    samples = np.flatnonzero(np.isin(data.labels, labels))
    rows = [data.row(int(i)) for i in samples]
    shown = ", ".join(map(str, rows[:_SHOWN])) + (", ..." if len(rows) > _SHOWN else "")
    named = f"row {shown} has" if len(rows) == 1 else f"{len(rows):,} rows ({shown}) have"
    text = data.label_names[int(data.labels[samples[0]])]
    raise AssumptionViolated(f"{named} {what}; in row {rows[0]} it is {text[:60]!r}.\n  {remedy}", rows=rows)
