"""Tokenizer files with odd fields, and texts for them."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

from byheart.data.tokenizers import FileTokenizer
from tests.attacks.fuzz.mutation import TEXTS, mutate_document
from tests.attacks.fuzz.target import Target, Wrong

WORDS = {"[UNK]": 0, "capital": 1, "of": 2, "Chad": 3, "France": 4}
LETTERS = {letter: number for number, letter in enumerate("abcdefgh")}
WORD_LEVEL: dict[str, Any] = {
    "version": "1.0",
    "truncation": None,
    "padding": None,
    "added_tokens": [],
    "normalizer": {
        "type": "Sequence",
        "normalizers": [
            {"type": "NFC"},
            {"type": "Lowercase"},
            {"type": "Replace", "pattern": {"String": "a"}, "content": "b"},
        ],
    },
    "pre_tokenizer": {"type": "Whitespace"},
    "post_processor": None,
    "decoder": None,
    "model": {"type": "WordLevel", "vocab": WORDS, "unk_token": "[UNK]"},
}
BYTE_PAIRS = {
    **WORD_LEVEL,
    "normalizer": None,
    "pre_tokenizer": {
        "type": "Split",
        "pattern": {"Regex": "\\w+|\\s+"},
        "behavior": "Isolated",
        "invert": False,
    },
    "added_tokens": [
        {
            "id": 9,
            "content": "<x>",
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
    ],
    "decoder": {"type": "BPEDecoder", "suffix": "</w>"},
    "model": {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "vocab": {**LETTERS, "ab": 8},
        "merges": [["a", "b"]],
    },
}
UNIGRAM = {
    **WORD_LEVEL,
    "normalizer": None,
    "model": {
        "type": "Unigram",
        "unk_id": 0,
        "vocab": [["<unk>", 0.0], ["a", -1.0], ["ab", -0.5], ["b", -2.0]],
    },
}
WORD_PIECE = {
    **WORD_LEVEL,
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
    "model": {
        "type": "WordPiece",
        "unk_token": "[UNK]",
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100,
        "vocab": WORDS,
    },
}
SEEDS = (WORD_LEVEL, BYTE_PAIRS, UNIGRAM, WORD_PIECE)


class Tokenizers(Target):
    """`read`, `encode` and `decode` of a spoilt file."""

    name, share = "tokenizers", 2

    def prepare(self, folder: Path) -> None:
        for document in SEEDS:
            FileTokenizer(json.dumps(document)).encode("capital of Chad ab")

    def attack(self, random: Random, folder: Path) -> str:
        path = folder / "tokenizer.json"
        path.write_bytes(mutate_document(random.choice(SEEDS), random))
        tokenizer = FileTokenizer.read(path)
        n_ids = len(tokenizer.vocabulary)
        for text in ("capital of Chad", "ab ba", random.choice(TEXTS)):
            ids = tokenizer.encode(text)
            if any(not 0 <= i < n_ids for i in ids):
                raise Wrong(f"{text!r} has the ids {ids}, beyond {n_ids}")
            tokenizer.decode(ids)
        return "taken"
