"""A tokenizer.json is refused at the first rule, id or token beyond its limits."""

from __future__ import annotations

import json
from typing import Any

import pytest

from byheart.data import tokenizer_document
from byheart.data.tokenizer_document import used_part
from byheart.errors import MalformedFile
from tests.refusal import refused


def document(**parts: Any) -> dict[str, Any]:
    model = {"type": "WordLevel", "vocab": {"a": 0, "b": 1}}
    return {"version": "1.0", "model": model, "post_processor": {"type": "x"}, "padding": {}, **parts}


def is_taken(found: object) -> bool:
    try:
        used_part(json.dumps(found))
    except MalformedFile:
        return False
    return True


def replacing(n: int, pattern: object = None) -> dict[str, Any]:
    return {"type": "Replace", "pattern": {"String": "x"} if pattern is None else pattern, "content": "y" * n}


def test_what_adds_or_drops_tokens_is_left_out() -> None:
    assert json.loads(used_part(json.dumps(document(normalizer=None)))) == {
        "version": "1.0",
        "normalizer": None,
        "model": {"type": "WordLevel", "vocab": {"a": 0, "b": 1}},
    }
    assert "é" in used_part(json.dumps(document(model={"vocab": {"é": 0}})))


@pytest.mark.parametrize("found", [[], "x", 3, {}, {"model": []}, {"model": {}}, {"model": {"vocab": 3}}])
def test_a_document_without_a_vocabulary_is_refused(found: object) -> None:
    assert not is_taken(found)


@pytest.mark.parametrize("part", ["normalizer", "pre_tokenizer", "decoder"])
@pytest.mark.parametrize(
    ("rule", "taken"),
    [
        (None, True),
        (replacing(256), True),
        (replacing(257), False),
        (replacing(512, {"String": "xx"}), True),
        (replacing(513, {"String": "xx"}), False),
        (replacing(0), True),
        (replacing(255, {"Regex": "x*"}), True),
        (replacing(256, {"Regex": "x*"}), False),
        (replacing(255, {"String": ""}), True),
        (replacing(256, {"String": ""}), False),
        (replacing(255, "x"), True),
        (replacing(256, "x"), False),
        ({"type": "Sequence", "normalizers": [replacing(16), replacing(16)]}, True),
        ({"type": "Sequence", "normalizers": [replacing(16), replacing(17)]}, False),
        ({"type": "Sequence", "normalizers": [replacing(17), {"a": {"b": [replacing(16)]}}]}, False),
        ({"type": "Sequence", "normalizers": [replacing(0), replacing(257)]}, False),
        ({"type": "Lowercase", "content": "y" * 999}, True),
        ({"type": "Replace", "content": 5}, True),
    ],
)
def test_rules_may_make_256_characters_of_one(part: str, rule: object, taken: bool) -> None:
    assert is_taken(document(**{part: rule})) == taken


@pytest.mark.parametrize(
    ("number", "taken"), [(0, True), (2**31 - 1, True), (2**31, False), (-1, False), (True, False), ("1", False), (1.5, False)]
)  # fmt: skip
def test_ids_are_whole_numbers_of_31_bits(number: object, taken: bool) -> None:
    assert is_taken(document(model={"vocab": {"a": number}})) == taken
    assert is_taken(document(added_tokens=[{"content": "c", "id": number if number != 0 else 5}])) == taken


def test_two_tokens_have_two_ids() -> None:
    assert not is_taken(document(model={"vocab": {"a": 1, "b": 1}}))
    assert not is_taken(document(added_tokens=[{"content": "c", "id": 1}]))
    assert is_taken(document(added_tokens=[{"content": "b", "id": 1}]))  # the same token again


@pytest.mark.parametrize(
    ("entry", "taken"),
    [(["a", -1.5], True), (["a"], False), (["a", 1, 2], False), (["b", 1], True), ([1, 2], False), ("ab", False)],
)  # fmt: skip
def test_tokens_of_a_unigram_model_have_scores(entry: object, taken: bool) -> None:
    assert is_taken(document(model={"vocab": [["z", 0.0], entry]})) == taken
    assert not is_taken(document(model={"vocab": [["z", 0.0]]}, added_tokens=[{"content": "c", "id": 0}]))


@pytest.mark.parametrize("added", [{}, "x", 3, [3], [{}], [{"content": 3}], [{"content": "c"}]])
def test_added_tokens_are_objects_with_content_and_id(added: object) -> None:
    assert is_taken(document(added_tokens=added)) == (added == {})


def test_there_are_at_most_so_many_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tokenizer_document.MOST_TOKENS == 16_777_216
    monkeypatch.setattr(tokenizer_document, "MOST_TOKENS", 3)
    assert is_taken(document(added_tokens=[{"content": "c", "id": 2}]))
    with refused(MalformedFile, "problem"):
        used_part(json.dumps(document(added_tokens=[{"content": "c", "id": 2}, {"content": "d", "id": 3}])))


@pytest.mark.parametrize(
    ("dropout", "taken"), [(None, True), (0, True), (0.0, True), (0.5, False), (1, False), ("x", False)]
)
def test_a_rule_that_draws_at_random_is_refused(dropout: object, taken: bool) -> None:
    model = {"type": "BPE", "dropout": dropout, "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}
    assert is_taken(document(model=model)) == taken
