"""Which texts stock transformers converts to other ids than byheart, judged by transformers itself."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from byheart.data.sequences import TokenSequences
from byheart.data.tokenizers import Tokenizer, WordTokenizer, make_tokenizer
from byheart.network.llama.prompts import find_misread
from byheart.network.llama.vocabulary import TextVocabulary, vocabulary_for

transformers = pytest.importorskip("transformers", reason="the package transformers is not installed")

ODD = "ab1_-<>/s²½é\u0301\u0939\u093f \t\u0085\u00a0\u2003\x1c\u200d"
texts_of_keys = st.lists(
    st.one_of(
        st.text(ODD, min_size=1, max_size=6), st.sampled_from(["x<s>y", "a </s>", "<sep>", "²-b", "m²"])
    ),
    min_size=1,
    max_size=4,
).filter(lambda texts: all(map(WordTokenizer.cut, texts)))


def misread(tokenizer: Tokenizer, vocabulary: TextVocabulary, texts: list[str]) -> list[int]:
    inputs = tokenizer.encode_all(texts)
    return find_misread(
        vocabulary.document,
        tokenizer,
        inputs,
        lambda i: [vocabulary.bos, *inputs[i].tolist(), vocabulary.sep],
    )


def stock_ids(vocabulary: TextVocabulary, text: str) -> list[int]:
    loaded: Any = transformers.PreTrainedTokenizerFast(tokenizer_object=vocabulary.backend())
    return list(loaded(text).input_ids)


@pytest.mark.parametrize("name", ["char", "word", "bytes"])
@settings(max_examples=25, deadline=None)
@given(texts=texts_of_keys)
def test_what_is_not_named_is_read_rightly_by_transformers(name: str, texts: list[str]) -> None:
    tokenizer = make_tokenizer(name, texts)
    vocabulary = vocabulary_for(tokenizer, ["b"], "facts")
    named = misread(tokenizer, vocabulary, texts)
    for row, text in enumerate(texts):
        is_equal = stock_ids(vocabulary, text) == [vocabulary.bos, *tokenizer.encode(text), vocabulary.sep]
        assert is_equal or row in named
        if name != "word":  # the ids of words leave open where white space is
            assert is_equal == (row not in named)


@pytest.mark.parametrize("text", ["²x", "a ²-b", "a <s> b", "x</s>", "< s >"])
def test_words_that_transformers_cuts_elsewhere_are_named(text: str) -> None:
    tokenizer = make_tokenizer("word", [text, "b c"])
    assert misread(tokenizer, vocabulary_for(tokenizer, ["b"], "facts"), ["b c", text]) == [1]


def test_a_name_with_a_space_is_found_wherever_the_space_is() -> None:
    tokenizer = make_tokenizer("word", ["x- y", "b c"])
    vocabulary = vocabulary_for(tokenizer, ["b"], "facts", "x- y")
    assert stock_ids(vocabulary, "x- y") == [vocabulary.bos, vocabulary.unknown, vocabulary.sep]
    assert misread(tokenizer, vocabulary, ["x- y", "b c"]) == [0]


def test_a_text_that_the_tokenizer_refuses_is_named() -> None:
    """Without a token for unknown words, the package `tokenizers` refuses a text, also between others."""
    tokenizer = make_tokenizer("char", ["abc"])
    vocabulary = vocabulary_for(tokenizer, ["b"], "facts")
    document = json.loads(vocabulary.document)
    document["model"]["unk_token"] = "no such token"
    document["model"]["vocab"]["no such token"] = document["model"]["vocab"].pop("b")
    forgetful = replace(vocabulary, document=json.dumps(document).replace('"no such token":', '"d":'))
    assert misread(tokenizer, forgetful, ["a", "b", "ac", "ab", "c"]) == [1, 3]


def test_pieces_that_are_no_texts_may_be_skipped() -> None:
    """A part of a character is not a text, so it cannot be given to transformers."""
    tokenizer = make_tokenizer("bytes", [])
    vocabulary = vocabulary_for(tokenizer, [], "texts")
    rows = [list("é".encode())[:1], list(b"a</s>"), list(b"a")]
    inputs = TokenSequences.of(rows, 256)
    found = {
        skips: find_misread(
            vocabulary.document,
            tokenizer,
            inputs,
            lambda i: [vocabulary.bos, *rows[i]],
            skip_fragments=skips,
        )
        for skips in (False, True)
    }
    assert found == {False: [0, 1], True: [1]}
