"""Reading a whole text file, and saying exactly where it is not one."""

from __future__ import annotations

from pathlib import Path

from byheart.errors import MalformedFile, UsageError
from byheart.memory_limit import require_memory

_UTF8_MARK = b"\xef\xbb\xbf"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_MEMORY_PER_BYTE = 4  # the bytes, their text, and its pieces


def require_file(path: Path) -> None:
    """Raise UsageError unless `path` is a plain file that exists: a pipe or a device has no end to read to."""
    if path.is_dir():
        raise UsageError(f"{path} is a directory; give the path of one data file.", path=str(path))
    if not path.exists():
        raise UsageError(f"there is no file {path}; check the path.", path=str(path))
    if not path.is_file():
        raise UsageError(
            f"{path} is a pipe or a device, not a plain file; write the data to a file first.", path=str(path)
        )


def require_content(path: Path) -> None:
    """Raise UsageError unless `path` is a file that can be read, MalformedFile if there is nothing in it."""
    require_file(path)
    try:
        with path.open("rb") as file:
            first = file.read(1)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.", path=str(path)) from None
    if not first:
        raise _empty(path)


def read_text(path: Path) -> str:
    """Return the text of a UTF-8 file (a byte-order mark is dropped), refusing NUL bytes and bad bytes."""
    require_content(path)
    require_memory(f"reading {path}", _MEMORY_PER_BYTE * path.stat().st_size)
    raw = path.read_bytes()
    if not raw.removeprefix(_UTF8_MARK).strip():
        raise _empty(path)
    if raw.startswith(_UTF16_MARKS):
        raise MalformedFile(
            f"{path}, line 1, byte offset 0: the file is in UTF-16, not UTF-8.\n"
            "  Convert it: iconv -f UTF-16 -t UTF-8 OLD > NEW",
            path=str(path),
            line=1,
            offset=0,
        )
    nul = raw.find(b"\0")
    if nul >= 0:
        raise _malformed_at(path, raw, nul, "a NUL byte, which no text file holds", "Remove it")
    mark = len(_UTF8_MARK) if raw.startswith(_UTF8_MARK) else 0
    try:
        return raw[mark:].decode("utf-8")
    except UnicodeDecodeError as error:
        at = mark + error.start
        raise _malformed_at(
            path,
            raw,
            at,
            f"byte 0x{raw[at]:02x} is not UTF-8 (in Windows-1252 it is {_in_windows_1252(raw[at])!r})",
            "Convert the file, or the lines that were pasted from elsewhere, to UTF-8",
        ) from None


def _empty(path: Path) -> MalformedFile:
    return MalformedFile(f"{path} is empty; give a file with data in it.", path=str(path))


def _in_windows_1252(byte: int) -> str:
    return bytes([byte]).decode("cp1252", "replace")


def _malformed_at(path: Path, raw: bytes, at: int, what: str, fix: str) -> MalformedFile:
    line = raw.count(b"\n", 0, at) + 1
    return MalformedFile(
        f"{path}, line {line}, byte offset {at}: {what}.\n  {fix}.", path=str(path), line=line, offset=at
    )
