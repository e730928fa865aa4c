"""Exact parameter counts of published models, and files that cannot be read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from byheart.bounds import read_architecture
from byheart.errors import ExitStatus, MalformedFile
from tests.examples import examples

from .architectures import BERT_BASE_UNCASED, GPT2_SMALL, LLAMA_3_8B, MIXTRAL_8X7B, PUBLISHED, T5_SMALL


@pytest.mark.parametrize(
    ("name", "config", "parameters", "active"), PUBLISHED, ids=[row[0] for row in PUBLISHED]
)
def test_counts_equal_the_published_ones(
    name: str, config: dict[str, object], parameters: int, active: int
) -> None:
    architecture = read_architecture(config)
    assert architecture.parameters == parameters
    assert architecture.active_parameters == active
    assert architecture.to_json()["parameters"] == parameters


def test_gpt2_small_by_hand() -> None:
    # d = 768. Embedding 50,257·768 = 38,597,376; positions 1,024·768 = 786,432. A block: attention 768·2,304 + 2,304
    # + 768·768 + 768 = 2,362,368; feed-forward 768·3,072 + 3,072 + 3,072·768 + 768 = 4,722,432; two norms 3,072.
    # Twelve of each, and a last norm of 1,536; the output is tied to the embedding.
    parts = {part.name: part.parameters for part in read_architecture(GPT2_SMALL).parts}
    assert parts == {
        "token embedding": 38_597_376,
        "position embedding": 786_432,
        "attention": 12 * 2_362_368,
        "feed-forward": 12 * 4_722_432,
        "normalisation": 12 * 3_072 + 1_536,
    }


def test_mixtral_by_hand() -> None:
    # a layer: attention 2·4,096² + 2·4,096·1,024 = 41,943,040; an expert 3·4,096·14,336 = 176,160,768; router 32,768
    parts = {part.name: (part.parameters, part.active) for part in read_architecture(MIXTRAL_8X7B).parts}
    assert parts["attention"] == (32 * 41_943_040,) * 2
    assert parts["experts"] == (32 * 8 * 176_160_768, 32 * 2 * 176_160_768)
    assert parts["router"] == (32 * 32_768,) * 2
    assert parts["output"] == (131_072_000,) * 2


def test_variants_change_the_count_as_they_should() -> None:
    base = read_architecture(LLAMA_3_8B).parameters
    tied = read_architecture(LLAMA_3_8B | {"tie_word_embeddings": True}).parameters
    assert base - tied == 128_256 * 4_096
    # biases on q, k, v and o: (4,096 + 2·1,024 + 4,096) a layer; on gate, up and down: (2·14,336 + 4,096)
    biased = read_architecture(LLAMA_3_8B | {"attention_bias": True}).parameters
    assert biased - base == 32 * (4_096 + 2_048 + 4_096)
    assert read_architecture(LLAMA_3_8B | {"mlp_bias": True}).parameters - base == 32 * (2 * 14_336 + 4_096)
    gated = read_architecture(T5_SMALL | {"feed_forward_proj": "gated-gelu"})
    assert gated.parameters - read_architecture(T5_SMALL).parameters == 12 * 512 * 2048
    assert gated.activation == "gelu"
    deeper = read_architecture(T5_SMALL | {"num_decoder_layers": 7}).parameters
    assert deeper - read_architecture(T5_SMALL).parameters == 4_195_840
    assert read_architecture(GPT2_SMALL | {"n_inner": None}).parameters == 124_439_808


def test_the_number_of_experts_has_two_names() -> None:
    """transformers 5 writes `num_local_experts` for this family."""
    from .architectures import QWEN3_30B_A3B

    renamed = {name: value for name, value in QWEN3_30B_A3B.items() if name != "num_experts"}
    renamed["num_local_experts"] = QWEN3_30B_A3B["num_experts"]
    assert read_architecture(renamed) == read_architecture(QWEN3_30B_A3B)


def test_layers_without_experts() -> None:
    # 48 layers with experts in every second one, layer 1 (the first of those) listed as plain: 23 have experts
    from .architectures import QWEN3_30B_A3B

    config = QWEN3_30B_A3B | {"decoder_sparse_step": 2, "mlp_only_layers": [1]}
    parts = {part.name: part.parameters for part in read_architecture(config).parts}
    assert parts["router"] == 23 * 2048 * 128
    assert parts["feed-forward"] == 25 * 3 * 2048 * 6144


def test_the_family_may_be_told_by_the_list_of_classes() -> None:
    for listed, config, count in (
        ("GPT2LMHeadModel", GPT2_SMALL, 124_439_808),
        ("LlamaForCausalLM", LLAMA_3_8B, 8_030_261_248),
        ("BertModel", BERT_BASE_UNCASED, 109_482_240),
        # without the pooler, 768² + 768 = 590,592; with a head, 768² + 3 · 768 + 30,522 = 622,650
        ("BertForMaskedLM", BERT_BASE_UNCASED, 109_514_298),
    ):
        anonymous = {key: value for key, value in config.items() if key != "model_type"}
        assert read_architecture(anonymous | {"architectures": [listed]}).parameters == count


TINY = {
    "vocab_size": 99,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "head_dim": 8,
    "num_key_value_heads": 2,
    "max_position_embeddings": 40,
}
TINY_EXPERTS = {
    "num_experts": 4,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 24,
}
TINY_CONFIGS = [
    {"model_type": "gpt2", "vocab_size": 99, "n_positions": 40, "n_embd": 32, "n_layer": 3, "n_head": 4},
    {
        "model_type": "t5",
        "vocab_size": 99,
        "d_model": 32,
        "d_kv": 8,
        "d_ff": 48,
        "num_layers": 3,
        "num_heads": 4,
    },
    *(TINY | {"model_type": name} for name in ("llama", "mistral", "qwen2", "qwen3")),
    *(TINY | {"model_type": name} for name in ("gemma", "gemma2", "gemma3_text")),
    TINY | {"model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2},
    TINY | TINY_EXPERTS | {"model_type": "qwen2_moe", "shared_expert_intermediate_size": 56},
    TINY | TINY_EXPERTS | {"model_type": "qwen3_moe"},
    *(
        TINY | {"model_type": "bert", "architectures": [name], "tie_word_embeddings": is_tied}
        for name in (
            "BertModel",
            "BertForMaskedLM",
            "BertLMHeadModel",
            "BertForNextSentencePrediction",
            "BertForPreTraining",
        )
        for is_tied in (True, False)
    ),
]


@pytest.mark.parametrize("config", TINY_CONFIGS, ids=lambda config: config["model_type"])
def test_transformers_counts_as_many_parameters_in_the_named_class(config: dict[str, object]) -> None:
    transformers = pytest.importorskip("transformers", reason="the package transformers is not installed")
    torch = pytest.importorskip("torch", reason="the package torch is not installed")
    found = read_architecture(config)
    with torch.device("meta"):
        model_class = getattr(transformers, found.counted_class)
        model = model_class(model_class.config_class(**config))
    assert sum(each.numel() for each in model.parameters()) == found.parameters


def test_other_classes_of_bert_are_counted_without_a_head() -> None:
    for listed in (["BertForTokenClassification"], ["Unknown"], [], None):
        found = read_architecture(BERT_BASE_UNCASED | {"architectures": listed})
        assert (found.counted_class, found.parameters) == ("BertModel", 109_482_240)


def refusal(config: object) -> MalformedFile:
    with pytest.raises(MalformedFile) as caught:
        read_architecture(config)
    assert caught.value.exit_status == ExitStatus.OUTSIDE
    return caught.value


def test_missing_keys_are_all_named() -> None:
    error = refusal({"model_type": "llama", "hidden_size": 64, "vocab_size": None})
    assert error.facts["missing"] == (
        "vocab_size",
        "intermediate_size",
        "num_hidden_layers",
        "num_attention_heads",
    )
    assert "vocab_size, intermediate_size, num_hidden_layers, num_attention_heads" in str(error)
    assert "It has: hidden_size, model_type, vocab_size" in str(error)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({}, "no key `model_type`"),
        ({"architectures": ["PhiForCausalLM"]}, "no key `model_type`"),
        (
            {"model_type": "mamba"},
            "'mamba', which byheart does not support.\n  Known values of model_type: bert, gemma",
        ),
        ({"model_type": ["gpt2"]}, "['gpt2'], which byheart does not support"),
        (
            GPT2_SMALL | {"n_embd": "768"},
            '`n_embd` is "768"; it must be a whole number from 1',
        ),
        (GPT2_SMALL | {"n_layer": 0}, "`n_layer` is 0"),
        (GPT2_SMALL | {"n_layer": True}, "`n_layer` is true"),
        (GPT2_SMALL | {"n_layer": 12.0}, "`n_layer` is 12.0"),
        (GPT2_SMALL | {"n_layer": 1 << 60}, "`n_layer` is 1152921504606846976"),
        (GPT2_SMALL | {"n_head": 7}, "`n_head` = 7 does not divide `n_embd` = 768"),
        (
            GPT2_SMALL | {"tie_word_embeddings": "yes"},
            '`tie_word_embeddings` is "yes"; it must be true or false',
        ),
        (GPT2_SMALL | {"activation_function": 3}, "`activation_function` is 3; it must be a text"),
        (GPT2_SMALL | {"add_cross_attention": True}, "does not count the parameters of cross-attention"),
        (LLAMA_3_8B | {"num_key_value_heads": 5}, "`num_key_value_heads` = 5 does not divide"),
        (
            MIXTRAL_8X7B | {"num_experts_per_tok": 9},
            "num_experts_per_tok = 9 is more than num_local_experts = 8",
        ),
        (BERT_BASE_UNCASED | {"position_embedding_type": "relative_key"}, "not 'absolute'"),
        (["gpt2"], "its type is list"),
    ],
)
def test_what_cannot_be_read_is_said_in_the_files_own_words(config: object, words: str) -> None:
    assert words in str(refusal(config))


values = st.one_of(st.none(), st.booleans(), st.integers(-5, 10**20), st.floats(), st.text(max_size=5))


@given(st.sampled_from([row[1] for row in PUBLISHED]), st.data())
@examples(200)
def test_a_spoilt_file_is_counted_or_refused_never_worse(
    config: dict[str, object], data: st.DataObject
) -> None:
    key = data.draw(st.sampled_from(sorted(config)))
    spoilt = config | {key: data.draw(values | st.lists(values, max_size=2))}
    try:
        assert read_architecture(spoilt).parameters > 0
    except MalformedFile as error:
        assert str(error)  # noqa: PT017 - either outcome is right, a traceback of another kind is not
