"""Convert text to token ids and back, without padding, truncation or added special tokens."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Int

from byheart.data.sequences import TokenSequences, offsets_of
from byheart.data.tokenizer_document import used_part
from byheart.data.tokenizer_process import RefusedText, TokenizerProcess
from byheart.errors import MalformedFile, UnknownToken, UsageError
from byheart.process.memory_limit import require_memory

WORD_PUNCT = re.compile(r"\w+|(?:[^\w\s]|[\x1c-\x1f])+")
"""Python's white space includes U+001C to U+001F, which for Unicode and for the package `tokenizers` are ordinary characters."""

_MEMORY_PER_BYTE = 40  # memory per byte: the text, its JSON, and the tables that the package builds
# a file with more ids than _MOST_IDS_PER_TOKEN * n_tokens + _FEW_IDS is refused, because unused ids only take memory
_MOST_IDS_PER_TOKEN, _FEW_IDS = 64, 1 << 20
_TEXTS_PER_QUESTION = 4096


class Tokenizer(ABC):
    """Converts a text to ids below `len(vocabulary)`. The same text always gives the same ids."""

    name: ClassVar[str]

    @property
    @abstractmethod
    def vocabulary(self) -> tuple[str, ...]:
        """Text of every token, in the order of ids."""

    @abstractmethod
    def encode(self, text: str) -> list[int]:
        """Return the ids of `text`. If a part of the text has no id, raise `UnknownToken`, which names the text."""

    @abstractmethod
    def decode(self, ids: Iterable[int]) -> str:
        """Return a text for these ids. With `char` and `word` tokenizers, encoding this text gives the same ids again."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return everything that `from_json` needs, as a dictionary that can be written as JSON."""

    def encode_all(self, texts: Sequence[str]) -> TokenSequences:
        """Encode many texts. If a text cannot be encoded, `UnknownToken` names its row, counted from 1."""
        rows = [self._encode_row(row, text) for row, text in enumerate(texts, start=1)]
        return TokenSequences.of(rows, len(self.vocabulary))

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> Tokenizer:
        """Make a tokenizer from the output of `to_json`."""
        kind = document.get("name")
        if kind == BytesTokenizer.name:
            return BytesTokenizer()
        if kind == FileTokenizer.name and isinstance(document.get("json"), str):
            return FileTokenizer(document["json"])
        words = document.get("vocabulary")
        if (
            isinstance(kind, str)
            and kind in _TABLES
            and isinstance(words, list)
            and all(isinstance(word, str) for word in words)
        ):
            return _TABLES[kind](tuple(words))
        raise MalformedFile(
            f"a saved tokenizer with the name {kind!r} is not valid. The `name` must be char, word, ids, bytes "
            "or file.\n"
            "  The first three also need a `vocabulary` (a list of texts), and `file` needs `json` (a text).",
            name=kind,
        )

    def _encode_row(self, row: int, text: str) -> list[int]:
        try:
            return self.encode(text)
        except UnknownToken as error:
            raise UnknownToken(f"row {row}: {error}", **error.facts, row=row) from None


@dataclass(frozen=True)
class _TableTokenizer(Tokenizer):
    """A tokenizer that splits a text into pieces and looks up the id of each piece in a table."""

    words: tuple[str, ...]

    def __post_init__(self) -> None:
        """Check that tokens are distinct, and that splitting a token again yields just that token."""
        seen: set[str] = set()
        for word in self.words:
            if word in seen or self.cut(word) != [word]:
                problem = "occurs twice" if word in seen else "is not a single token"
                raise UsageError(
                    f"the vocabulary of a {self.name} tokenizer must hold distinct tokens, but {word!r} {problem}.",
                    name=self.name,
                    word=word,
                )
            seen.add(word)

    @classmethod
    def of(cls, texts: Iterable[str]) -> _TableTokenizer:
        """Make a tokenizer whose vocabulary is the sorted distinct tokens of `texts`."""
        return cls(tuple(sorted(set(chain.from_iterable(map(cls.cut, texts))))))

    @staticmethod
    @abstractmethod
    def cut(text: str) -> list[str]:
        """Cut a text into tokens."""

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """Text of every token, in the order of ids."""
        return self.words

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {word: i for i, word in enumerate(self.words)}

    def encode(self, text: str) -> list[int]:
        """Return the ids of the tokens of `text`."""
        try:
            return [self._ids[token] for token in self.cut(text)]
        except KeyError as error:
            raise _unknown(error.args[0], text, self) from None

    def decode(self, ids: Iterable[int]) -> str:
        return " ".join(self.words[i] for i in ids)

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "vocabulary": list(self.words)}


