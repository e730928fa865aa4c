"""The first hour of a new user: commands and calls as they would be typed, and the sentence that matters in each answer.

The walk runs once, in a folder with the examples, in the order of the list; each step is then a test of its own.
"""

from __future__ import annotations

import contextlib
import io
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
from byheart.cli.main import run
from byheart.errors import UsageError

ROOT = Path(__file__).resolve().parents[2]
PHONES = "name,phone,town\nAnn,555-0101,Bern\nBob,555-0102,Oslo\nCarl,555-0103,Rome\n"
TOWNS = "Ort;PLZ\nZürich;8001\nGenève;1201\n"
TYPO = "capital of Francee"


@dataclass(frozen=True)
class Step:
    """What is typed, the exit status it must have, and words that its output must hold."""

    typed: str
    words: tuple[str, ...]
    status: int = 0
    stdin: str | None = None


COMMANDS = [
    Step("byheart", ("compile", "predict", "methods", "Exit status")),
    Step("byheart --version", ("byheart, version",)),
    Step("byheart version", ("torch", "python")),
    Step("byheart methods", ("retrieval", "kajitsuka-sato-2025")),
    Step("byheart methods --task distribution", ("madden-2024",)),
    Step("byheart compile --help", ("CSV", ".txt", "--reject-bits")),
    Step("byheart compose examples/capitals.csv", ("Did you mean `compile`?",), 2),
    Step("byheart compile examples/capitals.csv", ("Missing option '-o'",), 2),
    Step("byheart compile capitals.csv -o out/m", ("there is no file capitals.csv",), 2),
    Step("byheart compile examples/capitals.csv -o examples", ("Nothing was written",), 2),
    Step(
        "byheart compile examples/capitals.csv -o out/m",
        (
            "memorised, verified and saved in out/m",
            "retrieval (next-token, float64)",
            '"unknown"',
            "--reject-bits 0",
        ),
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
        ("156 rows, 156 answered, 0 unknown",),
    ),
    Step("byheart predict out/m --data phones.csv", ("no column `key`", "--input COLUMN"), 2),
    Step("byheart verify out/m examples/capitals.csv", ("holds: 156 of 156 rows, 'key' -> 'value'",)),
    Step("byheart verify out/m phones.csv --input name --label phone", ("DOES NOT HOLD",), 3),
    Step("byheart inspect out/m", ("float64 weights", "certificate", "reject_bits = 16")),
    Step('byheart inspect out/m --fact "capital of France"', ("capital of France: Paris", "matrix")),
    Step('byheart inspect out/m --fact "capital of Atlantis"', ("does not know",), 2),
    Step("byheart export out/m --to onnx -o out/m.onnx", ("out/m.onnx: ",)),
    Step('byheart recite out/m "capital of"', ("was not compiled to recite", "--recite"), 2),
    Step("byheart compile phones.csv -o out/p", ("no column `key`", "--input"), 2),
    Step("byheart compile phones.csv -o out/p --input nam --label phone", ("no column `nam`", "'name'"), 2),
    Step("byheart compile phones.csv -o out/p --input name --label phone -q", ("saved in out/p",)),
    Step("byheart predict out/p Ann Bob Zoe", ("555-0101\n555-0102\nunknown\n",)),
    Step("byheart verify out/p phones.csv", ("holds",)),
    Step("byheart compile towns.csv -o out/l", ("seem to be separated by ';'", "--delimiter ';'"), 2),
    Step("byheart compile latin.csv -o out/l --delimiter ';'", ("not UTF-8", "--encoding cp1252"), 4),
    Step("byheart compile latin.csv -o out/l --encoding latn-1", ("no encoding 'latn-1'. Did you mean",), 2),
    Step(
        "byheart compile latin.csv -o out/l --delimiter ';' --encoding latin-1 --threads 1 -q --input Ort --label PLZ",
        ("saved in out/l",),
    ),
    Step("byheart predict out/l Zürich Bern", ("8001\nunknown\n",)),
    Step("byheart predict out/l --data latin.csv -o out/plz.csv", ("2 rows, 2 answered",)),
    Step("byheart verify out/l latin.csv --threads 1e0", ("holds",)),
    Step("byheart verify out/l towns.csv --encoding utf-8", ("holds",)),
    Step("byheart compile towns.csv -o out/l --threads 0", ("'0' is not a whole number from 1",), 2),
    Step("byheart compile conflict.csv -o out/c", ("rows 1 and 2 are equal", "on_conflict"), 4),
    Step("byheart compile conflict.csv -o out/c --on-conflict first -q", ("saved in out/c",)),
    Step("byheart compile examples/stories.txt -o out/s --recite -q", ("saved in out/s",)),
    Step('byheart recite out/s "Once upon a"', ("Once upon a time",)),
    Step(
        "byheart compile examples/capitals.csv -o out/t --method kajitsuka-sato-2025 -q", ("saved in out/t",)
    ),
    Step(
        "byheart compile examples/capitals.csv -o out/x --method retreival",
        ("no method `retreival`", "retrieval"),
        2,
    ),
    Step(
        "byheart compile phones.csv -o out/y --seed 1e0 --set speed=9 --input name --label town",
        ("speed",),
        2,
    ),
    Step(
        "byheart predict out/t 'capital of Chad'",
        (
            "N'Djamena\nNote: an unknown input may get some label: kajitsuka-sato-2025 promises nothing for it.",
        ),
    ),
    Step(
        "byheart compile phones.csv -o out/0 --input name --label town --reject-bits 0",
        ("an unknown input gets some label", "--reject-bits 16"),
    ),
    Step("byheart predict out/0 Zoe", ("Note: an unknown input gets some label.",)),
    Step("byheart predict -q out/0 Bob", ("Oslo\n",)),
    Step("byheart predict out/0 Bob --json", ('"unknown_inputs": "an unknown input gets some label"',)),
    Step("byheart compile vectors.npz -o out/v -q", ("saved in out/v",)),
    Step("byheart predict out/v --data vectors.npz", ("0\n1\n2\n3\n",)),
    Step("byheart predict out/v 0.5", ("takes one vector of dimension 3", "shape (n_samples, 3)"), 2),
    Step("byheart compile grids.npz -o out/g -q", ("saved in out/g",)),
    Step("byheart compile negative.npz -o out/n", ("row 2: token id -3 at position 2 is negative",), 4),
    Step("byheart compile words.csv -o out/w", ("--input word --label 'its meaning'", "first line"), 2),
    Step(
        "byheart compile words.csv -o out/w --input word --label 'its meaning'",
        (
            "1 sample of up to 3 tokens (vocabulary 3); 1 class",
            "1 of 1 row right",
            "with the text of the labels",
        ),
    ),
    Step("byheart compile names.npz -o out/names -q", ("saved in out/names",)),
    Step("byheart predict out/names '1 2' '2 1' '2 2'", ("one\ntwo\nunknown\n",)),
    Step(
        "byheart predict out/m --data asked.csv -o out/asked.csv",
        ("1 row, 1 answered, 0 unknown, in the column `model answer`",),
    ),
    Step(
        "byheart compile words.csv -o out/w --methd retrieval", ("No such option '--methd'", "'--method'"), 2
    ),
    Step(
        "byheart compile words.csv -o out/w --set reject_bit=4 --method retrieval --input word --label 'its meaning'",
        ("did you mean `reject_bits`?",),
        2,
    ),
    Step(
        "byheart compile empty.csv -o out/e",
        ("row 2: the label is empty (1 such row)", "--empty-labels keep"),
        4,
    ),
    Step(
        "byheart compile null.jsonl -o out/e",
        ("row 2: the label is empty (1 such row)", "--empty-labels keep"),
        4,
    ),
    Step("byheart compile null.jsonl -o out/e --empty-labels keep -q", ("saved in out/e",)),
    Step("byheart bounds --samples 1e6", ("give --vocab V for token ids, or --dim d",), 2),
    Step("byheart plan --facts 1e30", ("more than the 1,000,000,000,000,000,000",), 2),
    Step("byheart export out/m --to gguf -o out/m.gguf", ("--method llama",), 2),
    Step(
        "byheart compare examples/capitals.csv --figure out/f.jpeg", ("ends in none of .png, .svg, .pdf",), 2
    ),
    Step("byheart plan --facts 1e6", ("1,000,000 facts",)),
    Step("byheart plan --facts many", ("'many' is not a whole number",), 2),
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
    (folder / "conflict.csv").write_text("key,value\na,1\na,2\nb,3\n")
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
    for words in step.words:
        assert words in said


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
    "bh.compile([('a', 1), ('b', 2)]).predict('a')": "1",
    "bh.compile('phones.csv', input='name', label='town')": ["Bern", None],
    "bh.compile((ids, labels))": ["1"],
    "bh.verify(model, data)": True,
    "bh.compile({1: 'a', 2: 'b'}).predict('2')": "b",
    "bh.compile((vectors, names))": ["y", "z"],
}
REFUSED = {
    "bh.compile({'a': 'b'}, reject_bit=3)": "Did you mean `reject_bits`",
    "bh.compile({'a': 'b'}, delimiter=';')": "delimiter says how a file is read",
    "bh.load('out/m').module(short)": "this module takes 31 tokens per sequence; got 3",
    "bh.load('out/m').module(floats)": "this module takes token ids",
    "bh.compile(7)": "data of type int cannot be compiled",
    "bh.load('nowhere')": "nowhere",
    "bh.load('out/m').predict(7)": "predict takes a text or a list of inputs, not 7",
}


@pytest.mark.parametrize("call", [call for call in CALLS if call not in REFUSED])
def test_a_call_as_typed(call: str, walk: tuple[Path, dict[str, tuple[int, str]]]) -> None:
    assert CALLS[call](walk[0]) == EXPECTED[call]


@pytest.mark.parametrize("call", REFUSED)
def test_a_wrong_call_gets_our_own_error(call: str, walk: tuple[Path, dict[str, tuple[int, str]]]) -> None:
    with pytest.raises(UsageError):
        CALLS[call](walk[0])
