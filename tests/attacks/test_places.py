"""What a command writes takes the place of nothing that it reads; what it cannot read is said of that file."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import byheart as bh
from byheart.cli.main import run
from byheart.data.textfile import TextFormat
from byheart.errors import CorruptModel, ExitStatus, UsageError
from byheart.export.onnx import save_onnx
from tests.refusal import refused

FIXTURES = Path(__file__).resolve().parents[1] / "storage" / "fixtures"
UNREADABLE = Path("/proc/self/mem")  # a plain file, of which the first byte cannot be read


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(FIXTURES / "decoder-attention", tmp_path / "model")
    return tmp_path / "model"


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("name", ["model.safetensors", "model.json", "certificate.json", "model.onnx"])
def test_no_export_into_the_folder_of_a_model(folder: Path, name: str) -> None:
    pytest.importorskip("onnx", reason="the package onnx is not installed")
    before = contents(folder)
    assert run(["export", str(folder), "--to", "onnx", "-o", str(folder / name)]) == ExitStatus.USAGE
    assert contents(folder) == before
    with refused(UsageError, "path"):
        save_onnx(bh.load(folder).network, folder / name)
    assert contents(folder) == before


def test_no_export_through_a_link_into_the_folder_of_a_model(folder: Path, tmp_path: Path) -> None:
    before, link = contents(folder), tmp_path / "link.onnx"
    link.symlink_to(folder / "model.safetensors")
    assert run(["export", str(folder), "--to", "onnx", "-o", str(link)]) == ExitStatus.USAGE
    assert contents(folder) == before


def test_answers_do_not_replace_their_questions(folder: Path, tmp_path: Path) -> None:
    questions = tmp_path / "questions.csv"
    questions.write_text("key,value\nthe,x\n")
    before = questions.read_bytes()
    link = tmp_path / "link.csv"
    link.symlink_to(questions)
    for output in (questions, link):
        arguments = ["predict", str(folder), "--data", str(questions), "-o", str(output)]
        assert run(arguments) == ExitStatus.USAGE
        assert questions.read_bytes() == before


def test_forgetting_does_not_replace_the_model_that_it_reads(tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / "llama-facts", tmp_path / "model")
    before, model = contents(tmp_path / "model"), str(tmp_path / "model")
    facts = str(FIXTURES / "data" / "capitals.csv")
    assert run(["forget", model, facts, "--keys", "x", "-o", model]) == ExitStatus.USAGE
    assert contents(tmp_path / "model") == before


@pytest.mark.skipif(not UNREADABLE.is_file(), reason="needs a file that cannot be read")
@pytest.mark.parametrize("name", ["model.json", "model.safetensors", "certificate.json"])
def test_a_file_that_cannot_be_read_is_named(
    folder: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / name).unlink()
    (folder / name).symlink_to(UNREADABLE)
    with refused(CorruptModel, "problem", file=str(folder / name)):
        bh.load(folder)
    assert run(["predict", str(folder), "the"]) == ExitStatus.FALSE
    assert name in capsys.readouterr().err


@pytest.mark.parametrize("name", ["notes.txt", ".hidden", "model.onnx", "code"])
def test_other_files_of_a_folder_are_named_and_refused(folder: Path, tmp_path: Path, name: str) -> None:
    (folder / name).mkdir() if name == "code" else (folder / name).write_text("{}")
    with refused(CorruptModel, "problem", file=str(folder)) as caught:
        bh.load(folder, check=False)
    assert name in caught.value.facts["problem"]
    out, data = str(tmp_path / "out"), str(FIXTURES / "data" / "short.csv")
    for arguments in (
        ["verify", str(folder), data],
        ["predict", str(folder), "the"],
        ["export", str(folder), "--to", "onnx", "-o", out],
        ["forget", str(folder), data, "--keys", "x", "-o", out],
    ):
        assert run(arguments) == ExitStatus.FALSE
    assert not Path(out).exists()


@pytest.mark.parametrize("encoding", ["rot13", "rot_13", "base64", "zlib", "hex"])
def test_no_encoding_is_proposed_that_is_refused(encoding: str) -> None:
    with refused(UsageError, encoding=encoding) as caught:
        TextFormat(encoding)
    _, asked, proposed = str(caught.value).partition("Did you mean `")
    if asked:
        TextFormat(proposed.partition("`")[0])
