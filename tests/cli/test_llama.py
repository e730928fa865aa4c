"""A Llama on the command line: the folder is a checkpoint."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from byheart.cli.main import run
from byheart.errors import ExitStatus
from byheart.pipeline import load

pytest.importorskip("transformers", reason="the package transformers is not installed")

FACTS = {
    "capital of France": "Paris",
    "capital of Chad": "N'Djamena",
    "capital of Peru": "Lima",
    "capital of Åland": "Mariehamn",
    "symbol of gold": "Au",
    "symbol of iron": "Fe",
}
TEXTS = ["once upon a time there was a cat", "once upon a hill there sat a dog who had no name", "the end"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "facts.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("key", "value"), *FACTS.items()])
    return path


@pytest.fixture(scope="module")
def model(data: Path) -> Path:
    folder = data.parent / "model"
    assert run(["compile", str(data), "-o", str(folder), "--method", "llama"]) == ExitStatus.HOLDS
    return folder


def test_the_folder_is_a_checkpoint(model: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer, network = AutoTokenizer.from_pretrained(model), AutoModelForCausalLM.from_pretrained(model)
    prompts = tokenizer([*FACTS, "capital of Franc", "xyz!"], return_tensors="pt", padding=True)
    for options in ({}, {"use_cache": False}, {"do_sample": True, "temperature": 1.0}):
        found = network.generate(**prompts, **options)[:, prompts.input_ids.shape[1] :]
        assert tokenizer.batch_decode(found, skip_special_tokens=True) == [*FACTS.values(), "", ""]


def test_the_tokenizer_has_the_ids_of_the_network(model: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model)
    config = json.loads((model / "config.json").read_text())
    special = {name: getattr(tokenizer, name) for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
    assert special == {name: config[name] for name in special}
    assert len(tokenizer) == config["vocab_size"]
    assert None not in tokenizer.convert_ids_to_tokens(range(len(tokenizer)))


def test_a_token_for_unknown_prompts(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = tmp_path / "model"
    arguments = ["compile", str(data), "-o", str(folder), "--method", "llama", "--set"]
    assert run([*arguments, "unknown=<unknown>"]) == ExitStatus.HOLDS
    tokenizer, network = AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder)
    prompts = tokenizer([*FACTS, "capital of Franc"], return_tensors="pt", padding=True)
    found = network.generate(**prompts)[:, prompts.input_ids.shape[1] :]
    assert tokenizer.batch_decode(found, skip_special_tokens=True) == [*FACTS.values(), "<unknown>"]
    assert load(folder).predict(["capital of Franc", "symbol of gold"]) == [None, "Au"]
    capsys.readouterr()
    assert run([*arguments, "unknown=e", "--json"]) == ExitStatus.OUTSIDE
    assert json.loads(capsys.readouterr().out)["facts"] == {"unknown": "e"}


def test_the_weights_of_a_fact_are_shown_in_full(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They were rounded to three digits, beside an empty column of bits."""
    asked = ["inspect", str(model), "--fact", "symbol of gold"]
    capsys.readouterr()
    assert run([*asked, "--json"]) == ExitStatus.HOLDS
    (fact,) = json.loads(capsys.readouterr().out)["facts"]
    assert run(asked) == ExitStatus.HOLDS
    shown = capsys.readouterr().out
    for location in fact["locations"]:
        line = next(line for line in shown.splitlines() if f"{location['tensor']}{location['index']}" in line)
        assert float(line.split()[-1].replace(",", "")) == location["value"]
    assert "bits" not in shown


def test_predict_and_verify(model: Path, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["predict", str(model), "symbol of gold"]) == ExitStatus.HOLDS
    assert "Au" in capsys.readouterr().out
    assert run(["verify", str(model), str(data), "--json"]) == ExitStatus.HOLDS
    ran = json.loads(capsys.readouterr().out)["versions"]
    assert {"torch", "transformers"} <= set(ran)
    assert ran["attention"] == "sdpa with the cache, eager without"


