"""Names become paths inside the given folders, or nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the extra `web` is not installed")

from byheart.errors import UsageError
from byheart.web.folders import Folders, TooLarge, UnknownName
from byheart.web.limits import Limits

HOSTILE = [
    "../secret.csv",
    "..%2fsecret.csv",
    "/etc/passwd",
    "a/b.csv",
    "a\\b.csv",
    "..",
    ".",
    "",
    "x" * 300 + ".csv",
    "漢" * 90 + ".csv",
    ".hidden.csv",
    "a\0.csv",
    "a.csv\n",
    "a.exe",
    "~.csv",
]


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    for name in ("data", "exports", "models", "examples", "figures"):
        (tmp_path / name).mkdir()
    (tmp_path / "secret.csv").write_text("key,value\n")
    (tmp_path / "examples" / "capitals.csv").write_text("key,value\na,b\n")
    (tmp_path / "figures" / "one.json").write_text("{}")
    return Folders(
        tmp_path / "data",
        tmp_path / "exports",
        tmp_path / "models",
        tmp_path / "examples",
        tmp_path / "figures",
        None,
        True,
    )


def upload(folders: Folders, name: str, *parts: bytes, limits: Limits | None = None) -> dict[str, object]:
    async def chunks() -> AsyncIterator[bytes]:
        for part in parts:
            yield part

    return asyncio.run(folders.keep_upload(name, chunks(), limits or Limits()))


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_leads_outside(folders: Folders, name: str) -> None:
    for find in (folders.data_path, folders.model_path, folders.figure_path, folders.export_path):
        with pytest.raises(UnknownName):
            find(name)
    with pytest.raises(UsageError):
        upload(folders, name, b"x")
    assert list(folders.data.iterdir()) == []


def test_links_out_of_the_folders_are_not_followed(folders: Folders, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "model.json").write_text("{}")
    (folders.models / "link").symlink_to(outside)
    (folders.data / "link.csv").symlink_to(tmp_path / "secret.csv")
    assert folders.figures is not None
    (folders.figures / "link.json").symlink_to(outside / "model.json")
    assert folders.list_models() == []
    assert "link" not in folders.list_figures()
    with pytest.raises(UnknownName):
        folders.model_path("link")
    with pytest.raises(UnknownName):
        folders.data_path("link.csv")


def test_uploads_never_replace_one_another_nor_an_example(folders: Folders) -> None:
    names = [upload(folders, "capitals.csv", b"key,", b"value\n")["name"] for _ in range(2)]
    assert names == ["capitals-2.csv", "capitals-3.csv"]
    assert folders.data_path("capitals-2.csv").read_bytes() == b"key,value\n"
    assert next(entry["name"] for entry in folders.list_data()) == "capitals.csv"


def test_an_upload_that_is_too_large_leaves_nothing(folders: Folders) -> None:
    with pytest.raises(TooLarge):
        upload(folders, "big.csv", *[b"x" * 100] * 11, limits=Limits(upload_bytes=1000))
    assert list(folders.data.iterdir()) == []


def test_uploads_are_limited_in_number(folders: Folders) -> None:
    upload(folders, "a.csv", b"x")
    with pytest.raises(TooLarge):
        upload(folders, "b.csv", b"x", limits=Limits(n_data=1))


def test_models_get_free_names(folders: Folders) -> None:
    assert folders.new_model("My Table (1)", Limits()).name == "my-table-1"
    (folders.models / "my-table-1").mkdir()
    second = folders.new_model("My Table (1)", Limits())
    assert second.name == "my-table-1-2"
    assert folders.new_model("My Table (1)", Limits(), [str(second)]).name == "my-table-1-3"
    assert folders.new_model("../../x", Limits()).parent == folders.models
    assert folders.new_model("\u4e16\u754c", Limits()).name == "model"
