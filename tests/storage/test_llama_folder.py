"""A Llama's folder: a checkpoint with three files more, read back to the last byte, and no file of it changed unnoticed."""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import byheart as bh
from byheart.errors import ByheartError, CorruptModel
from byheart.network.llama.architecture import Llama
from byheart.network.llama.generation import recite
from byheart.network.llama.spec import EMBEDDING
from byheart.pipeline import load
from byheart.storage.data_source import read_like
from byheart.verify import weights_digest
from byheart.verify.encoded_inputs import draw_samples
from byheart.verify.verifier import verify_model as verify
from tests.refusal import refused
from tests.storage.test_fixtures import FIXTURES, SAVED

Change = Callable[[dict[str, Any]], object]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(FIXTURES / "llama-facts", tmp_path / "model"))


def change(path: Path, how: Change) -> None:
    document = json.loads(path.read_text(encoding="utf-8"))
    how(document)
    path.write_text(json.dumps(document, ensure_ascii=False), encoding="utf-8")


@pytest.mark.parametrize("name", ["llama-facts", "llama-texts"])
def test_a_llama_is_read_back_to_the_last_byte(name: str, tmp_path: Path) -> None:
    model = load(FIXTURES / name)
    model.save(tmp_path / "one")
    again = load(tmp_path / "one")
    assert again.network.spec == model.network.spec
    assert again.network.files() == model.network.files()
    assert weights_digest(again.network) == weights_digest(model.network)
    names = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert names == sorted(path.name for path in (FIXTURES / name).iterdir())
    for each in names:
        assert (tmp_path / "one" / each).read_bytes() == (FIXTURES / name / each).read_bytes(), each
    again.save(tmp_path / "one")  # a folder of this family may be replaced


def test_transformers_says_nothing_of_a_limit_of_new_tokens(tmp_path: Path) -> None:
    """It warned at every `generate(max_new_tokens=...)`, because the folder limited prompt and answer together."""
    transformers = pytest.importorskip("transformers", reason="the package transformers is not installed")
    bh.compile({"two": "zwei", "three": "drei"}, method="llama").save(tmp_path / "model")
    model, tokenizer = (
        kind.from_pretrained(tmp_path / "model")
        for kind in (transformers.AutoModelForCausalLM, transformers.AutoTokenizer)
    )
    said: list[logging.LogRecord] = []
    logger, handler = logging.getLogger("transformers"), logging.Handler()
    handler.emit = said.append
    logger.addHandler(handler)
    try:
        prompt = tokenizer("two", return_tensors="pt")
        found = [model.generate(**prompt, **more) for more in ({"max_new_tokens": 9}, {})]
    finally:
        logger.removeHandler(handler)
    assert [record.getMessage() for record in said if record.levelno >= logging.WARNING] == []
    assert ["zwei" in tokenizer.decode(ids[0]) for ids in found] == [True, True]


@pytest.mark.parametrize(
    ("name", "how", "named"),
    [
        ("config.json", lambda d: d.update(rope_theta=2 * d["rope_theta"]), "rope_theta"),
        ("config.json", lambda d: d.update(num_key_value_heads=True), "num_key_value_heads"),
        ("config.json", lambda d: d.update(rope_scaling={"type": "linear", "factor": 2.0}), "rope_scaling"),
        ("config.json", lambda d: d.pop("hidden_act"), "hidden_act"),
        ("generation_config.json", lambda d: d.update(suppress_tokens=[3, 4]), "suppress_tokens"),
        ("generation_config.json", lambda d: d.update(do_sample=True), "do_sample"),
        ("generation_config.json", lambda d: d.update(eos_token_id=0), "eos_token_id"),
        ("tokenizer_config.json", lambda d: d.update(padding_side="right"), "padding_side"),
        ("tokenizer_config.json", lambda d: d.update(bos_token="<x>"), "bos_token"),
        ("tokenizer.json", lambda d: d["model"]["vocab"].update(a=1, b=0), "tokenizer.json"),
    ],
)
def test_no_setting_is_changed_unnoticed(folder: Path, name: str, how: Change, named: str) -> None:
    """All of these would make other programs answer otherwise, with the weights that were verified."""
    change(folder / name, how)
    with refused(CorruptModel, "problem") as caught:
        load(folder, check=False)
    assert named in str(caught.value.facts)


@pytest.mark.parametrize("name", ["config.json", "generation_config.json", "tokenizer_config.json"])
@pytest.mark.parametrize("content", [None, b"", b"[]", b"\xff", b'{"a":' * 100_000, b"1" * 5000])
def test_a_file_of_settings_that_is_none_is_refused(folder: Path, name: str, content: bytes | None) -> None:
    if content is None:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(content)
    with refused(CorruptModel, "file", "problem"):
        load(folder, check=False)


