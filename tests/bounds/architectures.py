"""Architecture files of published models, written from their public facts, with the published counts."""

from __future__ import annotations

GPT2_SMALL = {
    "model_type": "gpt2",
    "vocab_size": 50257,
    "n_positions": 1024,
    "n_embd": 768,
    "n_layer": 12,
    "n_head": 12,
    "activation_function": "gelu_new",
}
LLAMA_2_7B = {
    "model_type": "llama",
    "vocab_size": 32000,
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "max_position_embeddings": 4096,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
}
LLAMA_3_8B = LLAMA_2_7B | {
    "vocab_size": 128256,
    "intermediate_size": 14336,
    "num_key_value_heads": 8,
    "max_position_embeddings": 8192,
}
MISTRAL_7B = {
    "model_type": "mistral",
    "vocab_size": 32000,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 32768,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
}
MIXTRAL_8X7B = MISTRAL_7B | {"model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2}
QWEN2_7B = {
    "model_type": "qwen2",
    "vocab_size": 152064,
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
}
QWEN3_8B = {
    "model_type": "qwen3",
    "vocab_size": 151936,
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "attention_bias": False,
    "tie_word_embeddings": False,
}
QWEN3_30B_A3B = QWEN3_8B | {
    "model_type": "qwen3_moe",
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_hidden_layers": 48,
    "num_key_value_heads": 4,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
}
QWEN15_MOE_A2_7B = {
    "model_type": "qwen2_moe",
    "vocab_size": 151936,
    "hidden_size": 2048,
    "intermediate_size": 5632,
    "moe_intermediate_size": 1408,
    "shared_expert_intermediate_size": 5632,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "num_experts": 60,
    "num_experts_per_tok": 4,
    "decoder_sparse_step": 1,
    "tie_word_embeddings": False,
}
GEMMA_2B = {
    "model_type": "gemma",
    "vocab_size": 256000,
    "hidden_size": 2048,
    "intermediate_size": 16384,
    "num_hidden_layers": 18,
    "num_attention_heads": 8,
    "num_key_value_heads": 1,
    "head_dim": 256,
    "hidden_act": "gelu",
}
GEMMA_2_2B = GEMMA_2B | {
    "model_type": "gemma2",
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "num_hidden_layers": 26,
    "num_key_value_heads": 4,
}
T5_SMALL = {
    "model_type": "t5",
    "vocab_size": 32128,
    "d_model": 512,
    "d_kv": 64,
    "d_ff": 2048,
    "num_layers": 6,
    "num_heads": 8,
    "relative_attention_num_buckets": 32,
}
T5_BASE = T5_SMALL | {"d_model": 768, "d_ff": 3072, "num_layers": 12, "num_heads": 12}
BERT_BASE_UNCASED = {
    "model_type": "bert",
    "vocab_size": 30522,
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "hidden_act": "gelu",
    "position_embedding_type": "absolute",
}

# name, file, all parameters as published, those active for one token (published rounded: 12.9B, 3.3B, 2.7B)
PUBLISHED = [
    ("GPT-2 small", GPT2_SMALL, 124_439_808, 124_439_808),
    ("Llama-2-7B", LLAMA_2_7B, 6_738_415_616, 6_738_415_616),
    ("Llama-3-8B", LLAMA_3_8B, 8_030_261_248, 8_030_261_248),
    ("Mistral-7B-v0.1", MISTRAL_7B, 7_241_732_096, 7_241_732_096),
    ("Mixtral-8x7B", MIXTRAL_8X7B, 46_702_792_704, 12_879_925_248),
    ("Qwen2-7B", QWEN2_7B, 7_615_616_512, 7_615_616_512),
    ("Qwen3-8B", QWEN3_8B, 8_190_735_360, 8_190_735_360),
    ("Qwen3-30B-A3B", QWEN3_30B_A3B, 30_532_122_624, 3_353_032_704),
    ("Qwen1.5-MoE-A2.7B", QWEN15_MOE_A2_7B, 14_315_784_192, 2_689_173_504),
    ("Gemma-2B", GEMMA_2B, 2_506_172_416, 2_506_172_416),
    ("Gemma-2-2B", GEMMA_2_2B, 2_614_341_888, 2_614_341_888),
    ("T5-small", T5_SMALL, 60_506_624, 60_506_624),
    ("T5-base", T5_BASE, 222_903_552, 222_903_552),
    ("BERT-base-uncased", BERT_BASE_UNCASED, 109_482_240, 109_482_240),
]
