"""Read and write safetensors files. A file may come from anyone, so the entries of all tensors in its header are
checked before any tensor is read. The metadata and unknown fields of the header are ignored.

The format has three parts: the length of the header, as 8 little-endian bytes; the header, a JSON object with the
dtype, shape and place of each tensor; and the tensors, without gaps. The safetensors package writes the files,
but this module reads them itself, so that an error can name the tensor and the sizes that disagree.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from safetensors.numpy import save

from byheart.errors import amount
from byheart.records.fields import LARGEST, Fields, parse_json
from byheart.records.refusals import corrupt

MAX_HEADER_BYTES = 100_000_000
"""The largest header, in bytes, that the safetensors format allows."""

DTYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "u1",
    "BF16": "<u2",  # the upper half of a float32, stored unchanged
}


BFLOAT16 = np.dtype([("bfloat16", "<u2")])
"""A type for arrays that hold the 16 bits of bfloat16 numbers, because NumPy has no bfloat16 type."""


@dataclass(frozen=True)
class StoredTensor:
    """The type, shape and place of one tensor in a safetensors file.

    `dtype` is the name of the type in the format, such as "F32". `start` counts bytes from the beginning of the file.
    """

    dtype: str
    shape: tuple[int, ...]
    start: int
    n_bytes: int


def write_tensors(
    path: Path, tensors: Mapping[str, np.ndarray], note: Mapping[str, str] | None = None
) -> None:
    """Write `tensors` to the file `path`, with `note` as the metadata in its header.

    The same arguments give the same bytes if `note` has at most one entry; the safetensors package writes several entries in random
    order. Arrays of the type `BFLOAT16` are written as bfloat16 tensors.
    """
    whole = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
    metadata = None if note is None else dict(note)
    if any(tensor.dtype == BFLOAT16 for tensor in whole.values()):
        path.write_bytes(_save_with_bfloat16(whole, metadata))
    else:
        path.write_bytes(save(whole, metadata))


def _save_with_bfloat16(tensors: Mapping[str, np.ndarray], metadata: dict[str, str] | None) -> bytes:
    import torch
    from safetensors.torch import save as save_torch

    found = {}
    for name, tensor in tensors.items():
        if tensor.dtype == BFLOAT16:
            found[name] = torch.from_numpy(tensor.view(np.int16)).view(torch.bfloat16)
        else:
            found[name] = torch.from_numpy(tensor)
    return bytes(save_torch(found, metadata))


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    """Open the file. An error of the operating system is raised as `CorruptModel`."""
    try:
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise corrupt(path, f"the file cannot be read ({error.strerror or error})") from error


def read_header(path: Path) -> dict[str, StoredTensor]:
    """Return the type, shape and place of every tensor in the file, by name.

    Raise `CorruptModel` unless the header is a JSON object with a valid entry for every tensor, and the tensors fill the rest of
    the file exactly.
    """
    if not path.is_file():
        raise corrupt(path, "the file is missing, or it is a folder, a pipe or a device")
    with _opened(path) as file:
        n_file = os.fstat(file.fileno()).st_size
        n_header = int.from_bytes(file.read(8), "little")
        if n_header > min(n_file - 8, MAX_HEADER_BYTES):
            raise corrupt(
                path,
                f"the file size is {n_file:,} bytes, and the header size given in it is {n_header:,} bytes; the header and "
                f"the 8 bytes before it must fit into the file, and the header may have at most {MAX_HEADER_BYTES:,} bytes",
            )
        fields = Fields(parse_json(file.read(n_header), f"{path} (header)"), path)
    first = 8 + n_header
    tensors = {
        name: _read_entry(fields.child(name), name, first, path)
        for name in fields.values
        if name != "__metadata__"
    }
    _check_no_holes(tensors, first, n_file, path)
    return tensors


def _read_entry(fields: Fields, name: str, first: int, path: Path) -> StoredTensor:
    dtype = fields.text("dtype", tuple(DTYPES))
    shape, place = (fields.integers(key, 0, LARGEST) for key in ("shape", "data_offsets"))
    if len(shape) > 3:
        raise corrupt(path, f"tensor {name} has {len(shape)} axes; a weight has at most three")
    n_bytes = math.prod(shape) * np.dtype(DTYPES[dtype]).itemsize
    if len(place) != 2 or place[1] - place[0] != n_bytes:
        raise corrupt(
            path,
            f"tensor {name} of shape {list(shape)} ({dtype}) takes {amount(n_bytes, 'byte')}, but its "
            f"data_offsets (the first byte and the end) are {list(place)[:4]}",
        )
    return StoredTensor(dtype, shape, first + place[0], n_bytes)


def _check_no_holes(tensors: Mapping[str, StoredTensor], first: int, n_file: int, path: Path) -> None:
    """Check that the tensors fill the file from byte `first`, where the header ends, to the end of the file, without gaps or
    overlaps. No tensor can then be larger than the file.
    """
    end = first
    for name, tensor in sorted(tensors.items(), key=lambda item: (item[1].start, item[1].n_bytes)):
        if tensor.start != end:
            where = f"at byte {tensor.start:,}, but the tensor or header before it ends at byte {end:,}"
            raise corrupt(path, f"tensor {name} starts {where}")
        end += tensor.n_bytes
    if end != n_file:
        raise corrupt(path, f"the file has {n_file:,} bytes, but its last tensor ends at {end:,}")


def read_tensor(path: Path, stored: StoredTensor) -> np.ndarray:
    """Read the tensor that `stored` describes, and convert it to the byte order of this machine.

    A bfloat16 tensor is returned as unsigned 16-bit integers with the same bits.
    """
    n_items = math.prod(stored.shape)
    with _opened(path) as file:
        flat = np.fromfile(file, dtype=DTYPES[stored.dtype], count=n_items, offset=stored.start)
    if len(flat) != n_items:
        raise corrupt(path, "the file became shorter while it was read")
    native = flat.astype(flat.dtype.newbyteorder("="), copy=False)
    return native.reshape(stored.shape)
