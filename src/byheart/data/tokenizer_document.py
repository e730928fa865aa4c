"""Check a `tokenizer.json` and keep only the parts that are used.

This is done before the file is passed to the package `tokenizers`, which may abort on a bad file.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

from byheart.errors import MalformedFile
from byheart.records.json_file import parse_json, show_value

USED = ("version", "added_tokens", "normalizer", "pre_tokenizer", "decoder", "model")
"""The parts of the file that are used.

Padding, truncation and the post_processor (which adds special tokens) are left out, because they would add or drop tokens silently.
"""

MOST_TOKENS = 2**24
MAX_ID = 2**31 - 1
MOST_GROWTH = 256  # characters that rules may make from one character (published tokenizers: fewer than ten)


def used_part(document: str) -> str:
    """Return, as JSON, the parts of a tokenizer.json that convert text to ids and back.

    Raise `MalformedFile` if the document is not valid.
    """
    found = parse_json(document.encode("utf-8", "surrogatepass"), "tokenizer.json")
    if not isinstance(found, dict) or not isinstance(found.get("model"), dict):
        raise _refuse("it must be a JSON object with a field `model` that is an object")
    for part in ("normalizer", "pre_tokenizer", "decoder"):
        if _growth(found.get(part)) > MOST_GROWTH:
            raise _refuse(
                f"the Replace rules of its {part} may turn one character into more than {MOST_GROWTH} characters"
            )
    dropout = found["model"].get("dropout")
    if dropout not in (None, 0):
        raise _refuse(
            f"the `dropout` of its model is {show_value(dropout)}, so the same text would get other ids each time.\n"
            "  Set it to null; it is meant for training only"
        )
    ids: dict[int, str] = {}
    for token, number in _tokens(found):
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= MAX_ID:
            raise _refuse(
                f"the id of token {token[:40]!r} is {show_value(number)}, not a whole number from 0 to "
                f"{MAX_ID:,}"
            )
        if ids.setdefault(number, token) != token:
            raise _refuse(f"tokens {ids[number][:40]!r} and {token[:40]!r} have the same id {number}")
        if len(ids) > MOST_TOKENS:
            raise _refuse(f"it has more than {MOST_TOKENS:,} tokens")
    return json.dumps({name: found[name] for name in USED if name in found}, ensure_ascii=False)


def _growth(part: object) -> int:
    """Return a bound on how many characters one character can become when all Replace rules of a part are applied.

    A part is a value in a tokenizer.json, such as its normalizer. Each rule is applied to the result of the rule before it, so
    the bounds of the rules are multiplied. A regular expression that matches the empty text also matches it at the end of the whole
    text; this one match is not counted.
    """
    if isinstance(part, list):
        return math.prod(map(_growth, part))
    if not isinstance(part, dict):
        return 1
    content = part.get("content")
    if part.get("type") == "Replace" and isinstance(content, str):
        pattern = part.get("pattern")
        replaced = pattern.get("String") if isinstance(pattern, dict) else None
        if isinstance(replaced, str) and replaced:
            return max(1, -(-len(content) // len(replaced)))
        return len(content) + 1  # a regular expression may match the empty text before every character
    return math.prod(map(_growth, part.values()))


def _tokens(document: dict[str, Any]) -> Iterator[tuple[str, object]]:
    """Yield every token with its id. If the vocabulary is a list (a unigram model), the id is the position in this list."""
    vocabulary = document["model"].get("vocab")
    if isinstance(vocabulary, dict):
        yield from vocabulary.items()
    elif isinstance(vocabulary, list):
        for number, entry in enumerate(vocabulary):
            if not (isinstance(entry, list) and len(entry) == 2 and isinstance(entry[0], str)):
                raise _refuse(
                    f"entry {number} of its vocabulary is {show_value(entry)}, not a pair of a token and "
                    "its score"
                )
            yield entry[0], number
    else:
        raise _refuse(f"the vocabulary of its model is {show_value(vocabulary)}, not an object or a list")
    added = document.get("added_tokens") or []
    if not isinstance(added, list):
        raise _refuse(f"added_tokens is {show_value(added)}, not a list")
    for entry in added:
        if not isinstance(entry, dict) or not isinstance(entry.get("content"), str):
            raise _refuse(f"an added token is {show_value(entry)}, not an object with `content`")
        yield entry["content"], entry.get("id")


def _refuse(problem: str) -> MalformedFile:
    return MalformedFile(f"not a tokenizer.json that can be used: {problem}.", problem=problem)
