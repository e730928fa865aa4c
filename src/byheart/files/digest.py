"""Compute the digest of a file."""

from __future__ import annotations

import hashlib
from pathlib import Path


def digest_of_file(path: Path) -> str:
    """Return the SHA-256 of the content of a file in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
