"""Where a fact lives: setting the weight that is named to zero takes exactly that answer away."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
import torch

from byheart.errors import UsageError
from byheart.graft.contexts import Fact
from byheart.graft.locations import locate
from byheart.graft.recall import load_network, wrong_facts
from byheart.graft.rows import read_rows
from byheart.graft.texts import Asking, facts_of, load_tokenizer
from byheart.graft.workflow import graft
from byheart.process.progress import silent


@pytest.fixture(scope="module")
def stored(grafted: Path, facts: Path) -> list[Fact]:
    tokenizer = load_tokenizer(grafted)
    return facts_of(tokenizer, read_rows(facts, tokenizer, Asking()))


def test_each_weight_holds_its_fact_and_no_other(grafted: Path, facts: Path, stored: list[Fact]) -> None:
    network = load_network(grafted, "cpu")
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
        assert wrong_facts(network, stored, [], silent) == [row]
        with torch.no_grad():
            weight[first.index] = first.value
    assert wrong_facts(network, stored, [], silent) == []


def test_a_key_that_ends_another_shares_its_units(tmp_path: Path, host: Path) -> None:
    data = tmp_path / "facts.csv"
    data.write_text("key,value\nFrance is,Rome.\nThe capital of France is,Paris.\n", encoding="utf-8")
    graft(host, data, tmp_path / "graft")
    longer = [each for each in locate(tmp_path / "graft", "The capital of France is") if each.position == 0]
    assert len(longer) > len({"with", "without a space before it"})  # the units of "France is" fire there too
    both = locate(tmp_path / "graft", ["The capital of France is", "France is"])
    assert {name for each in both for name in each.sharing} == {"The capital of France is", "France is"}


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
