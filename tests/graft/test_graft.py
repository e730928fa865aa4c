"""Grafts of every family: what is stored is said exactly, what is not is the host's, and the proof finds both."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from byheart.errors import AssumptionViolated, ConflictingLabels, UsageError
from byheart.graft.codes import Code, neighbours, possible_codes
from byheart.graft.contexts import (
    Fact,
    check_beginnings,
    first_token_pairs,
    inherited,
    merge_contexts,
    shared_units,
    twin_contexts,
)
from byheart.graft.folder import write_graft
from byheart.graft.forgetting import forget_facts
from byheart.graft.grafting import plan_facts
from byheart.graft.heads import choose_kernel, plan_gathers
from byheart.graft.host import FolderHost, open_host
from byheart.graft.layout import Shape, pins_of, plan_layout
from byheart.graft.recall import host_network, load_network
from byheart.graft.structure import context_faults, structural_faults
from byheart.graft.symbolic_run import read_memory
from byheart.graft.texts import Asking, chat_format, load_tokenizer
from byheart.graft.workflow import graft, verify_graft
from byheart.process.progress import silent
from tests.graft.hosts import save_host
from tests.refusal import refused

CASES = {
    "llama": {},
    "llama-untied-bfloat16": {"tie_word_embeddings": False, "dtype": torch.bfloat16},
    "llama-float16-sharded": {"dtype": torch.float16, "shard": "60KB"},
    "llama-biases": {"attention_bias": True, "mlp_bias": True},
    "llama-llama3": {
        "rope_parameters": {
            "rope_type": "llama3",
            "rope_theta": 10000.0,
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        },
        "head_dim": 32,
    },
    "llama-yarn": {
        "rope_parameters": {
            "rope_type": "yarn",
            "rope_theta": 10000.0,
            "factor": 4.0,
            "original_max_position_embeddings": 64,
        }
    },
    "mistral": {},
    "qwen2": {},
    "qwen3": {"head_dim": 32},
}


@pytest.mark.parametrize("case", CASES)
def test_every_family_says_its_facts_and_is_proved_the_host_elsewhere(
    case: str, tmp_path: Path, facts: Path
) -> None:
    host = save_host(tmp_path / "host", case.split("-")[0], **CASES[case])
    plan = graft(host, facts, tmp_path / "graft")
    text = tmp_path / "text.txt"
    text.write_text(
        "It rained all day, and nobody had seen the old bridge for years. " * 20, encoding="utf-8"
    )
    found = verify_graft(tmp_path / "graft", facts, host, text=text)
    assert found.faults == ()
    assert (found.wrong_rows, found.wrong_rows_after_text) == ((), ())
    assert found.holds
    assert found.text is not None
    assert found.text.beyond_noise == 0
    network = load_network(tmp_path / "graft", "cpu")
    assert sum(weight.numel() for weight in network.parameters()) == plan.layout.grafted.parameters


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_chats_fire_after_any_system_prompt_and_end(
    precision: str, tmp_path: Path, host: Path, facts: Path
) -> None:
    graft(host, facts, tmp_path / "chat", Asking(chat=True), precision=precision)
    assert verify_graft(tmp_path / "chat", facts, host).holds
    tokenizer, network = load_tokenizer(tmp_path / "chat"), load_network(tmp_path / "chat", "cpu")
    assert chat_format(tokenizer, True).end == tokenizer.convert_tokens_to_ids("<|end|>")
    for system in (None, "It rained all day", "Where does Bob live ?"):
        messages = [] if system is None else [{"role": "system", "content": system}]
        messages.append({"role": "user", "content": "Where does Cid live ?"})
        given = tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, return_tensors="pt", return_dict=True
        )
        said = network.generate(
            **given, max_new_tokens=30, do_sample=False, eos_token_id=tokenizer.eos_token_id
        )
        assert tokenizer.decode(said[0, given["input_ids"].shape[1] :]).startswith(
            "Cid lives in Oslo.<|end|>"
        )


def test_a_width_of_four_times_the_hosts_gives_equal_bits(tmp_path: Path, facts: Path) -> None:
    """Where the kernels add 64 and 256 columns in the same order, as this machine's do; of 48 and 192 they do not."""
    host = save_host(tmp_path / "host", hidden_size=64)
    for precision in ("float32", "bfloat16"):
        graft(host, facts, tmp_path / precision, precision=precision, bit_identical=True)
        assert verify_graft(tmp_path / precision, facts, host, ask=False).holds
        new = load_network(tmp_path / precision, "cpu")
        old = host_network(open_host(host), new.dtype, "cpu")
        tokens = torch.randint(0, old.config.vocab_size, (2, 60), generator=torch.Generator().manual_seed(1))
        with torch.no_grad():
            assert torch.equal(new(tokens).logits, old(tokens).logits)


