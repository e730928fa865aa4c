"""Ground truth: setting a weight that `locate` names to zero breaks the fact, those that share the weight, and no other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import numpy as np
import pytest

import byheart as bh
from byheart.construct.retrieval import search
from byheart.data.dataset import Dataset
from byheart.data.generators import grid_vectors, random_tokens
from byheart.errors import UsageError
from byheart.inspect import lookups
from byheart.inspect.locate import locate
from byheart.inspect.stages import registers_of
from byheart.network.transformer.architecture import Transformer
from tests.inspect.ablation import Ablation

TOKENS, GRID = random_tokens(300, n_vocab=50, seed=1), grid_vectors(300, seed=2)
LABELLED_TOKENS = random_tokens(80, seq_len=4, n_vocab=20, seed=1, task="seq-to-seq")
SEVERAL_WORDS = random_tokens(300, seq_len=12, n_vocab=20, n_classes=1000, seed=1)


def skewed(n_samples: int, n_classes: int) -> Dataset:
    """Labels of which few are frequent, so that rare ones get longer codes."""
    labels = np.random.default_rng(0).zipf(1.8, n_samples) % n_classes
    return random_tokens(n_samples, n_vocab=60, seed=1).with_labels(
        labels, [str(c) for c in range(n_classes)]
    )


@contextmanager
def dual_tables() -> Iterator[None]:
    """Within the block only dual tables are built, also for little data."""
    kept = search._SEGMENTS, search._LEAST_DUAL
    search._SEGMENTS, search._LEAST_DUAL = (), 1
    search.find_layout.cache_clear()
    yield
    search._SEGMENTS, search._LEAST_DUAL = kept
    search.find_layout.cache_clear()


def ablation(data: Dataset, method: str = "retrieval", **options: object) -> Ablation:
    plain = {"reject_bits": 0} if method == "retrieval" else {}
    return Ablation(bh.compile(data, method=method, **{**plain, **options}), data)


@pytest.mark.parametrize("precision", ["float64", "float32", "exact"])
@pytest.mark.parametrize("data", [TOKENS, GRID], ids=["tokens", "grid"])
@pytest.mark.parametrize("layout", ["chain", "dual table"])
def test_every_layout_of_retrieval(layout: str, data: Dataset, precision: str) -> None:
    with dual_tables() if layout == "dual table" else nullcontext():
        model = ablation(data, precision=precision)
    assert model.model.record["notes"]["layout"] == layout
    facts = model.some(1 if precision == "exact" else 6)
    assert model.require_ground_truth(facts) > len(facts)
    assert any(location.sharing for fact in facts for location in model.found.of(fact))
    model.require_own_bits(model.found.of(facts[0])[0])


@pytest.mark.parametrize(
    ("data", "options", "says"),
    [
        (SEVERAL_WORDS, {"precision": "float32", "reject_bits": 16}, ("parts", 2)),
        (skewed(1500, 40), {}, ("rare_fields", 1)),
        (random_tokens(1500, n_vocab=60, seed=1), {"shards": 2}, ("layout", "chain")),
        (TOKENS, {"precision": "exact", "word_bits": 400}, ("layout", "chain")),
        (random_tokens(200, n_vocab=50, seed=1, task="set"), {}, ("layout", "chain")),
        (random_tokens(100, n_vocab=50, seed=1, task="seq-to-seq", min_len=3), {}, ("layout", "chain")),
    ],
    ids=["two words", "rare labels", "shards", "long exact words", "sets", "a label for each token"],
)
def test_other_forms_of_retrieval(
    data: Dataset, options: dict[str, object], says: tuple[str, object]
) -> None:
    model, (name, value) = ablation(data, **options), says
    said = model.model.record["notes"][name]
    assert (len(said) if isinstance(said, list) else said) == value
    model.require_ground_truth(model.some(2), most=6)


@pytest.mark.parametrize(
    ("n_classes", "n_limbs", "precision"),
    [
        (1000, 2, "int8"),
        (16, 1, "bfloat16"),
        pytest.param(16, 1, "int8", marks=pytest.mark.slow),
        pytest.param(1000, 2, "bfloat16", marks=pytest.mark.slow),
    ],
)
def test_weights_stored_in_few_bits(precision: str, n_classes: int, n_limbs: int) -> None:
    """A word may be spread over two weights, each with the bits of the label that it holds."""
    model = ablation(random_tokens(300, n_vocab=50, n_classes=n_classes, seed=1), precision=precision)
    notes, facts = model.model.record["notes"], model.some(4)
    network = model.model.network
    assert isinstance(network, Transformer)
    assert network.model_width == notes["slots"] + n_limbs * notes["channels"]
    names = [register.name for register in registers_of(network, model.model.record)]
    assert names[notes["slots"]] == "word 0"
    assert ("one" in names) == (precision == "bfloat16")
    assert model.require_ground_truth(facts) > len(facts)
    powers = [location.powers for fact in facts for location in model.found.of(fact)]
    assert all(len(each) <= 8 for each in powers)
    assert len({len(each) for each in powers}) == n_limbs


@pytest.mark.parametrize("precision", ["int8", pytest.param("bfloat16", marks=pytest.mark.slow)])
def test_a_table_for_each_part_of_a_label(precision: str) -> None:
    data = random_tokens(20, seq_len=3, n_vocab=12, n_classes=1 << 17, seed=1)
    model = ablation(data, precision=precision)
    notes, facts = model.model.record["notes"], model.some(1)
    assert (notes["layout"], len(notes["tables"])) == ("table for each part", notes["parts"])
    network = model.model.network
    assert isinstance(network, Transformer)
    names = [register.name for register in registers_of(network, model.model.record)]
    assert names[notes["slots"]] == "word 0"
    assert f"sum {notes['parts'] - 1}" in names
    assert model.require_ground_truth(facts) > len(facts)
    places = {location.tensor for fact in facts for location in model.found.of(fact)}
    assert places == {f"layers.{at}.{matrix}" for at in notes["tables"] for matrix in ("w1", "w2")}


def test_rare_labels_have_bits_in_every_field_they_reach() -> None:
    model = ablation(skewed(1500, 40))
    frequent, rare = (str(int(at)) for at in (np.argmin(model.before), np.argmax(model.before)))
    assert len(model.found.of(frequent)[0].powers) < len(model.found.of(rare)[0].powers)
    model.require_own_bits(model.found.of(rare)[0])


def require_joint_ground_truth(model: Ablation, facts: list[str]) -> int:
    """All weights of a fact at once: the facts that share any of them break, and the fact itself unless zeros spell its answer.

    How many facts zeros spell.
    """
    n_spelt = 0
    for fact in facts:
        own = model.found.of(fact)
        sharing = {other for location in own for other in location.sharing}
        (zeros,) = {location.zeros for location in own}
        assert model.broken_without(own) == sharing | (set() if zeros else {fact})
        n_spelt += bool(zeros)
    return n_spelt


def test_all_weights_of_a_fact_together() -> None:
    """Words of zeros mean class 0, so a fact of this class is still answered when all its words are zero."""
    model = ablation(TOKENS, reject_bits=16)
    facts = model.some(10)
    of_class_0 = [fact for fact in facts if model.before[int(fact)] == 0]
    assert require_joint_ground_truth(model, facts) == len(of_class_0)
    assert of_class_0


@pytest.mark.parametrize("data", [SEVERAL_WORDS, LABELLED_TOKENS], ids=["several words", "every token"])
def test_all_weights_of_a_fact_of_several_words_together(data: Dataset) -> None:
    # without, a fact in which some words are zero may still read its answer by chance
    model = ablation(data, reject_bits=16)
    require_joint_ground_truth(model, model.some(4))


@pytest.mark.slow
def test_200_facts_of_retrieval() -> None:
    model = ablation(random_tokens(2000, n_vocab=200, seed=3), reject_bits=16)
    facts = model.some(200)
    assert model.require_ground_truth(facts) > len(facts)
    assert 0 < require_joint_ground_truth(model, facts) < len(facts) / 4


# --- Llama ------------------------------------------------------------------------------------------------------


def llama(n_facts: int, **options: object) -> tuple[Ablation, list[tuple[str, str]]]:
    pytest.importorskip("transformers", reason="the package transformers is not installed")
    pairs = [(f"square of {number}", str(number * number)) for number in range(n_facts)]
    model = bh.compile(pairs, method="llama", **options)
    return Ablation(model, Dataset.from_pairs(pairs, tokenizer=model.memoriser.tokenizer)), pairs


@pytest.mark.parametrize("reject_bits", [16, 24])  # with 24, a second word checks each context
def test_facts_of_llama(reject_bits: int) -> None:
    model, pairs = llama(60, reject_bits=reject_bits)
    (fact, *_) = facts = model.some(3)
    model.require_ground_truth(facts, most=6)
    own = model.found.of(fact)
    assert len(own) >= 3 * len(pairs[int(fact)][1])
    assert "".join({each.position: each.answer for each in own}.values()) == pairs[int(fact)][1]
    module = model.model.module
    assert all(module.get_parameter(each.tensor)[each.index].item() == each.value for each in own)


@pytest.mark.slow
def test_200_facts_of_llama() -> None:
    model, _ = llama(400)
    facts = model.some(200)
    assert model.require_ground_truth(facts, most=1) == len(facts)
    for fact in facts:
        own = model.found.of(fact)
        assert model.broken_without(own) == {fact, *(other for each in own for other in each.sharing)}


# --- the theorem's models ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["kajitsuka-sato-2025", "kajitsuka-sato-2025-bits"])
def test_facts_of_the_theorem_share_the_words_of_their_group(method: str) -> None:
    """The weights that write the packed words of a group, zeroed, break the whole group and no other fact."""
    model = ablation(random_tokens(60, 4, 20, seed=0), method)
    for fact in model.some(4):
        group, entry = model.found.of(fact)
        assert (group.index, group.value, group.layer) == (None, None, group.last_layer)
        assert "Lemma G.3" in str(group.lemma)
        assert "Lemma G.6" in str(entry.lemma)
        assert group.layer < entry.layer < entry.last_layer < model.model.size.depth
        assert model.broken_without([group]) == {fact, *group.sharing}


def test_each_token_of_a_theorem_s_sequences_has_its_group() -> None:
    """Where every token has a label, the group of each is named, with the position of the token."""
    data = random_tokens(20, 4, 12, seed=0, task="seq-to-seq", min_len=2)
    model = ablation(data, "kajitsuka-sato-2025")
    for fact in model.some(2):
        own = model.found.of(fact)
        stop = int(data.inputs.lengths[: int(fact) + 1].sum())
        labels = data.labels[stop - int(data.inputs.lengths[int(fact)]) : stop].tolist()
        assert [each.position for each in own] == sorted([*range(len(labels))] * 2)
        assert [each.answer for each in own[::2]] == [data.label_names[label] for label in labels]
        group = own[0]
        assert model.broken_without([group]) == {fact, *group.sharing}


def test_weights_without_the_key_of_a_known_input_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that was changed answered a fact whose key its words do not hold."""
    model = bh.compile({"a": "x", "b": "y", "c": "z"}, method="kajitsuka-sato-2025-bits")
    monkeypatch.setattr(lookups, "_keys", lambda *_: [])
    with pytest.raises(UsageError):
        model.locate(["a"])


