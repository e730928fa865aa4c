"""Write a compiled Llama as a GGUF file for llama.cpp, with float32 weights and a tokenizer that adds the special
tokens to a plain prompt.

If every token is one character (or one byte) and there is nothing to merge, the SentencePiece tokenizer of llama.cpp
splits texts as byheart does. It can add one token at the beginning of a prompt and one at its end. For a model of facts,
the token that it adds at the end is the separator between a question and its answer. The token that ends an answer is
declared as "end of turn".
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from byheart.errors import UsageError
from byheart.export.gguf_file import GgufSizes, write_gguf
from byheart.files.whole_file import check_file_target
from byheart.network.llama.architecture import Llama
from byheart.network.llama.vocabulary import CHARACTERS

SPACE = "\u2581"  # the character that SentencePiece uses for a space
WHY_NOT = {
    "space": f"llama.cpp represents a space by {SPACE}, which occurs in these data",
    "words": "llama.cpp builds words from smaller tokens (SentencePiece, BPE), lower-cases them (WordPiece)"
    " or writes a space before each word (unigram)",
    "rules": "llama.cpp ignores the template of a tokenizer.json, which adds special tokens to a prompt, and it "
    "supports only a few rules for splitting texts, which it recognises by name",
}


def save_gguf(llama: Llama, path: Path) -> None:
    """Write `llama` as a GGUF file, atomically."""
    check_file_target(path)
    tokens, kinds = llama_cpp_tokens(llama)
    spec = llama.spec
    sizes = GgufSizes(
        "byheart",
        "llama",
        spec.max_positions,
        spec.hidden,
        spec.inner,
        spec.n_layers,
        spec.n_heads,
        1,
        spec.head_dim,
        spec.n_tokens,
        spec.rope_theta,
        spec.norm_eps,
    )
    write_gguf(
        path,
        sizes,
        lambda writer: _write_tokenizer(writer, llama, tokens, kinds),
        dict(spec.shapes()),
        llama.weights.__getitem__,
    )


def llama_cpp_tokens(llama: Llama) -> tuple[list[str], list[int]]:
    """Return the text and the kind (1 ordinary, 3 special, 6 byte) of every token.

    Raise `UsageError` if llama.cpp would split texts differently.
    """
    document = json.loads(llama.tokenizer_json)
    vocabulary = document["model"]["vocab"]
    special = {item["id"]: item["content"] for item in document["added_tokens"]}
    cut = document.get("pre_tokenizer") or {}
    # a vocabulary in list form has scores, and a normalizer changes texts; llama.cpp would ignore both
    is_plain = isinstance(vocabulary, dict) and document.get("normalizer") is None
    is_bytes = (
        is_plain
        and cut.get("type") == "ByteLevel"
        and cut.get("add_prefix_space") is False
        and len(vocabulary) == 256
        and not document["model"].get("merges")
    )
    is_chars = (
        is_plain
        and cut == CHARACTERS
        and all(len(word) == 1 for word, i in vocabulary.items() if i not in special)
    )
    if not (is_bytes or is_chars) or SPACE in vocabulary:
        has_words = document["model"]["type"] == "WordLevel" and cut != CHARACTERS
        why = "space" if SPACE in vocabulary else "words" if has_words else "rules"
        raise UsageError(
            f"llama.cpp has no tokenizer that splits texts like this model's: {WHY_NOT[why]}.\n"
            f"  Compile with --tokenizer bytes or, if no text contains {SPACE}, with --tokenizer char.",
            why=why,
        )
    words = {i: word for word, i in vocabulary.items()} | special
    tokens, kinds = [], []
    for i in range(llama.spec.n_tokens):
        if i in special:
            tokens.append(special[i])
            kinds.append(3)
        elif is_bytes and i != ord(" "):  # spaces are replaced before texts are split into bytes
            tokens.append(f"<0x{i:02X}>")
            kinds.append(6)
        else:
            tokens.append(SPACE if is_bytes or words[i] == " " else words[i])
            kinds.append(1)
    return tokens, kinds


def _write_tokenizer(writer: Any, llama: Llama, tokens: list[str], kinds: list[int]) -> None:
    spec = llama.spec
    asks = spec.mode == "facts"
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types(kinds)
    writer.add_bos_token_id(spec.bos)
    writer.add_eos_token_id(spec.sep if asks else spec.eos)
    writer.add_eot_token_id(spec.eos)
    for unknown in spec.ends[1:]:
        writer.add_eom_token_id(unknown)
    writer.add_unk_token_id(spec.sep + 1)
    writer.add_pad_token_id(spec.eos)
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(asks)
    writer.add_add_space_prefix(False)
