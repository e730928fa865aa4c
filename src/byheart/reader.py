"""One reader for what others wrote: options, specifications, saved documents and stored records.

A document becomes a dataclass. Its types and ranges are checked by msgspec, which is imported here alone; a refusal names
where the document stands, the path of the field, the value it has and what was expected. A JSON file may be hostile: its
size, depth and number of containers are checked before it costs memory.

    within(least, most)                 the type of a field: whole numbers in a range
    read_values(values, kind, where)    a mapping as the dataclass `kind`
    read_json(path), parse_json(raw)    a JSON document, guarded
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from types import UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NoReturn,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec

from byheart.errors import ByheartError, MalformedFile, UsageError

T = TypeVar("T")

MAX_JSON_BYTES = 256 * 2**20
"""No document of ours comes near this; a larger one is refused before it is read."""

MAX_DEPTH = 32
"""Nesting allowed. Ours have five levels, and readers that walk a document must not run out of stack."""

MAX_CONTAINERS = 2**20
"""Objects and lists allowed: each takes some 64 bytes, though `[]` is written in two."""


def within(least: int, most: int) -> msgspec.Meta:
    """A range for a whole number: `Annotated[int, within(1, 24)]`."""
    return msgspec.Meta(ge=least, le=most)


Refusal = Callable[[str, str], ByheartError]
"""Makes the exception for a problem found at a place: (where, problem). The problem is a clause without a full stop."""


def refuse_usage(where: str, problem: str) -> ByheartError:
    """What the user typed is wrong."""
    return UsageError(f"{where}: {problem}.", problem=problem)


def refuse_file(where: str, problem: str) -> ByheartError:
    """A file does not hold what it should."""
    return MalformedFile(f"{where}: {problem}.", file=where, problem=problem)


# Values


def read_values(
    values: object,
    kind: type[T],
    where: str,
    *,
    refuse: Refusal = refuse_usage,
    noun: str = "field",
    ignore_unknown: bool = False,
) -> T:
    """`values` (a mapping, or what JSON and TOML give) as a `kind`.

    Fields (called `noun`) that `kind` does not have are refused, with the nearest name it has, unless `ignore_unknown`.
    Tuples count as lists, so that a document may be read before it was ever written. What `kind` itself refuses
    (`__post_init__`) is raised as it is, if it is one of our errors.
    """
    plain = _plain(values)
    try:
        if not ignore_unknown:
            unknown = _find_unknown(plain, kind, "", noun)
            if unknown is not None:
                raise refuse(where, unknown)
        return msgspec.convert(plain, kind)
    except msgspec.ValidationError as error:
        raise refuse(where, _explain(plain, kind, "") or str(error)) from None


def _plain(values: object) -> object:
    return dict(values) if isinstance(values, Mapping) else values


def _find_unknown(value: object, kind: Any, path: str, noun: str) -> str | None:
    for part, part_kind, part_path in _parts(value, kind, path):
        found = _find_unknown(part, part_kind, part_path, noun)
        if found is not None:
            return found
    kind = _without_none(kind)
    if is_dataclass(kind) and isinstance(value, Mapping):
        known = _hints(cast(type, kind))
        for name in value:
            if name not in known:
                return describe_unknown(noun, f"{path}{name}", known)
    return None


def describe_unknown(what: str, name: str, known: Collection[str]) -> str:
    """Say that there is no such name, and which one may have been meant."""
    near = get_close_matches(name.rpartition(".")[2], known, n=1, cutoff=0.6)
    hint = f"; did you mean `{near[0]}`?" if near else ""
    listed = f" It has {', '.join(sorted(known))}" if known else " It has none"
    return f"there is no {what} `{name}`{hint or '.'}{listed}"


@cache
def _hints(kind: type) -> dict[str, Any]:
    """The fields of a dataclass and their types."""
    hints = get_type_hints(kind, include_extras=True)
    return {field.name: hints[field.name] for field in fields(kind) if field.init}


def _parts(value: object, kind: Any, path: str) -> Iterable[tuple[object, Any, str]]:
    """The values inside `value`, each with its type and path, as far as `kind` tells their types."""
    kind = _without_none(kind)
    if is_dataclass(kind) and isinstance(value, Mapping):
        for name, hint in _hints(cast(type, kind)).items():
            if name in value:
                yield value[name], hint, f"{path}{name}."
    elif get_origin(kind) in (list, tuple) and isinstance(value, list | tuple):
        inner = get_args(kind)
        uniform = len(inner) == 1 or (len(inner) == 2 and inner[1] is Ellipsis)
        for number, item in enumerate(value):
            if uniform or number < len(inner):
                yield item, inner[0 if uniform else number], f"{path.removesuffix('.')}[{number}]."
    elif get_origin(kind) in (dict, Mapping) and isinstance(value, Mapping):
        for name, item in value.items():
            yield item, get_args(kind)[1], f"{path}{name}."


def _without_none(kind: Any) -> Any:
    """`X` of `X | None`."""
    if get_origin(kind) in (Union, UnionType):
        others = [each for each in get_args(kind) if each is not type(None)]
        return others[0] if len(others) == 1 else kind
    return kind


def _explain(value: object, kind: Any, path: str) -> str | None:
    """Where and why `value` is not a `kind`; None if it is one, or if its own `__post_init__` refuses it."""
    if is_dataclass(_without_none(kind)) and isinstance(value, Mapping):
        wanted = cast(type, _without_none(kind))
        for field in fields(wanted):
            missing = field.default is MISSING and field.default_factory is MISSING and field.init
            if missing and field.name not in value:
                expected = describe_type(_hints(wanted)[field.name])
                return f"{path}{field.name} is missing; it must be {expected}"
    for part, part_kind, part_path in _parts(value, kind, path):
        found = _explain(part, part_kind, part_path)
        if found is not None:
            return found
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        if path.endswith("."):
            expected = describe_type(kind)
            return f"{path.removesuffix('.')} is {show_value(value)}; it must be {expected}"
        return str(error) if isinstance(value, Mapping) else f"it is {show_value(value)}, not an object"
    except ByheartError:
        return None
    return None


def describe_type(kind: Any) -> str:
    """What a value of this type is, in words."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        metas = [each for each in inner[1:] if isinstance(each, msgspec.Meta)]
        return describe_type(inner[0]) + "".join(map(_describe_range, metas))
    if origin is Literal:
        return f"one of {', '.join(str(each) for each in inner)}"
    if origin in (Union, UnionType):
        return " or ".join("null" if each is type(None) else describe_type(each) for each in inner)
    if origin in (list, tuple):
        return f"a list, each item {describe_type(inner[0])}" if inner else "a list"
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}
    return names.get(kind, "an object")