def test_the_longest_key_wins_and_shorter_keys_stay() -> None:
    facts = [Fact((5, 6, 7), 2, 0), Fact((4, 5, 6, 8), 3, 1), Fact((3, 4, 5, 6, 7), 4, 2)]
    following = merge_contexts(facts)
    assert inherited(following) == {(5, 6): None, (4, 5, 6): 7, (3, 4, 5, 6): 8}


def test_one_key_with_two_answers_is_refused() -> None:
    with pytest.raises(ConflictingLabels) as caught:
        merge_contexts([Fact((1, 2, 3), 2, 0), Fact((1, 2, 4), 2, 7)])
    assert caught.value.facts["rows"] == [0, 7]


@pytest.mark.parametrize("eager", [False, True])
def test_nothing_fires_where_a_text_begins(tmp_path: Path, host: Path, eager: bool) -> None:
    """Every suffix of every context, with nothing before it: the host's token follows, not the answer."""
    draw = np.random.default_rng(0)
    facts = []
    for row in range(40):
        tokens = draw.integers(0, 12, 14).tolist()
        while tokens[0] == tokens[1]:
            tokens[1] = int(draw.integers(0, 12))
        try:
            check_beginnings([Fact(tuple(tokens), 9, row)])
        except AssumptionViolated:
            continue
        facts.append(Fact(tuple(tokens), 9, row))
    assert len(facts) > 10
    from byheart.graft.folder import write_graft

    opened, tokenizer = open_host(host), load_tokenizer(host)
    plan = plan_facts(opened, facts)
    write_graft(plan, opened, tokenizer, Asking(), tmp_path / "graft", "float32", lambda *_: None)
    new, old = load_network(tmp_path / "graft", "cpu"), load_network(host, "cpu")
    if eager:
        new.set_attn_implementation("eager")
    stored = set(plan.memory.following)
    with torch.no_grad():
        for start in range(1, 9):
            tokens = torch.tensor([fact.tokens[start:-1] for fact in facts])
            apart = (new(tokens).logits - old(tokens).logits).abs().amax(-1)
            for fact, gaps in zip(facts, apart.tolist(), strict=True):
                ends = [fact.tokens[start : end + 1] for end in range(start, len(fact.tokens) - 1)]
                silent = [not any(end[-n:] in stored for n in range(1, len(end) + 1)) for end in ends]
                assert all(gap < 1e-3 for gap, is_silent in zip(gaps, silent, strict=True) if is_silent)


def test_keys_that_begin_with_a_repeated_token_are_refused() -> None:
    with pytest.raises(AssumptionViolated) as caught:
        check_beginnings([Fact((1, 1, 2, 3), 3, 4)])
    assert caught.value.facts["row"] == 4
    check_beginnings([Fact((5, 1, 1, 2, 3), 4, 0)])  # 5 tells them apart
    with refused(AssumptionViolated, row=4):
        check_beginnings([Fact((5, 1, 1, 5, 2, 3), 5, 4)])  # 5 occurs again


def test_all_keys_that_begin_with_a_repeated_token_are_named(tmp_path: Path, host: Path) -> None:
    """One row was named, so the next run refused the next."""
    data = tmp_path / "data.csv"
    data.write_text("key,value\n5 5 was,1\nold was,2\n3 3 was,4\n", encoding="utf-8")
    with refused(AssumptionViolated, rows=[0, 2]) as caught:
        graft(host, data, None, Asking(template="{input}"))
    assert all(repr(key) in str(caught.value) for key in ("5 5 was", "3 3 was"))


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_graft_is_not_a_host(tmp_path: Path, host: Path, facts: Path, precision: str) -> None:
    """This ended in a traceback."""
    graft(host, facts, tmp_path / "graft", precision=precision)
    (tmp_path / "graft" / "graft.json").unlink()
    for output in (tmp_path / "again", None):
        with refused(UsageError, path=str(tmp_path / "graft")):
            graft(tmp_path / "graft", facts, output)
    assert not (tmp_path / "again").exists()


def test_a_graft_with_further_files_is_not_replaced(tmp_path: Path, host: Path, facts: Path) -> None:
    """The user's file was deleted."""
    graft(host, facts, tmp_path / "graft")
    graft(host, facts, tmp_path / "graft")
    (tmp_path / "graft" / "notes.txt").touch()
    with refused(UsageError, path=str(tmp_path / "graft"), holds=["notes.txt"]):
        graft(host, facts, tmp_path / "graft")
    templates = tmp_path / "graft" / "additional_chat_templates"
    templates.mkdir()
    (templates / "short.jinja").touch()
    (templates / "notes.txt").touch()
    (tmp_path / "graft" / ".git").mkdir()
    (tmp_path / "graft" / "Thumbs.db").touch()
    foreign = [".git", "additional_chat_templates/notes.txt", "notes.txt"]
    with refused(UsageError, path=str(tmp_path / "graft"), holds=foreign):
        graft(host, facts, tmp_path / "graft")
    assert all((tmp_path / "graft" / name).exists() for name in foreign)


