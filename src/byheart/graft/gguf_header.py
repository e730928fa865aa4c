"""Check the header of a GGUF file before other packages read the file.

The check refuses counts, lengths and offsets that do not fit into the file. The package gguf, which transformers uses too,
allocates an array for every item that a list claims to have.
"""

from __future__ import annotations

import mmap
from itertools import pairwise
from math import prod
from pathlib import Path
from struct import unpack_from

from byheart.errors import import_extra

VERSIONS = (2, 3)
WIDTHS = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
"""The size in bytes of each numeric type, by the code of the type in GGUF files."""

TEXT, LIST, UINT32 = 8, 9, 4
MOST_ENTRIES = 2**16
"""The most settings, and the most tensors, that a file may have. A Llama with 126 layers (405B) has about 1,140 tensors."""

MOST_ITEMS = 2**20
"""The most items that all lists in a header may have together.

Llama 3 has 537,000: tokens, token types and merges. The package gguf allocates about a kilobyte for each item.
"""

MOST_SMALL_ITEMS = 2**16
"""The most items of one or two bytes that all lists in a header may have together.

This limit is lower than `MOST_ITEMS`, because even a small file can hold very many such items.
"""

MOST_DIMENSIONS = 4
ALIGNMENT = "general.alignment"


def check_header(path: Path) -> None:
    """Raise `ValueError` if the header is damaged, has an unsupported version or type, or exceeds the limits above.

    If nothing is raised, all settings and tensors are within the file, and no two tensors overlap.
    """
    with path.open("rb") as file:
        if path.stat().st_size < 24:
            raise ValueError("it is cut short")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            _Header(content).check()


class _Header:
    """A reader of the header. It reads only numbers and names and skips all other values."""

    def __init__(self, content: mmap.mmap) -> None:
        self.content, self.at, self.n_items, self.n_small = content, 0, 0, 0
        self.alignment = 32

    def number(self, form: str, width: int) -> int:
        at = self.at
        self.skip(width)
        (value,) = unpack_from(form, self.content, at)
        return int(value)

    def long(self) -> int:
        return self.number("<Q", 8)

    def short(self) -> int:
        return self.number("<I", 4)

    def skip(self, n_bytes: int) -> None:
        self.at += n_bytes
        if self.at > len(self.content):
            raise ValueError("it ends within its header")

    def text(self) -> str:
        n_bytes = self.long()
        begin = self.at
        self.skip(n_bytes)
        return str(self.content[begin : self.at], "utf-8")

    def check(self) -> None:
        self.skip(4)
        version = self.short()
        if version not in VERSIONS:
            raise ValueError(
                f"its version is {version}; only versions {VERSIONS[0]} and {VERSIONS[1]} can be read"
            )
        n_tensors, n_settings = self.long(), self.long()
        if max(n_tensors, n_settings) > MOST_ENTRIES:
            raise ValueError(
                f"it claims {n_tensors:,} tensors and {n_settings:,} settings; at most {MOST_ENTRIES:,} of each "
                "are accepted"
            )
        for _ in range(n_settings):
            name, kind = self.text(), self.short()
            if name == ALIGNMENT and kind == UINT32:
                self.alignment = self.short()
            else:
                self.skip_value(kind)
        places = sorted(self.tensor() for _ in range(n_tensors))
        if self.alignment < 1:
            raise ValueError("its alignment is 0")
        begin = -(-self.at // self.alignment) * self.alignment
        if places and begin + max(end for _, end in places) > len(self.content):
            raise ValueError("it is cut short: a tensor extends beyond the end of the file")
        if any(first[1] > second[0] for first, second in pairwise(places)):
            raise ValueError("two tensors overlap")

    def skip_value(self, kind: int) -> None:
        if kind == TEXT:
            self.skip(self.long())
        elif kind == LIST:
            inner, n_items = self.short(), self.long()
            self.n_items += n_items
            self.n_small += n_items if WIDTHS.get(inner, 8) < 4 else 0
            if self.n_items > MOST_ITEMS or self.n_small > MOST_SMALL_ITEMS:
                raise ValueError(
                    f"its lists have {self.n_items:,} items, of which {self.n_small:,} are only one or two bytes long. "
                    f"At most {MOST_ITEMS:,} items, and at most {MOST_SMALL_ITEMS:,} such short items, are accepted"
                )
            if inner == TEXT:
                for _ in range(n_items):
                    self.skip(self.long())
            else:
                self.skip(n_items * self.width(inner))
        else:
            self.skip(self.width(kind))

    def width(self, kind: int) -> int:
        if kind not in WIDTHS:
            raise ValueError(f"a setting has the type {kind}, which is unknown or a list of lists")
        return WIDTHS[kind]

    def tensor(self) -> tuple[int, int]:
        """Read the entry of the next tensor. Return where the tensor begins and ends, in bytes from the end of the header (padded
        to the alignment).
        """
        gguf = import_extra("gguf", "gguf", "reading a GGUF file")
        name, n_dimensions = self.text(), self.short()
        if n_dimensions > MOST_DIMENSIONS:
            raise ValueError(f"tensor {name!r} has {n_dimensions:,} dimensions, more than {MOST_DIMENSIONS}")
        size = prod(self.long() for _ in range(n_dimensions))
        block, width = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType(self.short())]
        begin = self.long()
        return begin, begin + size * width // block