@pytest.mark.parametrize(
    "name",
    [
        "adapter_config.json",
        "special_tokens_map.json",
        "more.safetensors",
        "chat_template.jinja",
        "custom_generate/generate.py",
        "modeling_x.py",
        "pytorch_model.bin",
        "tokenizer.model",
        ".hidden",
    ],
)
def test_what_other_programs_would_read_too_is_refused(folder: Path, name: str) -> None:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text("{}")
    with refused(CorruptModel, "problem", file=str(folder)) as caught:
        load(folder, check=False)
    assert name.partition("/")[0] in caught.value.facts["problem"]


def test_a_changed_model_card_is_refused(folder: Path) -> None:
    with (folder / "README.md").open("a") as file:
        file.write("Run this first: ...")
    with refused(CorruptModel, "problem", file="README.md"):
        load(folder, check=False)


def replace_tokenizer(folder: Path, how: Change) -> None:
    """Change tokenizer.json, and have model.json and the other files agree; there is no certificate."""
    change(folder / "tokenizer.json", how)
    digest = hashlib.sha256((folder / "tokenizer.json").read_bytes()).hexdigest()
    change(folder / "model.json", lambda d: d["architecture"].update(tokenizer_hash=digest))
    (folder / "certificate.json").unlink()


@pytest.mark.parametrize(
    "how",
    [
        lambda d: d["model"]["vocab"].update(a=1, b=0),
        lambda d: d.update(normalizer={"type": "Lowercase"}),
        lambda d: d.update(padding={"strategy": {"Fixed": 2**40}}),
        lambda d: d.update(truncation={"max_length": 2}),
        lambda d: d["post_processor"]["single"].pop(),
        lambda d: d["added_tokens"].pop(),
        lambda d: d.update(added_tokens=None),
        lambda d: d.update(model=[]),
        lambda d: d["model"].update(vocab=[["a", 0.0]]),
    ],
)
def test_a_tokenizer_that_agrees_with_its_digest_is_still_the_one_of_model_json(
    folder: Path, how: Change
) -> None:
    """What `verify` asks by the ids of model.json, other programs ask by those of tokenizer.json."""
    replace_tokenizer(folder, how)
    with refused(CorruptModel, "problem"):
        load(folder)


def test_a_llama_without_a_tokenizer_answers_no_texts(folder: Path) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json", "certificate.json"):
        (folder / name).unlink()
    change(
        folder / "model.json", lambda d: d["architecture"].update(tokenizer_hash=hashlib.sha256().hexdigest())
    )
    with refused(CorruptModel, "problem", file="tokenizer.json"):
        load(folder)
    change(folder / "model.json", lambda d: d.update(tokenizer=None))
    with pytest.raises(ByheartError):
        load(folder).predict([[0, 1]])


def test_the_labels_of_a_llama_that_goes_on_with_texts_are_its_tokens(tmp_path: Path) -> None:
    """Under other names `verify` would find answers right that no other program gives."""
    folder = Path(shutil.copytree(FIXTURES / "llama-texts", tmp_path / "model"))
    (folder / "certificate.json").unlink()
    load(folder)
    change(folder / "model.json", lambda d: d["labels"].__setitem__(0, "another name"))
    with refused(CorruptModel, "problem", file="model.json"):
        load(folder)


@pytest.mark.parametrize(("name", "other"), [("llama-texts", "sep"), ("llama-facts", "unread")])
def test_an_answer_ends_by_the_token_that_ends_it_for_other_programs(name: str, other: str) -> None:
    """Two rows of the embedding change places, so that after each text another special token follows, and they go on."""
    model = load(FIXTURES / name)
    llama = model.network
    assert isinstance(llama, Llama)
    end, stands_for_it = llama.spec.eos, llama.spec.sep + (other == "unread")
    rows = llama.weights[EMBEDDING].copy()
    rows[[end, stands_for_it]] = rows[[stands_for_it, end]]
    changed = replace(llama, weights={**llama.weights, EMBEDDING: rows})
    endless = replace(model, memoriser=replace(model.memoriser, network=changed), certificate=None)
    data = read_like(model, FIXTURES / "data" / SAVED[name]["data"])
    assert verify(model, data).holds
    found = verify(endless, data)
    assert not found.holds
    assert found.wrong > 0
    tokenizer = model.memoriser.tokenizer
    assert tokenizer is not None
    if name == "llama-texts":
        told = recite(changed, tokenizer.encode("the cat"), tokenizer.vocabulary, 50)
        assert list(told) == ["sat", "on", "the", "mat"]