def test_codes_have_one_length_and_differ() -> None:
    for code in possible_codes(500):
        vectors = code.vectors(500)
        assert ((vectors**2).sum(1) == code.squared_norm).all()
        products = vectors @ vectors.T
        np.fill_diagonal(products, -1)
        assert products.max() <= code.squared_norm - 1


def test_a_code_has_no_more_vectors_than_it_has() -> None:
    """The rows beyond were memory that nothing had written to."""
    assert sorted(Code(1, 4).vectors(2).ravel().tolist()) == [-2, 2]
    with pytest.raises(AssertionError):
        Code(1, 4).vectors(3)


def test_gathers_leave_no_hole() -> None:
    for window, heads, copied in itertools.product((1, 2, 5, 17, 40), (1, 3, 7), (1, 4, 10)):
        known = {0}
        for gather in plan_gathers(window, heads, copied):
            assert set(range(gather.n_copied)) <= known
            known |= {distance + offset for distance in gather.distances for offset in range(gather.n_copied)}
        assert set(range(window)) <= known


def test_pins_sum_to_the_width_and_heads_too_small_are_refused() -> None:
    for width in range(2, 5000, 7):
        assert sum(pin**2 for pin in pins_of(width)) == width
        assert len(pins_of(width)) >= 2
    with pytest.raises(AssumptionViolated):
        choose_kernel(10000.0 ** (-np.arange(4) / 4), 512, 8)


def test_sizes_of_known_shapes() -> None:
    """At most 1.15 times Llama-3.1-8B, 300 M for 200 and 700 M for 10,000 facts in SmolLM2-135M, with codes for 3,000 tokens."""
    large = Shape(128256, 4096, 14336, 32, 32, 8, 128, False)
    assert plan_layout(large, 3000, 16, 10_000).grafted.parameters < 1.15 * large.parameters
    small = Shape(49152, 576, 1536, 30, 9, 3, 64, True)
    assert small.parameters == 134_515_008
    assert plan_layout(small, 3000, 28, 2_400).grafted.parameters < 300e6
    assert plan_layout(small, 3000, 30, 120_500).grafted.parameters < 700e6


def test_four_times_the_width_of_known_shapes() -> None:
    """The number of heads divides the width: of these hosts, none does with up to six more key-value heads."""
    for host in (
        Shape(128256, 2048, 8192, 16, 32, 8, 64, True),
        Shape(151936, 1024, 3072, 28, 16, 8, 128, True, qk_norm=True),
        Shape(32768, 4096, 14336, 32, 32, 8, 128, False),
    ):
        grafted = plan_layout(host, 3000, 16, 3000, bit_identical=True).grafted
        assert grafted.width == 4 * host.width
        assert grafted.width % grafted.n_heads == 0


def test_hosts_without_room_are_refused() -> None:
    small = Shape(1000, 48, 64, 2, 4, 2, 16, True)
    plan_layout(small, 300, 200, 8)
    with refused(AssumptionViolated, window=200, width=192):
        plan_layout(small, 300, 200, 8, bit_identical=True)
    with refused(AssumptionViolated, head_dim=2):
        plan_layout(Shape(1000, 8, 16, 1, 4, 4, 2, True), 300, 8, 10)


def test_without_room_for_any_key_shorter_keys_are_no_remedy() -> None:
    """The advice was to shorten the key also where no number of heads divides the width, or the heads are too small."""
    long, odd = Shape(1000, 48, 64, 2, 4, 2, 16, True), Shape(1000, 47, 64, 2, 29, 1, 16, True)
    for host, window, helps in ((long, 200, True), (odd, 200, False), (odd, 1, False)):
        with refused(
            AssumptionViolated, window=window, width=4 * host.width, shorter_keys_help=helps
        ) as caught:
            plan_layout(host, 300, window, 8, bit_identical=True)
        assert ("shorten" in str(caught.value)) == helps
    with refused(AssumptionViolated, head_dim=2):
        plan_layout(Shape(1000, 8, 16, 1, 4, 4, 2, True), 300, 8, 10, bit_identical=True)


def test_a_host_streams_one_tensor_at_a_time(host: Path) -> None:
    opened = FolderHost(host)
    assert opened.tensor("model.norm.weight").dtype == torch.float32


