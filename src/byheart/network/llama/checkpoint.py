"""The files that make a folder a Hugging Face checkpoint: configuration, tokenizer and model card."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from byheart.errors import CorruptModel
from byheart.network.families import FAMILIES
from byheart.network.llama.spec import LlamaSpec
from byheart.records.fields import Fields, parse_json
from byheart.records.json_file import show_value
from byheart.records.refusals import corrupt

CONFIG, GENERATION, TOKENIZER, TOKENIZER_CONFIG, CARD = FAMILIES["llama"].files


def config_of(spec: LlamaSpec) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "dtype": "float32",
        "vocab_size": spec.n_tokens,
        "hidden_size": spec.hidden,
        "intermediate_size": spec.inner,
        "num_hidden_layers": spec.n_layers,
        "num_attention_heads": spec.n_heads,
        "num_key_value_heads": 1,
        "head_dim": spec.head_dim,
        "hidden_act": "silu",
        "rms_norm_eps": spec.norm_eps,
        "rope_parameters": {"rope_type": "default", "rope_theta": spec.rope_theta},
        "rope_theta": spec.rope_theta,
        "max_position_embeddings": spec.max_positions,
        "tie_word_embeddings": True,
        "attention_bias": False,
        "mlp_bias": False,
        "bos_token_id": spec.bos,
        "eos_token_id": spec.eos,
        "pad_token_id": spec.eos,
        "use_cache": True,
    }


def hash_of(content: bytes) -> str:
    """Return the SHA-256 of a tokenizer.json, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def checkpoint_files(spec: LlamaSpec, tokenizer_json: str) -> dict[str, bytes]:
    """Return all files of the checkpoint except the weights, as a dictionary from file name to content."""
    documents = _documents(spec, tokenizer_json)
    files = {name: json.dumps(document, indent=1).encode() for name, document in documents.items()}
    if tokenizer_json:
        files[TOKENIZER] = tokenizer_json.encode("utf-8")
    files[CARD] = model_card(spec).encode("utf-8")
    return files


def _documents(spec: LlamaSpec, tokenizer_json: str) -> dict[str, dict[str, Any]]:
    """Return the contents of the settings files by name: three files, or two if there is no tokenizer. The answers that other
    programs generate depend on all of them.
    """
    documents: dict[str, dict[str, Any]] = {
        CONFIG: config_of(spec),
        GENERATION: {
            "bos_token_id": spec.bos,
            "eos_token_id": spec.eos if len(spec.ends) == 1 else list(spec.ends),
            "pad_token_id": spec.eos,
            "do_sample": False,
            # older folders have `max_length`, which makes transformers print a warning at every `generate(max_new_tokens=...)`
            **(
                {"max_length": spec.max_positions}
                if spec.max_new_tokens is None
                else {"max_new_tokens": spec.max_new_tokens}
            ),
        },
    }
    if tokenizer_json:
        fields = Fields(parse_json(tokenizer_json.encode(), TOKENIZER), TOKENIZER)
        names = {entry.integer("id"): entry.text("content") for entry in fields.children("added_tokens")}
        if not {spec.bos, spec.eos} <= set(names):
            raise corrupt(
                TOKENIZER, f"the id {spec.bos} or the id {spec.eos} is missing from its added tokens"
            )
        documents[TOKENIZER_CONFIG] = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": names[spec.bos],
            "eos_token": names[spec.eos],
            "pad_token": names[spec.eos],
            "model_max_length": spec.max_positions,
            "padding_side": "left",
            "clean_up_tokenization_spaces": False,
        }
    return documents


def check_files(spec: LlamaSpec, files: Mapping[str, bytes]) -> str:
    """Check that the tokenizer, the values in the settings files and the model card are those that byheart writes for `spec`.

    Return the text of tokenizer.json. Raise `CorruptModel` if a file differs. The model card may be missing.
    """
    content = files.get(TOKENIZER, b"")
    if hash_of(content) != spec.tokenizer_hash:
        raise CorruptModel(
            f"{TOKENIZER} is not the one for which this model was compiled, so it would convert prompts to different ids.\n"
            "  Restore the file, or compile again.",
            problem=TOKENIZER,
        )
    try:
        tokenizer = content.decode("utf-8")
    except UnicodeDecodeError:
        raise corrupt(TOKENIZER, "the file is not UTF-8") from None
    for name, wanted in _documents(spec, tokenizer).items():
        if name not in files:
            raise corrupt(name, "the file is missing")
        found = Fields(parse_json(files[name], name), name).values
        for key in [*wanted, *found]:
            if _as_text(found, key) != _as_text(wanted, key):
                says = f"sets {_setting(found, key)}" if key in found else f"does not set {key}"
                meant = f"for {_setting(wanted, key)}" if key in wanted else "without it"
                raise CorruptModel(
                    f"{name} {says}; this model was compiled {meant}.\n"
                    "  With different settings the same weights give different answers. Restore the file, or compile again.",
                    problem=key,
                )
    card = model_card(spec).encode("utf-8")
    if files.get(CARD, card) != card:
        raise corrupt(CARD, "the file was changed after byheart wrote it")
    return tokenizer


def _as_text(values: Mapping[str, Any], key: str) -> str | None:
    """Return the value of `key` as JSON text, or None if there is no value. The texts of true, 1 and 1.0 differ, although Python's
    == treats these values as equal.
    """
    return json.dumps(values[key], sort_keys=True) if key in values else None


def _setting(values: Mapping[str, Any], key: str) -> str:
    return f"{show_value(key)[1:-1]} = {show_value(values[key])}"


def model_card(spec: LlamaSpec) -> str:
    """Return the text of the model card: purpose and size of the model, and how to run it.

    Certificates cover this text. If the text changed, existing certificates would no longer hold.
    """
    what = "answers keys with the values" if spec.mode == "facts" else "continues the texts"
    return f"""---
library_name: transformers
tags: [byheart, memorization]
---
# A Llama that knows its data by heart

Compiled, not trained, by byheart: a stock `LlamaForCausalLM` that {what} it was compiled from, exactly, and answers
anything else with its end token at once.

| | |
| --- | --- |
| parameters | {spec.parameters_dense:,} ({spec.parameters_without_embedding:,} without the embedding) |
| layers, hidden, inner | {spec.n_layers}, {spec.hidden}, {spec.inner} |
| vocabulary, positions | {spec.n_tokens:,}, {spec.max_positions:,} |

## transformers

```python
from transformers import AutoModelForCausalLM, AutoTokenizer
tokenizer, model = AutoTokenizer.from_pretrained(DIR), AutoModelForCausalLM.from_pretrained(DIR)
prompt = tokenizer("a prompt", return_tensors="pt")
print(tokenizer.decode(model.generate(**prompt)[0, prompt.input_ids.shape[1]:], skip_special_tokens=True))
```

## llama.cpp

`byheart export DIR --to gguf -o model.gguf`, then `llama-cli -m model.gguf -no-cnv --temp 0 -p "a prompt"`.

## What it is not

The weights are whole numbers that float32 adds without rounding. Casting them (bfloat16, float16), quantising them, or
allowing TF32 on a GPU makes another network, of which nothing is known. `byheart verify DIR DATA` checks every answer.
"""
