"""Find inputs that other programs would convert to different ids than byheart does. With these ids, they would ask the network a
different question.

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
    """Return the indices of the inputs that a tokenizer.json converts to a wrong prompt.

    document: the content of the tokenizer.json. Its template adds special tokens.
    inputs: for each input, the ids that `tokenizer` gives it. Several texts can have the same ids. The input then counts as right
        only if each of these texts is converted to the right prompt.
    prompt_of: a function that takes the index of an input and returns its right prompt: the ids, with special tokens, that the
        network is given.
    skip_fragments: whether to skip inputs whose ids are not those of any text. For example, they may be only some of the bytes
        of a character.
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

    With a word tokenizer, several texts that differ in white space have the same ids. The one with the least white space is
    returned. If the pre-tokenizer `Whitespace` cuts this text into the tokens of the row, it also cuts the other texts into these
    tokens. The reason is that it always cuts at white space, and elsewhere the characters before and after a place determine
    whether it cuts there.
    """
    if isinstance(tokenizer, FileTokenizer):
        return tokenizer.decode_all(rows)
    return [
        tokenizer.decode_tight(row) if isinstance(tokenizer, WordTokenizer) else tokenizer.decode(row)
        for row in rows
    ]


def _names_without_spaces(document: str) -> list[str]:
    """Return the names of the added tokens, without white space.

    `spell` returns the text with the least white space. Other texts for the same ids have more, and one of them may contain a
    name that has white space itself. To find such names too, names and texts are compared without white space.
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
