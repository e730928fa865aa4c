"""Ed25519 signatures of certificates, in the file signature.json of the model folder.

The canonical text of the certificate is signed: the line `byheart certificate 1`, followed by the JSON document of
certificate.json in ASCII, with sorted keys and without spaces. The certificate holds the digests of the weights, the
model and the data, so the signature covers them too.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from byheart.errors import CorruptModel, UsageError, import_extra
from byheart.files.atomic_folder import put_file, read_whole
from byheart.network.memoriser import Memoriser
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
    """The content of signature.json.

    Key and signature are hexadecimal digits. `certificate` is the SHA-256 of the text that was signed (see `canonical`).
    """

    schema: int
    algorithm: str
    public_key: str
    certificate: str
    signature: str


def sign(path: str | Path, key: str | Path) -> Signature:
    """Sign the certificate of the model folder at `path` with the Ed25519 private key in the file `key`.

    Raise `CorruptModel` if the folder does not match its certificate, if the verdict of the certificate is neither "holds" nor
    "fitted", or if an older version of byheart wrote the certificate and it does not cover the labels. Raise `UsageError` if
    there is no certificate. The model is not verified again, so sign only what you compiled or verified yourself. An
    existing signature is replaced.
    """
    folder, private = as_path(path), read_private_key(as_path(key))
    memoriser, _, certificate = load_folder(folder)
    if certificate is None:
        raise UsageError(
            f"{folder} has no {CERTIFICATE}, so there is nothing to sign.\n"
            "  Compile the data again: `byheart compile` writes a certificate unless verification is "
            "switched off.",
            path=str(folder),
        )
    # the file may have been replaced since, so check the very document that is signed
    document = read_json(folder / CERTIFICATE)
    certificate = Certificate.from_json(document, folder / CERTIFICATE)
    require_certified(memoriser, certificate, folder)
    _require_verdict(certificate, folder)
    content = canonical(document)
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
    """Refuse a certificate that does not cover the labels, or whose verdict is neither "holds" nor "fitted".

    The signature of such a certificate would mislead.
    """
    if certificate.model_digest is None:
        raise corrupt(
            folder / CERTIFICATE,
            "an older version of byheart wrote it, and it covers only the weights, not the labels and the tokenizer",
            "Compile the data again.",
        )
    if not (certificate.holds or certificate.fitted):
        raise corrupt(
            folder / CERTIFICATE,
            f'its verdict is "{certificate.verdict}", so it must not be signed',
            "Compile the data again.",
        )


def canonical(document: object) -> bytes:
    """Return the text that is signed for a certificate. It does not depend on the order of keys or on white space in `document`."""
    text = json.dumps(document, sort_keys=True, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return PREFIX + text.encode("ascii")


def require_signed(path: str | Path, key: str | Path) -> tuple[Signature, object]:
    """Return the signature in the folder at `path`, and the document of the certificate that was signed.

    Raise `CorruptModel` unless the signature was made from the certificate in the folder with the private key belonging to `key`.
    Also raise it if the verdict of this certificate is neither "holds" nor "fitted", or if the certificate does not cover the
    labels. This function reads only the certificate and the signature. `load_signed` loads the model with the same certificate.

    key: a public key, as the path of a file or as 64 hexadecimal digits.
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
            f"the signature belongs to another certificate, the one with SHA-256 {found.certificate}; "
            f"the certificate in the folder has SHA-256 {digest}"
        )
        raise _unsigned(folder, problem, wanted)
    if not _is_made_by(wanted, bytes.fromhex(found.signature), content):
        raise _unsigned(folder, "the signature in the folder was not made with this key", wanted)
    _require_verdict(Certificate.from_json(document, folder / CERTIFICATE), folder)
    return found, document


def load_signed(
    path: str | Path, key: str | Path
) -> tuple[Memoriser, dict[str, Any], Certificate, Signature]:
    """Load the memoriser, record and certificate that were saved at `path`, and the signature by `key`.

    Raise `CorruptModel` in the cases of `require_signed` and `load_folder`. The certificate is the one whose signature was checked,
    even if the file is replaced meanwhile. The caller checks that it was issued for this model.
    """
    folder = as_path(path)

    def read() -> tuple[Memoriser, dict[str, Any], Certificate, Signature]:
        signature, document = require_signed(folder, key)
        memoriser, record, certificate = load_folder(folder, document)
        assert certificate is not None
        return memoriser, record, certificate, signature

    return read_whole(folder, read)


def read_signature(folder: Path) -> Signature:
    """Read signature.json and check its fields, because anyone could have written it."""
    where = folder / SIGNATURE
    document = Fields.read(where)
    schema = document.integer("schema", 1)
    if schema > SCHEMA:
        raise corrupt(
            where,
            f"the file has schema {schema}; this version of byheart reads schema {SCHEMA}",
            "Install a newer byheart.",
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
    """Return whether `signature` was made from `content` with the private key that belongs to the public key `key`.

    Every check of a signature uses this function.
    """
    ed25519 = import_extra("cryptography.hazmat.primitives.asymmetric.ed25519", "sign", PURPOSE)
    invalid = import_extra("cryptography.exceptions", "sign", PURPOSE).InvalidSignature
    try:
        ed25519.Ed25519PublicKey.from_public_bytes(key).verify(signature, content)
    except (invalid, ValueError):  # ValueError: the key is not a point of the curve
        return False
    return True


def _unsigned(folder: Path, problem: str, wanted: bytes) -> CorruptModel:
    return CorruptModel(
        f"{folder}: {problem}.\n"
        f"  It must be signed by the key {wanted.hex()}. Get the folder from the owner of that key.",
        path=str(folder),
        problem=problem,
        key=wanted.hex(),
    )