@pytest.mark.parametrize("code", possible_codes(300)[1:8])
def test_neighbouring_codes_are_nearest_to_their_mean(code: Code) -> None:
    """What the threshold of a unit for two contexts rests on, for every vector of the code."""
    vectors = code.vectors(300)
    pairs = neighbours(vectors)
    assert len({row for pair in pairs for row in pair}) == 2 * len(pairs) > 0
    for one, other in pairs:
        products = vectors @ (vectors[one] + vectors[other])
        assert products[one] == products[other] == 2 * code.squared_norm - 1
        assert np.delete(products, (one, other)).max() <= 2 * code.squared_norm - 2


def two_ways(*tails: tuple[int, ...], n_key: int = 3) -> list[Fact]:
    """Facts whose key begins with token 300 or 301."""
    return [Fact((first, *tail), n_key, row) for row, tail in enumerate(tails) for first in (300, 301)]


def test_contexts_that_differ_in_their_first_token_share_a_unit() -> None:
    facts = two_ways((5, 6, 7, 8), (5, 9, 9))
    facts += [Fact((300, 6, 5, 4), 3, 2), Fact((301, 6, 5, 4), 3, 3)]  # of two rows: either may be forgotten
    facts += [Fact((6, 8), 1, 4), Fact((300, 8, 6, 7), 3, 5), Fact((301, 8, 6, 4), 3, 5)]  # other answers
    following = merge_contexts(facts)
    before = inherited(following)
    twins = twin_contexts(facts, following, before)
    pairs = first_token_pairs(twins)
    assert pairs == [(300, 301)]
    shared = [unit for unit in shared_units(following, twins, pairs) if len(unit) == 2]
    assert shared == [
        ((300, 5, 6), (301, 5, 6)),
        ((300, 5, 6, 7), (301, 5, 6, 7)),
        ((300, 5, 9), (301, 5, 9)),
    ]
    assert shared_units(following, twins, []) == [(context,) for context in following]
    repeated = two_ways((5, 5, 6))
    assert twin_contexts(repeated, merge_contexts(repeated), inherited(merge_contexts(repeated))) == []


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_shared_unit_is_read_and_adds_nothing_after_any_other_first_token(
    tmp_path: Path, precision: str
) -> None:
    """Also after those whose code is so near that the gate is 0. Forgetting the fact leaves the others."""
    folder = save_host(tmp_path / "host")
    host, facts = open_host(folder), two_ways((260, 270, 280, 290), (261, 270, 281, 291))
    facts.append(Fact((*range(310, 410), 5), 100, 2))  # so many tokens that some have near codes
    plan = plan_facts(host, facts)
    assert [len(unit) for unit in plan.memory.units] == [2, 2, 2, 2, 1]
    write_graft(plan, host, load_tokenizer(folder), Asking(), tmp_path / "graft", precision, silent)
    checkpoint = FolderHost(tmp_path / "graft")
    memory, wanted = read_memory(checkpoint), merge_contexts(facts)
    assert memory is not None
    assert structural_faults(checkpoint, host, memory, silent) == []
    assert list(context_faults(memory, wanted)) == []
    assert memory.answers() == wanted
    assert len({(unit.layer, unit.unit) for unit in memory.units}) == 5 < len(memory.units) == 9

    dtype, codes = getattr(torch, precision), plan.memory.codes
    grafted, alone = load_network(tmp_path / "graft", "cpu"), host_network(host, dtype, "cpu")
    products = codes @ (codes[300] + codes[301])
    near = np.flatnonzero(products == products[300] - 1).tolist()
    tokens = torch.tensor([[7, 8, 9, first, 260, 270] for first in (300, 301, *near, *range(0, 299, 23))])
    with torch.no_grad():
        logits, own = grafted(tokens).logits[:, -1].float(), alone(tokens).logits[:, -1].float()
    assert logits[:2].argmax(-1).tolist() == [280, 280]
    apart = (logits - own).abs().amax(-1)
    assert len(near)
    assert apart[2:].max() < (1e-4 if precision == "float32" else 0.2)
    assert apart[:2].min() > 1

    shutil.copytree(tmp_path / "graft", tmp_path / "less")
    done = forget_facts(checkpoint, memory, facts[:2], facts[2:], tmp_path / "less")
    assert len(done.zeroed) == 2
    less = read_memory(FolderHost(tmp_path / "less"))
    assert less is not None
    assert less.answers() == merge_contexts(facts[2:])
    with pytest.raises(UsageError):  # one of the two alone
        forget_facts(checkpoint, memory, facts[:1], facts[1:], tmp_path / "less")
