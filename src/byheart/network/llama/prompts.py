"""Find inputs that other programs would convert to other ids than byheart does, so that they would ask the network something else.

Other programs read tokenizer.json; byheart encodes texts with the tokenizer in model.json.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from byheart.data.sequences import TokenSequences
from byheart.data.tokenizer_process import RefusedText, TokenizerProcess
from byheart.data.tokenizers import FileTokenizer, Tokenizer, WordTokenizer

_ROWS = 4096
"""The number of rows that are converted at a time."""


def find_misread(
    document: str,
    tokenizer: Tokenizer,
    inputs: TokenSequences,
    prompt_of: Callable[[int], list[int]],
    *,
    skip_fragments: bool = False,
) -> list[int]:
    """Return the indices of the inputs that the tokenizer.json `document`, with its template, does not convert to their prompt.

    inputs: the ids of each input in `tokenizer`, which determine its text. If several texts have the same ids, all of them must be
        converted to the prompt.
    prompt_of: a function that returns the ids, with special tokens, that the network is asked for an input.
    skip_fragments: whether to skip inputs that are not the ids of any text, such as a part of the bytes of a character.
    """
    process, misread = TokenizerProcess(document), list[int]()
    names = _names_without_spaces(document)
    for start in range(0, len(inputs), _ROWS):
        here = range(start, min(start + _ROWS, len(inputs)))
        rows = [inputs[i].tolist() for i in here]
        found = _encode(process, spell(tokenizer, rows))
        bad = [i for i, ids in zip(here, found, strict=True) if ids != prompt_of(i)]
        if isinstance(tokenizer, WordTokenizer):
            bad += [i for i, row in zip(here, rows, strict=True) if _has_name(tokenizer, row, names)]
        misread += [i for i in sorted({*bad}) if not skip_fragments or _is_text(tokenizer, rows[i - start])]
    return misread


def spell(tokenizer: Tokenizer, rows: Sequence[list[int]]) -> list[str]:
    """Return the text of each row.

    The ids of a word tokenizer do not determine where the text has white space, so the text with the least white space is returned.
    If the pre-tokenizer `Whitespace` cuts this text into the tokens of the row, it cuts all other texts for these ids in the same
    way: it always cuts at white space, and whether it cuts elsewhere depends only on the two characters there.
    """
    if isinstance(tokenizer, FileTokenizer):
        return tokenizer.decode_all(rows)
    return [
        tokenizer.decode_tight(row) if isinstance(tokenizer, WordTokenizer) else tokenizer.decode(row)
        for row in rows
    ]


def _names_without_spaces(document: str) -> list[str]:
    """Return the names of the added tokens. A name that contains spaces may occur only in a text with more white space than that
    of `spell`.
    """
    return ["".join(entry["content"].split()) for entry in json.loads(document)["added_tokens"]]


def _has_name(tokenizer: WordTokenizer, row: list[int], names: Sequence[str]) -> bool:
    text = "".join(tokenizer.words[i] for i in row)
    return any(name in text for name in names)


def _is_text(tokenizer: Tokenizer, row: list[int]) -> bool:
    return tokenizer.encode(tokenizer.decode(row)) == row


def _encode(process: TokenizerProcess, texts: list[str]) -> list[list[int] | None]:
    """Return the ids of each text, with special tokens; None for a text that the tokenizer refuses."""
    found: list[list[int] | None] = []
    while len(found) < len(texts):
        asked = texts[len(found) :]
        try:
            found += process.encode(asked, add_special=True)
        except RefusedText as error:
            found += [*process.encode(asked[: error.row], add_special=True), None]
    return found
