"""A question's way: the numbers are those of the network, and the stages cover every layer."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import byheart as bh
from byheart.construct.registry import names as method_names
from byheart.construct.retrieval.layout import SLOTS
from byheart.data.generators import random_tokens
from byheart.errors import UnknownToken, UsageError
from byheart.inspect import trace
from byheart.inspect.residual_stream import count_values, output_of, snapshots
from byheart.inspect.stages import registers_of, stages_of
from byheart.model import Model
from byheart.network.transformer.architecture import Precision, Transformer
from byheart.web.trace import draw_trace
from tests.construct.contract import example_of
from tests.refusal import refused

FACTS = [
    ("capital of France", "Paris"),
    ("capital of Japan", "Tokyo"),
    ("capital of Peru", "Lima"),
    ("river of Egypt", "Nile"),
]

FIXTURES = Path(__file__).parents[1] / "storage" / "fixtures"


@pytest.fixture(scope="module", params=["retrieval", "kajitsuka-sato-2025", "kajitsuka-sato-2025-bits"])
def model(request: pytest.FixtureRequest) -> Model:
    return bh.compile(bh.Dataset.from_pairs(FACTS), method=request.param)


def test_the_trace_ends_in_the_answer(model: Model) -> None:
    for question, answer in FACTS:
        found = draw_trace(model, question)
        assert found["answer"] == answer
        assert found["output"][-1] == model.memoriser.label_names.index(answer) + 1
        assert "".join(token["text"] for token in found["tokens"]) == question
        json.dumps(found, allow_nan=False)


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
def test_numbers_of_every_precision_are_read_as_an_answer(precision: Precision) -> None:
    model = bh.compile(bh.Dataset.from_pairs(FACTS), method="retrieval", precision=precision)
    assert [model.trace(question).answer for question, _ in FACTS] == [answer for _, answer in FACTS]


def test_a_token_has_no_values_after_it_is_dropped(model: Model) -> None:
    found = model.trace("capital of Japan")
    n_tokens, last = len(found.tokens), len(found.layers) - 1
    n_whole = sum(len(each.stream) == n_tokens for each in (found.entrance, *found.layers))
    assert 1 < n_whole <= last
    register = found.registers[0].name
    assert found.values(register, n_tokens - 1) == found.values(register)
    assert len(found.values(register)) == last + 2
    for token in (0, -2):
        assert len(found.values(register, token)) == n_whole
        with refused(UsageError, layer=last, token=token):
            found.state(last, token)
    for token in (n_tokens, -n_tokens - 1):
        with refused(UsageError, token=token, n_tokens=n_tokens):
            found.values(register, token)


def test_a_layer_that_does_not_exist_is_refused(model: Model) -> None:
    """A layer past the end ended in an IndexError, and layer -2 was the last but one."""
    found = model.trace("capital of Japan")
    n_layers = len(found.layers)
    assert found.behind(-1) is found.entrance
    assert found.behind(n_layers - 1) is found.layers[-1]
    for layer in (-2, n_layers):
        with refused(UsageError, layer=layer, n_layers=n_layers):
            found.state(layer)


def test_the_stages_cover_every_layer_once(model: Model) -> None:
    assert isinstance(model.network, Transformer)
    stages = stages_of(model.network, model.record)
    layers = [at for stage in stages for at in range(stage.first, stage.last + 1)]
    assert layers == list(range(-1, len(model.network.layers)))
    assert len(registers_of(model.network, model.record)) == model.network.model_width


def test_known_constructions_have_stages_of_their_own(model: Model) -> None:
    assert isinstance(model.network, Transformer)
    kinds = {stage.kind for stage in stages_of(model.network, model.record)}
    assert kinds >= (
        {"table", "sum", "peel", "label"} if model.record["method"] == "retrieval" else {"lookup", "extract"}
    )


def test_a_record_that_does_not_fit_its_network_is_not_believed(model: Model) -> None:
    assert isinstance(model.network, Transformer)
    record = {**model.record, "notes": {**model.record["notes"], "groups_second": 999, "sum": 10**6}}
    kinds = {stage.kind for stage in stages_of(model.network, record)}
    assert kinds <= {"codes", "feed-forward", "mix", "pool"}


def test_a_text_the_model_cannot_be_asked_is_refused(model: Model) -> None:
    with refused(UnknownToken, token="S", text="Straße"):
        draw_trace(model, "Straße")
    with pytest.raises(UsageError):
        draw_trace(model, "capital of France" * 20)


def test_the_tokens_of_a_long_question_count_as_values(monkeypatch: pytest.MonkeyPatch) -> None:
    model = bh.compile(bh.Dataset.from_pairs(FACTS), method="retrieval")
    network = model.network
    assert isinstance(network, Transformer)
    n_values = count_values(network, network.seq_len, last_only=True)
    assert n_values > len(network.layers) * network.model_width
    monkeypatch.setattr(trace, "MOST_VALUES", n_values)
    model.trace("capital of Peru")
    monkeypatch.setattr(trace, "MOST_VALUES", n_values - 1)
    with pytest.raises(UsageError, match="too large"):
        model.trace("capital of Peru")


def test_label_bits_spell_the_answer() -> None:
    model = bh.compile(bh.Dataset.from_pairs(FACTS), method="retrieval", precision="float64", reject_bits=8)
    found = draw_trace(model, "capital of Peru")
    (bits,) = (stage["details"]["bits"] for stage in found["stages"] if stage["kind"] == "label")
    assert int("".join(map(str, bits)), 2) == model.memoriser.label_names.index("Lima")


@pytest.mark.parametrize("name", method_names())
def test_every_transformer_is_followed_to_its_own_answer(name: str) -> None:
    """For the example of each construction: the last stream gives what the verifier's evaluators give."""
    example = example_of(name)
    model = bh.compile(example.data, method=name, **dict(example.options))
    if not isinstance(model.network, Transformer):
        with pytest.raises(UsageError):
            draw_trace(model, "x")
        return
    memoriser = model.memoriser
    encoded = memoriser.encode(example.data.inputs)[:5]
    answers = memoriser.answer(encoded, backend="exact" if model.precision == "exact" else "module")
    last_only = memoriser.answers_last_token_only
    for sequence, answer in zip(encoded, answers, strict=True):
        found = list(snapshots(model.network, sequence, last_only=last_only))
        n_values, last = sum(each.stream.size for each in found), found[-1]
        n_counted = count_values(model.network, len(sequence), last_only=last_only)
        assert n_values == n_counted or (n_values < n_counted and any(each.kind == "pool" for each in found))
        outputs = output_of(model.network, last.stream)
        rounded = [round(float(value)) - 1 for value in outputs]
        assert rounded[-np.size(answer) :] == np.atleast_1d(answer).tolist()


