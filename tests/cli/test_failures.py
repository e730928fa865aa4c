"""Everything that can go wrong: the right exit status, words, no traceback, nothing half-written."""

from __future__ import annotations

import json
import os
import random
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

import byheart as bh
from byheart.cli import main
from byheart.cli.main import run
from byheart.errors import ByheartError, CorruptModel, DoesNotHold, ExitStatus
from byheart.pipeline import load

from .conftest import METHOD, ROWS, Byheart, Outcome, listing, write_table

WEIGHTS = "model.safetensors"


def refused(outcome: Outcome, status: int, *words: str) -> None:
    """The command answered `status`, said these words on standard error and nothing on standard output."""
    assert (outcome.status, outcome.out) == (status, "")
    assert "Traceback" not in outcome.err
    for word in words:
        assert word in outcome.err


def test_the_limit_of_memory_is_an_option(byheart: Byheart, tmp_path: Path) -> None:
    table = write_table(tmp_path / "t.csv", ROWS)
    asked = ("compile", table, "-o", tmp_path / "m", "--method", METHOD)
    refused(byheart("--memory-limit", "100", *asked), 4, "--memory-limit 1G")
    refused(byheart("--memory-limit", "much", *asked), 2, "much")
    assert byheart(*asked).status == 0


# --- data that cannot be read ---------------------------------------------------------------------------

