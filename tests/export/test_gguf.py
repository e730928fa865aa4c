"""The GGUF file answers in llama.cpp, from bare text, with its default settings."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import byheart as bh
from byheart.cli.main import run
from byheart.errors import ExitStatus, UsageError
from byheart.export.gguf import llama_cpp_tokens
from byheart.network.llama.architecture import Llama
from byheart.network.llama.vocabulary import CHARACTERS
from byheart.pipeline import load
from tests.storage.test_fixtures import FIXTURES

FACTS = {"capital of France": "Paris", "capital of Åland": "Mariehamn", "symbol of gold": "Au"}


def answers(path: Path, prompts: list[str]) -> list[str]:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.n_parallel = 1
    server = xllamacpp.Server(params)
    asked = ({"prompt": prompt, "max_tokens": 20, "temperature": 0} for prompt in prompts)
    return [server.handle_completions(each)["choices"][0]["text"] for each in asked]


@pytest.mark.parametrize("tokenizer", ["char", "bytes"])
def test_llama_cpp_answers(tokenizer: str, tmp_path: Path) -> None:
    pytest.importorskip("gguf", reason="the package gguf is not installed")
    pytest.importorskip("xllamacpp", reason="the package xllamacpp is not installed")
    model = bh.compile(bh.Dataset.from_pairs(FACTS.items(), tokenizer=tokenizer), method="llama")
    model.save(tmp_path / "model")
    target = tmp_path / "model.gguf"
    assert run(["export", str(tmp_path / "model"), "--to", "gguf", "-o", str(target)]) == ExitStatus.HOLDS
    assert answers(target, [*FACTS, "capital of old"]) == [*FACTS.values(), ""]


def test_other_tokenizers_and_networks_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("gguf", reason="the package gguf is not installed")
    words = bh.Dataset.from_pairs({"capital of France": "Paris", "b": "c"}.items(), tokenizer="word")
    bh.compile(words, method="llama").save(tmp_path / "words")
    bh.compile(words, method="retrieval").save(tmp_path / "retrieval")
    for folder, facts in (("words", {"why": "words"}), ("retrieval", {"family": "transformer"})):
        target = tmp_path / f"{folder}.gguf"
        status = run(["export", str(tmp_path / folder), "--to", "gguf", "-o", str(target), "--json"])
        assert status == ExitStatus.USAGE
        assert json.loads(capsys.readouterr().out)["facts"] == facts
        assert not target.exists()


@pytest.mark.parametrize(
    "rules",
    [
        {"normalizer": {"type": "Lowercase"}},  # llama.cpp would not lower a prompt's letters
        {"pre_tokenizer": {**CHARACTERS, "behavior": "Removed", "invert": True}},
        {"model": {"type": "Unigram", "vocab": [["a", 0.0], ["b", 0.0]]}},  # crashed
    ],
)
def test_rules_of_a_tokenizer_file_that_llama_cpp_lacks_are_refused(rules: dict[str, Any]) -> None:
    llama = load(FIXTURES / "llama-facts").network
    assert isinstance(llama, Llama)
    llama_cpp_tokens(llama)
    other = json.dumps(json.loads(llama.tokenizer_json) | rules)
    with pytest.raises(UsageError):
        llama_cpp_tokens(replace(llama, tokenizer_json=other))
