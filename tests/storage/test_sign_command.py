"""`byheart sign`, and `byheart verify --signed-by`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from byheart.cli.main import run
from tests.storage.conftest import DATA

pytest.importorskip("cryptography", reason="needs the `sign` extra")


def test_a_graft_has_no_certificate(tmp_path: Path, keys: Path) -> None:
    (tmp_path / "graft.json").write_text("{}")
    assert run(["sign", str(tmp_path), "--key", str(keys / "ours")]) == 2
    assert run(["verify", str(tmp_path), str(DATA), "--signed-by", str(keys / "ours.pub")]) == 2


def test_the_commands(signed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sign", "--new-key", str(tmp_path / "mine"), "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert run(["sign", str(signed), "--key", str(tmp_path / "mine"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["public_key"] == made["public_key"]
    told = ["verify", str(signed), str(DATA), "--json"]
    assert run([*told, "--signed-by", made["public_key"]]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["holds"], found["signed_by"]) == (True, made["public_key"])
    assert run(told) == 0
    assert json.loads(capsys.readouterr().out)["signed_by"] is None
    assert run([*told, "--signed-by", "00" * 32]) == 3
    error = json.loads(capsys.readouterr().out or "{}")
    assert error.get("holds") is not True


@pytest.mark.parametrize(
    "given",
    [[], ["model"], ["--key", "k"], ["model", "--new-key", "k"], ["model", "--key", "k", "--new-key", "k"]],
)
def test_a_key_or_a_new_key(given: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["sign", *given]) == 2
    assert not list(tmp_path.iterdir())
