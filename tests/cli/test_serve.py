"""`byheart serve` before it serves: what is missing or wrong is said at once."""

from __future__ import annotations

import socket
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from byheart import errors
from tests.cli.conftest import Byheart


def test_a_missing_extra_is_named(byheart: Byheart, monkeypatch: pytest.MonkeyPatch) -> None:
    def find(name: str) -> ModuleSpec | None:
        return None if name == "uvicorn" else ModuleSpec(name, None)

    monkeypatch.setattr(errors, "find_spec", find)
    done = byheart("serve")
    assert done.status == 2
    assert "[web]" in done.err


def test_a_taken_port_is_named(byheart: Byheart) -> None:
    pytest.importorskip("fastapi", reason="the extra `web` is not installed")
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        done = byheart("serve", "--port", str(other.getsockname()[1]))
    assert done.status == 2
    assert "--port" in done.err


def test_a_store_that_is_not_there_is_named(byheart: Byheart, tmp_path: Path) -> None:
    done = byheart("serve", "--store", str(tmp_path / "none.sqlite"))
    assert done.status == 2
    assert "none.sqlite does not exist" in done.err


def test_serving_is_not_imported_with_the_package() -> None:
    import subprocess

    script = (
        "import sys, byheart, byheart.cli.main; sys.exit(bool({'fastapi', 'uvicorn'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_the_bundled_example_is_the_one_of_the_checkout(project_root: Path) -> None:
    bundled = project_root / "src" / "byheart" / "web" / "examples" / "capitals.csv"
    assert bundled.read_bytes() == (project_root / "examples" / "capitals.csv").read_bytes()
