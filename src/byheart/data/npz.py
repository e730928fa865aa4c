"""Reading `.npz` files that may be hostile: headers are compared with real sizes before memory is taken."""

from __future__ import annotations

import math
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

from byheart.data.textfile import require_content
from byheart.errors import MalformedFile

MAX_ARRAY_BYTES = 8 * 2**30
_MAX_DEFLATE_RATIO = 1100  # no deflate stream expands further (the format's limit is 1032)
_FAULTS = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, NotImplementedError, RuntimeError)


def read_npz(path: Path, names: Sequence[str], max_bytes: int = MAX_ARRAY_BYTES) -> dict[str, np.ndarray]:
    """Read the named arrays. Pickled objects and arrays larger than `max_bytes` are refused."""
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
            return {name: _read_entry(path, archive, entries[f"{name}.npy"], max_bytes) for name in names}
    except MalformedFile:
        raise
    except _FAULTS as error:
        raise MalformedFile(
            f"{path} is not a whole .npz file: {error or type(error).__name__}.\n"
            "  It may have been cut short; write or download it again.",
            path=str(path),
        ) from None


def _read_entry(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo, max_bytes: int) -> np.ndarray:
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
    if min(shape, default=0) < 0 or claimed != stored or too_dense or claimed > max_bytes:
        reason = (
            f"the file holds {max(stored, 0):,}" if claimed <= max_bytes else f"the limit is {max_bytes:,}"
        )
        raise MalformedFile(
            f"{path}: array `{name}` claims shape {shape} of {dtype}, {claimed:,} bytes, but {reason}.\n"
            "  The file is cut short or was not written by numpy; write it again.",
            path=str(path),
            array=name,
            claimed_bytes=claimed,
            stored_bytes=stored,
        )
    with archive.open(info) as stream:
        return np.asarray(npy.read_array(stream, allow_pickle=False))
