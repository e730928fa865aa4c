"""Key files at their limits: how large, for whom, in which form, and when they are on disk."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from byheart.errors import UsageError
from tests.refusal import refused

pytest.importorskip("cryptography", reason="the package cryptography is not installed")

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed448, ed25519, x25519

from byheart.storage.keys import read_private_key, read_public_key, write_new_key

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
        return true(path, *rest)  # type: ignore[arg-type]

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
