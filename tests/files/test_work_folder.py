"""What is left of an unfinished compilation is gone on from only where it is what was written."""

from __future__ import annotations

import io
import os
import shutil
import socket
import subprocess
import sys
import tracemalloc
import zipfile
from binascii import crc32
from pathlib import Path

import numpy as np
import pytest

from byheart.construct.retrieval import out_of_core
from byheart.data import distinct_contexts, piece_reader
from byheart.errors import DoesNotHold, UsageError
from byheart.files.work_folder import (
    DamagedWork,
    claimed_folder,
    read_arrays,
    read_json,
    read_part,
    remove_parts,
    require_json,
    write_arrays,
    write_json,
    write_parts,
)
from byheart.model import Model
from byheart.pipeline import compile_in_shards
from byheart.process.memory_limit import OverMemoryLimit
from tests.refusal import refused

FACTS = {f"the key of {number}": f"value {number % 5}" for number in range(40)}
COUNTED, SHARD = "contexts/counted.json", "solution/draw-01/shard-000000.npz"
SHARDS = (SHARD, SHARD.replace("0.npz", "1.npz"))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a compilation, with everything that is removed on the way."""
    folder = tmp_path_factory.mktemp("sharded")
    rows = [f"{key},{value}" for key, value in FACTS.items()]
    (folder / "data.csv").write_text("\n".join(["key,value", *rows]) + "\n")
    with pytest.MonkeyPatch.context() as patch:
        for module in (out_of_core, distinct_contexts):
            patch.setattr(module, "remove_parts", lambda paths: None)
        patch.setattr(piece_reader, "PIECE_ROWS", 15)
        compile_in_shards(folder / "data.csv", n_shards=2, work=folder / "work")
    return folder


@pytest.fixture
def work(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished / "work", tmp_path / "work"))


def go_on(finished: Path, work: Path) -> Model:
    return compile_in_shards(finished / "data.csv", n_shards=2, work=work)


def test_a_sound_folder_is_gone_on_from(finished: Path, work: Path) -> None:
    assert go_on(finished, work).predict(list(FACTS)) == list(FACTS.values())


@pytest.mark.parametrize(
    ("name", "before", "without"),
    [
        ("job.json", (), b"seed"),
        ("pieces/000000.json", (), b"value 3"),  # a label
        ("pieces/000001.npz", (), None),
        ("pieces/merged.json", (), b"3"),
        ("contexts/piece-000000.npy", (COUNTED, "contexts/partition-000000.json"), None),
        ("contexts/piece-000000.bounds", (COUNTED, "contexts/partition-000000.json"), None),
        (COUNTED, (), b"40"),
        (SHARD, (), None),
        ("solution/draw-01/keys-000002.npy", SHARDS, None),
        ("solution/draw-01/keys-000002.bounds", SHARDS, None),
    ],
)
def test_a_changed_file_is_named_with_the_folder_to_remove(
    finished: Path, work: Path, name: str, before: tuple[str, ...], without: bytes | None
) -> None:
    """`before` are results that would stand for the changed file; `without` is what is changed, else a byte near the end."""
    for result in before:
        (work / result).unlink()
    content = bytearray((work / name).read_bytes())
    place = len(content) * 3 // 4 if without is None else content.index(without)
    content[place] ^= 1
    (work / name).write_bytes(content)
    with refused(DamagedWork, "path", "folder") as caught:
        go_on(finished, work)
    assert caught.value.facts["path"] == str(work / name)


@pytest.mark.parametrize("name", ["pieces/000001.json", "pieces/000001.npz"])
def test_missing_and_exchanged_files_are_named(finished: Path, work: Path, name: str) -> None:
    (work / name).write_bytes((work / name.replace("1", "0")).read_bytes())
    with refused(DamagedWork, "path", "folder"):
        go_on(finished, work)
    (work / name).unlink()
    with refused(DamagedWork, "path", "folder"):
        go_on(finished, work)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with a name")
def test_a_pipe_is_not_waited_for(finished: Path, work: Path) -> None:
    (work / COUNTED).unlink()
    os.mkfifo(work / COUNTED)
    with refused(DamagedWork, "path", "folder"):
        go_on(finished, work)


def test_a_result_that_is_whole_and_wrong_does_not_become_a_model(finished: Path, work: Path) -> None:
    arrays = read_arrays(work / SHARD)
    write_arrays(work / SHARD, arrays | {"words": np.zeros_like(arrays["words"])})
    with refused(DoesNotHold, "certificate"):
        go_on(finished, work)


def test_a_file_is_not_a_folder_to_work_in(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with refused(UsageError, "path"), claimed_folder(tmp_path / "file", {}):
        pass


def test_a_folder_in_a_file_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with (
        refused(UsageError, path=str(tmp_path / "file" / "work")),
        claimed_folder(tmp_path / "file" / "work", {}),
    ):
        pass


def test_a_folder_of_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis").touch()
    with refused(UsageError, path=str(tmp_path)), claimed_folder(tmp_path, {}):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["thesis"]
    (tmp_path / "thesis").rename(tmp_path / "lock")  # all that a process leaves that ends at once
    with claimed_folder(tmp_path, {}):
        assert sorted(path.name for path in tmp_path.iterdir()) == ["job.json", "lock"]


def test_a_folder_belongs_to_one_job(tmp_path: Path) -> None:
    job = {"file": "data.csv", "seed": 0, "shards": 2}
    for _ in range(2):
        with claimed_folder(tmp_path, job):
            pass
    other = {"file": "data.csv", "seed": 1, "method": "retrieval"}
    with (
        refused(UsageError, path=str(tmp_path), differing=["method", "seed", "shards"]),
        claimed_folder(tmp_path, other),
    ):
        pass
    assert read_json(tmp_path / "job.json") == job


def test_a_part_of_another_type_is_damage(tmp_path: Path) -> None:
    path, columns = tmp_path / "rows.npy", [np.arange(6), np.arange(6)]
    write_parts(path, np.arange(6) % 2, 2, columns)
    assert read_part([path], 1).tolist() == [[1, 1], [3, 3], [5, 5]]
    path.write_bytes(path.read_bytes().replace(b"'<i8'", b"'>i8'"))
    with refused(DamagedWork, "path", "folder"):
        read_part([path], 1)


def test_parts_are_removed_and_what_is_gone_is_no_error(tmp_path: Path) -> None:
    """An interrupted removal is repeated."""
    paths = [tmp_path / f"rows{number}.npy" for number in range(3)]
    for path in paths:
        write_parts(path, np.arange(6) % 2, 2, [np.arange(6)])
    (tmp_path / "other").touch()
    paths[1].unlink()  # half removed
    for _ in range(2):
        remove_parts(paths)
        assert [path.name for path in tmp_path.iterdir()] == ["other"]


def test_a_missing_document_is_nothing_or_damage(tmp_path: Path) -> None:
    assert read_json(tmp_path / "missing.json") is None
    with refused(DamagedWork, path=str(tmp_path / "missing.json"), folder=str(tmp_path)):
        require_json(tmp_path / "missing.json")


def test_a_document_must_fit_into_the_memory_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, document = tmp_path / "labels.json", [f"label {number}" for number in range(100)]
    write_json(path, document)
    n_bytes = 8 * path.stat().st_size
    monkeypatch.setenv("BYHEART_MEMORY_LIMIT", str(n_bytes))
    assert read_json(path) == document
    monkeypatch.setenv("BYHEART_MEMORY_LIMIT", str(n_bytes - 1))
    with refused(OverMemoryLimit, n_bytes=n_bytes):
        read_json(path)


@pytest.mark.parametrize("name", [COUNTED, "pieces/000001.json"])
def test_documents_with_right_checksums_that_do_not_fit_are_damage(
    finished: Path, work: Path, name: str
) -> None:
    document = read_json(work / name)
    write_json(work / name, dict.fromkeys(document))
    with refused(DamagedWork, "path", folder=str(work)):
        go_on(finished, work)


@pytest.mark.parametrize("document", [[], [[]] * 3, 5, "text", True])
def test_a_job_that_is_none_is_damage(tmp_path: Path, document: object) -> None:
    write_json(tmp_path / "job.json", document)
    with refused(DamagedWork, folder=str(tmp_path)), claimed_folder(tmp_path, {}):
        pass


def test_a_mistake_in_a_fresh_folder_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(KeyError), claimed_folder(tmp_path / "work", {}):
        raise KeyError("ours")
    with refused(DamagedWork, folder=str(tmp_path / "work")), claimed_folder(tmp_path / "work", {}):
        raise KeyError("ours, or that of whoever wrote the folder")


def npz_of_zeros(path: Path, n_bytes: int, *, claims: int | None = None) -> None:
    """An archive whose one array is packed a thousandfold, or claims more than it holds."""
    shape = (n_bytes if claims is None else claims,)
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "|u1", "fortran_order": False, "shape": shape})
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("words.npy", header.getvalue() + bytes(n_bytes))


@pytest.mark.parametrize("claims", [None, 2**50])
def test_a_small_archive_does_not_take_much_memory(tmp_path: Path, claims: int | None) -> None:
    path = tmp_path / "shard.npz"
    npz_of_zeros(path, 100 if claims else 2**26, claims=claims)
    assert path.stat().st_size < 2**17
    tracemalloc.start()
    with refused(DamagedWork, "path", "folder"):
        read_arrays(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**24


@pytest.mark.parametrize("change", ["no bounds", "no checksums", "bounds of another shape", "sparse file"])
def test_parts_that_say_otherwise_are_damage(
    change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, columns = tmp_path / "rows.npy", [np.arange(6), np.arange(6)]
    write_parts(path, np.arange(6) % 2, 2, columns)
    about = read_arrays(path.with_suffix(".bounds"))
    if change == "sparse file":  # 16 GB that take no room on the disk
        with path.open("wb") as file:
            shape = {"descr": "<i8", "fortran_order": False, "shape": (2**30, 2)}
            np.lib.format.write_array_header_1_0(file, shape)
            file.truncate(file.tell() + 2**34)
        about["bounds"] = np.array([0, 2**29, 2**30])
    elif change == "bounds of another shape":
        about["bounds"] = np.array(5)
    else:
        del about[change.removeprefix("no ")]
    write_arrays(path.with_suffix(".bounds"), about)
    with pytest.raises((DamagedWork, OverMemoryLimit)):
        read_part([path], 1)


@pytest.mark.parametrize("text", ["[" * 100_000, "{", "nothing"])
def test_a_document_with_a_right_checksum_may_still_be_none(text: str, tmp_path: Path) -> None:
    path = tmp_path / "job.json"
    path.write_text(f"{text}\n{crc32(f'job.json {text}'.encode()):08x}\n")
    with refused(DamagedWork, "path", "folder"):
        read_json(path)


def test_a_lock_names_no_process_but_its_own(tmp_path: Path) -> None:
    """The process that had the lock before may have written a longer line."""
    (tmp_path / "lock").write_bytes(b"8" * 200 + b" on another machine\n")
    with claimed_folder(tmp_path, {}):
        assert (tmp_path / "lock").read_text() == f"{os.getpid()} on {socket.gethostname()}\n"


def test_a_folder_in_use_is_refused_and_names_the_process(tmp_path: Path) -> None:
    script = "import sys; from pathlib import Path; from byheart.files.work_folder import claimed_folder\n"
    script += "with claimed_folder(Path(sys.argv[1]), {}): print('held', flush=True); sys.stdin.read()"
    holder = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "work")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdin is not None
    assert holder.stdout is not None
    try:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(UsageError) as caught, claimed_folder(tmp_path / "work", {}):
            pass
        assert caught.value.facts["holder"] == holder.pid
        assert str(holder.pid) in str(caught.value)
    finally:
        holder.kill()  # the lock goes with the process, however that ends
        holder.communicate()
    with claimed_folder(tmp_path / "work", {}):
        pass
