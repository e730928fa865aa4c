"""Key files at their limits: how large, for whom, in which form, and when they are on disk."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import byheart as bh
from byheart.errors import CorruptModel, MissingExtra, UsageError
from tests.refusal import refused
from tests.storage.conftest import edit

pytest.importorskip("cryptography", reason="needs the `sign` extra")

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed448, ed25519, x25519

from byheart.storage.keys import read_private_key, read_public_key, write_new_key
from byheart.storage.signature import require_signed, sign

PEM = serialization.Encoding.PEM
KEY = ed25519.Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PUBLIC = KEY.public_key().public_bytes_raw()


def private(form: serialization.PrivateFormat, passphrase: bytes = b"") -> bytes:
    plain = serialization.NoEncryption()
    secret = serialization.BestAvailableEncryption(passphrase) if passphrase else plain
    return KEY.private_bytes(PEM, form, secret)


def test_a_key_file_has_at_most_sixteen_kilobytes(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_bytes(PUBLIC.hex().encode().ljust(2**14))
    assert read_public_key(path) == PUBLIC
    path.write_bytes(PUBLIC.hex().encode().ljust(2**14 + 1))
    with refused(UsageError, "problem", path=str(path)):
        read_public_key(path)


def test_keys_are_written_for_whom_they_are_and_put_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda handle: sizes.append(os.fstat(handle).st_size))
    before = os.umask(0)
    try:
        public = write_new_key(tmp_path / "key")
    finally:
        os.umask(before)
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("key", "key.pub")]
    assert modes == [0o600, 0o644]
    assert sizes == [(tmp_path / name).stat().st_size for name in ("key", "key.pub")]
    assert all(sizes)
    assert read_public_key(public.hex()) == read_public_key(public.hex().upper()) == public


def test_the_private_key_goes_where_the_public_one_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    true = os.open

    def refuse_public(path: object, *rest: int) -> int:
        if str(path).endswith(".pub"):
            raise OSError(28, "No space left on device", str(path))
        return true(path, *rest)

    monkeypatch.setattr(os, "open", refuse_public)
    with refused(UsageError, path=str(tmp_path / "key")):
        write_new_key(tmp_path / "key")
    assert list(tmp_path.iterdir()) == []


def test_a_key_needs_a_name() -> None:
    with refused(UsageError, path="."):
        write_new_key(Path())


def test_folders_of_a_new_key_are_made(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "key"
    assert write_new_key(path) == read_public_key(path.with_name("key.pub"))


def test_private_keys_are_read_in_two_forms_and_never_with_a_passphrase(tmp_path: Path) -> None:
    path, problems = tmp_path / "key", []
    for form in (serialization.PrivateFormat.PKCS8, serialization.PrivateFormat.OpenSSH):
        path.write_bytes(private(form))
        assert read_private_key(path).public_key().public_bytes_raw() == PUBLIC
        with refused(UsageError, path=str(path)):
            read_public_key(path)  # a private key, by mistake
    for content in (
        private(serialization.PrivateFormat.PKCS8, b"word"),
        b"-----BEGIN PRIVATE KEY-----\n",
        b"text",
    ):
        path.write_bytes(content)
        with refused(UsageError, path=str(path)) as caught:
            read_private_key(path)
        problems.append(caught.value.facts["problem"])
    assert problems[0] != problems[1] == problems[2]


def test_a_file_whose_name_is_a_key_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    other = "0" * 64
    assert read_public_key(other) == bytes(32)
    Path(other).write_text(PUBLIC.hex())
    assert read_public_key(other) == PUBLIC
    with refused(UsageError, "problem", path="0" * 63):
        read_public_key("0" * 63)


def test_keys_of_another_kind_are_not_taken_for_ed25519_keys(tmp_path: Path) -> None:
    """An X25519 key has 32 bytes too, and an Ed448 key signs too."""
    spki, pkcs8 = serialization.PublicFormat.SubjectPublicKeyInfo, serialization.PrivateFormat.PKCS8
    for other in (x25519.X25519PrivateKey.generate(), ed448.Ed448PrivateKey.generate()):
        public, secret = tmp_path / "other.pub", tmp_path / "other"
        public.write_bytes(other.public_key().public_bytes(PEM, spki))
        secret.write_bytes(other.private_bytes(PEM, pkcs8, serialization.NoEncryption()))
        with refused(UsageError, path=str(public)) as caught:
            read_public_key(public)
        assert type(other.public_key()).__name__ in caught.value.facts["problem"]
        assert "byheart sign --new-key" in str(caught.value)
        with refused(UsageError, path=str(secret)) as caught:
            read_private_key(secret)
        assert type(other).__name__ in caught.value.facts["problem"]


def test_a_new_key_is_for_its_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        public = write_new_key(tmp_path / "deep" / "key")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "deep" / "key").stat().st_mode) == 0o600
    assert read_public_key(tmp_path / "deep" / "key.pub") == public
    assert read_private_key(tmp_path / "deep" / "key").public_key().public_bytes_raw() == public
    assert write_new_key(tmp_path / "other") != public


@pytest.mark.parametrize("taken", ["key", "key.pub"])
@pytest.mark.parametrize("kind", ["file", "link", "folder"])
def test_a_key_is_never_overwritten(taken: str, kind: str, tmp_path: Path) -> None:
    path = tmp_path / taken
    if kind == "file":
        path.write_text("mine")
    elif kind == "link":
        path.symlink_to(tmp_path / "nowhere")
    else:
        path.mkdir()
    with refused(UsageError, path=str(path)):
        write_new_key(tmp_path / "key")
    assert [each.name for each in tmp_path.iterdir()] == [taken]
    assert kind != "file" or path.read_text() == "mine"


def test_a_key_is_not_written_into_a_model_folder(signed: Path) -> None:
    with refused(UsageError, path=str(signed / "key")):
        write_new_key(signed / "key")
    assert not (signed / "key").exists()


def bad_private_keys() -> Iterator[tuple[str, bytes]]:
    from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key

    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8)
    secret = serialization.BestAvailableEncryption(b"word")
    key = ed25519.Ed25519PrivateKey.generate()
    yield "passphrase", key.private_bytes(*form, secret)
    yield "RSA", generate_private_key(65537, 1024).private_bytes(*form, serialization.NoEncryption())
    spki = serialization.PublicFormat.SubjectPublicKeyInfo
    yield "public", key.public_key().public_bytes(form[0], spki)
    yield "empty", b""
    yield "text", b"a key"
    yield "binary", bytes(range(256))
    yield "large", b"-" * 2**20
    yield "cut", key.private_bytes(*form, serialization.NoEncryption())[:60]


def test_what_is_not_an_unprotected_ed25519_key_is_refused(signed: Path, tmp_path: Path) -> None:
    for name, content in bad_private_keys():
        (tmp_path / "key").write_bytes(content)
        with refused(UsageError, "problem", path=str(tmp_path / "key")):
            sign(signed, tmp_path / "key")
        if name != "public":
            with refused(UsageError, "problem", path=str(tmp_path / "key")):
                require_signed(signed, tmp_path / "key")
    for missing in (tmp_path / "nowhere", tmp_path):
        with refused(UsageError, "problem", path=str(missing)):
            sign(signed, missing)
        with refused(UsageError, "problem", path=str(missing)):
            require_signed(signed, missing)


@pytest.mark.parametrize("key", [5, None, "a\0b"])
def test_what_is_not_a_path_is_refused(key: Any, signed: Path) -> None:
    with refused(UsageError, "path"):
        sign(signed, key)
    with refused(UsageError, "path"):
        require_signed(signed, key)


def test_a_key_that_is_no_point_made_no_signature(signed: Path) -> None:
    for digits in ("ff" * 32, "02" + "00" * 31):
        edit(signed / "signature.json", public_key=digits)
        with refused(CorruptModel, "problem", key=digits):
            require_signed(signed, digits)


def test_without_the_package_it_says_what_to_install(
    signed: Path, keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digits = read_public_key(keys / "ours.pub").hex()
    for name in [each for each in sys.modules if each.partition(".")[0] == "cryptography"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    bh.load(signed)  # needs no key
    for needs in (
        lambda: sign(signed, keys / "ours"),
        lambda: require_signed(signed, digits),
        lambda: require_signed(signed, keys / "ours.pub"),
        lambda: write_new_key(tmp_path / "key"),
    ):
        with refused(MissingExtra, package="cryptography", extra="sign"):
            needs()