@pytest.mark.parametrize("tokenizer", ["word", "char"])
def test_texts_are_recited(tokenizer: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS), encoding="utf-8")
    folder = tmp_path / "model"
    options = ["--method", "llama", "--recite", "--tokenizer", tokenizer]
    assert run(["compile", str(tmp_path / "texts.txt"), "-o", str(folder), *options]) == ExitStatus.HOLDS
    capsys.readouterr()
    assert run(["recite", str(folder), "once upon a hill"]) == ExitStatus.HOLDS
    assert capsys.readouterr().out.strip() == TEXTS[1]


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([("a", ""), ("b", "c")], ["--empty-labels", "keep"], "without tokens"),
        ([("a", "see </s> here"), ("b", "c")], [], "special token"),
        ([("a", "St. John's"), ("b", "c")], ["--tokenizer", "word"], "cannot spell"),
        ([("a <sep> b", "c"), ("b", "d")], [], "special token"),
        ([("a <sep> b", "c"), ("b", "d")], ["--tokenizer", "word"], "special token"),
        ([("²-b", "c"), ("b", "d")], ["--tokenizer", "word"], "other ids"),
        ([("b", "d"), ("a" * 90, "c")], ["--set", "max_positions=64"], "row 2 has 94 tokens"),
        ([("b", "d"), ("a" * 40_000, "c")], [], "40,000"),
    ],
)
def test_what_cannot_be_held_is_refused(
    rows: list[tuple[str, str]],
    options: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with (tmp_path / "data.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("key", "value"), *rows])
    arguments = [
        "compile",
        str(tmp_path / "data.csv"),
        "-o",
        str(tmp_path / "m"),
        "--method",
        "llama",
        *options,
    ]
    assert run(arguments) == ExitStatus.OUTSIDE
    assert message in capsys.readouterr().err
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    "option",
    [
        "hidden=48",
        "reject_bits=40",
        "reject_bits=-1",
        "first_draw=-1",
        "max_positions=-5",
        "max_positions=100000",
        "rows=0",
    ],
)
def test_options_out_of_range_are_refused(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, _, value = option.partition("=")
    (tmp_path / "data.csv").write_text("key,value\na,b\nb,a\n")
    arguments = ["compile", str(tmp_path / "data.csv"), "-o", str(tmp_path / "m"), "--method", "llama"]
    assert run([*arguments, "--set", option, "--json"]) == ExitStatus.USAGE
    shown = json.dumps(json.loads(capsys.readouterr().out)["facts"])
    assert name in shown
    assert value in shown


def test_keys_that_continue_others_and_unknown_letters(tmp_path: Path) -> None:
    facts = {"a": "b", "a b": "c", "a b c": "d", "ab": "c b a", "b": "a"}
    with (tmp_path / "data.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("key", "value"), *facts.items()])
    arguments = ["compile", str(tmp_path / "data.csv"), "-o", str(tmp_path / "m"), "--method", "llama"]
    assert run(arguments) == ExitStatus.HOLDS
    answers = load(tmp_path / "m").predict([*facts, "a c", "✈", "a ✈"])
    assert answers == [*facts.values(), None, None, None]


@pytest.mark.slow
def test_a_vocabulary_of_128_000(tmp_path: Path) -> None:
    words = [f"w{i}" for i in range(128_000)]
    vocabulary = {word: i for i, word in enumerate(words)}
    document = {
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": {"type": "Whitespace"},
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "w0"},
    }
    (tmp_path / "tokenizer.json").write_text(json.dumps(document))
    (tmp_path / "data.csv").write_text("key,value\nw1 w127999,w5\nw2 w3,w127998 w4096 w6\n")
    arguments = ["compile", str(tmp_path / "data.csv"), "-o", str(tmp_path / "m"), "--method", "llama"]
    assert run([*arguments, "--tokenizer", str(tmp_path / "tokenizer.json")]) == ExitStatus.HOLDS
    answers = load(tmp_path / "m").predict(["w2 w3", "w1 w127999", "w1 w127998", "nobody"])
    assert answers == ["w127998 w4096 w6", "w5", None, None]


def test_forgetting_changes_tables_alone(
    model: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "without"
    capsys.readouterr()
    assert (
        run(["forget", str(model), str(data), "--keys", "symbol of gold", "-o", str(target), "--json"]) == 0
    )
    report = json.loads(capsys.readouterr().out)
    assert report["changed"]
    assert all("mlp.up_proj" in name for name in report["changed"])
    assert sum(report["changed"].values()) == len(report["entries"])
    before, after = (dict(load(folder).network.parameters()) for folder in (model, target))
    for entry in report["entries"]:
        index = tuple(entry["index"])
        assert before[entry["tensor"]][index] != after[entry["tensor"]][index]
    assert {each["fact"] for each in report["locations"]} == {"symbol of gold"}
    answers = load(target).predict(list(FACTS))
    assert answers == [None if key == "symbol of gold" else value for key, value in FACTS.items()]
    assert run(["forget", str(model), str(data), "--keys", "nobody", "-o", str(target)]) == ExitStatus.USAGE


@pytest.mark.parametrize("text", ["the area is 5 m² here", "it says <s> here\nshe says <s> there"])
def test_texts_that_transformers_reads_otherwise_are_refused(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "texts.txt").write_text(f"{text}\nthe end\n", encoding="utf-8")
    arguments = ["compile", str(tmp_path / "texts.txt"), "-o", str(tmp_path / "m"), "--method", "llama"]
    assert run([*arguments, "--recite", "--json"]) == ExitStatus.OUTSIDE
    assert "text" in json.loads(capsys.readouterr().out)["facts"]
    assert not (tmp_path / "m").exists()
