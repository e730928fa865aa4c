"""Reading `.npz` files that may be hostile: headers are compared with real sizes before memory is taken."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

from byheart.data.textfile import require_content
from byheart.errors import ByheartError, MalformedFile
from byheart.memory_limit import require_memory

COPIES = 3
"""An array as it is read, as 64-bit numbers, and one working copy."""

_MAX_DEFLATE_RATIO = 1100  # no deflate stream expands further (the format's limit is 1032)


def read_npz(path: Path, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Read the named arrays. Pickled objects, and arrays for which there is no memory, are refused."""
    require_content(path)
    try:
        with zipfile.ZipFile(path) as archive:
            entries = {info.filename: info for info in archive.infolist()}
            for name in names:
                if f"{name}.npy" not in entries:
                    found = sorted(entry.removesuffix(".npy") for entry in entries)
                    raise MalformedFile(
                        f"{path} holds no array `{name}`; it holds {', '.join(found) or 'nothing'}.\n"
                        "  Save it with numpy.savez(path, inputs=..., labels=...).",
                        path=str(path),
                        array=name,
                        found=found,
                    )
            return {name: _read_entry(path, archive, entries[f"{name}.npy"]) for name in names}
    except (ByheartError, MemoryError):
        raise
    except (
        Exception
    ) as error:  # damaged archives raise what zipfile, zlib, lzma, tokenize and numpy happen to raise
        raise MalformedFile(
            f"{path} is not a whole .npz file: {error or type(error).__name__}.\n"
            "  It may have been cut short; write or download it again.",
            path=str(path),
        ) from None


def _read_entry(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> np.ndarray:
    name = info.filename.removesuffix(".npy")
    with archive.open(info) as stream:
        version = npy.read_magic(stream)
        read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, _, dtype = read_header(stream)
        header_bytes = stream.tell()
    if dtype.hasobject:
        raise MalformedFile(
            f"{path}: array `{name}` holds pickled Python objects, which are never loaded.\n"
            "  Save numbers: an integer or floating-point array, not a list of lists of different lengths.",
            path=str(path),
            array=name,
        )
    claimed = math.prod(shape) * dtype.itemsize
    stored = info.file_size - header_bytes
    too_dense = info.file_size > _MAX_DEFLATE_RATIO * max(info.compress_size, 1)
    if min(shape, default=0) < 0 or claimed != stored or too_dense:
        raise MalformedFile(
            f"{path}: array `{name}` claims shape {shape} of {dtype}, {claimed:,} bytes, but the file holds "
            f"{max(stored, 0):,}.\n"
            "  The file is cut short or was not written by numpy; write it again.",
            path=str(path),
            array=name,
            claimed_bytes=claimed,
            stored_bytes=stored,
        )
    n_numbers = math.prod(shape)
    require_memory(
        f"{path}: array `{name}` of shape {shape} and type {dtype}", claimed + (COPIES - 1) * 8 * n_numbers
    )
    with archive.open(info) as stream:
        return np.asarray(npy.read_array(stream, allow_pickle=False))
