"""A file, and a folder, is written whole or not at all, and never where it would destroy something else."""

from __future__ import annotations

import ctypes
import itertools
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from byheart.errors import UsageError
from byheart.files.atomic_folder import (
    ATTEMPT_SECONDS,
    ATTEMPTS,
    _exchange,
    mend,
    put_file,
    read_whole,
    replaced_folder,
)
from byheart.files.whole_file import check_file_target, whole_file, write_whole
from tests.refusal import refused

GONE = 2**22 + 1  # above the largest process number of Linux


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# --- files ------------------------------------------------------------------------------------------------


def test_a_file_is_there_when_it_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "new" / "deep" / "file"
    on_disk: list[str] = []
    monkeypatch.setattr(
        os, "fsync", lambda handle: on_disk.append(str(Path(f"/proc/self/fd/{handle}").readlink()))
    )
    with whole_file(path) as fresh:
        fresh.write_text("half")
        assert not path.exists()
        assert fresh.parent == path.parent
    assert (path.read_text(), names(path.parent)) == ("half", ["file"])
    if Path("/proc/self/fd").exists():
        assert on_disk == [str(fresh)]
    write_whole(path, lambda file: file.write(b"other"))
    assert (path.read_text(), names(path.parent)) == ("other", ["file"])


@pytest.mark.parametrize(
    "error", [ValueError("no"), OSError(28, "No space left on device"), KeyboardInterrupt()]
)
def test_what_fails_leaves_the_file_as_it_was(tmp_path: Path, error: BaseException) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def fail(file: object) -> None:
        raise error

    with pytest.raises(UsageError if isinstance(error, OSError) else type(error)):
        write_whole(path, fail)
    assert (path.read_text(), names(tmp_path)) == ("old", ["file"])


def test_places_where_no_file_may_be_written(tmp_path: Path) -> None:
    model, half = tmp_path / "model", tmp_path / "half"
    for folder, files in ((model, ("model.json", "model.safetensors")), (half, ("model.json",))):
        folder.mkdir()
        for name in files:
            (folder / name).touch()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(model / "model.safetensors")
    (tmp_path / "folder").mkdir()
    for path in (Path("/"), model / "new", model / "model.json", tmp_path / "pipe", tmp_path / "link"):
        with refused(UsageError, path=str(path)):
            check_file_target(path)
    for path in (half / "new", tmp_path / "new", tmp_path / "folder", half / "model.json"):
        check_file_target(path)
    with refused(UsageError, path=str(tmp_path / "link" / "file")):
        write_whole(tmp_path / "link" / "file", lambda file: file.write(b""))


# --- folders ----------------------------------------------------------------------------------------------


def any_target(_: Path) -> None:
    return None


def test_a_folder_is_there_when_it_is_finished(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "target"
    for content in ("one", "two"):
        with replaced_folder(target, any_target) as fresh:
            (fresh / content).touch()
            assert (target / content).exists() is False
        assert (names(target), names(target.parent)) == ([content], ["target"])


def test_a_folder_that_may_not_be_replaced_is_left(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()

    def refuse(path: Path) -> None:
        raise UsageError("no", path=str(path))

    with refused(UsageError, path=str(tmp_path / "target")), replaced_folder(tmp_path / "target", refuse):
        raise AssertionError("the block must not run")
    assert names(tmp_path) == ["target"]


def test_a_place_that_is_no_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    target = tmp_path / "file" / "target"
    with refused(UsageError, path=str(target)), replaced_folder(target, any_target):
        pass
    with refused(UsageError, path=str(tmp_path / "file" / "name")):
        put_file(tmp_path / "file", "name", b"")
    assert names(tmp_path) == ["file"]


def test_a_file_of_a_folder_is_put_there_in_one_step(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "other").touch()
    for content in (b"one", b"two"):
        put_file(folder, "name", content)
        assert (folder / "name").read_bytes() == content
    assert (names(folder), names(tmp_path)) == (["name", "other"], ["folder"])


@pytest.mark.parametrize("can_exchange", [True, False])
def test_a_failure_after_the_last_step_does_not_say_that_nothing_was_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, can_exchange: bool
) -> None:
    """The last `fsync` is that of the folder in which the name changed."""
    if not can_exchange:
        monkeypatch.setattr("byheart.files.atomic_folder._exchange", lambda *_: False)
    target = tmp_path / "target"
    target.mkdir()
    inode = tmp_path.stat().st_ino

    def fail_at_parent(handle: int) -> None:
        if os.fstat(handle).st_ino == inode:
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail_at_parent)
    with refused(UsageError, path=str(target)) as raised, replaced_folder(target, any_target) as fresh:
        (fresh / "new").touch()
    assert names(target) == ["new"]
    assert "Nothing was changed" not in str(raised.value)
    inode = target.stat().st_ino
    with refused(UsageError, path=str(target / "name")) as raised:
        put_file(target, "name", b"content")
    assert (target / "name").read_bytes() == b"content"
    assert "Nothing was changed" not in str(raised.value)


