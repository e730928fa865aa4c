"""Each family is the paper's model: sizes as printed, and outputs equal to a plain implementation's.

Plain models are those of benchmarks/measure_stacked.py, written without a model axis, tables or masks. Tolerance: outputs of
order 1 from sums of at most a few hundred products in float64 agree to 10^-12.
"""

from __future__ import annotations

import importlib.util
import math
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from byheart.errors import UsageError
from byheart.measure.families import FAMILIES, ModelConfig, complete_model, family_of
from byheart.measure.objective import answers, batch_losses, measure, total_losses
from byheart.measure.stack import Stack, make_stack
from byheart.measure.training_set import training_set_of_documents
from tests.examples import examples
from tests.measure.problems import CASES, Case, clouds, pairs, sentences, stories
from tests.refusal import refused

ROOT = Path(__file__).resolve().parents[2]
TOLERANCE = 1e-12


@pytest.fixture(scope="module")
def plain() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "measure_stacked", ROOT / "benchmarks" / "measure_stacked.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["measure_stacked"] = module
    spec.loader.exec_module(module)
    return module


def weights_of(stack: Stack) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    flat = stack.initial()
    return flat, stack.layout.unpack(flat, 0)


@pytest.mark.parametrize("form", ["table", "direct"])
def test_attention_only_is_equations_1_and_2(plain: ModuleType, form: str) -> None:
    training_set = pairs(7, 0)
    model = ModelConfig("attention-only", {"dim": 5, "head_dim": 3, "n_heads": 4}, {"form": form})
    stack = make_stack([model], [training_set], [1], dtype=torch.float64)
    flat, weights = weights_of(stack)
    net = plain.PlainAttentionOnly(7, 5, 3, 4).double()
    flatten = {name: weights[name].flatten(0, 1).T for name in ("query", "key", "value")}
    flatten["output"] = weights["output"].transpose(1, 2).flatten(0, 1)
    flatten |= {"embedding": weights["embedding"].T, "positions": weights["positions"].T}
    net.load_state_dict(flatten | {"unembedding": weights["unembedding"]})
    expected = net(torch.from_numpy(training_set.inputs.copy()))
    torch.testing.assert_close(answers(stack, flat, None)[0], expected, rtol=0, atol=TOLERANCE)


def test_one_layer_decoder_is_the_papers(plain: ModuleType) -> None:
    documents = np.random.default_rng(0).integers(0, 6, (9, 5))
    training_set = training_set_of_documents(documents, 6)
    stack = make_stack(
        [ModelConfig("one-layer-decoder", {"hidden_width": 8})], [training_set], [1], dtype=torch.float64
    )
    flat, weights = weights_of(stack)
    net = plain.PlainDecoder(6, 8, 4).double()
    state = dict(net.state_dict())
    for name in ("query", "key", "value", "output", "hidden", "logits"):
        state |= {f"{name}.weight": weights[name].T, f"{name}.bias": weights[f"{name}_bias"][0]}
    from byheart.measure.families.decoder import sinusoids

    state |= {"embedding.weight": weights["embedding"], "positions": sinusoids(4, 16)}
    net.load_state_dict(state)
    tokens = torch.from_numpy(documents)
    logits = net(tokens[:, :-1]).flatten(0, 1)
    loss = torch.nn.functional.cross_entropy(logits, tokens[:, 1:].flatten(), reduction="sum")
    # The loss over every position of every document is the weighted loss over distinct contexts.
    torch.testing.assert_close(total_losses(stack, flat)[0], loss, rtol=1e-12, atol=0)


