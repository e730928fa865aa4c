"""GGUF files that claim what they do not hold, and settings of the wrong type, are refused before a package reads them."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from byheart.errors import CorruptModel, UsageError
from byheart.graft.gguf_export import export_gguf, save_gguf
from byheart.graft.gguf_header import MOST_ENTRIES, MOST_SMALL_ITEMS, check_header
from byheart.graft.host import FolderHost, open_host
from byheart.graft.workflow import graft
from tests.graft.hosts import change_json
from tests.refusal import refused

pytest.importorskip("gguf", reason="the package gguf is not installed")
ALIGNMENT = "general.alignment"


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def setting(kind: int, value: bytes, name: str = "a") -> bytes:
    return text(name) + struct.pack("<I", kind) + value


def items(kind: int, claimed: int, held: bytes = b"") -> bytes:
    """A list that claims so many items of a kind."""
    return setting(9, struct.pack("<IQ", kind, claimed) + held)


def tensor(name: str = "w", dims: tuple[int, ...] = (8,), kind: int = 0, offset: int = 0) -> bytes:
    sizes = b"".join(struct.pack("<Q", n) for n in dims)
    return text(name) + struct.pack("<I", len(dims)) + sizes + struct.pack("<IQ", kind, offset)


def file(*entries: bytes, tensors: tuple[bytes, ...] = (), n_bytes: int = 0, **claims: int) -> bytes:
    """A file of these settings and tensors, with other numbers of them, or another version, where it claims so."""
    n_tensors, n_settings = claims.get("n_tensors", len(tensors)), claims.get("n_settings", len(entries))
    start = b"GGUF" + struct.pack("<IQQ", claims.get("version", 3), n_tensors, n_settings)
    start += b"".join(entries) + b"".join(tensors)
    return start + bytes(-len(start) % 32 + n_bytes)


HOSTILE: dict[str, bytes] = {
    "nothing but a magic number": b"GGUF" + bytes(19),
    "version 1": file(version=1),
    "the other byte order": file(version=3 << 24),
    "2^60 settings": file(n_settings=2**60),
    "2^60 tensors": file(n_tensors=2**60),
    "more settings than there are": file(setting(4, bytes(4)), n_settings=MOST_ENTRIES),
    "a name of 2^63 bytes": file(struct.pack("<Q", 2**63)),
    "a name that is not UTF-8": file(struct.pack("<Q", 1) + b"\xff" + bytes(8)),
    "a text of 2^63 bytes": file(setting(8, struct.pack("<Q", 2**63))),
    "2^60 bytes in a list": file(items(0, 2**60)),
    "2^60 texts in a list": file(items(8, 2**60)),
    "a million bytes in a list": file(items(0, MOST_SMALL_ITEMS + 1, bytes(MOST_SMALL_ITEMS + 1))),
    "lists in a list": file(items(9, 1, struct.pack("<IQ", 0, 1) + b"a")),
    "a number of an unknown kind": file(setting(99, bytes(8))),
    "an alignment of 0": file(setting(4, bytes(4), ALIGNMENT), tensors=(tensor(),), n_bytes=32),
    "an alignment of 2^31": file(
        setting(4, struct.pack("<I", 2**31), ALIGNMENT), tensors=(tensor(),), n_bytes=32
    ),
    "a tensor behind the end": file(tensors=(tensor(offset=32),), n_bytes=32),
    "a tensor of 2^124 numbers": file(tensors=(tensor(dims=(2**31,) * 4),), n_bytes=32),
    "a tensor of 1,000 dimensions": file(tensors=(tensor(dims=(1,) * 1000),), n_bytes=32),
    "a tensor of an unknown kind": file(tensors=(tensor(kind=999),), n_bytes=32),
    "two tensors in one place": file(tensors=(tensor("a"), tensor("b", offset=16)), n_bytes=64),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_the_file_does_not_hold_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "host.gguf"
    path.write_bytes(HOSTILE[name])
    with pytest.raises(ValueError, match=r"."):
        check_header(path)
    with refused(CorruptModel, file=str(path)):
        open_host(path)


def test_what_the_file_holds_is_read(tmp_path: Path) -> None:
    path = tmp_path / "host.gguf"
    entries = (
        setting(4, struct.pack("<I", 64), ALIGNMENT),
        setting(8, text("b")),
        setting(10, bytes(8)),
        items(8, 2, text("c") + text("")),
        items(5, 3, bytes(12)),
    )
    start = file(*entries, tensors=(tensor("a"), tensor("b", offset=64)))
    path.write_bytes(start + bytes(-len(start) % 64 + 64 + 32))
    check_header(path)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"."):
        check_header(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with refused(UsageError, path=str(tmp_path / "pipe")):
        open_host(tmp_path / "pipe")


@pytest.mark.parametrize(
    "odd",
    [
        {"max_position_embeddings": None},
        {"max_position_embeddings": "long"},
        {"max_position_embeddings": 2**40},
        {"rms_norm_eps": "x"},
        {"rms_norm_eps": 0},
        {"rms_norm_eps": [1e-5]},
        {"tie_word_embeddings": "no"},
        {"attention_bias": {}},
        {"eos_token_id": []},
        {"eos_token_id": {"id": 3}},
        {"pad_token_id": 1.5},
        {"layer_types": 3},
        {"rope_parameters": {"rope_type": "default", "rope_theta": "x"}},
        {"rope_parameters": {"rope_type": "default", "rope_theta": 0}},
        {"rope_theta": [1e4], "rope_parameters": None},
    ],
    ids=str,
)
def test_settings_are_read_by_type(host: Path, odd: dict[str, object], tmp_path: Path) -> None:
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).write_bytes((host / name).read_bytes())
    FolderHost(tmp_path)
    change_json(tmp_path, "config.json", **odd)
    with pytest.raises(CorruptModel):
        FolderHost(tmp_path)


def test_names_of_tensors_without_a_part_are_refused(tmp_path: Path, host: Path) -> None:
    """A name such as `blk.0.weight` ended in a traceback."""
    save_gguf(FolderHost(host), tmp_path / "host.gguf", "a host")
    content = (tmp_path / "host.gguf").read_bytes()
    assert content.count(b"blk.0.attn_q.weight") == 1
    (tmp_path / "odd.gguf").write_bytes(content.replace(b"blk.0.attn_q.weight", b"blk.0_attn_q.weight"))
    with refused(CorruptModel, file=str(tmp_path / "odd.gguf")):
        open_host(tmp_path / "odd.gguf")


def spoil_the_kept_file(folder: Path) -> None:
    (folder / "host" / "host.gguf").write_bytes(HOSTILE["2^60 bytes in a list"])


def name_a_file_elsewhere(folder: Path) -> None:
    change_json(folder, "graft.json", host={"../../host.gguf": "0" * 64})


@pytest.mark.parametrize("spoil", [spoil_the_kept_file, name_a_file_elsewhere])
def test_the_kept_file_of_a_graft_is_read_as_a_host_is(
    tmp_path: Path, host: Path, facts: Path, spoil: Callable[[Path], None]
) -> None:
    save_gguf(FolderHost(host), tmp_path / "host.gguf", "a host")
    graft(tmp_path / "host.gguf", facts, tmp_path / "graft")
    spoil(tmp_path / "graft")
    with pytest.raises(CorruptModel):
        export_gguf(tmp_path / "graft", tmp_path / "out.gguf")
    assert not (tmp_path / "out.gguf").exists()
