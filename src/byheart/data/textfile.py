"""Read a whole text file. Errors name the place where it is not valid text."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from encodings.aliases import aliases
from pathlib import Path
from stat import S_ISDIR, S_ISREG

from byheart.errors import MalformedFile, UsageError, did_you_mean
from byheart.process.memory_limit import require_memory

_UTF8_MARK = b"\xef\xbb\xbf"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_SPREADSHEET_MARKS = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")  # ZIP files, such as .xlsx and .ods; .xls
GIVE_ENCODING = "Give the encoding of the file: encoding=... (--encoding)"
_MEMORY_PER_BYTE = (
    4  # memory per byte of the file: the bytes, the decoded text, and the parts it is split into
)
ENCODINGS = frozenset(
    {"ascii", "utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"}
    | {f"iso8859-{part}" for part in (*range(1, 12), *range(13, 17))}
    | {f"cp{page}" for page in (437, 850, 852, 866, 874, 932, 949, 950, *range(1250, 1259))}
    | {"koi8-r", "koi8-u", "mac-roman", "tis-620"}
    | {"big5", "euc_jp", "euc_kr", "gb18030", "gb2312", "gbk", "shift_jis"}
)
"""The encodings that can be read, by Python's names. Those with escapes, such as unicode_escape and utf-7, are not among them: with
them, a character that looks harmless in the file could be a quotation mark or end a row.
"""
_NAMES_OF_TAB = ("tab", "\\t")  # the name to type on a command line


@dataclass(frozen=True)
class TextFormat:
    """The encoding and the delimiter of a text file.

    encoding    the Python name of the encoding, such as utf-8, cp1252 or utf-16
    delimiter   the character between two fields of a row, or "tab"; None means that the suffix of the file decides
    """

    encoding: str = "utf-8"
    delimiter: str | None = None

    def __post_init__(self) -> None:
        if self.delimiter in _NAMES_OF_TAB:
            object.__setattr__(self, "delimiter", "\t")
        if self.delimiter is not None and (len(self.delimiter) != 1 or self.delimiter in '"\r\n\0'):
            raise UsageError(
                f"the delimiter must be one character (such as ;) or the word tab, not {self.delimiter!r}.",
                delimiter=self.delimiter,
            )
        if not is_encoding(self.encoding):
            names = sorted(filter(is_encoding, {*aliases, *aliases.values()}))
            raise UsageError(
                f"{self.encoding!r} is not an encoding that byheart reads.{did_you_mean(self.encoding, names)}\n"
                "  Common ones are utf-8, utf-16, cp1252 (Windows) and latin-1. Convert files in other encodings to UTF-8.",
                encoding=self.encoding,
            )

    @property
    def is_utf8(self) -> bool:
        return codecs.lookup(self.encoding).name in ("utf-8", "utf-8-sig")


def is_encoding(name: str) -> bool:
    """Return whether `name` is one of `ENCODINGS`, or another name of one of them, such as latin-1."""
    try:
        return codecs.lookup(name).name in ENCODINGS
    except (LookupError, ValueError):
        return False


UTF8 = TextFormat()


def require_file(path: Path) -> None:
    """Raise `UsageError` unless `path` is an existing plain file. Reading a pipe or a device could go on for ever."""
    try:
        mode = path.stat().st_mode
    except (
        FileNotFoundError,
        NotADirectoryError,
        ValueError,
    ):  # ValueError: the path contains the NUL character
        raise UsageError(f"there is no file {path}; check the path.", path=str(path)) from None
    except OSError as error:  # the name is too long, a folder is not accessible, or links form a circle
        raise UsageError(f"{path} cannot be read: {error.strerror}.", path=str(path)) from None
    if S_ISDIR(mode):
        raise UsageError(f"{path} is a directory; give the path of one data file.", path=str(path))
    if not S_ISREG(mode):
        raise UsageError(
            f"{path} is a pipe or a device, not a plain file; write the data to a file first.", path=str(path)
        )


def require_content(path: Path) -> None:
    """Raise `UsageError` unless `path` is a file that can be read, and `MalformedFile` if it is empty."""
    require_file(path)
    try:
        with path.open("rb") as file:
            first = file.read(1)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.", path=str(path)) from None
    if not first:
        raise _empty(path)


def refuse_spreadsheet(path: Path) -> None:
    """Raise `MalformedFile` if the first bytes of a file are those of a spreadsheet or a ZIP file, whatever its name."""
    with path.open("rb") as file:
        begins_so = file.read(4) in _SPREADSHEET_MARKS
    if begins_so:
        raise MalformedFile(
            f"{path} is a spreadsheet or a ZIP file, not a text table.\n"
            "  Open it in the program that wrote it, and save it as CSV (UTF-8).",
            path=str(path),
        )


def read_text(path: Path, written: TextFormat = UTF8) -> str:
    """Return the text of a file without its byte-order mark. NUL characters and invalid bytes are refused."""
    require_content(path)
    refuse_spreadsheet(path)
    require_memory(f"reading {path}", _MEMORY_PER_BYTE * path.stat().st_size)
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.", path=str(path)) from None
    if not raw.removeprefix(_UTF8_MARK).strip():
        raise _empty(path)
    return _decode_utf8(path, raw) if written.is_utf8 else _decode(path, raw, written.encoding)


def _decode(path: Path, raw: bytes, encoding: str) -> str:
    """Decode `raw`, the content of a file, with the encoding that the user gave."""
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError as error:
        what = f"byte 0x{raw[error.start]:02x} is not valid {encoding}"
        raise _malformed_at(path, raw, error.start, what, GIVE_ENCODING) from None
    nul = text.find("\0")
    if nul >= 0:
        offset = len(text[:nul].encode(encoding))
        what = f"decoding the file as {encoding} gives NUL characters"
        raise _malformed_at(path, raw, offset, what, GIVE_ENCODING)
    text = text.removeprefix("\ufeff")
    if not text.strip():
        raise _empty(path)
    return text


def _decode_utf8(path: Path, raw: bytes) -> str:
    if raw.startswith(_UTF16_MARKS):
        raise MalformedFile(
            f"{path}, line 1, byte offset 0: the file is in UTF-16, not UTF-8.\n"
            '  Give its encoding: encoding="utf-16" (--encoding utf-16).',
            path=str(path),
            line=1,
            offset=0,
        )
    nul = raw.find(b"\0")
    if nul >= 0:
        raise _malformed_at(path, raw, nul, "a NUL byte, which text files do not contain", "Remove it")
    mark = len(_UTF8_MARK) if raw.startswith(_UTF8_MARK) else 0
    try:
        return raw[mark:].decode("utf-8")
    except UnicodeDecodeError as error:
        at = mark + error.start
        in_windows = raw[at : at + 1].decode("cp1252", "replace")
        raise _malformed_at(
            path,
            raw,
            at,
            f"byte 0x{raw[at]:02x} is not UTF-8 (in Windows-1252 it is {in_windows!r})",
            'Convert the file to UTF-8, or give its encoding: encoding="cp1252" (--encoding cp1252)',
        ) from None


def _empty(path: Path) -> MalformedFile:
    return MalformedFile(f"{path} is empty or blank; give a file with data in it.", path=str(path))


def _malformed_at(path: Path, raw: bytes, at: int, what: str, fix: str) -> MalformedFile:
    line = raw.count(b"\n", 0, at) + 1
    return MalformedFile(
        f"{path}, line {line}, byte offset {at}: {what}.\n  {fix}.", path=str(path), line=line, offset=at
    )