BAD_FILES: dict[str, tuple[str, bytes, int, str]] = {
    "nul byte": ("t.csv", b"key,value\na,b\nc\0d,e\n", 4, ""),
    "empty": ("t.csv", b"", 4, ""),
    "only a header": ("t.csv", b"key,value\n", 4, ""),
    "missing column": (
        "t.csv",
        b"question,value\na,b\n",
        2,
        "key",
    ),
    "mixed encodings": ("t.csv", b"key,value\ncaf\xc3\xa9,a\ncaf\xe9,b\n", 4, ""),
    "utf-16": ("t.csv", "key,value\na,b\n".encode("utf-16"), 4, "UTF-16"),
    "conflict": ("t.csv", b"key,value\na,b\nx,y\na,c\n", 4, ""),
    "cut json": ("t.jsonl", b'{"key": "a", "value": "b"}\n{"key": ', 4, "t.jsonl"),
    "cut npz": ("t.npz", b"PK\x03\x04 and then nothing", 4, "t.npz"),
    "unknown suffix": ("t.xyz", b"key,value\na,b\n", 2, ".xyz"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_bad_data_file(byheart: Byheart, tmp_path: Path, folder: Path, case: str) -> None:
    name, content, status, words = BAD_FILES[case]
    (tmp_path / name).write_bytes(content)
    before = listing(tmp_path)
    refused(byheart("compile", tmp_path / name, "-o", tmp_path / "out", "--method", METHOD), status, words)
    if case != "conflict":  # verify names a conflicting row as a wrong sample instead
        refused(byheart("verify", folder, tmp_path / name), status, words)
    assert listing(tmp_path) == before
    assert not (tmp_path / "out").exists()


def test_a_missing_data_file(byheart: Byheart, tmp_path: Path, folder: Path) -> None:
    refused(byheart("compile", tmp_path / "no.csv", "-o", tmp_path / "out"), 2, "no.csv")
    refused(byheart("verify", folder, tmp_path / "no.csv"), 2, "no.csv")
    refused(byheart("bounds", "--data", tmp_path / "no.csv"), 2, "no.csv")


def test_not_finite_vectors(byheart: Byheart, tmp_path: Path) -> None:
    np.savez(tmp_path / "t.npz", inputs=np.array([[[1.0]], [[np.inf]]]), labels=np.array([0, 1]))
    refused(byheart("compile", tmp_path / "t.npz", "-o", tmp_path / "out"), 4, "inf")
    assert not (tmp_path / "out").exists()


# --- models that were tampered with ---------------------------------------------------------------------


def test_one_flipped_label(byheart: Byheart, folder: Path, tmp_path: Path) -> None:
    flipped = write_table(tmp_path / "flipped.csv", {**ROWS, "capital of Peru": "Paris"})
    before = listing(tmp_path)
    done = byheart("verify", folder, flipped)
    assert (done.status, done.err) == (3, "")
    assert "DOES NOT HOLD" in done.out
    assert "1 of 5" in done.out
    assert all(value in done.out for value in ("3", "'capital of Peru'", "'Paris'", "'Lima'"))
    found = byheart("verify", folder, flipped, "--json")
    assert found.status == 3
    assert (found.document["holds"], found.document["wrong"]) == (False, 1)
    assert found.document["wrong_samples"][0] == {
        "number": 3,
        "input": "'capital of Peru'",
        "expected": "Paris",
        "got": "Lima",
        "reason": None,
    }
    assert listing(tmp_path) == before


def test_any_changed_bit_of_the_weights(folder: Path) -> None:
    whole = (folder / WEIGHTS).read_bytes()
    (n_header,) = struct.unpack("<Q", whole[:8])
    places = random.Random(0).sample(range(8 * (8 + n_header), 8 * len(whole)), 100)
    for place in places:
        changed = bytearray(whole)
        changed[place // 8] ^= 1 << place % 8
        (folder / WEIGHTS).write_bytes(changed)
        with pytest.raises(CorruptModel):
            load(folder)
    (folder / WEIGHTS).write_bytes(whole)
    load(folder)


def test_one_changed_weight_bit(byheart: Byheart, folder: Path, table: Path, tmp_path: Path) -> None:
    """A mantissa that stays odd is a valid file: the certificate is what objects."""
    from safetensors.numpy import load_file, save_file

    tensors = load_file(folder / WEIGHTS)
    tensors["limbs"][-1] ^= np.uint64(2)
    save_file(tensors, folder / WEIGHTS)
    before = listing(tmp_path)
    done = byheart("verify", folder, table)
    assert done.status == 3
    assert "the weights are not the ones of the stored certificate" in " ".join(done.out.split())
    refused(byheart("predict", folder, "capital of Peru"), 3, "CorruptModel")
    refused(byheart("inspect", folder), 3, "CorruptModel")
    assert listing(tmp_path) == before


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def _huge(path: Path) -> None:
    raw = path.read_bytes()
    (n_header,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + n_header])
    header["limbs"]["shape"] = [2**60]
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + raw[8 + n_header :])


@pytest.mark.parametrize(
    ("spoil", "words"),
    [(_cut, "limbs"), (_huge, ""), (Path.unlink, "missing")],
)
def test_spoilt_weights(
    byheart: Byheart, folder: Path, table: Path, tmp_path: Path, spoil: Callable[[Path], None], words: str
) -> None:
    spoil(folder / WEIGHTS)
    before = listing(tmp_path)
    for arguments in (("verify", folder, table), ("predict", folder, "capital of Peru"), ("inspect", folder)):
        refused(byheart(*arguments), 3, "CorruptModel", WEIGHTS, words)
    assert listing(tmp_path) == before


@pytest.mark.parametrize("file", ["model.json", "certificate.json"])
def test_truncated_documents(byheart: Byheart, folder: Path, table: Path, file: str) -> None:
    _cut(folder / file)
    refused(byheart("verify", folder, table), 3, "CorruptModel", file)


def test_no_model_at_all(byheart: Byheart, table: Path, tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere", tmp_path, table):
        refused(byheart("verify", path, table), 2, "UsageError", str(path))
        refused(byheart("predict", path, "x"), 2, "UsageError")
        refused(byheart("inspect", path), 2, "UsageError")


# --- where a model may be written -----------------------------------------------------------------------


def test_a_foreign_folder_is_refused_before_any_work(byheart: Byheart, table: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("x")
    before = listing(tmp_path)
    refused(byheart("compile", table, "-o", tmp_path / "thesis"), 2, "chapter.tex")
    refused(byheart("compile", tmp_path / "missing.csv", "-o", table), 2)
    assert listing(tmp_path) == before


def test_an_old_model_stays_when_the_new_one_fails(
    byheart: Byheart, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from byheart import pipeline

    def broken(*_: object, **__: object) -> None:
        raise DoesNotHold("it does not", certificate=load(folder).certificate)

    monkeypatch.setattr(pipeline, "compile", broken)
    before = listing(folder)
    table = write_table(tmp_path / "t.csv", ROWS)
    refused(byheart("compile", table, "-o", folder), 3)
    assert listing(folder) == before


# --- usage, crashes, interrupts -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("compose",), "compose"),
        (("compile",), "DATA"),
        (("compile", "t.csv"), "-o"),
        (("compile", "t.csv", "-o", "x", "--precision", "int9"), "'int9'"),
        (("compile", "t.csv", "-o", "x", "--seed", "-1"), "-1"),
        (("verify", "--colour"), ""),
    ],
)
def test_wrong_usage(byheart: Byheart, arguments: tuple[str, ...], words: str) -> None:
    done = byheart(*arguments)
    refused(done, 2, words, "--help`.")


def test_unknown_methods_are_named_with_the_known_ones(byheart: Byheart, table: Path, tmp_path: Path) -> None:
    refused(byheart("compile", table, "-o", tmp_path / "m", "--method", "magic"), 2, "magic", METHOD)


@pytest.mark.parametrize("command", [("compare", "nowhere.csv"), ("plan", "--facts", "1e9")])
def test_a_missing_extra_is_said_before_any_work(
    byheart: Byheart, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("byheart.errors.find_spec", lambda name: None)
    refused(byheart(*command, "--figure", "growth.svg"), 2, "MissingExtra", "[figures]")
    refused(byheart(*command, "--figure", "growth.bmp"), 2)


def test_errors_are_documents_too(byheart: Byheart, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"key,value\na,b\nx,y\na,c\n")
    done = byheart("compile", tmp_path / "t.csv", "-o", tmp_path / "out", "--json")
    assert done.status == 4
    found = done.document
    assert found["error"] == "ConflictingLabels"
    assert "rows 1 and 3" in found["message"]
    assert found["facts"]["rows"] == [1, 3]
    assert done.err.startswith("ConflictingLabels: ")
    usage = byheart("compile", "--json")
    assert (usage.status, usage.document["error"]) == (2, "UsageError")


def test_a_mistake_of_ours_is_a_crash_that_asks_for_debug(
    byheart: Byheart, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from byheart import pipeline
    from byheart.cli.main import run

    def mistaken(*_: object, **__: object) -> None:
        raise KeyError("oops")

    monkeypatch.setattr(pipeline, "load", mistaken)
    assert run(["inspect", str(folder)]) == 1
    error = capsys.readouterr().err
    assert error == (
        "KeyError: 'oops'\n"
        "  This is a bug in byheart. Run the command again with --debug to see where it happened.\n"
    )
    assert run(["inspect", str(folder), "--debug"]) == 1
    error = capsys.readouterr().err
    assert "Traceback" in error
    assert "in mistaken" in error


@pytest.mark.parametrize(
    ("raised", "status", "words"),
    [
        (KeyboardInterrupt(), 130, ""),
        (
            PermissionError(13, "Permission denied", "secret.csv"),
            2,
            "",
        ),
        (MemoryError(), 1, ""),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), 1, ""),
        (ByheartError("ours"), 1, ""),
    ],
)
def test_whatever_is_raised_has_a_status(
    raised: BaseException,
    status: int,
    words: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from byheart import pipeline
    from byheart.cli.main import run

    def fail(*_: object, **__: object) -> None:
        raise raised

    monkeypatch.setattr(pipeline, "load", fail)
    assert run(["inspect", str(folder)]) == status
    captured = capsys.readouterr()
    assert words in captured.err
    assert captured.out == ""


@pytest.mark.parametrize("before", [[], ["--memory-limit", "1G"]])
def test_a_command_that_finishes_its_piece_of_work_is_not_ended(
    before: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ended_after: list[object] = []

    def watched(give_up: object) -> AbstractContextManager[None]:
        ended_after.append(give_up)
        return nullcontext()

    monkeypatch.setattr(main, "interruptible", watched)
    monkeypatch.setattr(main, "run", lambda arguments: 0)
    for command, is_ended in (("measure", False), ("predict", True)):
        monkeypatch.setattr(sys, "argv", ["byheart", *before, command, "measure"])
        with pytest.raises(SystemExit):
            main.main()
        assert bool(ended_after) == is_ended


def heed_interrupts() -> None:
    """A shell starts what it runs in the background with SIGINT ignored; these programs are to be interrupted."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_ctrl_c_leaves_nothing_behind(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    np.savez(
        tmp_path / "t.npz", inputs=rng.standard_normal((20_000, 8, 4)), labels=rng.integers(0, 16, 20_000)
    )
    before = sorted(path.name for path in tmp_path.iterdir())
    program = [sys.executable, "-c", "from byheart.cli.main import main; main()"]
    arguments = ["compile", str(tmp_path / "t.npz"), "-o", str(tmp_path / "out"), "--method", METHOD]
    with subprocess.Popen(
        [*program, *arguments], stderr=subprocess.PIPE, text=True, preexec_fn=heed_interrupts
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("compile: ")  # it is at work
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert error.splitlines()[-1].startswith("Stopped: interrupted.")
    assert "Traceback" not in error
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_ctrl_c_ends_compiled_code_too() -> None:
    """A call of compiled code never sees KeyboardInterrupt: the watcher ends the process within a second."""
    program = (
        "import hashlib, sys, byheart.cli.main as m\n"
        "def work(arguments):\n"
        "    print('at work', flush=True)\n"
        "    hashlib.pbkdf2_hmac('sha256', b'', b'', 10**9)\n"
        "m.run = work\n"
        "m.main()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=-1, stderr=-1, text=True, preexec_fn=heed_interrupts
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "at work\n"
        time.sleep(1)  # into the call
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)  # the call itself takes minutes
    assert process.returncode == 130
    assert error.splitlines()[-1] == f"Stopped: {main.ENDED}"  # nothing was cleaned up


def test_a_reader_that_has_seen_enough_is_no_failure(folder: Path) -> None:
    program = f"{sys.executable} -c 'from byheart.cli.main import main; main()' theorems --json | head -c 20"
    answer = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {program}"], capture_output=True, text=True, check=False
    )
    assert (answer.returncode, answer.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device here is always full")
@pytest.mark.parametrize(("where", "status"), [("> /dev/full", 2), ("--json > /dev/full", 2), (">&-", 2)])
def test_output_that_cannot_be_written(where: str, status: int) -> None:
    program = f"{sys.executable} -c 'from byheart.cli.main import main; main()' methods {where}"
    done = subprocess.run(program, shell=True, capture_output=True, text=True)
    assert (done.returncode, done.stdout, bool(done.stderr)) == (status, "", status != 0)
    assert "Traceback" not in done.stderr


def test_a_terminal_without_unicode_shows_escapes(folder: Path) -> None:
    program = [sys.executable, "-c", "from byheart.cli.main import main; main()"]
    answer = subprocess.run(
        [*program, "predict", str(folder), "capital of Moldova"],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "latin-1"},
        check=True,
    )
    assert answer.stdout == b"Chi\\u0219in\\u0103u\n"


@pytest.mark.parametrize("arguments", [["theorems"], ["theorems", "--json"], ["--help"]])
def test_a_reader_that_leaves_early_ends_the_command_quietly(arguments: list[str]) -> None:
    """As after `| head -1`: the status shells give a program that wrote to a closed pipe, and no word about it."""
    command = [sys.executable, "-c", "from byheart.cli.main import main; main()", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) == 141


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with a name")
@pytest.mark.parametrize(
    "arguments",
    [
        ("predict", "model", "--data", "facts.csv", "-o", "pipe.csv"),
        ("export", "model", "--to", "onnx", "-o", "pipe.onnx"),
        ("export", "model", "--to", "onnx", "-o", ""),
        ("plan", "--facts", "1000", "--figure", "pipe.svg"),
        ("report", "-o", "facts.csv"),
    ],
)
def test_no_file_takes_the_place_of_a_pipe(
    arguments: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "facts.csv").write_text("key,value\na,b\nb,c\n")
    bh.compile(tmp_path / "facts.csv", method="retrieval").save(tmp_path / "model")
    pipes = [tmp_path / f"pipe{suffix}" for suffix in (".csv", ".onnx", ".svg")]
    for pipe in pipes:
        os.mkfifo(pipe)
    monkeypatch.chdir(tmp_path)
    assert run(list(arguments)) == ExitStatus.USAGE
    assert " is " in capsys.readouterr().err
    assert all(pipe.is_fifo() for pipe in pipes)


def test_threads_are_no_more_than_cores_and_are_given_back_where_an_option_is_refused() -> None:
    """A thousand threads may not be had, and then libgomp ends the process."""
    import torch

    before, variable = torch.get_num_threads(), os.environ.get("OMP_NUM_THREADS")
    assert run(["predict", "absent", "x", "--threads=1000", "--data="]) == ExitStatus.USAGE
    assert run(["forget", "absent", "absent.csv", "--threads=1000"]) == ExitStatus.USAGE  # --keys is missing
    assert torch.get_num_threads() == before
    assert os.environ.get("OMP_NUM_THREADS") == variable
    used = []
    with patch("torch.set_num_threads", used.append):
        run(["predict", "absent", "x", "--threads=1000"])
    assert max(used) <= max(before, os.cpu_count() or 1)