# --- as users ask -----------------------------------------------------------------------------------------------

CAPITALS = {"capital of France": "Paris", "capital of Chad": "N'Djamena", "capital of Peru": "Lima"}


def test_the_index_is_the_module_s_own() -> None:
    model = bh.compile(CAPITALS)
    module, found = model.module, model.locate(list(CAPITALS))
    assert {each.fact for each in found} == set(CAPITALS)
    for location in found:
        assert location.answer == CAPITALS[location.fact]
        assert module.get_parameter(location.tensor)[location.index].item() == location.value
        assert location.tensor.startswith(f"layers.{location.layer}.")
        assert location.to_json()["index"] == list(location.index or ())


def test_one_fact_among_others() -> None:
    model = bh.compile(CAPITALS)
    alone, among = model.locate("capital of Peru"), model.locate("capital of Peru", among=list(CAPITALS))
    assert [each.index for each in alone] == [each.index for each in among]
    assert not any(each.sharing for each in alone)
    assert {each.n_compared for each in alone} == {0}  # sharing is not known
    assert {each.n_compared for each in among} == {each.to_json()["n_compared"] for each in among} == {2}
    together = model.locate(list(CAPITALS))
    assert [each.sharing for each in among] == [each.sharing for each in together.of("capital of Peru")]