def test_uniform_attention_is_equation_165(plain: ModuleType) -> None:
    training_set = sentences(20, 0)
    model = ModelConfig("uniform-attention", {"n_blocks": 3, "width": 2, "hidden_width": 8})
    stack = make_stack([model], [training_set], [1], dtype=torch.float64)
    flat, weights = weights_of(stack)
    net = plain.PlainUniformAttention(training_set.n_vocab, 3, 3).double()
    state = {"embedding.weight": weights["embedding"].T, "embed_out.weight": weights["embed_out"]}
    state |= {"value.weight": weights["value"], "output.weight": weights["output"]}
    for part in ("before", "after"):
        for block in range(3):
            for layer, name in ((0, "1"), (2, "2")):
                state[f"{part}.{block}.{layer}.weight"] = weights[f"{part}_w{name}"][block]
                state[f"{part}.{block}.{layer}.bias"] = weights[f"{part}_b{name}"][block, :, 0]
    net.load_state_dict(state)
    expected = net(torch.from_numpy(training_set.inputs.copy()))
    torch.testing.assert_close(answers(stack, flat, None)[0], expected, rtol=0, atol=TOLERANCE)


def test_gpt_is_causal_and_reads_the_last_token() -> None:
    training_set = stories(12, 0)
    sizes = {"dim": 8, "n_layers": 2, "n_heads": 2, "head_dim": 4, "hidden_width": 16}
    stack = make_stack([ModelConfig("gpt", sizes)], [training_set], [1], dtype=torch.float64)
    flat = stack.initial()
    before = answers(stack, flat, None)
    assert stack.inputs.tokens is not None
    beyond = torch.arange(training_set.seq_len) >= stack.inputs.lengths.unsqueeze(2)
    stack.tables["tokens"] = torch.where(
        beyond, (stack.inputs.tokens + 1) % training_set.n_vocab, stack.inputs.tokens
    )
    assert beyond.any()
    assert torch.equal(answers(stack, flat, None), before)  # what lies beyond the end is not seen
    stack.tables["tokens"] = torch.where(
        beyond, stack.inputs.tokens, (stack.inputs.tokens + 1) % training_set.n_vocab
    )
    assert not torch.equal(answers(stack, flat, None), before)


@pytest.mark.parametrize(
    ("family", "sizes", "options", "expected"),
    [
        # DPC24: 13,020 parameters at 30 heads, the number of the prototype.
        ("attention-only", {"dim": 10, "head_dim": 10, "n_heads": 30}, {}, 13_020),
        # As coded: a head costs 4 d_h², two shared maps d · d_h each where d ≠ d_h, a position d_h.
        (
            "attention-only",
            {"dim": 10, "head_dim": 5, "n_heads": 30},
            {"variant": "as-coded"},
            30 * 100 + 100 + 1010,
        ),
        (
            "attention-only",
            {"dim": 10, "head_dim": 10, "n_heads": 30},
            {"variant": "as-coded"},
            13_020,
        ),
        # One head and an MLP of w units: (d + 1) w + w d more.
        ("attention-only", {"dim": 10, "head_dim": 10, "n_heads": 1, "mlp_width": 7}, {}, 1420 + 11 * 7 + 70),
    ],
)
def test_attention_only_sizes(
    family: str, sizes: dict[str, int], options: dict[str, str], expected: int
) -> None:
    assert make_stack([ModelConfig(family, sizes, options)], [pairs(50, 0)], [0]).n_parameters(0) == expected


def test_madden_size_formula() -> None:
    training_set = stories(30, 0)
    for width in (4, 32):
        stack = make_stack([ModelConfig("one-layer-decoder", {"hidden_width": width})], [training_set], [0])
        assert stack.n_parameters(0) == (width + 17) * (training_set.n_vocab + 17) + 799


def test_kajitsuka_costs_84_parameters_per_block() -> None:
    counts = [
        make_stack([ModelConfig("uniform-attention", {"n_blocks": n})], [sentences(9, 0)], [0]).n_parameters(
            0
        )
        for n in (1, 2, 10)
    ]
    assert counts[1] - counts[0] == 84
    assert counts[2] - counts[0] == 9 * 84
    frozen = make_stack(
        [ModelConfig("uniform-attention", {"n_blocks": 1}, {"embedding": "frozen"})], [sentences(9, 0)], [0]
    )
    assert frozen.n_parameters(0) < counts[0]


