"""Read JSON files, which may come from anyone. To protect memory, two things are checked before parsing: the size of the file,
and how many objects and lists it holds. The depth of nesting is checked after parsing.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from byheart.records.refusals import Refusal, refuse_file

MAX_JSON_BYTES = 256 * 2**20
"""The maximum size of a document. A larger one is refused before it is read. Documents that byheart writes are far smaller."""

MAX_DEPTH = 32
"""The maximum nesting. The limit keeps recursive readers from running out of stack. Documents that byheart writes have far
fewer levels."""

MAX_CONTAINERS = 2**20
"""The maximum number of objects and lists.

Each takes about 64 bytes of memory, although `[]` takes only two bytes in the file.
"""


def read_bytes(path: Path, *, refuse: Refusal = refuse_file) -> bytes:
    """Read the bytes of a file, which must be a plain file of at most `MAX_JSON_BYTES`."""
    if not path.is_file():
        raise refuse(str(path), "the file is missing, or it is a folder, a pipe or a device")
    size = path.stat().st_size
    if size > MAX_JSON_BYTES:
        limit = f"more than the limit of {MAX_JSON_BYTES:,}"
        raise refuse(str(path), f"the file has {size:,} bytes, {limit}")
    try:
        return path.read_bytes()
    except OSError as error:
        raise refuse(str(path), f"the file cannot be read ({error.strerror or error})") from error


def read_json(path: Path, *, refuse: Refusal = refuse_file) -> object:
    """Read the JSON document in the file `path`."""
    return parse_json(read_bytes(path, refuse=refuse), path, refuse=refuse)


def parse_json(raw: bytes, where: str | Path, *, refuse: Refusal = refuse_file) -> object:
    """Parse a JSON document. It must be UTF-8, at most `MAX_DEPTH` levels deep, and without repeated keys, NaN or infinity."""
    where = str(where)
    if not raw:
        raise refuse(where, "it is empty")
    # this also counts brackets inside texts, but the limit is far above what our documents need
    n_containers = raw.count(b"[") + raw.count(b"{")
    if n_containers > MAX_CONTAINERS:
        raise refuse(
            where, f"it has {n_containers:,} opening brackets, more than the limit of {MAX_CONTAINERS:,}"
        )
    try:
        document = json.loads(
            raw.decode("utf-8"),
            parse_constant=_refuse_constant,
            parse_float=_finite_float,
            object_pairs_hook=distinct_keys,
        )
    except UnicodeDecodeError as error:
        found = f"byte {error.start} is 0x{raw[error.start]:02x}"
        raise refuse(where, f"it is not UTF-8: {found}") from None
    except json.JSONDecodeError as error:
        cut = " (the file may be truncated)" if error.pos >= len(error.doc.rstrip()) else ""
        place = f"line {error.lineno}, column {error.colno}"
        raise refuse(where, f"it is not valid JSON: {error.msg} at {place}{cut}") from None
    except RecursionError:
        raise refuse(where, f"it is nested more than {MAX_DEPTH} levels deep") from None
    except ValueError as error:
        raise refuse(where, f"it is not valid JSON: {error}") from None
    problem = _find_problem(document)
    if problem is not None:
        raise refuse(where, problem)
    return document


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"JSON does not allow {name}")


def _finite_float(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"the number {digits[:40]} is too large")
    return value


def distinct_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make a dictionary of the pairs of a JSON object. Raise `ValueError` if a key is repeated."""
    values = dict(pairs)
    if len(values) < len(pairs):
        times = Counter(key for key, _ in pairs)
        repeated = max(times, key=times.__getitem__)
        raise ValueError(f"the key {repeated[:40]!r} appears more than once in one object")
    return values


def _find_problem(document: object) -> str | None:
    """Describe a problem of the document: nesting that is too deep, or text that is not valid Unicode (lone surrogates).

    Return None if there is none. This function does not use recursion.
    """
    level: list[Any] = [document]
    for _ in range(MAX_DEPTH + 1):
        texts = [value for value in level if isinstance(value, str)]
        containers = [value for value in level if isinstance(value, dict | list)]
        texts += [key for value in containers if isinstance(value, dict) for key in value]
        for text in texts:
            if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
                return f"it holds text that is not valid Unicode: {text[:40]!a}"
        if not containers:
            return None
        level = [
            item for value in containers for item in (value.values() if isinstance(value, dict) else value)
        ]
    return f"it is nested more than {MAX_DEPTH} levels deep"


def show_value(value: object) -> str:
    """Describe a value for a message: an object, a list or a huge number by its size, anything else as shortened JSON."""
    if isinstance(value, Mapping):
        return f"an object of size {len(value):,}"
    if isinstance(value, list | tuple):
        return f"a list of length {len(value):,}"
    if isinstance(value, int) and value.bit_length() > 128:
        return f"a number of {value.bit_length():,} bits"
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= 60 else f"{text[:57]}..."
