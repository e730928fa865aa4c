"""Read Ed25519 keys from files that OpenSSL or OpenSSH wrote, and make new keys.

A private key is a PEM file (`openssl genpkey -algorithm ed25519`, `byheart sign --new-key`) or an OpenSSH file. A
public key is a PEM file, a line of an OpenSSH file, or the 64 hexadecimal digits that `byheart sign` prints.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from byheart.errors import UsageError, import_extra
from byheart.files.whole_file import check_file_target
from byheart.storage.target import as_path

PURPOSE = "signing a model, or checking its signature,"
DIGITS = re.compile(r"[0-9a-fA-F]{64}")
MAX_KEY_BYTES = 2**14
SUFFIX = ".pub"


def read_private_key(path: Path) -> Any:
    """Read the Ed25519 private key in a file. Raise `UsageError` if there is none, or if a passphrase protects it."""
    load = _serialization()
    raw = _read(path)
    reader = load.load_ssh_private_key if b"OPENSSH PRIVATE KEY" in raw else load.load_pem_private_key
    try:
        key = reader(raw, password=None)
    # the file is not a key, or the key is encrypted; the libraries raise different types of exceptions
    except Exception as error:
        if "ENCRYPTED" in raw.decode("ascii", "replace") or "password" in str(error).lower():
            problem = "the key is protected by a passphrase, which byheart does not support"
            raise _refusal(
                path, problem, "Write the key without a passphrase to a file that only you can read."
            ) from None
        raise _refusal(path, "the file holds no private key") from None
    if not isinstance(key, _ed25519().Ed25519PrivateKey):
        raise _refusal(path, f"the key is not an Ed25519 private key, but of type {type(key).__name__}")
    return key


def read_public_key(given: str | Path) -> bytes:
    """Return the 32 bytes of an Ed25519 public key, given as the path of a file or as 64 hexadecimal digits."""
    path = as_path(given)
    if DIGITS.fullmatch(str(path)) and not path.exists():
        return bytes.fromhex(str(path))
    load = _serialization()
    raw = _read(path)
    if b"PRIVATE KEY" in raw:
        problem = "the file holds a private key, but a signature is checked with the public key"
        raise _refusal(path, problem, "Give the 64 digits that `byheart sign` prints, or the .pub file.")
    if DIGITS.fullmatch(raw.decode("ascii", "replace").strip()):
        return bytes.fromhex(raw.decode("ascii").strip())
    reader = load.load_ssh_public_key if raw.startswith(b"ssh-") else load.load_pem_public_key
    try:
        key = reader(raw)
    except Exception:  # OpenSSL raises many types of exceptions
        raise _refusal(path, "the file holds no public key") from None
    if not isinstance(key, _ed25519().Ed25519PublicKey):
        raise _refusal(path, f"the key is not an Ed25519 public key, but of type {type(key).__name__}")
    return bytes(key.public_bytes_raw())


def write_new_key(path: Path) -> bytes:
    """Make a key pair.

    The private key is written to `path`, readable by its owner only, and the public key to `path`.pub. Return the
    public key.

    Existing files are never overwritten.
    """
    check_file_target(path)
    load, public_path = _serialization(), path.with_name(path.name + SUFFIX)
    for each in (path, public_path):
        if each.exists() or each.is_symlink():
            raise UsageError(
                f"{each} exists, and keys are never overwritten.\n"
                "  Nothing was written. Choose another path.",
                path=str(each),
            )
    key = _ed25519().Ed25519PrivateKey.generate()
    private = key.private_bytes(load.Encoding.PEM, load.PrivateFormat.PKCS8, load.NoEncryption())
    public = key.public_key().public_bytes(load.Encoding.PEM, load.PublicFormat.SubjectPublicKeyInfo)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write_new(path, private, 0o600)
        try:
            _write_new(public_path, public, 0o644)
        except OSError:
            with suppress(OSError):
                path.unlink()
            raise
    except OSError as error:
        raise UsageError(
            f"cannot write {error.filename or path}: {error.strerror}.", path=str(path)
        ) from error
    return bytes(key.public_key().public_bytes_raw())


def _write_new(path: Path, content: bytes, mode: int) -> None:
    """Write a new file, created with its final access mode."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _read(path: Path) -> bytes:
    if not path.is_file():
        raise _refusal(path, "there is no such file")
    with path.open("rb") as file:
        raw = file.read(MAX_KEY_BYTES + 1)
    if len(raw) > MAX_KEY_BYTES:
        raise _refusal(path, "the file is too large for a key")
    return raw


def _refusal(path: Path, problem: str, remedy: str = "") -> UsageError:
    hint = remedy or "Give an Ed25519 key; `byheart sign --new-key FILE` makes one."
    return UsageError(f"{path}: {problem}.\n  {hint}", path=str(path), problem=problem)


def _serialization() -> Any:
    return import_extra("cryptography.hazmat.primitives.serialization", "sign", PURPOSE)


def _ed25519() -> Any:
    return import_extra("cryptography.hazmat.primitives.asymmetric.ed25519", "sign", PURPOSE)