@dataclass(frozen=True)
class CharTokenizer(_TableTokenizer):
    """A tokenizer with one token per character (Unicode code point)."""

    name: ClassVar[str] = "char"

    @staticmethod
    def cut(text: str) -> list[str]:
        """Cut a text into its characters."""
        return list(text)

    @classmethod
    def of(cls, texts: Iterable[str]) -> CharTokenizer:
        """Make the tokenizer whose vocabulary is the sorted distinct characters of `texts`."""
        return cls(tuple(sorted(set("".join(texts)))))

    def decode(self, ids: Iterable[int]) -> str:
        return "".join(self.words[i] for i in ids)

    def encode_all(self, texts: Sequence[str]) -> TokenSequences:
        """Encode many texts at once, code point by code point."""
        points = _code_points("".join(texts))
        # the vocabulary may come from a file, so it may be unsorted
        known = _code_points("".join(self.words))
        order = np.argsort(known, kind="stable")
        slot = np.searchsorted(known[order], points)
        ids = order[np.minimum(slot, order.size - 1)] if order.size else np.zeros(points.size, dtype=np.int64)
        if not (order.size and np.array_equal(known[ids], points)) and points.size:
            # some character is unknown: find the first one and report its place
            return super().encode_all(texts)
        lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
        return TokenSequences(ids, offsets_of(lengths), len(self.words))


@dataclass(frozen=True)
class WordTokenizer(_TableTokenizer):
    r"""Tokens are words and runs of punctuation, `\w+|[^\w\s]+`. Case is kept, and white space (as Unicode defines it) only
    separates tokens.
    """

    name: ClassVar[str] = "word"

    @staticmethod
    def cut(text: str) -> list[str]:
        """Cut a text into words and runs of punctuation."""
        return WORD_PUNCT.findall(text)

    def decode_tight(self, ids: Iterable[int]) -> str:
        """Return a text for these ids with as few spaces as possible: only between two words, or two runs of punctuation."""
        pieces, was_word = list[str](), None
        for word in (self.words[i] for i in ids):
            is_word = re.match(r"\w", word) is not None
            pieces += [" ", word] if is_word == was_word else [word]
            was_word = is_word
        return "".join(pieces)


