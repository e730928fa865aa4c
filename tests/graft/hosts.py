"""Tiny random hosts of every family, with a tokenizer of words, made on the spot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

SENTENCES = (
    "The capital of France is Paris . Rome Italy Where does Ann Bob Cid live ? lives in Oslo Bern secret number",
    "1 2 3 4 5 6 7 8 9 garden rain old bridge was It rained all day , and nobody had seen the for years",
)
WORDS = [word for sentence in SENTENCES for word in sentence.split()]
TEMPLATE = (
    "{% for m in messages %}<|start|>{{ m['role'] }}<|of|>{{ m['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant<|of|>{% endif %}"
)
SIZES: dict[str, Any] = {
    "hidden_size": 48,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 256,
    "rms_norm_eps": 1e-5,
}


def save_tokenizer(folder: Path) -> int:
    """Words and spaces before them, byte-level as most hosts are; the size of the vocabulary."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    texts = dict.fromkeys(
        [*WORDS, *(f"\u0120{word}" for word in WORDS), "\u0120", "user", "assistant", "system", "\u0120user"]
    )
    letters = {letter for word in texts for letter in word} | set(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {text: number for number, text in enumerate(dict.fromkeys([*sorted(letters), *texts]))}
    merges = []
    for word in list(vocabulary):
        for n in range(2, len(word) + 1):
            part = word[:n]
            if part not in vocabulary:
                vocabulary[part] = len(vocabulary)
            if (part[:-1], part[-1]) not in merges:
                merges.append((part[:-1], part[-1]))
    inner = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner,
        eos_token="<|end|>",
        pad_token="<|end|>",
        additional_special_tokens=["<|start|>", "<|of|>"],
    )
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    return len(tokenizer)


def save_host(
    folder: Path,
    family: str = "llama",
    *,
    dtype: torch.dtype = torch.float32,
    shard: str = "1GB",
    **changes: Any,
) -> Path:
    """A random host in a folder."""
    from transformers import AutoConfig, AutoModelForCausalLM

    folder.mkdir(parents=True)
    n_tokens = save_tokenizer(folder)
    torch.manual_seed(sum(map(ord, family)))
    more = {"sliding_window": None} if family == "mistral" else {}
    config = AutoConfig.for_model(
        family, **{**SIZES, "vocab_size": n_tokens, "tie_word_embeddings": True, **more, **changes}
    )
    network = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for name, weight in network.named_parameters():
            weight.copy_(torch.rand_like(weight) + 0.5 if "norm" in name else torch.randn_like(weight) * 0.1)
    network.to(dtype).save_pretrained(folder, max_shard_size=shard)
    return folder


def change_json(folder: Path, name: str, **values: object) -> None:
    """Set fields of a JSON file of a checkpoint."""
    document = json.loads((folder / name).read_text(encoding="utf-8"))
    (folder / name).write_text(json.dumps({**document, **values}), encoding="utf-8")


def nudge(folder: Path, name: str, place: int, step: int = 1) -> None:
    """Change one entry by one unit in the last place; a zero becomes the smallest number, or minus NaN."""
    tensors = load_file(folder / "model.safetensors")
    flat = tensors[name].flatten()
    flat.view(torch.int32 if flat.dtype == torch.float32 else torch.int16)[place % flat.numel()] += step
    tensors[name] = flat.view(tensors[name].shape)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