@examples(200)
@given(
    st.integers(0, 10_000), st.integers(1, 40), st.sampled_from(["as-written", "as-coded", "position-first"])
)
def test_a_batch_is_the_sum_over_its_rows(seed: int, n_draws: int, variant: str) -> None:
    model = ModelConfig("attention-only", {"dim": 2, "head_dim": 2, "n_heads": 2}, {"variant": variant})
    stack = make_stack(
        [model] * 2, [pairs(4, seed), pairs(4, seed + 1)], [seed, seed + 1], dtype=torch.float64
    )
    flat = stack.initial()
    rows = torch.from_numpy(np.random.default_rng(seed).integers(0, 16, (2, n_draws)))
    logs = torch.log_softmax(answers(stack, flat, None), dim=2)
    assert stack.targets.labels is not None
    picked = logs.gather(2, stack.targets.labels.unsqueeze(2)).squeeze(2).gather(1, rows)
    torch.testing.assert_close(batch_losses(stack, flat, rows), -picked.sum(dim=1), rtol=1e-12, atol=1e-12)


def test_gradients_are_those_of_finite_differences() -> None:
    training_set = pairs(4, 0)
    model = ModelConfig("attention-only", {"dim": 2, "head_dim": 2, "n_heads": 2, "mlp_width": 3})
    stack = make_stack([model], [training_set], [0], dtype=torch.float64)
    flat = stack.initial().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: total_losses(stack, x), (flat,))
    rows = torch.tensor([[0, 3, 3, 9]])
    assert torch.autograd.gradcheck(lambda x: batch_losses(stack, x, rows), (flat,))


def test_measurements_by_hand() -> None:
    training_set = stories(20, 1)
    stack = make_stack(
        [ModelConfig("one-layer-decoder", {"hidden_width": 4})], [training_set], [0], dtype=torch.float64
    )
    flat = stack.initial()
    logs = torch.log_softmax(answers(stack, flat, None)[0], dim=1).numpy()
    chosen = logs[training_set.rows, training_set.classes]
    found = {name: float(value) for name, value in measure(stack, flat).items()}
    total = -(training_set.weights * chosen).sum()
    right = training_set.weights[logs.argmax(axis=1)[training_set.rows] == training_set.classes].sum()
    assert found["loss"] == pytest.approx(total / training_set.n_samples, rel=1e-12)
    assert found["gap"] == pytest.approx(total - training_set.entropy, rel=1e-12)
    assert found["relative_gap"] == pytest.approx(
        (total - training_set.entropy) / training_set.entropy, rel=1e-12
    )
    assert found["accuracy"] == pytest.approx(right / training_set.n_samples, rel=1e-12)


def test_every_family_is_documented_and_refuses_nonsense() -> None:
    for name, family in FAMILIES.items():
        assert family_of(name) is family
        assert family.source
        assert all(field.meaning for field in (*family.size_fields, *family.option_fields))
        with refused(UsageError, "family", name="beauty", value=3):
            complete_model(family, ModelConfig(name, {"beauty": 3}))
    given = {"dim": 2, "head_dim": 2, "n_heads": 1}
    for misplaced in (
        ModelConfig("attention-only", given, {"dim": "3"}),
        ModelConfig("attention-only", given | {"variant": 3}),
    ):
        with refused(UsageError, "value", family="attention-only"):
            complete_model(FAMILIES["attention-only"], misplaced)
    for name, sizes in (
        ("attention-only", {"dim": 2, "head_dim": 2, "n_heads": 1}),
        ("one-layer-decoder", {"hidden_width": 2}),
    ):
        with refused(UsageError, "family"):
            make_stack([ModelConfig(name, sizes)], [clouds(5, 0)], [0])
    with refused(UsageError, family="rnn"):
        family_of("rnn")


