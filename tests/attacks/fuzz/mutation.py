"""How things are spoilt: bytes anywhere in a file, and single values of a JSON document."""

from __future__ import annotations

import copy
import json
from random import Random
from typing import Any

INTERESTING_BYTES = (
    b"\x00",
    b"\xff",
    b"\x7f",
    b"\x80",
    b'"',
    b"{",
    b"[",
    b",",
    b"\n",
    b"\r",
    b"\xed\xa0\x80",
    b"1e999",
)
NUMBERS: tuple[Any, ...] = (
    0, 1, -1, 2, 3, 7, 255, 256, 2**16, 2**24, 2**31 - 1, 2**31, 2**32, 2**53, 2**63 - 1, 2**63, 2**64, -(2**63), 10**30,
    0.5, -0.0, 1e308, -1e308, 5e-324, 1e-9, True, False,
)  # fmt: skip
TEXTS = (
    "",
    "a",
    "\x00",
    "é",
    "\u202e",
    "\x1b[31m",
    "$\\frac",
    "<script>",
    "../..",
    "float64",
    "exact",
    "auto",
    "a" * 5000,
    "NaN",
    "null",
    "٣",
)
VALUES: tuple[Any, ...] = (*NUMBERS, *TEXTS, None, [], {}, [[]], [None], {"": 0}, [0] * 300, [[[[[[]]]]]])


def mutate_bytes(content: bytes, random: Random) -> bytes:
    """A few changes: bits flipped, bytes set, pieces removed, repeated, moved or cut off."""
    for _ in range(random.choice((1, 1, 1, 2, 4, 16))):
        content = _mutate_once(content, random)
    return content


def _mutate_once(content: bytes, random: Random) -> bytes:
    place = random.randrange(len(content) + 1)
    kind = random.randrange(9)
    if not content or kind == 0:
        return (
            content[:place]
            + random.choice(INTERESTING_BYTES) * random.choice((1, 1, 3, 100))
            + content[place:]
        )
    place = min(place, len(content) - 1)
    size = min(random.choice((1, 1, 2, 4, 8, 64)), len(content) - place)
    if kind <= 2:
        return content[:place] + bytes([content[place] ^ (1 << random.randrange(8))]) + content[place + 1 :]
    if kind == 3:
        return content[:place] + random.randbytes(size) + content[place + size :]
    if kind == 4:
        return content[:place] + content[place + size :]
    if kind == 5:
        return content[:place]
    piece = content[place : place + size]
    if kind == 6:
        return content[:place] + piece * random.choice((2, 2, 3, 50)) + content[place + size :]
    if kind == 7:
        other = random.randrange(len(content))
        return content[:other] + piece + content[other:]
    return content[:place] + random.choice(INTERESTING_BYTES) + content[place + size :]


def mutate_document(document: Any, random: Random) -> bytes:
    """The JSON document with some values replaced, removed, doubled or exchanged, as bytes."""
    document = copy.deepcopy(document)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        document = _mutate_value(document, random)
    text = json.dumps(document, ensure_ascii=random.random() < 0.5)
    if random.random() < 0.05:  # a key twice, which a dictionary cannot hold
        text = text.replace('{"', '{"x": 1, "x": 2, "', 1)
    if random.random() < 0.02:
        text = "[" * 100_000 + text
    return text.encode("utf-8", "surrogatepass")


def _mutate_value(document: Any, random: Random) -> Any:
    holder, keys = None, list(_containers(document))
    if not keys:
        return _value(random)
    holder = random.choice(keys)
    if isinstance(holder, dict):
        if not holder:
            holder[random.choice(TEXTS)] = _value(random)
            return document
        key = random.choice(list(holder))
    else:
        if not holder:
            holder.append(_value(random))
            return document
        key = random.randrange(len(holder))
    kind = random.randrange(8)
    if kind == 0:
        del holder[key]
    elif kind == 1 and isinstance(holder, dict):
        holder[random.choice((*TEXTS, key + "s", key.upper()))] = holder.pop(key)
    elif kind == 1:
        holder[key:key] = [holder[key]] * random.choice((1, 2, 1000))
    elif kind == 2:
        other = random.choice(keys)
        holder[key] = copy.deepcopy(other if len(str(other)) < 10_000 else None)
    elif kind == 3 and isinstance(holder[key], int | float):
        holder[key] = holder[key] * random.choice((2, -1, 0, 1000, 0.5)) + random.choice((0, 1, -1))
    elif kind == 3 and isinstance(holder[key], str):
        text = holder[key]
        cut = random.randrange(len(text) + 1)
        holder[key] = text[:cut] + random.choice(TEXTS) + text[cut + random.choice((0, 1)) :]
    else:
        holder[key] = _value(random)
    return document


def _value(random: Random) -> Any:
    """One of `VALUES`, as a copy: what is changed later must not change the next case."""
    return copy.deepcopy(random.choice(VALUES))


def _containers(value: Any, depth: int = 0) -> Any:
    """Every object and list of a document, itself included; of long lists only the first entries."""
    if isinstance(value, dict | list) and depth < 12:
        yield value
        for item in list(value.values() if isinstance(value, dict) else value)[:40]:
            yield from _containers(item, depth + 1)
