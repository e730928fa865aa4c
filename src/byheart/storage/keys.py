"""Ed25519 keys: read from files as OpenSSL and OpenSSH write them, or newly made.

A private key is a PEM file (`openssl genpkey -algorithm ed25519`, `byheart sign --new-key`) or one of OpenSSH. A public key is
a PEM file, a line of OpenSSH, or its 64 hexadecimal digits, which `byheart sign` prints.
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

PURPOSE = "signing a model, or checking who signed it,"
DIGITS = re.compile(r"[0-9a-fA-F]{64}")
MAX_KEY_BYTES = 2**14
SUFFIX = ".pub"


def read_private_key(path: Path) -> Any:
    """The Ed25519 private key in a file. `UsageError` where there is none, or one that a passphrase protects."""
    load = _serialization()
    raw = _read(path)
    reader = load.load_ssh_private_key if b"OPENSSH PRIVATE KEY" in raw else load.load_pem_private_key
    try:
        key = reader(raw, password=None)
    except Exception as error:  # the file is not a key, or it is encrypted; each library raises its own type
        if "ENCRYPTED" in raw.decode("ascii", "replace") or "password" in str(error).lower():
            problem = "the key is protected by a passphrase, which byheart does not ask for"
            raise _refusal(path, problem, "Write it without one to a file that only you can read.") from None
        raise _refusal(path, "the file holds no private key") from None
    if not isinstance(key, _ed25519().Ed25519PrivateKey):
        raise _refusal(path, f"the key is of another kind ({type(key).__name__})")
    return key


def read_public_key(given: str | Path) -> bytes:
    """The 32 bytes of an Ed25519 public key, given as the path of a file or as its 64 hexadecimal digits."""
    path = as_path(given)
    if DIGITS.fullmatch(str(path)) and not path.exists():
        return bytes.fromhex(str(path))
    load = _serialization()
    raw = _read(path)
    if b"PRIVATE KEY" in raw:
        problem = "the file holds a private key; who signed is checked with the public one"
        raise _refusal(path, problem, "`byheart sign` prints it: give its 64 digits, or the .pub file.")
    if DIGITS.fullmatch(raw.decode("ascii", "replace").strip()):
        return bytes.fromhex(raw.decode("ascii").strip())
    reader = load.load_ssh_public_key if raw.startswith(b"ssh-") else load.load_pem_public_key
    try:
        key = reader(raw)
    except Exception:  # as OpenSSL happens to raise
        raise _refusal(path, "the file holds no public key") from None
    if not isinstance(key, _ed25519().Ed25519PublicKey):
        raise _refusal(path, f"the key is of another kind ({type(key).__name__})")
    return bytes(key.public_bytes_raw())


def write_new_key(path: Path) -> bytes:
    """Make a key pair: the private key at `path`, readable by its owner only, and the public key at `path`.pub, which is returned.

    Nothing is ever overwritten.
    """
    load, public_path = _serialization(), path.with_name(path.name + SUFFIX)
    check_file_target(path)
    for each in (path, public_path):
        if each.exists() or each.is_symlink():
            raise UsageError(
                f"{each} exists, and a key is never overwritten.\n  Choose another place; nothing was written.",
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
    """Write a new file, created with its final mode."""
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
    hint = remedy or "Name an Ed25519 key; `byheart sign --new-key FILE` makes one."
    return UsageError(f"{path}: {problem}.\n  {hint}", path=str(path), problem=problem)


def _serialization() -> Any:
    return import_extra("cryptography.hazmat.primitives.serialization", "sign", PURPOSE)


def _ed25519() -> Any:
    return import_extra("cryptography.hazmat.primitives.asymmetric.ed25519", "sign", PURPOSE)