@pytest.mark.parametrize(
    ("notes", "before_words"),
    [
        ({"layout": "dual table", "slots": 8}, [*SLOTS, "digit 0", "digit 1", "digit 2", "digit 3"]),
        # as saved before the role shared a register
        ({"layout": "dual table"}, [*SLOTS, "role", "digit 0", "digit 1", "digit 2"]),
        ({"layout": "twin"}, [*SLOTS, "role", "digit 0", "digit 1", "digit 2"]),  # its name in older models
    ],
)
def test_the_registers_of_a_dual_table_have_their_names(
    notes: dict[str, object], before_words: list[str]
) -> None:
    network = Transformer(np.eye(10), (), np.ones((1, 10)), 1)
    record = {"method": "retrieval", "notes": {**notes, "channels": 2}}
    names = [register.name for register in registers_of(network, record)]
    assert names == [*before_words, "word 0", "word 1"]


def test_what_rare_labels_add_is_a_stage_of_its_own() -> None:
    labels = np.random.default_rng(0).zipf(1.8, 2000) % 30
    data = random_tokens(2000, n_vocab=60, seed=1).with_labels(labels, [str(c) for c in range(30)])
    model = bh.compile(data, method="retrieval", precision="float64", reject_bits=0)
    kinds = [stage.kind for stage in stages_of(model.network, model.record)]
    assert kinds[-2:] == ["label", "rare"]
    assert "rare" in kinds[:-2]
    for name in ("rare_layers", "rare_fields"):  # what no compilation writes is not followed
        notes = {**model.record["notes"], name: 5}
        assert {
            stage.kind for stage in stages_of(model.network, {**model.record, "notes": notes})
        }.isdisjoint({"label"})


def test_a_llama_is_followed_through_its_answer() -> None:
    """Every stream is, number for number, the hidden state that transformers computes in float32."""
    pytest.importorskip("transformers", reason="the package transformers is not installed")
    import torch

    from byheart.network.llama.architecture import Llama
    from byheart.network.llama.stock import transformers_model

    model = bh.compile(dict(FACTS), method="llama")
    assert isinstance(model.network, Llama)
    for question, answer in FACTS:
        found = model.trace(question)
        assert found.answer == answer
        assert question + answer in "".join(t.text for t in found.tokens if t.kind == "token")
        ids = torch.tensor([[token.id for token in found.tokens]])
        with torch.no_grad():
            *before, _ = transformers_model(model.network)(ids, output_hidden_states=True).hidden_states
        # the last hidden state is normed
        assert len(before) == len(found.layers)
        for stream, state in zip((found.entrance, *found.layers), before, strict=False):
            assert (stream.stream == state[0].double().numpy()).all()
        assert found.output[: len(ids[0]) - 1][-len(answer) :].tolist() == ids[0, -len(answer) :].tolist()
    layers = [at for stage in found.stages for at in range(stage.first, stage.last + 1)]
    assert layers == list(range(-1, len(found.layers)))
    assert found.values("first token", 0)[0] == 1
    assert found.channels["first token"] == found.channels["channel is 2"]
    behind = found.state(found.stages[-2].last - 1)
    assert sum(value for name, value in behind.items() if name.startswith("channel is ")) == 1
    (tables,) = (stage for stage in found.stages if stage.kind == "table")
    rows = [found.behind(at).active for at in range(tables.first, tables.last + 1)]
    assert sum(map(len, rows)) >= 3  # one row of each of three tables
    assert model.trace("capital of Egypt").answer is None
    with refused(UnknownToken):
        model.trace("☃")


def test_the_page_says_that_a_llama_is_traced_in_python() -> None:
    with pytest.raises(UsageError) as caught:
        draw_trace(bh.load(FIXTURES / "llama-facts"), "capital of France")
    assert caught.value.facts == {"family": "llama"}
