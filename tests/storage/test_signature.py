"""Signatures: who vouches for a certificate. What was signed is accepted, for every family; what is not right is not signed."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import byheart as bh
from byheart.errors import CorruptModel, UsageError
from byheart.storage.keys import read_public_key
from byheart.storage.signature import canonical, require_signed, sign
from byheart.verify.digest import model_digest
from tests.refusal import refused
from tests.storage.conftest import edit
from tests.storage.test_fixtures import FIXTURES
from tests.storage.test_folder import GONE

pytest.importorskip("cryptography", reason="needs the `sign` extra")

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

FOLDERS = sorted(path.name for path in FIXTURES.iterdir() if (path / "certificate.json").exists())


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_of_every_family_is_signed(name: str, keys: Path, tmp_path: Path) -> None:
    model, folder = bh.load(FIXTURES / name), tmp_path / "model"
    assert model.certificate is not None
    digest = model_digest(model.memoriser)
    replace(model, certificate=replace(model.certificate, model_digest=digest)).save(folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    found = bh.sign(folder, keys / "ours")
    assert found.public_key == read_public_key(keys / "ours.pub").hex()
    assert require_signed(folder, keys / "ours.pub")[0] == found
    assert bh.load(folder, signed_by=keys / "ours.pub").certificate == bh.load(folder).certificate
    after = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert {**before, "signature.json": after["signature.json"]} == after
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_the_signature_is_what_the_documentation_says(signed: Path) -> None:
    """Checked with the package `cryptography` alone."""
    found = json.loads((signed / "signature.json").read_text())
    document = json.loads((signed / "certificate.json").read_text(encoding="utf-8"))
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    content = b"byheart certificate 1\n" + text.encode("ascii")
    key = ed25519.Ed25519PublicKey.from_public_bytes(bytes.fromhex(found["public_key"]))
    key.verify(bytes.fromhex(found["signature"]), content)
    assert found["certificate"] == hashlib.sha256(content).hexdigest()


def test_the_layout_of_a_certificate_is_not_signed(signed: Path, keys: Path) -> None:
    path = signed / "certificate.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(dict(sorted(document.items(), reverse=True)), indent=7))
    require_signed(signed, keys / "ours.pub")


def test_signing_twice_gives_the_same_bytes_and_another_key_replaces_them(signed: Path, keys: Path) -> None:
    first = (signed / "signature.json").read_bytes()
    sign(signed, keys / "ours")
    assert (signed / "signature.json").read_bytes() == first
    sign(signed, keys / "theirs")
    require_signed(signed, keys / "theirs.pub")
    with refused(CorruptModel, "problem", "key"):
        require_signed(signed, keys / "ours.pub")


@pytest.mark.parametrize("how", ["digits", "DIGITS", "path as text", "file of digits", "OpenSSH"])
def test_a_public_key_is_given_in_several_ways(how: str, signed: Path, keys: Path, tmp_path: Path) -> None:
    digits = read_public_key(keys / "ours.pub").hex()
    key = ed25519.Ed25519PublicKey.from_public_bytes(bytes.fromhex(digits))
    line = key.public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    (tmp_path / "digits.txt").write_text(f"{digits}\n")
    (tmp_path / "ssh.pub").write_bytes(line + b" me@here\n")
    given: dict[str, str | Path] = {
        "digits": digits,
        "DIGITS": digits.upper(),
        "path as text": str(keys / "ours.pub"),
        "file of digits": tmp_path / "digits.txt",
        "OpenSSH": tmp_path / "ssh.pub",
    }
    require_signed(signed, given[how])


def test_a_private_key_of_openssh_signs(signed: Path, tmp_path: Path) -> None:
    key = ed25519.Ed25519PrivateKey.generate()
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption())
    (tmp_path / "id_ed25519").write_bytes(key.private_bytes(*form))
    sign(signed, tmp_path / "id_ed25519")
    require_signed(signed, key.public_key().public_bytes_raw().hex())


def test_what_a_kill_leaves_of_signing_is_cleared_away(signed: Path, keys: Path) -> None:
    """The new file is written beside the folder."""
    left = signed.with_name(f".{signed.name}.{GONE}-{'0' * 8}.new")
    left.mkdir()
    (left / "signature.json").write_text("half")
    bh.load(signed, signed_by=keys / "ours.pub")
    bh.load(signed).save(signed)
    assert not left.exists()


def test_a_place_that_cannot_be_written_is_named(
    signed: Path, keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (signed / "signature.json").read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with refused(UsageError, path=str(signed.resolve() / "signature.json")):
        sign(signed, keys / "theirs")
    assert (signed / "signature.json").read_bytes() == before
    assert [path.name for path in signed.parent.iterdir()] == [signed.name]


def test_a_changed_folder_is_not_signed(signed: Path, keys: Path) -> None:
    (signed / "signature.json").unlink()
    edit(signed / "model.json", ordered=False)
    with refused(CorruptModel):
        sign(signed, keys / "ours")
    assert not (signed / "signature.json").exists()


def test_a_folder_without_certificate_is_not_signed(signed: Path, keys: Path) -> None:
    (signed / "certificate.json").unlink()
    with refused(UsageError, path=str(signed)):
        sign(signed, keys / "ours")


def test_a_certificate_of_an_older_version_is_not_signed(keys: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(FIXTURES / "schema-1-exact", tmp_path / "model")
    with refused(CorruptModel, "problem"):
        sign(folder, keys / "ours")
    assert not (tmp_path / "model" / "signature.json").exists()


def test_a_number_that_json_lacks_is_not_signed() -> None:
    with pytest.raises(ValueError, match="JSON"):
        canonical({"seconds": float("nan")})