def inode(path: Path) -> int:
    return path.stat().st_ino


def test_what_gets_a_new_name_is_on_disk_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, target = tmp_path / "folder", tmp_path / "target"
    folder.mkdir()
    synced: list[tuple[int, bool, bool]] = []  # what is synced, and whether the file and the folder are there

    def sync(handle: int) -> None:
        synced.append((os.fstat(handle).st_ino, (folder / "name").exists(), target.exists()))

    monkeypatch.setattr(os, "fsync", sync)
    put_file(folder, "name", b"content")
    assert synced == [(inode(folder / "name"), False, False), (inode(folder), True, False)]
    synced.clear()
    with replaced_folder(target, any_target) as fresh:
        (fresh / "one").touch()
        (fresh / "two").touch()
    assert sorted(synced[:2]) == sorted((inode(target / name), True, False) for name in ("one", "two"))
    assert synced[2:] == [(inode(target), True, False), (inode(tmp_path), True, True)]


def test_a_temporary_folder_that_someone_else_removed_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()

    def remove_others(handle: int) -> None:
        if (folder / "name").exists():
            (fresh,) = tmp_path.glob(".folder.*")
            fresh.rmdir()

    monkeypatch.setattr(os, "fsync", remove_others)
    put_file(folder, "name", b"content")
    assert (names(folder), names(tmp_path)) == (["name"], ["folder"])


def failing_sync(number: int) -> Callable[[int], None]:
    """Like `os.fsync`, but the call of this number fails, counted from 1."""
    calls = itertools.count(1)

    def sync(handle: int) -> None:
        if next(calls) == number:
            raise OSError(5, "Input/output error")

    return sync


