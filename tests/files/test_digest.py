"""The digest of a file is the one that other programs compute."""

from __future__ import annotations

from pathlib import Path

from byheart.files.digest import digest_of_file


def test_the_digest_is_sha_256(tmp_path: Path) -> None:
    """The example of FIPS 180-2, appendix B.1."""
    (tmp_path / "file").write_bytes(b"abc")
    digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert digest_of_file(tmp_path / "file") == digest