class AuthorsModel(torch.nn.Module):
    """DPC24's model in the framework's own modules: one shared map each way, the position in R^{d_h}, causal heads."""

    def __init__(self, n_vocab: int, dim: int, head_dim: int, n_heads: int, width: int) -> None:
        super().__init__()
        nn = torch.nn
        self.embedding, self.unembedding = nn.Linear(dim, n_vocab).weight, nn.Linear(dim, n_vocab, bias=False)
        self.positions = nn.Linear(head_dim, 2).weight
        self.maps = dim != head_dim
        self.compress = nn.Linear(dim, head_dim, bias=False)
        self.decompress = nn.Linear(head_dim, dim, bias=False)
        self.heads = nn.ModuleList(
            nn.MultiheadAttention(head_dim, 1, bias=False, batch_first=True) for _ in range(n_heads)
        )
        self.wide = width > 0
        self.mlp_in, self.mlp_out = nn.Linear(dim, max(width, 1)), nn.Linear(max(width, 1), dim, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        res = self.embedding[tokens]
        z = (self.compress(res) if self.maps else res) + self.positions
        mask = torch.triu(torch.ones(2, 2, dtype=torch.bool), 1)
        mixed = sum(head(z, z, z, attn_mask=mask, need_weights=False)[0] for head in self.heads)
        res = res + (self.decompress(mixed) if self.maps else mixed)
        if self.wide:
            res = res + self.mlp_out(torch.nn.functional.gelu(self.mlp_in(res)))
        return self.unembedding(res)[:, -1]


@pytest.mark.parametrize("form", ["table", "direct"])
@pytest.mark.parametrize(("dim", "head_dim", "width"), [(2, 5, 0), (7, 3, 0), (4, 4, 0), (4, 4, 6)])
def test_as_coded_is_the_framework_s_attention(dim: int, head_dim: int, width: int, form: str) -> None:
    training_set = pairs(7, 0)
    sizes = {"dim": dim, "head_dim": head_dim, "n_heads": 3, "mlp_width": width}
    model = ModelConfig("attention-only", sizes, {"form": form, "variant": "as-coded"})
    stack = make_stack([model], [training_set], [1], dtype=torch.float64)
    flat, weights = weights_of(stack)
    net = AuthorsModel(7, dim, head_dim, 3, width).double()
    state = {"embedding": weights["embedding"].T, "unembedding.weight": weights["unembedding"].T}
    state["positions"] = weights["inner_positions"].T
    for head in range(3):
        state[f"heads.{head}.in_proj_weight"] = torch.cat(
            [weights[k][head] for k in ("query", "key", "value")]
        )
        state[f"heads.{head}.out_proj.weight"] = weights["output"][head]
    if dim != head_dim:
        state |= {"compress.weight": weights["reduce"], "decompress.weight": weights["expand"]}
    if width:
        state |= {"mlp_in.weight": weights["mlp_in"], "mlp_in.bias": weights["mlp_bias"][:, 0]}
        state["mlp_out.weight"] = weights["mlp_out"]
    missing, unexpected = net.load_state_dict(state, strict=False)
    assert not unexpected
    assert all(name.startswith(("compress", "decompress", "mlp")) for name in missing)
    expected = net(torch.from_numpy(training_set.inputs.copy()))
    torch.testing.assert_close(answers(stack, flat, None)[0], expected, rtol=0, atol=TOLERANCE)


def test_as_coded_starts_where_the_framework_does() -> None:
    """Largest entries over 300 models against those of the framework's modules: both near the ends of the same interval."""
    dim, head_dim = 4, 9
    torch.manual_seed(0)
    nets = [AuthorsModel(50, dim, head_dim, 4, 0) for _ in range(50)]
    model = ModelConfig(
        "attention-only", {"dim": dim, "head_dim": head_dim, "n_heads": 4}, {"variant": "as-coded"}
    )
    stack = make_stack([model] * 50, [pairs(50, 0)] * 50, list(range(50)))
    ours = stack.layout.views(stack.initial())
    theirs = {
        "embedding": torch.stack([net.embedding for net in nets]),
        "inner_positions": torch.stack([net.positions for net in nets]),
        "query": torch.stack([head.in_proj_weight for net in nets for head in net.heads]),
        "output": torch.stack([head.out_proj.weight for net in nets for head in net.heads]),
        "reduce": torch.stack([net.compress.weight for net in nets]),
        "expand": torch.stack([net.decompress.weight for net in nets]),
        "unembedding": torch.stack([net.unembedding.weight for net in nets]),
    }
    # 900 or more uniform draws: the largest is within 2% of the end but for one time in 10^7
    for name, found in theirs.items():
        assert float(ours[name].abs().max()) == pytest.approx(float(found.detach().abs().max()), rel=0.02), (
            name
        )


def test_adding_the_position_before_the_shared_map_is_another_model() -> None:
    shapes = {
        variant: make_stack(
            [ModelConfig("attention-only", {"dim": 2, "head_dim": 5, "n_heads": 1}, {"variant": variant})],
            [pairs(5, 0)],
            [0],
        ).layout.true_shapes[0]
        for variant in ("as-coded", "position-first")
    }
    assert shapes["as-coded"]["inner_positions"] == (5, 2)
    assert shapes["position-first"]["positions"] == (2, 2)


def test_models_with_and_without_shared_maps_are_not_stacked() -> None:
    models = [
        ModelConfig("attention-only", {"dim": d, "head_dim": 3, "n_heads": 1}, {"variant": "as-coded"})
        for d in (3, 4)
    ]
    with pytest.raises(UsageError):
        make_stack(models, [pairs(5, 0)] * 2, [0, 1])


def test_frozen_attention_trains_the_hidden_layer_and_the_logits_alone() -> None:
    data = stories(12, 0)
    kinds = {
        attention: make_stack(
            [ModelConfig("one-layer-decoder", {"hidden_width": 4}, {"attention": attention})], [data], [3]
        )
        for attention in ("trained", "frozen")
    }
    assert set(kinds["frozen"].layout.names) == {"hidden", "hidden_bias", "logits", "logits_bias"}
    assert kinds["frozen"].n_parameters(0) == 4 * (16 + 1) + data.n_classes * (4 + 1)
    # the same function at the start, since each model draws all of its weights from its own seed
    first, second = (answers(stack, stack.initial(), None) for stack in kinds.values())
    torch.testing.assert_close(first, second, rtol=0, atol=0)


class _AuthorsCode(torch.nn.Module):
    """DPC24's model, written after its public history: one framework head per head, maps around them where the version has them."""

    def __init__(self, n_vocab: int, dim: int, head_dim: int, n_heads: int, width: int, variant: str) -> None:
        super().__init__()
        linear = torch.nn.Linear
        self.is_normed = variant == "layer-norm"
        has_maps = variant == "maps-always" or dim != head_dim
        self.embedding, self.unembedding = (linear(dim, n_vocab, bias=False) for _ in range(2))
        self.positions = linear(head_dim, 2, bias=False)
        self.heads = torch.nn.ModuleList(
            torch.nn.MultiheadAttention(head_dim, 1, batch_first=True, bias=False) for _ in range(n_heads)
        )
        self.reduce = linear(dim, head_dim, bias=False) if has_maps else torch.nn.Identity()
        self.expand = linear(head_dim, dim, bias=False) if has_maps else torch.nn.Identity()
        self.mlp_in, self.mlp_out = linear(dim, max(width, 1)), linear(max(width, 1), dim, bias=False)
        self.width = width

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        stream = self.embedding.weight[tokens]
        seen = self.reduce(stream)
        if self.is_normed:
            seen = (seen - seen.mean(2, keepdim=True)) / seen.std(2, correction=0, keepdim=True)
        seen = seen + self.positions.weight
        mask = torch.tensor([[False, True], [False, False]])
        stream = stream + self.expand(sum(head(seen, seen, seen, attn_mask=mask)[0] for head in self.heads))
        if self.width:
            stream = stream + self.mlp_out(torch.nn.functional.gelu(self.mlp_in(stream)))
        return self.unembedding(stream[:, 1])


@pytest.mark.parametrize("form", ["table", "direct"])
@pytest.mark.parametrize(
    ("variant", "dim", "head_dim", "width"),
    [
        ("layer-norm", 5, 5, 0),
        ("layer-norm", 5, 3, 0),
        ("maps-always", 5, 5, 0),
        ("maps-always", 4, 4, 7),
        ("maps-always", 2, 5, 0),
        ("as-coded", 5, 5, 0),
        ("as-coded", 3, 5, 0),
    ],
)
def test_versions_of_the_authors_code(variant: str, dim: int, head_dim: int, width: int, form: str) -> None:
    training_set = pairs(7, 0)
    sizes = {"dim": dim, "head_dim": head_dim, "n_heads": 3, "mlp_width": width}
    model = ModelConfig("attention-only", sizes, {"variant": variant, "form": form})
    # beside a wider model, so that every axis is padded
    wider = ModelConfig("attention-only", {**sizes, "n_heads": 4}, model.options)
    if (dim, head_dim) == (5, 5):
        wider = ModelConfig("attention-only", {**sizes, "dim": 6, "head_dim": 6}, model.options)
    stack = make_stack([model, wider], [training_set] * 2, [1, 2], dtype=torch.float64)
    flat, weights = weights_of(stack)
    net = _AuthorsCode(7, dim, head_dim, 3, width, variant).double()
    state = dict(net.state_dict())
    state |= {"embedding.weight": weights["embedding"].T, "unembedding.weight": weights["unembedding"].T}
    state["positions.weight"] = weights["inner_positions"].T
    for head in range(3):
        parts = [weights[name][head] for name in ("query", "key", "value")]
        state |= {f"heads.{head}.in_proj_weight": torch.cat(parts)}
        state |= {f"heads.{head}.out_proj.weight": weights["output"][head]}
    if "reduce" in weights:
        state |= {"reduce.weight": weights["reduce"], "expand.weight": weights["expand"]}
    if width:
        state |= {"mlp_in.weight": weights["mlp_in"], "mlp_in.bias": weights["mlp_bias"][:, 0]}
        state |= {"mlp_out.weight": weights["mlp_out"]}
    net.load_state_dict(state)
    with torch.no_grad():
        expected = net(torch.from_numpy(training_set.inputs.copy()))
    torch.testing.assert_close(answers(stack, flat, None)[0], expected, rtol=0, atol=TOLERANCE)


def test_small_normal_weights_and_zero_biases() -> None:
    model = ModelConfig("uniform-attention", {"n_blocks": 20}, {"initialisation": "normal-0.02"})
    stack = make_stack([model], [sentences(200, 0)], [1], dtype=torch.float64)
    _, weights = weights_of(stack)
    for name, weight in weights.items():
        if name.endswith(("b1", "b2")):
            assert not weight.any()
        elif weight.numel() > 300:
            # four standard errors of a standard deviation: a false alarm in about 16,000 such weights
            assert abs(float(weight.std()) / 0.02 - 1) < 4 / (2 * weight.numel()) ** 0.5


def test_an_option_that_came_later_leaves_the_keys_of_before() -> None:
    family = family_of("uniform-attention")
    plain_model = complete_model(family, ModelConfig("uniform-attention", {"n_blocks": 1}))
    named = ModelConfig("uniform-attention", {"n_blocks": 1}, {"initialisation": "framework"})
    assert complete_model(family, named) == plain_model
    assert "initialisation" not in plain_model.options


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_outputs_of_some_rows_are_rows_of_all_outputs(case: Case) -> None:
    stack = make_stack(case.models[:1], case.training_sets[:1], [0], dtype=torch.float64)
    flat, rows = stack.initial(), torch.tensor([[4, 0, 4]])
    torch.testing.assert_close(
        answers(stack, flat, rows)[0], answers(stack, flat, None)[0, rows[0]], rtol=0, atol=TOLERANCE
    )


def test_the_table_form_needs_pairs() -> None:
    model = ModelConfig("attention-only", {"dim": 2, "head_dim": 2, "n_heads": 1}, {"form": "table"})
    with refused(UsageError, form="table"):
        make_stack([model], [stories(5, 0)], [0])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_only_some_families_answer_at_the_first_token(case: Case) -> None:
    training_set = replace(case.training_sets[0], read="first")
    family = family_of(case.models[0].family)
    if "first" in family.reads:
        make_stack(case.models[:1], [training_set], [0])
    else:
        with refused(UsageError, family=family.name):
            make_stack(case.models[:1], [training_set], [0])


def test_a_diverged_model_of_values_answers_nothing_right() -> None:
    stack = make_stack([ModelConfig("uniform-attention", {"n_blocks": 1})], [clouds(20, 0)], [0])
    found = measure(stack, torch.full_like(stack.initial(), math.nan))
    assert found["accuracy"].tolist() == [0.0]