def test_only_known_inputs_are_counted_as_compared() -> None:
    model = bh.compile(CAPITALS)
    found = model.locate("capital of Peru", among=["capital of Chad", "capital of Chaf", "☃"])
    assert {each.n_compared for each in found} == {1}


@pytest.mark.parametrize("among", ["capital of Chad", None, 5, Dataset.from_pairs([("a", "b")])])
def test_inputs_that_are_not_in_a_list_are_refused(among: object) -> None:
    """A text was read character by character, and anything else ended in a traceback."""
    model = bh.compile(CAPITALS)
    with pytest.raises(UsageError) as refusal:
        model.locate("capital of Peru", among=among)  # type: ignore[arg-type]
    assert refusal.value.facts["argument"] == "among"
    with pytest.raises(UsageError):
        model.locate(5)  # type: ignore[arg-type]


def test_a_table_of_locations() -> None:
    pytest.importorskip("pandas", reason="the package pandas is not installed")
    found = bh.compile(CAPITALS).locate(list(CAPITALS))
    frame = found.frame()
    assert len(frame) == len(found) == len(list(found))
    assert list(frame["fact"].unique()) == list(CAPITALS)
    assert found[-1] == found[len(found) - 1]
    with pytest.raises(IndexError):
        found[len(found)]
    with pytest.raises(KeyError):
        found.of("nobody")


