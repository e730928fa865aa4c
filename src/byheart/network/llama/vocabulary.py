"""Write a `tokenizer.json` for a data set, and check the one in a model's folder.

The file keeps the ids of byheart's own tokenizer, adds the tokens that occur only in values (answers), and contains a template
that turns a key (question) into a complete prompt. A folder with any other `tokenizer.json` is rejected.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from byheart.data.tokenizers import BytesTokenizer, CharTokenizer, FileTokenizer, Tokenizer, WordTokenizer
from byheart.errors import AssumptionViolated, CorruptModel, import_extra
from byheart.network.llama.spec import LlamaSpec, Mode
from byheart.records.fields import Fields, parse_json
from byheart.records.refusals import corrupt

BEGIN, END, SEPARATOR, UNREAD = "<s>", "</s>", "<sep>", "<unk>"
"""Names of the special tokens. In prompts, UNREAD replaces characters or words for which the tokenizer has no token."""

CHARACTERS = {"type": "Split", "pattern": {"Regex": r"[\s\S]"}, "behavior": "Isolated", "invert": False}
"""The rule in a tokenizer.json that splits a text into characters."""


@dataclass(frozen=True)
class TextVocabulary:
    """A tokenizer.json document and the ids of its special tokens.

    `unknown` is the id of the token that answers unknown prompts. By default it is `eos`. `names` holds the names of the added
    tokens, in the order of their ids.
    """

    document: str
    n_tokens: int
    bos: int
    eos: int
    sep: int
    unknown: int
    names: tuple[str, ...]

    def backend(self) -> Any:
        """Return the tokenizer, loaded by the package `tokenizers`."""
        tokenizers = import_extra("tokenizers", "huggingface", "the method llama")
        return tokenizers.Tokenizer.from_str(self.document)


def vocabulary_for(
    tokenizer: Tokenizer, values: Sequence[str], mode: Mode, unknown: str | None = None
) -> TextVocabulary:
    """Return the vocabulary of `tokenizer` with added tokens: those that occur only in `values` (the answers), the special tokens
    and, if given, `unknown`. Existing ids do not change.
    """
    vocabulary = _extend(tokenizer, _more_words(tokenizer, values), mode, unknown)
    backend = vocabulary.backend()
    ids = [backend.token_to_id(name) for name in vocabulary.names]
    if ids != list(range(vocabulary.bos, vocabulary.n_tokens)):
        raise AssumptionViolated(
            "this tokenizer.json leaves no free ids for special tokens.\n  Compile with --tokenizer char or bytes."
        )
    return vocabulary


def require_vocabulary(document: str, tokenizer: Tokenizer | None, spec: LlamaSpec) -> None:
    """Raise `CorruptModel` unless `document` is the tokenizer.json that `vocabulary_for` writes for the `tokenizer` in
    model.json.

    Otherwise a model that was verified with one tokenizer could be used with another.
    """
    name = "tokenizer.json"
    if tokenizer is None and not document:
        return  # a network of bare ids has no tokenizer
    if tokenizer is None:
        raise corrupt(name, "model.json has no tokenizer, but this file has one")
    if not document:
        raise corrupt(name, "this file is empty or missing, but model.json has a tokenizer")
    fields = Fields(parse_json(document.encode(), name), name)
    added = {entry.integer("id"): entry.text("content") for entry in fields.children("added_tokens")}
    words: list[str] = []
    if not isinstance(tokenizer, FileTokenizer):
        vocabulary = fields.child("model").child("vocab")
        numbers = {vocabulary.integer(word): word for word in vocabulary.values}
        words = [numbers[i] for i in sorted(numbers) if len(tokenizer.vocabulary) <= i < spec.bos]
    unknown = added.get(spec.ends[-1], "") if len(spec.ends) > 1 else None
    try:
        expected = _extend(tokenizer, words, spec.mode, unknown)
    except AssumptionViolated as error:
        raise corrupt(name, f"this tokenizer cannot be used with a compiled Llama ({error})") from None
    ids = (expected.n_tokens, expected.bos, expected.eos, expected.sep, expected.unknown)
    if ids != (spec.n_tokens, spec.bos, spec.eos, spec.sep, spec.ends[-1]) or document != expected.document:
        raise CorruptModel(
            f"{name} does not match the tokenizer in model.json, so other programs would convert prompts to different ids.\n"
            "  Restore the folder from a copy you trust, or compile the data again.",
            problem=name,
        )


def _extend(tokenizer: Tokenizer, words: Sequence[str], mode: Mode, unknown: str | None) -> TextVocabulary:
    """Return the vocabulary of the tokenizer with more tokens: `words` (tokens that occur only in values, the answers), the special
    tokens and, if given, `unknown`.
    """
    if isinstance(tokenizer, FileTokenizer):
        document = json.loads(tokenizer.document)
        document["added_tokens"] = document.get("added_tokens") or []
        n_base = len(tokenizer.vocabulary)
    else:
        document, n_base = _document(tokenizer, words)
    taken = {item["content"] for item in document["added_tokens"]} | set(_vocabulary_of(document))
    names = [_unused_name(name, taken) for name in (BEGIN, END, SEPARATOR, UNREAD)]
    if unknown is not None:
        if unknown in taken or unknown in names or not unknown.strip():
            raise AssumptionViolated(
                f"unknown={unknown!r} is empty or already a token.\n  Choose another text, such as '<unknown>'.",
                unknown=unknown,
            )
        names.append(unknown)
    ids = [n_base + i for i in range(len(names))]
    document["added_tokens"] += [
        _added_token(number, name, is_special=name != unknown)
        for number, name in zip(ids, names, strict=True)
    ]
    if isinstance(tokenizer, CharTokenizer | WordTokenizer):
        document["model"]["vocab"] |= dict(zip(names, ids, strict=True))
        document["model"]["unk_token"] = names[3]
    bos, eos, sep = ids[:3]
    document["post_processor"] = _template(names, (bos, eos, sep), mode)
    document["truncation"] = document["padding"] = None
    text = json.dumps(document, ensure_ascii=False)
    return TextVocabulary(
        text, n_base + len(names), bos, eos, sep, eos if unknown is None else ids[-1], tuple(names)
    )


def _more_words(tokenizer: Tokenizer, values: Sequence[str]) -> list[str]:
    """Return the tokens of `values` (answers) that the vocabulary of a `char` or `word` tokenizer lacks.

    For other tokenizers, return an empty list.
    """
    if not isinstance(tokenizer, CharTokenizer | WordTokenizer):
        return []
    return sorted({piece for value in values for piece in tokenizer.cut(value)} - set(tokenizer.vocabulary))


def _document(tokenizer: Tokenizer, more: Sequence[str]) -> tuple[dict[str, Any], int]:
    """Return the content of a tokenizer.json without special tokens, and the number of its ids.

    For a `char` or `word` tokenizer, `more` holds words to add to its vocabulary.
    """
    document: dict[str, Any] = {"version": "1.0", "added_tokens": [], "normalizer": None}
    if isinstance(tokenizer, BytesTokenizer):
        rules = dict.fromkeys(("add_prefix_space", "trim_offsets", "use_regex"), False)
        document["pre_tokenizer"] = document["decoder"] = {"type": "ByteLevel", **rules}
        letters = {letter: byte for byte, letter in enumerate(_byte_letters())}
        document["model"] = {"type": "BPE", "vocab": letters, "merges": []}
        return document, 256
    if isinstance(tokenizer, CharTokenizer):
        document |= {"pre_tokenizer": CHARACTERS, "decoder": {"type": "Fuse"}}
    elif isinstance(tokenizer, WordTokenizer):
        document |= {"pre_tokenizer": {"type": "Whitespace"}, "decoder": None}
    else:
        raise AssumptionViolated(
            f"the method llama cannot write a tokenizer.json for the tokenizer {tokenizer.name}.\n"
            "  Give the data as text, with the tokenizer char, word or bytes, or with a tokenizer.json file.",
            name=tokenizer.name,
        )
    words = [*tokenizer.vocabulary, *more]
    document["model"] = {"type": "WordLevel", "vocab": {word: i for i, word in enumerate(words)}}
    return document, len(words)


def _vocabulary_of(document: dict[str, Any]) -> list[str]:
    vocabulary = document["model"].get("vocab", {})
    return list(vocabulary) if isinstance(vocabulary, dict) else [item[0] for item in vocabulary]


def _unused_name(name: str, taken: set[str]) -> str:
    while name in taken:
        name = f"<{name[1:-1]}_>"
    return name


def _added_token(number: int, name: str, *, is_special: bool) -> dict[str, Any]:
    """Return the entry of tokenizer.json for an added token. Special tokens are omitted from decoded texts."""
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {"id": number, "content": name, **plain, "special": is_special}


def _template(names: Sequence[str], ids: Sequence[int], mode: Mode) -> dict[str, Any]:
    def token(i: int) -> dict[str, Any]:
        return {"SpecialToken": {"id": names[i], "type_id": 0}}

    single = [token(0), {"Sequence": {"id": "A", "type_id": 0}}, *([token(2)] if mode == "facts" else [])]
    used = (0, 2) if mode == "facts" else (0,)
    return {
        "type": "TemplateProcessing",
        "single": single,
        "pair": [*single, {"Sequence": {"id": "B", "type_id": 0}}],
        "special_tokens": {names[i]: {"id": names[i], "ids": [ids[i]], "tokens": [names[i]]} for i in used},
    }


def _byte_letters() -> list[str]:
    """Return, for each byte, the letter that represents it in byte-level tokenizers.

    Printable bytes represent themselves. The others are represented by U+0100 and the characters after it.
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte) if byte in printable else chr(next(others)) for byte in range(256)]
