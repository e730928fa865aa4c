"""Read `.npz` files, which may come from anyone. Headers are compared with the real sizes before memory is allocated."""

from __future__ import annotations

import math
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from byheart.errors import ByheartError, MalformedFile, amount
from byheart.process.memory_limit import require_memory

COPIES = 3
"""Reading an array takes memory for this many copies: the array itself, its 64-bit copy and one working copy."""

MOST_ARRAYS = 2**16
_MAX_DEFLATE_RATIO = 1100  # a deflate stream cannot expand further (the limit of the format is 1032)
_MOST_EMPTY = 2**16  # the largest axis of an array whose values take no bytes in the file
_USUAL_RATIO = 100  # an array that expands by a larger factor may take at most _SMALL bytes of memory
_SMALL = 2**29
# the methods that numpy writes; bzip2 and lzma can expand without limit
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


@dataclass(frozen=True, eq=False)
class StoredArray:
    """An array in an archive. Its header has been checked, and its numbers are read from `stream`."""

    path: Path
    name: str
    shape: tuple[int, ...]
    is_fortran: bool
    dtype: np.dtype[Any]
    stream: IO[bytes]

    @property
    def row_items(self) -> int:
        """The number of entries in one row. A row is `array[i]`, one item along the first axis."""
        return math.prod(self.shape[1:])

    @property
    def memory(self) -> int:
        """Memory in bytes that reading the whole array takes, including copies."""
        n_numbers = math.prod(self.shape)
        return n_numbers * self.dtype.itemsize + (COPIES - 1) * 8 * n_numbers

    def read_rows(self, n_rows: int) -> np.ndarray:
        """Read the next `n_rows` rows."""
        wanted = n_rows * self.row_items * self.dtype.itemsize
        raw = self.stream.read(wanted)
        if len(raw) != wanted:
            raise MalformedFile(
                f"{self.path}: array `{self.name}` ends before its last row.\n"
                "  The file is truncated; write or download it again.",
                path=str(self.path),
                array=self.name,
            )
        return np.frombuffer(raw, dtype=self.dtype).reshape(n_rows, *self.shape[1:])


@contextmanager
def open_npz(
    path: Path, names: Sequence[str] | None = None, content: IO[bytes] | None = None
) -> Iterator[list[StoredArray]]:
    """Return a context manager that opens the named arrays, by default all. They can be read row by row in its `with` block.

    Raise `MalformedFile` if anything is wrong with the archive.

    content: an open binary file to read instead of `path`, which is then only used in messages.
    """
    try:
        with zipfile.ZipFile(path if content is None else content) as archive:
            if len(archive.infolist()) > MOST_ARRAYS:
                raise ValueError(f"it holds more than {MOST_ARRAYS:,} arrays")
            held = [info.filename.removesuffix(".npy") for info in archive.infolist()]
            repeated = next((name for name, times in Counter(held).items() if times > 1), None)
            if repeated is not None:
                raise ValueError(f"it holds more than one array `{repeated}`")
            yield [_open_entry(path, archive, name) for name in (held if names is None else names)]
    except (ByheartError, MemoryError):
        raise
    except Exception as error:  # zipfile, zlib, lzma, tokenize and numpy raise many types of exceptions
        raise MalformedFile(
            f"{path} is not a valid .npz file: {error or type(error).__name__}.\n"
            "  It may be truncated; write or download it again.",
            path=str(path),
        ) from None


def read_npz(
    path: Path, names: Sequence[str] | None = None, content: IO[bytes] | None = None
) -> dict[str, np.ndarray]:
    """Read the named arrays, by default all. Pickled objects, and arrays that exceed the memory limit, are refused."""
    with open_npz(path, names, content) as arrays:
        require_memory(f"{path}: its arrays", sum(array.memory for array in arrays))
        return {array.name: _read_whole(array) for array in arrays}


def _read_whole(array: StoredArray) -> np.ndarray:
    n_numbers = math.prod(array.shape)
    require_memory(
        f"{array.path}: array `{array.name}` of shape {array.shape} and type {array.dtype}", array.memory
    )
    flat = replace(array, shape=(n_numbers,)).read_rows(n_numbers)
    return np.array(flat.reshape(array.shape, order="F" if array.is_fortran else "C"))


def _open_entry(path: Path, archive: zipfile.ZipFile, name: str) -> StoredArray:
    entries = {info.filename: info for info in archive.infolist()}
    if f"{name}.npy" not in entries:
        found = sorted(entry.removesuffix(".npy") for entry in entries)
        raise MalformedFile(
            f"{path} holds no array `{name}`; it holds {', '.join(found) or 'nothing'}.\n"
            "  Save it with numpy.savez(path, inputs=..., labels=...).",
            path=str(path),
            array=name,
            found=found,
        )
    info = entries[f"{name}.npy"]
    if info.compress_type not in _METHODS:
        raise MalformedFile(
            f"{path}: array `{name}` is compressed with a method that numpy does not use.\n"
            "  Save it with numpy.savez or numpy.savez_compressed.",
            path=str(path),
            array=name,
        )
    stream = archive.open(info)
    version = npy.read_magic(stream)
    read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    try:
        shape, is_fortran, dtype = read_header(stream)
    except MemoryError:
        # Python's parser raises it for brackets that are nested too deeply; a header is too short to fill the memory
        raise ValueError(f"the brackets in the header of array `{name}` are nested too deeply") from None
    header_bytes = stream.tell()
    if dtype.hasobject:
        raise MalformedFile(
            f"{path}: array `{name}` holds pickled Python objects, which are never loaded.\n"
            "  Save an integer or floating-point array, not a list of lists of different lengths.",
            path=str(path),
            array=name,
        )
    claimed = math.prod(shape) * dtype.itemsize
    stored = info.file_size - header_bytes
    too_dense = info.file_size > _MAX_DEFLATE_RATIO * info.compress_size
    # a type without bytes in the file could still take memory when read
    many_of_nothing = claimed == 0 and any(size > _MOST_EMPTY for size in shape)
    problem = None
    if any(size < 0 for size in shape) or claimed != stored:
        problem = (
            f"its header declares shape {shape} of {dtype}, which takes {amount(claimed, 'byte')}, but the file holds "
            f"{amount(max(stored, 0), 'byte')} for it"
        )
    elif too_dense:
        problem = "its data in the file are shorter than compression could make them"
    elif many_of_nothing:
        problem = f"its shape is {shape}, but its type {dtype} takes no bytes"
    if problem:
        raise MalformedFile(
            f"{path}: array `{name}` cannot be read: {problem}.\n"
            "  The file is truncated or was not written by numpy; write it again.",
            path=str(path),
            array=name,
            claimed_bytes=claimed,
            stored_bytes=stored,
        )
    array = StoredArray(path, name, shape, is_fortran, dtype, stream)
    if info.file_size > _USUAL_RATIO * info.compress_size and array.memory > _SMALL:
        raise MalformedFile(
            f"{path}: array `{name}` expands from {info.compress_size:,} to {info.file_size:,} bytes, and "
            "would take "
            f"{array.memory:,} bytes of memory.\n"
            "  If that is intended, save it with numpy.savez, which does not compress.",
            path=str(path),
            array=name,
            claimed_bytes=claimed,
            n_bytes=array.memory,
        )
    return array