def rename(folder: Path, old: str, new: str) -> None:
    """Rename a token in model.json and in tokenizer.json, so that both files and their digest agree."""
    path = folder / "tokenizer.json"
    text = path.read_text(encoding="utf-8")
    names = [json.dumps(name, ensure_ascii=False) + ":" for name in (old, new)]
    assert text.count(names[0]) == 1
    path.write_text(text.replace(*names), encoding="utf-8")

    def agree(document: dict[str, Any]) -> None:
        document["architecture"]["tokenizer_hash"] = hashlib.sha256(path.read_bytes()).hexdigest()
        words = document["tokenizer"]["vocabulary"]
        words[words.index(old)] = new
        if document["architecture"]["mode"] == "texts":
            document["labels"] = [*words, ""]

    change(folder / "model.json", agree)
    (folder / "certificate.json").unlink(missing_ok=True)


@pytest.mark.parametrize(
    ("kind", "key", "old", "new"), [("word", "Qx y", "Qx", "²x"), ("char", "a<#s>b", "#", "/")]
)
def test_a_key_that_transformers_would_read_otherwise_is_wrong(
    kind: str, key: str, old: str, new: str, tmp_path: Path
) -> None:
    """Both files agree, but the rules of tokenizer.json cut ²x into two tokens, and read </s> as the end token."""
    pytest.importorskip("transformers", reason="the package transformers is not installed")
    pairs = [(key, "one"), ("b b", "two"), ("bb", "three")]
    bh.compile(bh.Dataset.from_pairs(pairs, tokenizer=kind), method="llama").save(tmp_path / "model")
    rename(tmp_path / "model", old, new)
    forged = load(tmp_path / "model")
    changed = [(key.replace(old, new), "one"), *pairs[1:]]
    found = verify(forged, bh.Dataset.from_pairs(changed, tokenizer=kind))
    assert not found.holds
    assert (found.wrong, [sample.number for sample in found.wrong_samples]) == (1, [1])
    assert found.wrong_samples[0].reason is not None
    rest = bh.Dataset.from_pairs(changed, tokenizer=kind).subset([1, 2])
    assert verify(forged, rest).holds
    drawn = verify(forged, bh.Dataset.from_pairs(changed, tokenizer=kind), sample=2)
    assert (drawn.checked, drawn.wrong) == (2, int(0 in draw_samples(3, 2)))


def test_a_context_that_transformers_would_read_otherwise_is_wrong(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(FIXTURES / "llama-texts", tmp_path / "model"))
    data = (FIXTURES / "data" / SAVED["llama-texts"]["data"]).read_text()
    rename(folder, "sat", "²x")
    texts = tmp_path / "texts.txt"
    texts.write_text(data.replace("sat", "²x"))
    forged = load(folder)
    windows = read_like(forged, texts)
    found = verify(forged, windows)
    assert 0 < found.wrong < windows.n_samples
    assert found.unit == "context"


@pytest.mark.parametrize("n_most", [3, 6])
def test_an_answer_is_right_only_if_it_ends_within_the_limit_of_the_folder(
    tmp_path: Path, n_most: int
) -> None:
    """Other programs stop after `max_new_tokens`; "Paris" and the end token are 6."""
    data = bh.Dataset.from_pairs([("capital of France", "Paris"), ("capital of Peru", "Lima"), ("x", "me")])
    bh.compile(data, method="llama").save(tmp_path / "model")
    change(tmp_path / "model" / "model.json", lambda d: d["architecture"].update(max_new_tokens=n_most))
    change(tmp_path / "model" / "generation_config.json", lambda d: d.update(max_new_tokens=n_most))
    (tmp_path / "model" / "certificate.json").unlink()
    found = verify(load(tmp_path / "model"), data)
    assert found.wrong == (0 if n_most == 6 else 2)


def test_a_llama_that_goes_on_with_texts_may_use_all_its_positions(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(FIXTURES / "llama-texts", tmp_path / "model"))
    (folder / "certificate.json").unlink()
    change(folder / "generation_config.json", lambda d: d.pop("max_length"))
    for n_most, is_enough in ((2048, True), (2047, False)):
        change(folder / "model.json", lambda d, n=n_most: d["architecture"].update(max_new_tokens=n))
        change(folder / "generation_config.json", lambda d, n=n_most: d.update(max_new_tokens=n))
        if is_enough:
            load(folder)
            continue
        with refused(CorruptModel, "problem"):
            load(folder)
