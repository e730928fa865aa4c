"""The first hour of a new user: commands and calls as they would be typed, and the values that matter in each answer.

The walk runs once, in a folder with the examples, in the order of the list; each step is then a test of its own. What every
command prints, word for word, is in golden/, a file per command: `make wording` writes it anew, and the difference is to be read.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

import byheart as bh
from byheart.cli import progress
from byheart.cli.main import COMMANDS as NAMES
from byheart.cli.main import run
from byheart.errors import UsageError

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = Path(__file__).with_name("golden")
PHONES = "name,phone,town\nAnn,555-0101,Bern\nBob,555-0102,Oslo\nCarl,555-0103,Rome\n"
TOWNS = "Ort;PLZ\nZürich;8001\nGenève;1201\n"
MESSY = "key,value\na,1\na,9\nb,2\n,3\nc,\nd,e,f\ng,7\nh,8\n" + "".join(f"{c},{c}\n" for c in "klmnopqrst")
MESSY_RULES = (
    "--empty-labels drop --empty-inputs drop --malformed-rows drop --max-tokens 9 --on-conflict drop"
)
TYPO = "capital of Francee"


@dataclass(frozen=True)
class Step:
    """What is typed, the exit status it must have, and what its output must hold: answers, names and options, no sentence."""

    typed: str
    values: tuple[str, ...]
    status: int = 0
    stdin: str | None = None


COMMANDS = [
    Step("byheart", ("compile", "predict", "methods")),
    Step("byheart --version", ()),
    Step("byheart version", ("torch", "python")),
    Step("byheart methods", ("retrieval", "kajitsuka-sato-2025")),
    Step("byheart methods --task distribution", ("madden-2024",)),
    Step("byheart compile --help", ("CSV", ".txt", "--reject-bits")),
    Step("byheart compose examples/capitals.csv", ("compile",), 2),
    Step("byheart compile examples/capitals.csv", ("-o",), 2),
    Step("byheart compile capitals.csv -o out/m", ("capitals.csv",), 2),
    Step("byheart compile examples/capitals.csv -o examples", ("examples",), 2),
    Step(
        "byheart compile examples/capitals.csv -o out/m",
        ("out/m", "retrieval", "float64", "--reject-bits 0"),
    ),
    Step('byheart predict out/m "capital of France" "capital of Atlantis"', ("Paris\nunknown\n",)),
    Step(f'byheart predict out/m "{TYPO}"', ("unknown",)),
    Step('byheart predict out/m "capital of Chad" --json', ("N'Djamena", '"schema": 1')),
    Step("byheart predict out/m", ("Lima\nunknown\n",), stdin="capital of Peru\nnowhere\n"),
    Step("byheart predict out/m -", ("Lima\n",), stdin="capital of Peru\n"),
    Step(
        "byheart predict out/m --jsonl", ('"answer": "Lima"',), stdin='{"key": "capital of Peru", "id": 1}\n'
    ),
    Step(
        "byheart predict out/m --data examples/capitals.csv -o out/a.csv",
        ("156",),
    ),
    Step("byheart predict out/m --data phones.csv", ("key", "--input"), 2),
    Step("byheart verify out/m examples/capitals.csv", ("156 of 156", "key", "value")),
    Step("byheart verify out/m phones.csv --input name --label phone", (), 3),
    Step("byheart inspect out/m", ("float64", "reject_bits", "16")),
    Step('byheart inspect out/m --fact "capital of France"', ("capital of France", "Paris")),
    Step('byheart inspect out/m --fact "capital of Atlantis"', ("capital of Atlantis",), 2),
    Step("byheart export out/m --to onnx -o out/m.onnx", ("out/m.onnx",)),
    Step('byheart recite out/m "capital of"', ("--recite",), 2),
    Step("byheart compile phones.csv -o out/p", ("key", "--input"), 2),
    Step("byheart compile phones.csv -o out/p --input nam --label phone", ("nam", "'name'"), 2),
    Step("byheart compile phones.csv -o out/p --input name --label phone -q", ("out/p",)),
    Step("byheart predict out/p Ann Bob Zoe", ("555-0101\n555-0102\nunknown\n",)),
    Step("byheart verify out/p phones.csv", ("3 of 3",)),
    Step("byheart compile towns.csv -o out/l", ("--delimiter ';'",), 2),
    Step("byheart compile latin.csv -o out/l --delimiter ';'", ("--encoding cp1252",), 4),
    Step("byheart compile latin.csv -o out/l --encoding latn-1", ("latn-1",), 2),
    Step(
        "byheart compile latin.csv -o out/l --delimiter ';' --encoding latin-1 --threads 1 -q --input Ort --label PLZ",
        ("out/l",),
    ),
    Step("byheart predict out/l Zürich Bern", ("8001\nunknown\n",)),
    Step("byheart predict out/l --data latin.csv -o out/plz.csv", ("2",)),
    Step("byheart verify out/l latin.csv --threads 1e0", ("2 of 2",)),
    Step("byheart verify out/l towns.csv --encoding utf-8", ("2 of 2",)),
    Step("byheart compile towns.csv -o out/l --threads 0", ("'0'",), 2),
    Step("byheart compile conflict.csv -o out/c", ("1", "2", "on_conflict"), 4),
    Step(
        "byheart compile conflict.csv -o out/c --on-conflict first -q",
        ("out/c", "1 row by on_conflict=first"),
    ),
    Step(
        "byheart compile conflict.csv -o out/c --on-conflict first",
        ("1 row by on_conflict=first", "2 samples", "2 classes"),
    ),
    Step("byheart verify out/c conflict.csv --on-conflict first", ("2 of 2",)),
    Step(
        "byheart --memory-limit 100K compile messy.csv -o out/d",
        ("--empty-labels", "--empty-inputs", "--malformed-rows", "--max-tokens", "--on-conflict"),
        4,
    ),
    Step(
        f"byheart compile messy.csv -o out/d {MESSY_RULES}",
        ("13 samples", "13 classes", "1 row by max_tokens=9"),
    ),
    Step("byheart predict out/d b a", ("2\nunknown\n",)),
    Step("byheart verify out/d messy.csv", ("--malformed-rows",), 4),
    Step(f"byheart verify out/d messy.csv {MESSY_RULES}", ("13 of 13",)),
    Step("byheart compile examples/stories.txt -o out/s --recite -q", ("out/s",)),
    Step('byheart recite out/s "Once upon a"', ("Once upon a time",)),
    Step("byheart compile examples/capitals.csv -o out/t --method kajitsuka-sato-2025 -q", ("out/t",)),
    Step(
        "byheart compile examples/capitals.csv -o out/x --method retreival",
        ("retreival", "retrieval"),
        2,
    ),
    Step(
        "byheart compile phones.csv -o out/y --seed 1e0 --set speed=9 --input name --label town",
        ("speed",),
        2,
    ),
    Step(
        "byheart predict out/t 'capital of Chad'",
        ("N'Djamena\n", "kajitsuka-sato-2025"),
    ),
    Step(
        "byheart compile phones.csv -o out/0 --input name --label town --reject-bits 0",
        ("--reject-bits 16",),
    ),
    Step("byheart predict out/0 Zoe", ()),
    Step("byheart predict -q out/0 Bob", ("Oslo\n",)),
    Step("byheart predict out/0 Bob --json", ('"unknown_inputs"',)),
    Step("byheart compile vectors.npz -o out/v -q", ("out/v",)),
    Step("byheart predict out/v --data vectors.npz", ("0\n1\n2\n3\n",)),
    Step("byheart predict out/v 0.5", ("(n_samples, 3)",), 2),
    Step("byheart compile grids.npz -o out/g -q", ("out/g",)),
    Step("byheart compile negative.npz -o out/n", ("row 2", "-3", "2"), 4),
    Step("byheart compile words.csv -o out/w", ("--input word --label 'its meaning'",), 2),
    Step(
        "byheart compile words.csv -o out/w --input word --label 'its meaning'",
        ("1 of 1",),
    ),
    Step("byheart compile names.npz -o out/names -q", ("out/names",)),
    Step("byheart predict out/names '1 2' '2 1' '2 2'", ("one\ntwo\nunknown\n",)),
    Step(
        "byheart predict out/m --data asked.csv -o out/asked.csv",
        ("`model answer`",),
    ),
    Step("byheart compile words.csv -o out/w --methd retrieval", ("--methd", "--method"), 2),
    Step(
        "byheart compile words.csv -o out/w --set reject_bit=4 --method retrieval --input word --label 'its meaning'",
        ("reject_bits",),
        2,
    ),
    Step(
        "byheart compile empty.csv -o out/e",
        ("row 2", "--empty-labels keep"),
        4,
    ),
    Step(
        "byheart compile null.jsonl -o out/e",
        ("row 2", "--empty-labels keep"),
        4,
    ),
    Step("byheart compile null.jsonl -o out/e --empty-labels keep -q", ("out/e",)),
    Step("byheart compile book.xlsx -o out/b", ("book.xlsx", "CSV"), 4),
    Step(
        "byheart compile phones.csv -o out/b --set B=1 --input name --label town",
        ("retrieval", "B", "kajitsuka-sato-2025-bits"),
    ),
    Step(
        "byheart compile phones.csv -o out/b --precision exact --input name --label town",
        ("retrieval", "exact"),
    ),
    Step("byheart bounds --samples 1e6", ("--vocab", "--dim"), 2),
    Step("byheart plan --facts 1e30", ("1,000,000,000,000,000,000",), 2),
    Step("byheart export out/m --to gguf -o out/m.gguf", ("--method llama",), 2),
    Step("byheart compare examples/capitals.csv --figure out/f.jpeg", (".png", ".svg", ".pdf"), 2),
    Step("byheart plan --facts 1e6", ("1,000,000",)),
    Step("byheart plan --facts many", ("'many'",), 2),
    Step("byheart bounds --samples 1e6 --seq-len 8 --classes 16 --vocab 1e3", ("KS25",)),
    Step("byheart theorems --paper KS25", ("KS25-T4.1",)),
]


@pytest.fixture(scope="session")
def walk(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, tuple[int, str]]]:
    """Run every command once, and keep what each answered: status, and both streams together."""
    folder = tmp_path_factory.mktemp("first_hour")
    shutil.copytree(ROOT / "examples", folder / "examples")
    (folder / "phones.csv").write_text(PHONES)
    numbers = np.arange(12.0).reshape(4, 3)
    np.savez(folder / "vectors.npz", inputs=numbers / 7, labels=np.arange(4))
    np.savez(folder / "grids.npz", inputs=numbers.astype(int).reshape(4, 1, 3) - 5, labels=np.arange(4))
    np.savez(folder / "negative.npz", inputs=[[0, 1], [2, -3]], labels=[0, 1])
    np.savez(folder / "names.npz", inputs=[[1, 2], [2, 1]], labels=np.array(["one", "two"]))
    (folder / "words.csv").write_text("word,its meaning\ncat,animal\n")
    (folder / "asked.csv").write_text("key,answer\ncapital of Peru,?\n")
    (folder / "empty.csv").write_text("key,value\na,1\nb,\n")
    (folder / "null.jsonl").write_text('{"key": "a", "value": "1"}\n{"key": "b", "value": null}\n')
    (folder / "towns.csv").write_text(TOWNS, encoding="utf-8")
    (folder / "latin.csv").write_text(TOWNS, encoding="latin-1")
    (folder / "book.xlsx").write_bytes(b"PK\x03\x04" + bytes(26))
    (folder / "conflict.csv").write_text("key,value\na,1\na,2\nb,3\n")
    (folder / "messy.csv").write_text(MESSY + "x" * 2_000 + ",5\n")
    answers = {}
    with pytest.MonkeyPatch.context() as patch, contextlib.chdir(folder):
        patch.setattr(progress, "QUIET_SECONDS", 1e9)
        patch.setenv("COLUMNS", "200")
        for step in COMMANDS:
            patch.setattr(sys, "stdin", io.StringIO(step.stdin or ""))
            both = io.StringIO()
            with contextlib.redirect_stdout(both), contextlib.redirect_stderr(both):
                status = run(shlex.split(step.typed)[1:])
            answers[step.typed] = (int(status), both.getvalue())
    return folder, answers


def test_forty_steps_are_walked() -> None:
    assert len(COMMANDS) + len(CALLS) >= 50
    assert len({step.typed for step in COMMANDS}) == len(COMMANDS)


@pytest.mark.parametrize("step", COMMANDS, ids=lambda step: step.typed)
def test_a_command_as_typed(step: Step, walk: tuple[Path, dict[str, tuple[int, str]]]) -> None:
    status, said = walk[1][step.typed]
    assert status == step.status, said
    assert "Traceback" not in said
    for value in step.values:
        assert value in said


# --- what is printed, word for word ---------------------------------------------------------------------


def golden_files(answers: dict[str, tuple[int, str]], folder: Path) -> dict[str, str]:
    """What every command prints, by the name of its file. Numbers that differ between machines and runs are left out."""
    files: dict[str, str] = {}
    for typed, (status, said) in answers.items():
        command = next((word for word in typed.split()[1:2] if word in NAMES), "byheart")
        shown = (
            ""
            if command == "version" or typed == "byheart --version"
            else said.replace(str(folder), "FOLDER")
        )
        shown = re.sub(r"\d[\d,.]*( ?)(ms|s|seconds?|kB|MB|bytes)\b", r"#\1\2", shown)
        shown = re.sub(r"(seconds +|seconds\": )\S+", r"\1#", shown)
        shown = re.sub(r"\b[0-9a-f]{16,}", "#", shown)  # digests
        shown = "\n".join(line.rstrip() for line in shown.splitlines())
        files[command] = files.get(command, "") + f"$ {typed}\n[exit status {status}]\n{shown}\n\n"
    return files


@pytest.mark.skipif("BYHEART_WORDING" not in os.environ, reason="only by `make wording`")
def test_the_wording_is_written(walk: tuple[Path, dict[str, tuple[int, str]]]) -> None:
    GOLDEN.mkdir(exist_ok=True)
    for stale in GOLDEN.glob("*.txt"):
        stale.unlink()
    for command, text in golden_files(walk[1], walk[0]).items():
        (GOLDEN / f"{command}.txt").write_text(text, encoding="utf-8")


def test_every_step_is_in_the_golden_files(walk: tuple[Path, dict[str, tuple[int, str]]]) -> None:
    """With its exit status; the words are read by people, in the difference that `make wording` makes."""
    kept = {path.stem: path.read_text(encoding="utf-8") for path in GOLDEN.glob("*.txt")}
    for command, text in golden_files(walk[1], walk[0]).items():
        for step in text.split("\n\n$ "):
            head = "\n".join(step.removeprefix("$ ").splitlines()[:2])
            assert f"$ {head}\n" in kept[command], f"run `make wording`: golden/{command}.txt lacks {head!r}"


# --- the same from Python -------------------------------------------------------------------------------

CALLS: dict[str, Callable[[Path], object]] = {
    "bh.load('out/m').predict('capital of France')": lambda f: bh.load(f / "out/m").predict(
        "capital of France"
    ),
    "bh.load('out/m').predict(['capital of Chad'])": lambda f: bh.load(f / "out/m").predict(
        ["capital of Chad"]
    ),
    "bh.load('out/m').module": lambda f: type(bh.load(f / "out/m").module).__name__,
    "bh.compile({'a': '1', 'b': '2'}).predict('b')": lambda f: bh.compile({"a": "1", "b": "2"}).predict("b"),
    "bh.compile([('a', 1), ('b', 2)]).predict('a')": lambda f: bh.compile([("a", 1), ("b", 2)]).predict("a"),
    "bh.compile('phones.csv', input='name', label='town')": lambda f: bh.compile(
        f / "phones.csv", input="name", label="town"
    ).predict(["Ann", "Zoe"]),
    "bh.compile((ids, labels))": lambda f: bh.compile((np.array([[1, 2], [3, 4]]), np.array([0, 1]))).predict(
        [[3, 4]]
    ),
    "bh.verify(model, data)": lambda f: (
        bh.verify(bh.load(f / "out/m"), bh.Dataset.from_csv(f / "examples/capitals.csv")).holds
    ),
    "bh.compile({1: 'a', 2: 'b'}).predict('2')": lambda f: bh.compile({1: "a", 2: "b"}).predict("2"),
    "bh.compile((vectors, names))": lambda f: bh.compile((np.eye(3), np.array(["x", "y", "z"]))).predict(
        np.eye(3)[1:]
    ),
    "bh.compile({'a': 'b'}, reject_bit=3)": lambda f: bh.compile({"a": "b"}, reject_bit=3),
    "bh.compile({'a': 'b'}, delimiter=';')": lambda f: bh.compile({"a": "b"}, delimiter=";"),
    "bh.load('out/m').module(short)": lambda f: bh.load(f / "out/m").module(
        torch.zeros((1, 3), dtype=torch.long)
    ),
    "bh.load('out/m').module(floats)": lambda f: bh.load(f / "out/m").module(torch.zeros((1, 3))),
    "bh.compile(7)": lambda f: bh.compile(7),
    "bh.load('nowhere')": lambda f: bh.load(f / "nowhere"),
    "bh.load('out/m').predict(7)": lambda f: bh.load(f / "out/m").predict(7),
}
EXPECTED = {
    "bh.load('out/m').predict('capital of France')": "Paris",
    "bh.load('out/m').predict(['capital of Chad'])": ["N'Djamena"],
    "bh.load('out/m').module": "TransformerModule",
    "bh.compile({'a': '1', 'b': '2'}).predict('b')": "2",
    "bh.compile([('a', 1), ('b', 2)]).predict('a')": 1,
    "bh.compile('phones.csv', input='name', label='town')": ["Bern", None],
    "bh.compile((ids, labels))": [1],
    "bh.verify(model, data)": True,
    "bh.compile({1: 'a', 2: 'b'}).predict('2')": "b",
    "bh.compile((vectors, names))": ["y", "z"],
}
REFUSED = {
    "bh.compile({'a': 'b'}, reject_bit=3)",
    "bh.compile({'a': 'b'}, delimiter=';')",
    "bh.load('out/m').module(short)",
    "bh.load('out/m').module(floats)",
    "bh.compile(7)",
    "bh.load('nowhere')",
    "bh.load('out/m').predict(7)",
}


@pytest.mark.parametrize("call", [call for call in CALLS if call not in REFUSED])
def test_a_call_as_typed(call: str, walk: tuple[Path, dict[str, tuple[int, str]]]) -> None:
    assert CALLS[call](walk[0]) == EXPECTED[call]


@pytest.mark.parametrize("call", sorted(REFUSED))
def test_a_wrong_call_gets_our_own_error(call: str, walk: tuple[Path, dict[str, tuple[int, str]]]) -> None:
    with pytest.raises(UsageError):
        CALLS[call](walk[0])
