"""A model whose certificate is signed, and the keys."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import byheart as bh
from byheart.storage.keys import write_new_key
from byheart.storage.signature import sign

DATA = Path(__file__).resolve().parents[2] / "examples" / "capitals.csv"


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two keys: `ours` and `theirs`."""
    folder = tmp_path_factory.mktemp("keys")
    for name in ("ours", "theirs"):
        write_new_key(folder / name)
    return folder


@pytest.fixture(scope="session")
def signed_once(keys: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("signed") / "model"
    bh.compile(DATA, method="retrieval").save(folder)
    sign(folder, keys / "ours")
    return folder


@pytest.fixture
def signed(signed_once: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(signed_once, tmp_path / "model"))


def edit(path: Path, **changes: Any) -> None:
    document = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**document, **changes}, ensure_ascii=False), encoding="utf-8")