def _describe_range(meta: msgspec.Meta) -> str:
    least = "" if meta.ge is None else f" from {meta.ge:,}"
    return least + ("" if meta.le is None else f" to {meta.le:,}")


def show_value(value: object) -> str:
    """A value as it was written, shortened."""
    if isinstance(value, Mapping):
        return f"an object of {len(value):,} items"
    if isinstance(value, list | tuple):
        return f"a list of {len(value):,} items"
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 128:
        return f"a number of {value.bit_length():,} bits"
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= 60 else f"{text[:57]}..."


# JSON


def read_json(path: Path, *, refuse: Refusal = refuse_file) -> object:
    """The JSON document in the file `path`, which must be a plain file of at most `MAX_JSON_BYTES`."""
    if not path.is_file():
        raise refuse(str(path), "the file is missing or is not a plain file")
    size = path.stat().st_size
    if size > MAX_JSON_BYTES:
        raise refuse(
            str(path), f"the file has {size:,} bytes, more than the {MAX_JSON_BYTES:,} a document may have"
        )
    return parse_json(path.read_bytes(), str(path), refuse=refuse)


def parse_json(raw: bytes, where: str, *, refuse: Refusal = refuse_file) -> object:
    """The JSON document `raw`: UTF-8, no repeated key, no NaN or infinity, at most `MAX_DEPTH` deep."""
    if not raw:
        raise refuse(where, "the file is empty")
    n_containers = raw.count(b"[") + raw.count(
        b"{"
    )  # those inside texts count too: the limit is far above ours
    if n_containers > MAX_CONTAINERS:
        raise refuse(
            where, f"the file holds {n_containers:,} lists and objects, more than {MAX_CONTAINERS:,}"
        )
    try:
        document = json.loads(
            raw.decode("utf-8"),
            parse_constant=_refuse_constant,
            parse_float=_finite_float,
            object_pairs_hook=_distinct_keys,
        )
    except UnicodeDecodeError as error:
        found = f"byte {error.start} is 0x{raw[error.start]:02x}"
        raise refuse(where, f"the file is not UTF-8: {found}") from None
    except json.JSONDecodeError as error:
        cut = " (the file may be cut short)" if error.pos >= len(error.doc.rstrip()) else ""
        place = f"line {error.lineno}, column {error.colno}"
        raise refuse(where, f"the file is not valid JSON: {error.msg} at {place}{cut}") from None
    except RecursionError:
        raise refuse(where, f"the file is nested more than {MAX_DEPTH} levels deep") from None
    except ValueError as error:
        raise refuse(where, f"the file is not valid JSON: {error}") from None
    problem = _find_problem(document)
    if problem is not None:
        raise refuse(where, problem)
    return document


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def _finite_float(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"{digits[:40]} is too large for a number")
    return value


def _distinct_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        repeated = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"the key {repeated[:40]!r} appears twice in one object")
    return values


def _find_problem(document: object) -> str | None:
    """Deep nesting, or text that no file could hold (lone surrogates); without recursion."""
    level: list[Any] = [document]
    for _ in range(MAX_DEPTH + 1):
        texts = [value for value in level if isinstance(value, str)]
        containers = [value for value in level if isinstance(value, dict | list)]
        texts += [key for value in containers if isinstance(value, dict) for key in value]
        for text in texts:
            if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
                return f"the file holds text that is not Unicode: {text[:40]!a}"
        if not containers:
            return None
        level = [
            item for value in containers for item in (value.values() if isinstance(value, dict) else value)
        ]
    return f"the file is nested more than {MAX_DEPTH} levels deep"
