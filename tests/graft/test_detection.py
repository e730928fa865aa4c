"""What `detect` takes for a graft: the weights decide, whatever a record says."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import byheart as bh
from byheart.cli.main import run
from byheart.errors import UsageError
from byheart.graft.workflow import detect, graft, is_compiled
from tests.refusal import refused

WEIGHTS = "model.safetensors"
RECORDS = ("model.json", "certificate.json")
CAPITALS = {"capital of France": "Paris", "capital of Chad": "N'Djamena", "capital of Peru": "Lima"}


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compiled") / "llama"
    bh.compile(CAPITALS, method="llama").save(folder)
    return folder


@pytest.fixture
def spoilt(tmp_path: Path, grafted: Path) -> Path:
    """A graft whose tokens have other codes than its units match: nothing that is stored can be read."""
    folder = tmp_path / "spoilt"
    shutil.copytree(grafted, folder)
    memory = detect(grafted)
    assert memory is not None

    def halve(tensors: dict[str, torch.Tensor]) -> None:
        tensors["model.embed_tokens.weight"][:, memory.message_columns] *= 0.5

    change(folder, halve)
    return folder


def change(folder: Path, edit: Callable[[dict[str, torch.Tensor]], None]) -> None:
    tensors = load_file(folder / WEIGHTS)
    edit(tensors)
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})


def said_of(folder: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """What `detect --json` prints."""
    capsys.readouterr()
    assert run(["detect", str(folder), "--json"]) == 0
    said: dict[str, Any] = json.loads(capsys.readouterr().out)
    return said


def test_a_compiled_llama_is_no_graft(compiled: Path, host: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It was a graft without contexts and with faults."""
    said, of_a_host = said_of(compiled, capsys), said_of(host, capsys)
    assert (said["grafted"], said["compiled"], said["contexts"], said["faults"]) == (False, True, [], [])
    assert (of_a_host["grafted"], of_a_host["compiled"]) == (False, False)
    assert said.keys() == of_a_host.keys()


def test_the_weights_of_a_compiled_llama_are_enough(
    tmp_path: Path, compiled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(compiled, tmp_path / "bare", ignore=shutil.ignore_patterns(*RECORDS))
    assert said_of(tmp_path / "bare", capsys)["compiled"]


def test_a_graft_with_the_record_of_a_compiled_llama_is_listed(
    tmp_path: Path, grafted: Path, compiled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(grafted, tmp_path / "graft")
    for name in RECORDS:
        shutil.copyfile(compiled / name, tmp_path / "graft" / name)
    said, plain = said_of(tmp_path / "graft", capsys), said_of(grafted, capsys)
    assert said["contexts"]
    assert {**said, "path": ""} == {**plain, "path": ""}


def test_a_graft_that_cannot_be_read_is_not_called_free_of_grafts(
    spoilt: Path, compiled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also if it has the record of a compiled Llama."""
    for name in ("", *RECORDS):
        if name:
            shutil.copyfile(compiled / name, spoilt / name)
        said = said_of(spoilt, capsys)
        assert (said["grafted"], said["compiled"], said["contexts"]) == (None, False, [])
        assert said["faults"]


def write_to_the_constant_columns(tensors: dict[str, torch.Tensor]) -> None:
    table = tensors["model.embed_tokens.weight"]
    columns = (table == table[0]).all(0) & (table[0] >= 2**20)
    tensors["model.layers.3.mlp.down_proj.weight"][columns, 0] = 1.0


def outweigh_the_constant_columns(tensors: dict[str, torch.Tensor]) -> None:
    table = tensors["model.embed_tokens.weight"]
    table[3, 5] = table.max()


@pytest.mark.parametrize("edit", [write_to_the_constant_columns, outweigh_the_constant_columns])
def test_a_llama_that_could_contain_a_host_is_not_taken_for_a_compiled_one(
    tmp_path: Path, compiled: Path, edit: Callable[[dict[str, torch.Tensor]], None]
) -> None:
    shutil.copytree(compiled, tmp_path / "llama")
    assert is_compiled(tmp_path / "llama")
    change(tmp_path / "llama", edit)
    assert not is_compiled(tmp_path / "llama")
    assert detect(tmp_path / "llama") is not None


def test_a_compiled_llama_is_refused_as_host(tmp_path: Path, compiled: Path, facts: Path) -> None:
    """The error said that it is a graft, and to remove this graft."""
    with refused(UsageError, path=str(compiled)) as caught:
        graft(compiled, facts, tmp_path / "graft")
    assert "--remove" not in str(caught.value)


def test_people_see_the_same_as_programs(
    compiled: Path, spoilt: Path, grafted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = []
    for folder in (compiled, spoilt, grafted):
        capsys.readouterr()
        assert run(["detect", str(folder)]) == 0
        out = capsys.readouterr().out
        assert "\n\n\n" not in out
        shown.append("fault" in out)
    assert shown == [False, True, False]
