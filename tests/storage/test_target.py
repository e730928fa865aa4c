"""Where a model folder may be written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from byheart.errors import UsageError
from byheart.storage import load_folder, save_folder
from byheart.storage.target import check_target, refuse_same_folder
from tests.refusal import refused

from ..verify.lookup import capitals, lookup
from .test_folder import RECORD

WEIGHTS = "model.safetensors"


@pytest.mark.parametrize("path", [5, None, "a\0b", b"a\0b", ["model"]])
def test_what_is_not_a_path_is_refused(path: Any) -> None:
    for use in (load_folder, lambda path: save_folder(path, lookup(capitals()), RECORD, None)):
        with refused(UsageError, path=repr(path)):
            use(path)


def test_a_dangling_link_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with refused(UsageError, path=str(tmp_path / "link")):
        check_target(tmp_path / "link")
    check_target(tmp_path / "new")


def test_the_folder_that_is_read_is_not_the_one_to_write(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "model")
    refuse_same_folder(tmp_path / "new", tmp_path / "model")
    refuse_same_folder(tmp_path / "model", tmp_path / "nowhere")
    for output in (tmp_path / "model", tmp_path / "link"):
        with refused(UsageError, path=str(output)):
            refuse_same_folder(output, tmp_path / "model")


def test_three_of_the_files_in_the_way_are_named(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"thesis{number}").touch()
    with refused(UsageError, holds=[f"thesis{number}" for number in range(5)]) as caught:
        save_folder(tmp_path, lookup(capitals()), RECORD, None)
    assert [f"thesis{number}" in str(caught.value) for number in range(5)] == [True] * 3 + [False] * 2


def test_what_is_in_the_way_is_named_and_not_what_may_be_there(tmp_path: Path) -> None:
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / WEIGHTS).touch()
    save_folder(tmp_path / "whole", lookup(capitals()), RECORD, None)
    (tmp_path / "whole" / "thesis").touch()
    for name, holds in (("half", [WEIGHTS]), ("whole", ["thesis"])):
        with refused(UsageError, holds=holds) as caught:
            save_folder(tmp_path / name, lookup(capitals()), RECORD, None)
        assert (WEIGHTS in str(caught.value), "thesis" in str(caught.value)) == (
            name == "half",
            name == "whole",
        )
        assert ("is not a byheart model folder" in str(caught.value)) == (name == "half")
