"""Write the tokenizer of a grafted checkpoint for llama.cpp, copied from the host's GGUF file or converted from a
tokenizer.json.

Before merging, llama.cpp splits a text by one of its built-in sets of rules, which is chosen by name. A tokenizer.json is accepted
only if its rules are exactly those of GPT-2, SmolLM, Llama 3 or Qwen2, which are among these sets. Any other tokenizer.json is
refused, because different rules would give different tokens. llama.cpp does not apply the normalisation (NFC) of Qwen2, so a text
that it would change may still be split differently.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from byheart.errors import UsageError
from byheart.graft.contents import REMEDY
from byheart.graft.gguf_host import opened_by_gguf
from byheart.records.fields import Fields

LLAMA_3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n"
    r"\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n"
    r"]*|\s*[\r\n"
    r"]+|\s+(?!\S)|\s+"
)
QWEN_2 = LLAMA_3.replace(r"\p{N}{1,3}", r"\p{N}")
ORDINARY, CONTROL, USER_DEFINED, UNUSED = 1, 3, 4, 5  # kinds of tokens, by their numbers in llama.cpp


def cutting_rule(document: Mapping[str, Any]) -> str | None:
    """Return the name that llama.cpp has for the splitting rules of a tokenizer.json.

    Only the rules of GPT-2, SmolLM, Llama 3 and Qwen2 are recognised. Return None for all others.
    """
    model, normalizer = document.get("model") or {}, document.get("normalizer")
    if model.get("type") != "BPE" or model.get("byte_fallback") or model.get("dropout"):
        return None
    steps = document.get("pre_tokenizer") or {}
    steps = steps.get("pretokenizers", []) if steps.get("type") == "Sequence" else [steps]
    if not steps or steps[-1].get("type") != "ByteLevel" or steps[-1].get("add_prefix_space"):
        return None
    by_words = steps[-1].get("use_regex", True)
    before = [_rule(step) for step in steps[:-1]]
    plain = normalizer is None and not model.get("ignore_merges")
    if by_words and plain:
        return {(): "gpt-2", ("digits",): "smollm"}.get(tuple(before))
    if not by_words and before == [LLAMA_3] and normalizer is None and model.get("ignore_merges"):
        return "llama-bpe"
    composed = normalizer is None or normalizer == {"type": "NFC"}
    if not by_words and before == [QWEN_2] and composed and not model.get("ignore_merges"):
        return "qwen2"
    return None


def _rule(step: Mapping[str, Any]) -> str:
    if step.get("type") == "Digits" and step.get("individual_digits"):
        return "digits"
    if step.get("type") == "Split" and step.get("behavior") == "Isolated" and not step.get("invert"):
        return str((step.get("pattern") or {}).get("Regex"))
    return "unknown"


def write_tokenizer_of_gguf(writer: Any, source: Path) -> None:
    """Copy all fields about the tokenizer from the GGUF file `source` to `writer`, which writes another GGUF file."""
    from gguf import GGUFValueType

    with opened_by_gguf(source) as reader:
        for name, field in reader.fields.items():
            if name.startswith("tokenizer."):
                if field.types[0] == GGUFValueType.ARRAY:
                    writer.add_array(name, field.contents())
                else:
                    writer.add_key_value(name, field.contents(), field.types[0])


def write_tokenizer_of_folder(writer: Any, folder: Path, tokenizer: Any, config: Mapping[str, Any]) -> None:
    """Convert the tokenizer.json of a folder to the GGUF fields that llama.cpp reads.

    Raise `UsageError` if the folder has no tokenizer.json, or if `cutting_rule` does not recognise its splitting rules.
    """
    file = folder / "tokenizer.json"
    document = Fields.read(file, REMEDY).values if file.is_file() else {}
    rule = cutting_rule(document)
    if rule is None:
        raise UsageError(
            f"the tokenizer cannot be converted for llama.cpp: {file} is missing, or it splits texts by other "
            "rules than those of GPT-2, SmolLM, Llama 3 and Qwen2.\n"
            "  Graft the host's GGUF file instead: its tokenizer is copied.",
            path=str(file),
        )
    texts = {number: text for text, number in document["model"]["vocab"].items()}
    kinds = dict.fromkeys(texts, ORDINARY)
    for item in document.get("added_tokens", ()):
        texts[item["id"]] = item["content"]
        kinds[item["id"]] = CONTROL if item.get("special") else USER_DEFINED
    size = int(config["vocab_size"])
    merges = [pair if isinstance(pair, str) else " ".join(pair) for pair in document["model"]["merges"]]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(rule)
    writer.add_token_list([texts.get(number, f"[PAD{number}]") for number in range(size)])
    writer.add_token_types([kinds.get(number, UNUSED) for number in range(size)])
    writer.add_token_merges(merges)
    ends = config.get("eos_token_id", tokenizer.eos_token_id)
    ends = ends if isinstance(ends, list) else [tokenizer.eos_token_id if ends is None else ends]
    if ends[0] is not None:
        writer.add_eos_token_id(ends[0])
    for other in ends[1:2]:
        writer.add_eot_token_id(other)
    for name in ("bos", "pad"):
        number = getattr(tokenizer, f"{name}_token_id")
        if number is not None:
            getattr(writer, f"add_{name}_token_id")(number)
    begins = tokenizer("").input_ids[:1]
    writer.add_add_bos_token(bool(begins) and begins[0] == tokenizer.bos_token_id)
    writer.add_add_space_prefix(False)
    if getattr(tokenizer, "chat_template", None):
        writer.add_chat_template(tokenizer.chat_template)