@dataclass(frozen=True)
class IdTokenizer(_TableTokenizer):
    """A tokenizer for data that consist of token ids with large gaps between them. It replaces them by new ids without gaps.

    A text is a list of ids of the data, written as decimal numbers with spaces between them. The vocabulary holds the distinct ids
    of the data in ascending order. The new id of each is its position in the vocabulary, counted from 0.
    """

    name: ClassVar[str] = "ids"

    def __post_init__(self) -> None:
        """Check that the vocabulary holds distinct ascending whole numbers below 2^63, each written without leading zeros."""
        are_numbers = all(word.isascii() and word.isdigit() and len(word) <= 19 for word in self.words)
        numbers = [int(word) for word in self.words] if are_numbers else []
        if (
            list(map(str, numbers)) != list(self.words)
            or numbers != sorted({*numbers})
            or max(numbers, default=0) >> 63
        ):
            raise UsageError(
                "the vocabulary of an ids tokenizer must hold ascending whole numbers below 2^63.",
                name=self.name,
            )

    @classmethod
    def of_ids(cls, distinct: Int[np.ndarray, " n_distinct"]) -> IdTokenizer:
        """Make a tokenizer from these ids, which must be distinct and ascending."""
        return cls(tuple(map(str, distinct.tolist())))

    @staticmethod
    def cut(text: str) -> list[str]:
        """Cut a text at white space."""
        return text.split()

    @cached_property
    def numbers(self) -> Int[np.ndarray, " n_distinct"]:
        """The entries of the vocabulary as numbers, in ascending order."""
        return np.array([int(word) for word in self.words], dtype=np.int64)

    def positions_of(self, ids: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
        """For each id, return its position in the vocabulary, or -1 if it is not there."""
        slots = np.searchsorted(self.numbers, ids)
        is_known = slots < len(self.numbers)
        is_known[is_known] = self.numbers[slots[is_known]] == ids[is_known]
        return np.where(is_known, slots, -1)


@dataclass(frozen=True)
class BytesTokenizer(Tokenizer):
    """Tokens are the 256 byte values. A text becomes its bytes in UTF-8. Half a surrogate pair has no such bytes."""

    name: ClassVar[str] = "bytes"

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The bytes, written `<00>` to `<ff>`."""
        return tuple(f"<{byte:02x}>" for byte in range(256))

    def encode(self, text: str) -> list[int]:
        """Return the bytes of `text` in UTF-8."""
        try:
            return list(text.encode("utf-8"))
        except UnicodeEncodeError as error:
            half = text[error.start]
            raise UnknownToken(
                f"{_shorten(text)!r} holds {half!r}, half of a UTF-16 surrogate pair, which is not a character.\n"
                "  The text was cut in the middle of a character: repair it.",
                token=half,
                text=text,
            ) from None

    def decode(self, ids: Iterable[int]) -> str:
        """Decode the bytes as UTF-8. Invalid bytes become U+FFFD, so encoding the result may give other ids."""
        return bytes(ids).decode("utf-8", errors="replace")

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name}


@dataclass(frozen=True)
class FileTokenizer(Tokenizer):
    """A Hugging Face `tokenizer.json`, reduced to the parts that convert text to ids and back.

    The rules for padding, truncation and adding special tokens are left out, because they would add or drop tokens silently.
    """

    name: ClassVar[str] = "file"
    document: str

    def __post_init__(self) -> None:
        """Check the document, and keep only the parts that are used. Read the vocabulary, which raises an error if the file is
        invalid.
        """
        object.__setattr__(self, "document", used_part(self.document))
        self.vocabulary  # noqa: B018 - reading it is the check

    @classmethod
    def read(cls, path: Path) -> FileTokenizer:
        """Read a `tokenizer.json`."""
        try:
            require_memory(f"reading {path}", _MEMORY_PER_BYTE * path.stat().st_size)
            return cls(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise MalformedFile(
                f"{path}: cannot be read as a tokenizer.json: {error}", path=str(path)
            ) from None
        except MalformedFile as error:
            raise MalformedFile(f"{path}: {error}", path=str(path)) from None

    @cached_property
    def _backend(self) -> TokenizerProcess:
        return TokenizerProcess(self.document)

    @cached_property
    def vocabulary(self) -> tuple[str, ...]:
        """Text of every token, in the order of ids; ids that are missing in the file have an empty text."""
        try:
            table = self._backend.vocabulary()
        except RefusedText as error:
            raise MalformedFile(f"not a valid tokenizer.json: {error}", error=error) from None
        n_ids = max(table.values(), default=-1) + 1
        if n_ids > _MOST_IDS_PER_TOKEN * len(table) + _FEW_IDS:
            raise MalformedFile(
                f"the largest token id of the tokenizer.json is {n_ids - 1}, but the file has only {len(table)} "
                "tokens.\n"
                "  Use a file whose ids have smaller gaps between them.",
                n_tokens=len(table),
            )
        words = [""] * n_ids
        for word, i in table.items():
            words[i] = word
        return tuple(words)

    def encode(self, text: str) -> list[int]:
        """Return the ids of `text` according to the rules of the file, which also decide what happens to unknown characters."""
        try:
            return self._backend.encode([text])[0]
        except RefusedText as error:
            raise _unknown_token(text, error) from None

    def encode_all(self, texts: Sequence[str]) -> TokenSequences:
        """Encode many texts, a few thousand at a time."""
        rows: list[list[int]] = []
        for start in range(0, len(texts), _TEXTS_PER_QUESTION):
            asked = list(texts[start : start + _TEXTS_PER_QUESTION])
            try:
                rows += self._backend.encode(asked)
            except RefusedText as error:
                row = start + error.row + 1
                raise UnknownToken(f"row {row}: {_unknown_token(asked[error.row], error)}", row=row) from None
        return TokenSequences.of(rows, len(self.vocabulary))

    def decode(self, ids: Iterable[int]) -> str:
        return self.decode_all([list(ids)])[0]

    def decode_all(self, rows: Sequence[list[int]], *, skip_special: bool = False) -> list[str]:
        """Decode many rows of ids, a few thousand at a time. `skip_special` leaves out special tokens."""
        texts: list[str] = []
        for start in range(0, len(rows), _TEXTS_PER_QUESTION):
            try:
                asked = list(rows[start : start + _TEXTS_PER_QUESTION])
                texts += self._backend.decode(asked, skip_special=skip_special)
            except RefusedText as error:
                raise MalformedFile(f"these ids cannot be decoded: {error}", error=error) from None
        return texts

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "json": self.document}


_TABLES: dict[Any, type[CharTokenizer] | type[WordTokenizer] | type[IdTokenizer]] = {
    CharTokenizer.name: CharTokenizer,
    WordTokenizer.name: WordTokenizer,
    IdTokenizer.name: IdTokenizer,
}


def make_tokenizer(choice: str | Path | Tokenizer, texts: Sequence[str]) -> Tokenizer:
    """Return the tokenizer that a user chose.

    `choice` is a `Tokenizer`, the path of a tokenizer.json, `bytes`, `char` or `word`. The vocabulary of `char` and `word` is taken
    from `texts`.
    """
    if isinstance(choice, Tokenizer):
        return choice
    if choice in (CharTokenizer.name, WordTokenizer.name):
        return _TABLES[choice].of(texts)
    if choice == BytesTokenizer.name:
        return BytesTokenizer()
    path = Path(choice)
    if not path.is_file():
        raise UsageError(
            f"tokenizer {str(choice)!r} is not one of char, word, bytes, and no such file exists.\n"
            "  Choose one of the three, or give the path of a tokenizer.json.",
            tokenizer=str(choice),
        )
    return FileTokenizer.read(path)


def _unknown_token(text: str, error: RefusedText) -> UnknownToken:
    return UnknownToken(f"{_shorten(text)!r} cannot be tokenized: {error}", text=text)


def _shorten(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "..."


def _code_points(text: str) -> Int[np.ndarray, " n_characters"]:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4").astype(np.int64)


def _unknown(token: str, text: str, tokenizer: Tokenizer) -> UnknownToken:
    return UnknownToken(
        f"{_shorten(text)!r} holds {token!r}, which is not in the vocabulary (size {len(tokenizer.vocabulary)}) of "
        f"the {tokenizer.name} tokenizer.\n"
        "  The model cannot know this text: leave it out, or compile again with a tokenizer that has the "
        "token (the tokenizer `bytes` has a token for every byte).",
        token=token,
        text=text,
    )


def parse_ids(text: str, refusal: str) -> list[int]:
    """Parse token ids separated by spaces. If this fails, raise a `UsageError` with the message `refusal`."""
    try:
        return [int(word) for word in text.split()]
    except ValueError:
        raise UsageError(refusal, text=text) from None
