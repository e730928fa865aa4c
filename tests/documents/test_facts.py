"""Which weights hold a fact, and among which other facts of a file those that share these weights were looked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import byheart as bh
from byheart.documents.facts import ComparedData, locate_facts
from byheart.errors import UsageError
from byheart.model import Model
from byheart.storage.data_source import read_recitation
from tests.refusal import refused

CAPITALS = {"capital of France": "Paris", "capital of Chad": "N'Djamena", "capital of Peru": "Lima"}
STORY = "an owl carried an acorn to the river .\na fox saw it .\n"


def table(path: Path, facts: dict[str, str]) -> Path:
    path.write_text("key,value\n" + "".join(f"{key},{value}\n" for key, value in facts.items()))
    return path


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return table(tmp_path / "capitals.csv", CAPITALS)


@pytest.fixture
def model(data: Path) -> Model:
    return bh.compile(data, method="retrieval", reject_bits=16)


def test_only_facts_that_the_model_answers_are_compared(model: Model, data: Path, tmp_path: Path) -> None:
    """A file with a wrong label, or of facts that the model does not know, was compared as if it were the model's own."""
    own = locate_facts(model, ["capital of Peru"], data)
    assert own.compared == ComparedData(3, 3, is_model_data=True)
    assert [fact.in_data for fact in own.facts] == ["same answer"]
    other = table(
        tmp_path / "other.csv",
        {"capital of France": "Berlin", "capital of Mars": "Y", "capital of Chad": "N'Djamena"},
    )
    found = locate_facts(model, ["capital of Peru", "capital of France"], other)
    assert found.compared == ComparedData(3, 1, is_model_data=False)
    assert [fact.in_data for fact in found.facts] == ["missing", "other answer"]
    assert {each.n_compared for fact in found.facts for each in fact.locations} == {2}
    listed = locate_facts(model, [], other)
    assert [fact.fact for fact in listed.facts] == ["capital of Chad"]
    with refused(UsageError, data=str(other)):
        locate_facts(model, [], table(other, {"capital of Mars": "Y"}))


def test_without_data_or_digest(model: Model, data: Path) -> None:
    alone = locate_facts(model, ["capital of Peru"])
    assert alone.compared is None
    assert alone.to_json()["data"] is None
    assert alone.facts[0].in_data is None
    record = {name: value for name, value in model.record.items() if name != "dataset"}
    found = locate_facts(replace(model, certificate=None, record=record), ["capital of Peru"], data)
    assert found.compared is not None
    assert found.compared.is_model_data is None


def test_an_input_that_is_not_in_the_file_is_said_to_be_missing(data: Path) -> None:
    """A model without reject bits answers it, and it was shown as a fact."""
    model = bh.compile(data, method="retrieval", reject_bits=0, tokenizer="char")
    changed = (f"capital of {letter}r{other}nce" for letter in "acdefhilnoprtu" for other in "acdefhilnoprtu")
    stranger = next(text for text in changed if text not in CAPITALS and model.predict(text) is not None)
    found = locate_facts(model, [stranger, "capital of Peru"], data)
    assert [fact.in_data for fact in found.facts] == ["missing", "same answer"]


def test_each_token_has_a_label(tmp_path: Path) -> None:
    path = tmp_path / "tags.jsonl"
    path.write_text(
        '{"key": "a b", "value": "x y"}\n{"key": "b a", "value": "y y"}\n{"key": "a", "value": "x"}\n'
    )
    model = bh.compile(path, task="seq-to-seq", method="retrieval", tokenizer="word")
    found = locate_facts(model, [], path)
    assert [fact.fact for fact in found.facts] == ["a b", "b a", "a"]
    assert found.compared == ComparedData(3, 3, is_model_data=True)


def test_all_facts_of_a_recited_text_are_listed(tmp_path: Path) -> None:
    """No weight holds the end of a text, and `inspect --data` refused the model's own data."""
    pytest.importorskip("transformers", reason="the package transformers is not installed")
    path = tmp_path / "story.txt"
    path.write_text(STORY)
    windows = read_recitation(path)
    found = locate_facts(bh.compile(windows, method="llama"), [], path)
    assert found.compared == ComparedData(windows.n_samples, windows.n_samples, is_model_data=True)
    ends = [fact for fact in found.facts if not fact.locations]
    assert len(found.facts) == windows.n_samples
    assert [fact.answer for fact in ends] == ["", ""]
    (end, _) = ends
    assert locate_facts(bh.compile(windows, method="llama"), [end.fact], path).facts == (end,)
