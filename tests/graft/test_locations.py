"""Where a fact lives: setting the weight that is named to zero takes exactly that answer away."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
import torch

from byheart.errors import UsageError
from byheart.graft.contexts import Fact
from byheart.graft.locations import locate
from byheart.graft.recall import load_network, wrong_answers
from byheart.graft.rows import read_rows
from byheart.graft.texts import Asking, facts_of, load_tokenizer
from byheart.graft.workflow import graft
from byheart.process.progress import silent


def wrong_rows(network: Any, tokenizer: Any, facts: list[Fact]) -> list[int]:
    """The rows that are answered wrongly if nothing comes before the key."""
    return sorted({each.row for each in wrong_answers(network, tokenizer, facts, "", silent)})


@pytest.fixture(scope="module")
def stored(grafted: Path, facts: Path) -> list[Fact]:
    tokenizer = load_tokenizer(grafted)
    return facts_of(tokenizer, read_rows(facts, tokenizer, Asking()))


def test_each_weight_holds_its_fact_and_no_other(grafted: Path, facts: Path, stored: list[Fact]) -> None:
    network, tokenizer = load_network(grafted, "cpu"), load_tokenizer(grafted)
    with facts.open(encoding="utf-8") as file:
        keys = [row["key"] for row in csv.DictReader(file)]
    found = locate(grafted, keys)
    assert {each.fact for each in found} == set(keys)
    for row, key in enumerate(keys):
        first = next(each for each in found if each.fact == key and each.position == 0)
        weight = network.get_parameter(first.tensor)
        assert first.index is not None
        assert weight[first.index].item() == first.value
        with torch.no_grad():
            weight[first.index] = 0
        assert wrong_rows(network, tokenizer, stored) == [row]
        with torch.no_grad():
            weight[first.index] = first.value
    assert wrong_rows(network, tokenizer, stored) == []


def test_a_key_that_ends_another_shares_its_units(tmp_path: Path, host: Path) -> None:
    data = tmp_path / "facts.csv"
    data.write_text("key,value\nFrance is,Rome.\nThe capital of France is,Paris.\n", encoding="utf-8")
    graft(host, data, tmp_path / "graft")
    longer = [each for each in locate(tmp_path / "graft", "The capital of France is") if each.position == 0]
    # both answers begin with a space, so the units of "France is" alone add it, with and without a space before the key
    assert [each.sharing for each in longer] == [("France is",)] * 2
    both = locate(tmp_path / "graft", ["The capital of France is", "France is"])
    assert {name for each in both for name in each.sharing} == {"The capital of France is", "France is"}


NESTED = """key,value
France is,Rome.
capital of France is,Paris.
The capital of France is,Rome.
The capital of Italy is,Rome.
Ann is,Bob is 3.
"""


def test_only_the_facts_that_are_named_can_be_changed(tmp_path: Path, host: Path) -> None:
    """`sharing` named only facts that were passed in, so none if one fact was asked for."""
    data = tmp_path / "facts.csv"
    data.write_text(NESTED, encoding="utf-8")
    graft(host, data, tmp_path / "graft")
    tokenizer, network = load_tokenizer(tmp_path / "graft"), load_network(tmp_path / "graft", "cpu")
    rows = read_rows(data, tokenizer, Asking())
    facts = facts_of(tokenizer, rows)
    shared = {}
    for row in rows:
        found = locate(tmp_path / "graft", row.key)
        shared[row.key] = {name for each in found for name in each.sharing}
        for each in found:
            weight = network.get_parameter(each.tensor)
            assert each.index is not None
            with torch.no_grad():
                weight[each.index] = 0
            wrong = {rows[number].key for number in wrong_rows(network, tokenizer, facts)}
            with torch.no_grad():
                weight[each.index] = each.value
            assert wrong
            assert wrong <= {row.key, *each.sharing}
    longer = {"capital of France is", "The capital of France is"}
    assert longer <= shared["France is"]
    assert shared["The capital of Italy is"] == shared["Ann is"] == set()


def test_a_key_within_the_answer_to_another_is_named_if_it_is_asked_for(tmp_path: Path, host: Path) -> None:
    """The weights are the same as without this key. It was not named even if it was asked for."""
    data = tmp_path / "facts.csv"
    data.write_text("key,value\nrain was,old bridge.\nrain was old,bridge.\n", encoding="utf-8")
    graft(host, data, tmp_path / "graft")
    both = locate(tmp_path / "graft", ["rain was", "rain was old"])
    shorter = sorted((each.position, each.sharing) for each in both if each.fact == "rain was")
    assert (shorter[0][1], shorter[-1][1]) == ((), ("rain was old",))
    assert {name for each in both if each.fact == "rain was old" for name in each.sharing} == {"rain was"}
    assert {each.sharing for each in locate(tmp_path / "graft", "rain was")} == {()}


def test_facts_that_share_a_unit_are_named_by_their_keys_in_every_format(tmp_path: Path, host: Path) -> None:
    data = tmp_path / "facts.csv"
    data.write_text("key,value,chat\nwas,Rome.,no\nold was,Paris.,no\nold was,Bern.,yes\nrain,2,yes\n")
    graft(host, data, tmp_path / "graft", Asking(chat_column="chat"))
    named = {name for each in locate(tmp_path / "graft", "was") for name in each.sharing}
    assert named == {"old was"}
    data.write_text("key,value\nwas,Rome.\nold was,Paris.\n")
    graft(host, data, tmp_path / "asked", Asking(template="{input} :"))
    named = {name for each in locate(tmp_path / "asked", "was") for name in each.sharing}
    assert named == {"old was"}


def test_what_is_not_stored_is_refused(grafted: Path) -> None:
    with pytest.raises(UsageError) as caught:
        locate(grafted, ["The capital of France is", "Where does Ann live ?"])
    assert caught.value.facts["facts"] == ["Where does Ann live ?"]


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("chunk", [1, 3, 64])
def test_prompts_may_come_in_chunks(grafted: Path, stored: list[Fact], attention: str, chunk: int) -> None:
    """With the cache, a few tokens at a time: the logits of the last place are those of the whole prompt."""
    network = load_network(grafted, "cpu")
    network.set_attn_implementation(attention)
    for fact in stored:
        prompt = torch.tensor([[5, 6, 7, *fact.tokens[: fact.n_key]]])
        cache = None
        with torch.no_grad():
            for part in prompt.split(chunk, dim=1):
                out = network(part, past_key_values=cache, use_cache=True)
                cache = out.past_key_values
        assert out.logits[0, -1].argmax() == fact.tokens[fact.n_key]


def test_padding_on_the_left_changes_nothing(grafted: Path, stored: list[Fact]) -> None:
    """Batches of prompts of all lengths, and the same with ten places of padding before the longest."""
    network = load_network(grafted, "cpu")
    prompts = [fact.tokens[: fact.n_key] for fact in stored]
    width = max(map(len, prompts)) + 10
    ids = torch.tensor([[3] * (width - len(prompt)) + list(prompt) for prompt in prompts])
    mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    for attention in ("eager", "sdpa"):
        network.set_attn_implementation(attention)
        said = network.generate(
            ids, attention_mask=mask, max_new_tokens=1, do_sample=False, pad_token_id=3, eos_token_id=None
        )[:, -1]
        assert said.tolist() == [fact.tokens[fact.n_key] for fact in stored]
