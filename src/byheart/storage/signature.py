"""Signatures of certificates: Ed25519, in the file signature.json of the model folder.

What is signed is the certificate's canonical text: `PREFIX`, then the document of certificate.json with its keys sorted, without
blanks, in ASCII. The certificate has the digests of weights, model and data, so the signature covers exactly these.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from byheart.errors import CorruptModel, UsageError, import_extra
from byheart.files.atomic_folder import put_file
from byheart.records.fields import Fields, read_json
from byheart.records.reader import read_values
from byheart.records.refusals import corrupt
from byheart.storage.folder import load_folder
from byheart.storage.keys import PURPOSE, read_private_key, read_public_key
from byheart.storage.target import CERTIFICATE, SIGNATURE, as_path
from byheart.verify.certificate import Certificate
from byheart.verify.digest import require_certified

SCHEMA = 1
ALGORITHM = "ed25519"
PREFIX = b"byheart certificate 1\n"


@dataclass(frozen=True)
class Signature:
    """The content of signature.json. Key and signature are hexadecimal digits; `certificate` is the SHA-256 of what was signed."""

    schema: int
    algorithm: str
    public_key: str
    certificate: str
    signature: str


def sign(path: str | Path, key: str | Path) -> Signature:
    """Sign the certificate of the model folder at `path` with the Ed25519 private key in the file `key`.

    The folder must match its certificate, and the certificate must hold: otherwise `CorruptModel` is raised. Whether it is true
    is not checked again: sign only what you compiled or verified yourself. An existing signature is replaced.
    """
    folder, private = as_path(path), read_private_key(as_path(key))
    memoriser, _, certificate = load_folder(folder)
    if certificate is None:
        raise UsageError(
            f"{folder} has no {CERTIFICATE}, so there is nothing to sign.\n"
            "  `byheart compile` writes one unless it is told not to check.",
            path=str(folder),
        )
    require_certified(memoriser, certificate, folder)
    _require_verdict(certificate, folder)
    content = canonical(read_json(folder / CERTIFICATE))
    found = Signature(
        SCHEMA,
        ALGORITHM,
        private.public_key().public_bytes_raw().hex(),
        hashlib.sha256(content).hexdigest(),
        private.sign(content).hex(),
    )
    put_file(folder, SIGNATURE, (json.dumps(asdict(found), indent=1) + "\n").encode("ascii"))
    return found


def _require_verdict(certificate: Certificate, folder: Path) -> None:
    """Refuse a certificate that does not cover the labels, or that does not hold: its signature would mislead."""
    if certificate.model_digest is None:
        raise corrupt(
            folder / CERTIFICATE,
            "it is of an older version and covers only the weights, not the labels and the tokenizer",
            "Compile the data again.",
        )
    if not (certificate.holds or certificate.fitted):
        raise corrupt(
            folder / CERTIFICATE, "it does not hold, so it is not signed", "Compile the data again."
        )


def canonical(document: object) -> bytes:
    """The text of a certificate that is signed; it does not depend on the layout of the document."""
    text = json.dumps(document, sort_keys=True, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return PREFIX + text.encode("ascii")


def require_signed(path: str | Path, key: str | Path) -> Signature:
    """The signature of the folder at `path`, if `key` made it for the certificate in the folder; otherwise raises `CorruptModel`.

    key: a public key, as the path of a file or as 64 hexadecimal digits. Only the two files are read: whether weights and labels
    are those of the certificate is checked by `load` and `verify`.
    """
    folder, wanted = as_path(path), read_public_key(key)
    if not (folder / SIGNATURE).exists():
        raise _unsigned(folder, f"the folder is not signed: it has no {SIGNATURE}", wanted)
    found = read_signature(folder)
    if found.public_key != wanted.hex():
        raise _unsigned(folder, f"the folder is signed by another key, {found.public_key}", wanted)
    if not (folder / CERTIFICATE).exists():
        raise _unsigned(folder, f"the folder has a signature, but no {CERTIFICATE}", wanted)
    document = read_json(folder / CERTIFICATE)
    content = canonical(document)
    digest = hashlib.sha256(content).hexdigest()
    if digest != found.certificate:
        problem = (
            f"the signature is of another certificate: of {found.certificate}; the one there is {digest}"
        )
        raise _unsigned(folder, problem, wanted)
    if not _is_made_by(wanted, bytes.fromhex(found.signature), content):
        raise _unsigned(folder, "this key did not make the signature that is there", wanted)
    _require_verdict(Certificate.from_json(document, folder / CERTIFICATE), folder)
    return found


def read_signature(folder: Path) -> Signature:
    """The content of signature.json, which anyone may have written."""
    where = folder / SIGNATURE
    document = Fields(read_json(where), where)
    schema = document.integer("schema", 1)
    if schema > SCHEMA:
        raise corrupt(
            where, f"the file has schema {schema}; this byheart reads {SCHEMA}", "Install a newer byheart."
        )
    found = read_values(document.values, Signature, str(where), refuse=corrupt)
    if found.algorithm != ALGORITHM:
        raise document.refuse("algorithm", ALGORITHM)
    for name, n_digits in (("public_key", 64), ("certificate", 64), ("signature", 128)):
        text = getattr(found, name)
        if len(text) != n_digits or set(text) - set("0123456789abcdef"):
            raise document.refuse(name, f"{n_digits} hexadecimal digits in lower case")
    return found


def _is_made_by(key: bytes, signature: bytes, content: bytes) -> bool:
    """Whether this key made this signature. No other code decides that."""
    ed25519 = import_extra("cryptography.hazmat.primitives.asymmetric.ed25519", "sign", PURPOSE)
    invalid = import_extra("cryptography.exceptions", "sign", PURPOSE).InvalidSignature
    try:
        ed25519.Ed25519PublicKey.from_public_bytes(key).verify(signature, content)
    except (invalid, ValueError):  # ValueError: no point of the curve
        return False
    return True


def _unsigned(folder: Path, problem: str, wanted: bytes) -> CorruptModel:
    return CorruptModel(
        f"{folder}: {problem}.\n  It must be signed by {wanted.hex()}. Get the folder from whoever holds that key.",
        path=str(folder),
        problem=problem,
        key=wanted.hex(),
    )
