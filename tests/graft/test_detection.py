"""What `detect` takes for a graft: the weights decide, whatever a record says."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import byheart as bh
from byheart.cli.main import run
from byheart.errors import UsageError
from byheart.graft.reading import constant_columns
from byheart.graft.workflow import detect, graft, is_compiled, verify_graft
from tests.graft.hosts import change_json, save_host
from tests.refusal import refused

EMBEDDING = "model.embed_tokens.weight"
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


def append_rows(tensors: dict[str, torch.Tensor]) -> None:
    """Three tokens of zeros, as a padded vocabulary has."""
    table = tensors[EMBEDDING]
    tensors[EMBEDDING] = torch.cat([table, torch.zeros(3, table.shape[1])])


def scale_a_row(tensors: dict[str, torch.Tensor]) -> None:
    tensors[EMBEDDING][0] *= 1.000001


def append_a_larger_vocabulary(tensors: dict[str, torch.Tensor]) -> None:
    """More tokens than there were, with numbers in the host's columns only."""
    table = tensors[EMBEDDING]
    more = torch.zeros(len(table) + 100, table.shape[1])
    more[:, :48] = 0.02
    tensors[EMBEDDING] = torch.cat([table, more])


def append_large_numbers(tensors: dict[str, torch.Tensor]) -> None:
    """More tokens than there were, with large numbers everywhere, no two equal."""
    table = tensors[EMBEDDING]
    drawn = torch.randn(len(table) + 100, table.shape[1], generator=torch.Generator().manual_seed(0))
    tensors[EMBEDDING] = torch.cat([table, drawn.double().mul(2.0**45).float()])


@pytest.mark.parametrize("edit", [append_rows, scale_a_row, append_a_larger_vocabulary, append_large_numbers])
def test_a_graft_with_another_vocabulary_is_still_a_graft(
    tmp_path: Path, grafted: Path, facts: Path, edit: Callable[[dict[str, torch.Tensor]], None]
) -> None:
    """It was no graft for `detect`, and a host for `graft`."""
    folder = tmp_path / "edited"
    shutil.copytree(grafted, folder)
    change(folder, edit)
    change_json(folder, "config.json", vocab_size=len(load_file(folder / WEIGHTS)[EMBEDDING]))
    memory, plain = detect(folder), detect(grafted)
    assert memory is not None
    assert plain is not None
    assert memory.answers() == plain.answers()
    assert memory.faults
    with refused(UsageError, path=str(folder)):
        graft(folder, facts, tmp_path / "again")


def other_constants(tensors: dict[str, torch.Tensor]) -> None:
    """More tokens than there were, with a constant in another column, which no layer changes."""
    table = tensors[EMBEDDING]
    more = torch.zeros(len(table) + 100, table.shape[1])
    more[:, -1] = 2.0**60
    tensors[EMBEDDING] = torch.cat([table, more])


def other_values(tensors: dict[str, torch.Tensor]) -> None:
    """More tokens than there were, with other numbers in the constant columns."""
    table = tensors[EMBEDDING]
    tensors[EMBEDDING] = torch.cat([table, (2 * table[:1]).repeat(len(table) + 100, 1)])


@pytest.mark.parametrize("edit", [other_constants, other_values])
def test_a_graft_whose_constants_are_outnumbered_is_unclear(
    tmp_path: Path,
    grafted: Path,
    edit: Callable[[dict[str, torch.Tensor]], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It was no graft, or a Llama that byheart compiled, while it still answered its facts."""
    folder = tmp_path / "edited"
    shutil.copytree(grafted, folder)
    change(folder, edit)
    change_json(folder, "config.json", vocab_size=len(load_file(folder / WEIGHTS)[EMBEDDING]))
    said = said_of(folder, capsys)
    assert (said["grafted"], said["compiled"]) == (None, False)
    assert said["faults"]


def test_constant_columns_are_large_and_no_number_of_other_tokens_hides_them() -> None:
    table = np.zeros((50, 4), np.float32)
    table[:3, 1], table[:2, 2], table[:5, 3] = 2.0**20, 2.0**20, -(2.0**30)
    assert constant_columns(table) == {1: 2.0**20, 3: -(2.0**30)}


def test_an_answer_that_is_no_token_is_a_fault(
    tmp_path: Path, grafted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a unit adds was doubled. The context was listed without a fault."""
    memory = detect(grafted)
    assert memory is not None
    unit = memory.units[0]

    def double(tensors: dict[str, torch.Tensor]) -> None:
        tensors[f"model.layers.{unit.layer}.mlp.down_proj.weight"][:, unit.unit] *= 2

    shutil.copytree(grafted, tmp_path / "doubled")
    change(tmp_path / "doubled", double)
    said = said_of(tmp_path / "doubled", capsys)
    assert [each["tokens"] for each in said["contexts"] if each["next"] is None]
    assert said["faults"]


def test_verify_says_whether_the_tensors_were_compared(
    tmp_path: Path, grafted: Path, host: Path, facts: Path
) -> None:
    """If a size of the host did not fit, this could also end in a traceback."""
    others = [
        save_host(tmp_path / next(iter(size)), **size)
        for size in (
            {"hidden_size": 64},
            {"intermediate_size": 600},
            {"num_attention_heads": 16, "num_key_value_heads": 16},
            {"tie_word_embeddings": False},
        )
    ]
    found = [verify_graft(grafted, facts, other, ask=False) for other in (host, *others)]
    assert [(each.compared, each.holds) for each in found] == [(True, True), *[(False, False)] * 4]


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
