from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from byheart.data import (
    BytesTokenizer,
    CharTokenizer,
    Dataset,
    FileTokenizer,
    Tokenizer,
    WordTokenizer,
    make_tokenizer,
)
from byheart.errors import MalformedFile, MissingExtra, UnknownToken, UsageError
from tests.examples import examples
from tests.refusal import refused

TEXTS = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=12), max_size=6)
WORDS = {"type": "WordLevel", "vocab": {"<unk>": 0, "cat": 1, "the": 3}, "unk_token": "<unk>"}
TOKENIZER_JSON = json.dumps(
    {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": None,
        "decoder": None,
        "model": WORDS,
    }
)


@examples(200)
@given(TEXTS)
def test_char_and_word_vocabularies_are_the_sorted_distinct_tokens(texts: list[str]) -> None:
    assert CharTokenizer.of(texts).vocabulary == tuple(sorted({c for text in texts for c in text}))
    words = {word for text in texts for word in re.findall(r"\w+|(?:[^\w\s]|[\x1c-\x1f])+", text)}
    assert WordTokenizer.of(texts).vocabulary == tuple(sorted(words))


@examples(200)
@given(TEXTS, st.sampled_from(["char", "word", "bytes"]))
def test_encoding_is_exact_and_the_same_in_bulk(texts: list[str], name: str) -> None:
    tokenizer = make_tokenizer(name, texts)
    bulk = tokenizer.encode_all(texts)
    for i, text in enumerate(texts):
        ids = tokenizer.encode(text)
        assert bulk[i].tolist() == ids
        assert tokenizer.encode(tokenizer.decode(ids)) == ids
        if name != "word":
            assert tokenizer.decode(ids) == text
    assert bulk.n_vocab == len(tokenizer.vocabulary)


@examples(200)
@given(TEXTS, st.sampled_from(["char", "word", "bytes"]))
def test_a_tokenizer_survives_json(texts: list[str], name: str) -> None:
    tokenizer = make_tokenizer(name, texts)
    assert Tokenizer.from_json(json.loads(json.dumps(tokenizer.to_json()))) == tokenizer


def test_a_vocabulary_may_come_in_any_order() -> None:
    tokenizer = CharTokenizer(("c", "a", "b"))
    assert tokenizer.encode("abc") == [1, 2, 0]
    assert tokenizer.encode_all(["abc", "", "cc"]).ids.tolist() == [1, 2, 0, 0, 0]


def test_words_keep_case_and_split_punctuation() -> None:
    assert WordTokenizer.cut('He said: "I don\'t..."') == [
        "He",
        "said",
        ":",
        '"',
        "I",
        "don",
        "'",
        "t",
        '..."',
    ]


def test_white_space_of_words_is_that_of_unicode() -> None:
    """For Python, U+001C to U+001F are white space too; other readers of a tokenizer.json keep them."""
    assert WordTokenizer.cut("a\x1cb\x1f!\u2003c\x85\xa0d") == ["a", "\x1c", "b", "\x1f!", "c", "d"]


def test_words_are_written_with_the_fewest_spaces() -> None:
    tokenizer = WordTokenizer.of(["a b - , c"])
    ids = tokenizer.encode("a  b, - c")
    assert tokenizer.decode_tight(ids) == "a b, -c"
    assert tokenizer.encode("a b, -c") == ids
    assert tokenizer.decode_tight([]) == ""


@pytest.mark.parametrize(("name", "text", "token"), [("char", "b?", "?"), ("word", "a new day", "new")])
def test_unknown_tokens_are_named(name: str, text: str, token: str) -> None:
    tokenizer = make_tokenizer(name, ["a b", "day"])
    with refused(UnknownToken, "token", "text") as raised:
        tokenizer.encode(text)
    assert raised.value.facts == {"token": token, "text": text}
    with refused(UnknownToken, "token", "text", row=2) as raised:
        tokenizer.encode_all(["a", text])
    assert raised.value.facts["row"] == 2


def test_a_given_tokenizer_is_used_as_it_is() -> None:
    tokenizer = CharTokenizer.of(["abcdef"])
    assert Dataset.from_pairs([("fa", "x")], tokenizer=tokenizer).inputs[0].tolist() == [5, 0]
    with refused(UnknownToken, token="x", text="xa", row=2):
        Dataset.from_pairs([("fa", "x"), ("xa", "y")], tokenizer=tokenizer)
    with pytest.raises(UnknownToken):
        Dataset.from_pairs([("a", "x")], tokenizer=CharTokenizer(()))


def test_bytes_know_every_text_and_show_what_is_none() -> None:
    tokenizer = BytesTokenizer()
    assert tokenizer.encode("é") == [0xC3, 0xA9]
    assert tokenizer.decode([0xC3]) == "\ufffd"
    assert len(tokenizer.vocabulary) == 256
    with refused(UnknownToken, token="\ud800", text="\ud800"):
        tokenizer.encode("\ud800")


def test_vocabularies_that_cannot_be_are_refused() -> None:
    for words in (("a", "a"), ("ab",)):
        with refused(UsageError, name="char"):
            CharTokenizer(words)
    with refused(UsageError, name="word"):
        WordTokenizer(("two words",))
    for document in (
        {},
        {"name": "word"},
        {"name": "char", "vocabulary": [1]},
        {"name": "file"},
        {"name": []},
    ):
        with refused(MalformedFile, "name"):
            Tokenizer.from_json(document)


def test_a_choice_that_is_neither_name_nor_file_is_refused(tmp_path: Path) -> None:
    with refused(UsageError, tokenizer="subword"):
        make_tokenizer("subword", [])
    with refused(UsageError, "tokenizer"):
        make_tokenizer(tmp_path, [])


def test_a_tokenizer_file(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers", reason="needs the `tokenizers` extra")
    path = tmp_path / "tokenizer.json"
    path.write_text(TOKENIZER_JSON, encoding="utf-8")
    tokenizer = make_tokenizer(path, [])
    assert tokenizer.vocabulary == ("<unk>", "cat", "", "the")
    assert tokenizer.encode("the cat the dog") == [3, 1, 3, 0]
    assert tokenizer.encode_all(["cat", "the"]).ids.tolist() == [1, 3]
    again = Tokenizer.from_json(json.loads(json.dumps(tokenizer.to_json())))
    assert again == tokenizer
    assert Dataset.from_pairs([("the cat", "x")], tokenizer=str(path)).vocab == 4


def test_a_broken_tokenizer_file_is_named(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers", reason="needs the `tokenizers` extra")
    path = tmp_path / "tokenizer.json"
    for content in (b"{}", TOKENIZER_JSON.encode()[:-20], b"\xff\xfe", b""):
        path.write_bytes(content)
        with refused(MalformedFile, "path"):
            make_tokenizer(path, [])
    with refused(MalformedFile, "problem"):
        FileTokenizer("{}")


def test_without_the_extra_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with refused(MissingExtra, package="tokenizers", extra="tokenizers", purpose="a tokenizer.json"):
        FileTokenizer(TOKENIZER_JSON)