@pytest.mark.parametrize(("kind", "n_steps"), [("folder", 3), ("file", 2)])
def test_an_error_says_whether_the_target_was_replaced(
    kind: str, n_steps: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the last `fsync` follows the change of the name."""
    target = tmp_path / "target"
    target.mkdir()
    told: list[tuple[list[str], str]] = []
    for step in range(1, n_steps + 1):
        monkeypatch.setattr(os, "fsync", failing_sync(step))
        with refused(UsageError, "path") as raised:
            if kind == "file":
                put_file(target, "new", b"")
            else:
                with replaced_folder(target, any_target) as fresh:
                    (fresh / "new").touch()
        assert names(tmp_path) == ["target"]
        told.append((names(target), str(raised.value)))
    *before, after = told
    assert [there for there, _ in told] == [[]] * (n_steps - 1) + [["new"]]
    assert len({text for _, text in before}) == 1
    assert after[1] != before[0][1]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux exchanges folders in one step")
def test_linux_exchanges_two_folders_in_one_step(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
        (folder / f"of {folder.name}").touch()
    assert _exchange(one, other)
    assert (names(one), names(other)) == (["of other"], ["of one"])
    assert not _exchange(one, tmp_path / "missing")
    assert names(tmp_path) == ["one", "other"]


def no_library(*_: object, **__: object) -> object:
    raise OSError("no such library")


def another_library(*_: object, **__: object) -> object:
    return object()


@pytest.mark.parametrize("library", [no_library, another_library])
def test_a_folder_is_replaced_where_the_system_cannot_exchange(
    library: Callable[..., object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ctypes, "CDLL", library)
    target = tmp_path / "target"
    for content in ("one", "two"):
        with replaced_folder(target, any_target) as fresh:
            (fresh / content).touch()
        assert (names(target), names(tmp_path)) == ([content], ["target"])


@pytest.mark.parametrize(("age", "is_left"), [(3599, True), (3600, False), (3601, False)])
def test_what_names_no_process_is_abandoned_after_an_hour(
    tmp_path: Path, age: int, is_left: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_000_000_000
    monkeypatch.setattr(time, "time", lambda: now)
    leftover = tmp_path / ".target.0badcafe.new"
    leftover.mkdir()
    os.utime(leftover, (now - age, now - age))
    mend(tmp_path / "target")
    assert leftover.exists() == is_left


@pytest.mark.parametrize(
    ("there", "left"),
    [
        ({".target.{gone}-0badcafe.new"}, set()),
        ({".target.{gone}-0badcafe.old"}, {"target"}),
        ({".target.{gone}-0badcafe.new", ".target.{gone}-0badcafe.old"}, {"target"}),
        ({"target", ".target.{gone}-0badcafe.new", ".target.{gone}-0badbeef.old"}, {"target"}),
        ({".target.{self}-0badcafe.new"}, {".target.{self}-0badcafe.new"}),
        ({".target.{parent}-0badcafe.old"}, {".target.{parent}-0badcafe.old"}),
        (
            {".targets.{gone}-0badcafe.new", ".target.{gone}-0badcafe.new2", "target.{gone}-0badcafe.new"},
            None,
        ),
        ({".target.{gone}-0badcaf.new", ".target.{gone}-0BADCAFE.old", ".target.{gone}-0badcafe.mid"}, None),
    ],
)
def test_only_what_a_dead_process_left_is_mended(
    tmp_path: Path, there: set[str], left: set[str] | None
) -> None:
    words = {"gone": GONE, "self": os.getpid(), "parent": os.getppid()}
    for name in there:
        (tmp_path / name.format(**words)).mkdir()
    mend(tmp_path / "target")
    expected = there if left is None else left
    assert set(names(tmp_path)) == {name.format(**words) for name in expected}


def always_fails() -> None:
    raise UsageError("no")


def test_a_folder_is_read_again_while_it_changes(tmp_path: Path) -> None:
    calls: list[int] = []

    def fails() -> None:
        calls.append(1)
        raise UsageError("no")

    with refused(UsageError):
        read_whole(tmp_path, fails)
    assert len(calls) == 1  # nothing changed, so it would fail again

    def changes() -> int:
        calls.append(1)
        (tmp_path / f"file{len(calls)}").touch()
        return len(calls)

    calls.clear()
    assert read_whole(tmp_path, changes) == 21  # twenty attempts, and what the last one finds

    def counts() -> int:
        calls.append(1)
        return len(calls)

    calls.clear()
    assert read_whole(tmp_path, counts) == 1  # nothing changed, so once is enough


@pytest.mark.parametrize(
    ("there", "is_repeated"),
    [
        ({".target.1-0badcafe.old"}, True),
        ({"target", ".target.1-0badcafe.old"}, False),  # left there after both moves
        ({".target.1-0badcafe.new"}, False),
        ({".other.1-0badcafe.old"}, False),
        (set(), False),
    ],
)
def test_a_folder_that_is_being_moved_is_waited_for(
    there: set[str], is_repeated: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in there:
        (tmp_path / name).mkdir()
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)
    calls: list[int] = []

    def fails_once() -> int:
        calls.append(1)
        if len(calls) == 1:
            raise UsageError("no")
        return len(calls)

    def fails() -> None:
        calls.append(1)
        raise UsageError("no")

    if is_repeated:
        assert read_whole(tmp_path / "target", fails_once) == 2
        assert waits == [ATTEMPT_SECONDS]
    calls.clear()
    with refused(UsageError):
        read_whole(tmp_path / "target", fails)
    assert len(calls) == (ATTEMPTS + 1 if is_repeated else 1)


def test_a_folder_in_no_folder_is_not_waited_for(tmp_path: Path) -> None:
    with refused(UsageError):
        read_whole(tmp_path / "missing" / "target", always_fails)
