"""Hosts that are damaged, hostile or of another kind are refused, and nothing is written."""

from __future__ import annotations

import pickle
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from byheart.errors import AssumptionViolated, CorruptModel, UsageError
from byheart.graft.workflow import graft
from tests.graft.hosts import change_json, save_host
from tests.refusal import refused


def lie_about_shapes(folder: Path) -> None:
    change_json(folder, "config.json", hidden_size=4096, num_hidden_layers=80)


def be_a_pickle(folder: Path) -> None:
    (folder / "config.json").unlink()
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps({}))


def be_short(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"0123456789")


def announce_much(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", 2**62) + b"{}")


def need_code(folder: Path) -> None:
    change_json(folder, "config.json", auto_map={"AutoModelForCausalLM": "modeling.Mine"})


def be_gemma(folder: Path) -> None:
    change_json(folder, "config.json", model_type="gemma2")


def slide(folder: Path) -> None:
    change_json(folder, "config.json", model_type="mistral", sliding_window=64)


def scale_dynamically(folder: Path) -> None:
    change_json(
        folder, "config.json", rope_parameters={"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}
    )


def have_an_odd_longest_text(folder: Path) -> None:
    change_json(folder, "tokenizer_config.json", model_max_length={"a": 1})


HOSTILE = [
    have_an_odd_longest_text,
    lie_about_shapes,
    be_a_pickle,
    be_short,
    announce_much,
    need_code,
    be_gemma,
    slide,
    scale_dynamically,
]


@pytest.mark.parametrize("spoil", HOSTILE)
def test_hostile_hosts_are_refused_and_nothing_is_written(
    tmp_path: Path, host: Path, facts: Path, spoil: Callable[[Path], None]
) -> None:
    shutil.copytree(host, tmp_path / "host")
    spoil(tmp_path / "host")
    with pytest.raises((UsageError, CorruptModel)):
        graft(tmp_path / "host", facts, tmp_path / "graft")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["host"]


@pytest.mark.parametrize(("factor", "fact"), [(1e4, "largest_lead"), (1e20, "longest")])
def test_a_host_with_too_large_weights_is_refused(
    tmp_path: Path, host: Path, facts: Path, factor: float, fact: str
) -> None:
    """No number of float32 lifts the answers above such logits. Before, this ended in tracebacks."""
    shutil.copytree(host, tmp_path / "host")
    weights = tmp_path / "host" / "model.safetensors"
    tensors = {name: tensor * factor for name, tensor in load_file(weights).items()}
    save_file(tensors, weights, metadata={"format": "pt"})
    with refused(AssumptionViolated, fact):
        graft(tmp_path / "host", facts, tmp_path / "graft")
    assert [path.name for path in tmp_path.iterdir()] == ["host"]


@pytest.mark.parametrize("number", [2.0**20, 2.0**33])
def test_a_host_with_a_large_embedding_is_refused(
    tmp_path: Path, host: Path, facts: Path, number: float
) -> None:
    """The norms of the added layers divided by a wrong number, and other answers changed. `graft` and `verify` said nothing."""
    shutil.copytree(host, tmp_path / "host")
    weights = tmp_path / "host" / "model.safetensors"
    tensors = load_file(weights)
    tensors["model.embed_tokens.weight"][5:60, 3] = number
    save_file(tensors, weights, metadata={"format": "pt"})
    with refused(AssumptionViolated, "longest", limit=2.0**20):
        graft(tmp_path / "host", facts, None)


def test_heads_that_cannot_tell_neighbours_apart_are_refused(tmp_path: Path, facts: Path) -> None:
    """Linear scaling by 2 works if heads are large enough, by 4 never."""
    for factor in (2.0, 4.0):
        rope = {"rope_type": "linear", "rope_theta": 1e4, "factor": factor}
        save_host(tmp_path / f"{factor}", head_dim=64, rope_parameters=rope)
    graft(tmp_path / "2.0", facts, None)
    with refused(AssumptionViolated, "margin"):
        graft(tmp_path / "4.0", facts, None)


def test_a_short_file_is_not_a_host(tmp_path: Path, facts: Path) -> None:
    (tmp_path / "host.gguf").write_bytes(b"GGUF012345")
    with pytest.raises((UsageError, CorruptModel)):
        graft(tmp_path / "host.gguf", facts, tmp_path / "graft")
