"""Forgetting compiles the model's own data again, without the given facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

import byheart as bh
from byheart.documents.forgetting import forget_facts
from byheart.errors import UsageError
from tests.refusal import refused

FACTS = {"What's up?": "a", "Hello there": "b", "Bye, now": "c"}


def write(path: Path, facts: Mapping[str, str]) -> Path:
    path.write_text("key,value\n" + "".join(f'"{key}",{value}\n' for key, value in facts.items()))
    return path


@pytest.mark.parametrize("tokenizer", ["char", "word", "bytes"])
def test_a_fact_as_it_is_in_the_file_is_forgotten(tmp_path: Path, tokenizer: str) -> None:
    path = tmp_path / "facts.tsv"
    path.write_text("key\tvalue\n" + "".join(f"{key}\t{value}\n" for key, value in FACTS.items()))
    model = bh.compile(path, tokenizer=tokenizer)
    done = forget_facts(model, path, ["What's up?"])
    assert (done.before, done.after) == (["a"], [None])
    assert done.model.predict(list(FACTS)) == [None, "b", "c"]
    for missing in ("Hello", "unknown\n"):
        with refused(UsageError, facts=[missing]):
            forget_facts(model, path, ["What's up?", missing])
    with pytest.raises(UsageError):
        forget_facts(model, path, list(FACTS))


@pytest.mark.parametrize("method", ["retrieval", "llama"])
def test_data_of_another_model_are_refused(tmp_path: Path, method: str) -> None:
    """Facts that the file did not have were lost too, and changed labels were learnt."""
    if method == "llama":
        pytest.importorskip("transformers", reason="the package transformers is not installed")
    model = bh.compile(write(tmp_path / "facts.csv", FACTS), method=method)
    *most, last = FACTS
    fewer = write(tmp_path / "fewer.csv", {key: FACTS[key] for key in most})
    with refused(UsageError, data=str(fewer), n_samples=2, n_compiled=3):
        forget_facts(model, fewer, most[:1])
    changed = write(tmp_path / "changed.csv", {**FACTS, last: "a"})
    with refused(UsageError, data=str(changed), row=3):
        forget_facts(model, changed, most[:1])
    reordered = write(tmp_path / "reordered.csv", dict(reversed(FACTS.items())))
    with refused(UsageError, data=str(reordered)):
        forget_facts(model, reordered, most[:1])
    more = write(tmp_path / "more.csv", {**FACTS, "Zoë": "ñ"})
    with refused(UsageError, **({"n_samples": 4} if method == "retrieval" else {"row": 4}), data=str(more)):
        forget_facts(model, more, most[:1])


def test_without_a_digest_the_data_are_not_said_to_be_compared(tmp_path: Path) -> None:
    data = write(tmp_path / "facts.csv", FACTS)
    model = bh.compile(data)
    facts = list(FACTS)[:1]
    assert forget_facts(model, data, facts).to_json()["data_compared"]
    recorded = replace(model, certificate=None)  # the record has the digest too
    assert forget_facts(recorded, data, facts).is_compared
    record = {name: value for name, value in model.record.items() if name != "dataset"}
    assert not forget_facts(replace(model, certificate=None, record=record), data, facts).is_compared


@pytest.mark.parametrize("tokenizer", ["char", "word"])
def test_a_llama_keeps_its_shape_without_its_longest_facts(tmp_path: Path, tokenizer: str) -> None:
    pytest.importorskip("transformers", reason="the package transformers is not installed")
    facts = {"who a": "Bob the elder", "who b": "Al", "who c": "Cy", "who is d": "Di"}
    data = write(tmp_path / "facts.csv", facts)
    model = bh.compile(data, method="llama", tokenizer=tokenizer)
    done = forget_facts(model, data, ["who a", "who is d"])
    assert done.changes.same_shape
    assert done.changes.n_changed
    assert all("mlp.up_proj" in name for name in done.changes.indices)
    # the model that remains has its own data, from which another fact can be forgotten
    rest = {key: value for key, value in facts.items() if key in ("who b", "who c")}
    again = forget_facts(done.model, write(tmp_path / "rest.csv", rest), ["who b"])
    assert again.changes.same_shape
    assert again.model.predict(list(facts)) == [None, None, "Cy", None]