@pytest.mark.parametrize("unknown", ["capital of Atlantis", "capital of Spai", "☃"])
def test_what_the_model_does_not_know_is_refused(unknown: str) -> None:
    model = bh.compile(CAPITALS)
    with pytest.raises(UsageError) as refusal:
        model.locate([*CAPITALS, unknown])
    assert refusal.value.facts["facts"] == [unknown]


def test_no_facts_are_refused() -> None:
    model = bh.compile(bh.Dataset.from_pairs([("ab", "x"), ("ba", "y")]), method="retrieval")
    with pytest.raises(UsageError, match="at least one"):
        model.locate([], among=["ab"])


def test_other_methods_are_refused() -> None:
    model = bh.compile(CAPITALS, method="dana-2024")
    with pytest.raises(UsageError) as refusal:
        model.locate(list(CAPITALS))
    assert refusal.value.facts["method"] == "dana-2024"


@pytest.mark.parametrize(
    "change",
    [
        {"rows": None}, {"tables": [0]}, {"tables": 5}, {"sum": 10**6}, {"channels": -1}, {"parts": 9}, {"layout": "dual table"},
        {"rare_fields": 5}, {"rare_fields": [5]}, {"rare_fields": [{}]},
        {"rare_fields": [{"n_bits": 10**9, "n_planes": 1, "first": 1}]},
    ],
)  # fmt: skip
def test_notes_of_another_network_are_refused(change: dict[str, object]) -> None:
    model = bh.compile(TOKENS, method="retrieval", reject_bits=0)
    record = {**model.record, "notes": {**model.record["notes"], **change}}
    with pytest.raises(UsageError):
        locate(model.memoriser, record, TOKENS.inputs, [str(at) for at in range(TOKENS.n_samples)])
