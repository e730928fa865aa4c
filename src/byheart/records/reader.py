"""Check values that come from outside: options, specifications, saved models, results and arguments.

A value is converted to a type, and a document to a dataclass. Types and ranges are checked by msgspec. It is imported
in this module only, and only when something is read, so that machines that only train do not need it. An error names
the document, the path of the field, its value and what was expected. The module `refusals` makes the exception.

    within(least, most)                        the type of a field: whole numbers in a range
    length(least, most)                        the type of a field: texts or lists whose length is in a range
    read_values(values, kind, where)           read a mapping as the dataclass `kind`
    read_known(values, kind, where, known)     the same, where the values of some fields are already known
    read_value(value, kind, where, path)       read one value
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from difflib import get_close_matches
from functools import cache
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from byheart.errors import ByheartError
from byheart.records.json_file import show_value
from byheart.records.refusals import Refusal, refuse_usage

if TYPE_CHECKING:
    import msgspec

T = TypeVar("T")

LARGEST = 2**62
"""The largest number allowed in a saved document. Real counts are far below it."""


def within(least: int, most: int) -> msgspec.Meta:
    """Limit a whole number to a range: `Annotated[int, within(1, 24)]`."""
    import msgspec

    return msgspec.Meta(ge=least, le=most)


def not_negative() -> msgspec.Meta:
    """Limit a number to values from 0 to 2^1000: `Annotated[float, not_negative()]`."""
    import msgspec

    return msgspec.Meta(ge=0, le=2.0**1000)


def length(least: int, most: int) -> msgspec.Meta:
    """Limit the length of a text or a list: `Annotated[str, length(1, 200)]`."""
    import msgspec

    return msgspec.Meta(min_length=least, max_length=most)


def described(words: str) -> msgspec.Meta:
    """Describe a field for `json_schemas`: `Annotated[str, described("a column")]`."""
    import msgspec

    return msgspec.Meta(description=words)


def json_schemas(kinds: Iterable[type], reference: str) -> dict[str, Any]:
    """Return the JSON schemas of dataclasses and of the dataclasses in their fields, by name.

    `reference` is a template for references to a schema; its `{name}` is replaced by the name of the dataclass.
    """
    import msgspec

    return msgspec.json.schema_components(kinds, ref_template=reference)[1]


def read_value(value: object, kind: Any, where: str, path: str, *, refuse: Refusal = refuse_usage) -> Any:
    """Convert one value to `kind`. If this fails, raise the exception that `refuse` makes.

    The exception names the document `where` and the `path` of the value in it.
    """
    import msgspec

    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise refuse(where, _explain(value, kind, f"{path}.") or f"{path}: {error}") from None


def read_known(
    values: Mapping[str, object],
    kind: type[T],
    where: str,
    known: Mapping[str, object],
    *,
    refuse: Refusal = refuse_usage,
) -> T:
    """Read `values` as the dataclass `kind`.

    Fields in `known` are used as given, and fields that `kind` does not have are ignored.

    The numbers in saved documents are counts, times and shares, so a negative or impossibly large number is refused.
    """
    found = dict(known)
    for field in fields(cast(Any, kind)):
        if field.name in known or not field.init:
            continue
        hint = _hints(cast(Any, kind))[field.name]
        if field.name in values:
            odd = _odd_number(values[field.name], field.name)
            if odd is not None:
                raise refuse(where, odd)
            found[field.name] = read_value(values[field.name], hint, where, field.name, refuse=refuse)
        elif field.default is MISSING and field.default_factory is MISSING:
            raise refuse(where, f"{field.name} is missing; it must be {describe_type(hint)}")
    return kind(**found)


def _odd_number(value: object, path: str) -> str | None:
    """Describe the first number in `value` that is negative or larger than `LARGEST`. Return None if there is none."""
    if isinstance(value, Mapping):
        return next(filter(None, (_odd_number(item, f"{path}.{name}") for name, item in value.items())), None)
    if isinstance(value, list | tuple):
        return next(filter(None, (_odd_number(item, f"{path}[{i}]") for i, item in enumerate(value))), None)
    if isinstance(value, int | float) and not 0 <= value <= LARGEST:
        return f"{path} is {show_value(value)}; it must be a number from 0 to {LARGEST:,}"
    return None


def read_values(
    values: object,
    kind: type[T],
    where: str,
    *,
    refuse: Refusal = refuse_usage,
    noun: str = "field",
    ignore_unknown: bool = False,
) -> T:
    """Convert `values`, a mapping or a value from JSON or TOML, to the dataclass `kind`.

    Unless `ignore_unknown` is set, fields that `kind` does not have are refused. The error then suggests the most similar name;
    `noun` is the word that it uses for a field, such as "option". Tuples count as lists, so that a document in memory can be
    read directly. If `kind.__post_init__` raises one of our own errors, that error is passed on.
    """
    import msgspec

    plain = dict(values) if isinstance(values, Mapping) else values
    try:
        if not ignore_unknown:
            unknown = _find_unknown(plain, kind, "", noun)
            if unknown is not None:
                raise refuse(where, unknown)
        return msgspec.convert(plain, kind)
    except msgspec.ValidationError as error:
        raise refuse(where, _explain(plain, kind, "") or str(error)) from None


def _find_unknown(value: object, kind: Any, path: str, noun: str) -> str | None:
    for part, part_kind, part_path in _parts(value, kind, path):
        found = _find_unknown(part, part_kind, part_path, noun)
        if found is not None:
            return found
    kind = _bare(kind)
    if is_dataclass(kind) and isinstance(value, Mapping):
        known = _hints(cast(type, kind))
        for name in value:
            if name not in known:
                return describe_unknown(noun, f"{path}{name}", known)
    return None


def describe_unknown(what: str, name: str, known: Collection[str]) -> str:
    """Return a message that says that a name does not exist. It suggests the most similar name and lists the `known` ones."""
    near = get_close_matches(name.rpartition(".")[2], known, n=1, cutoff=0.6)
    hint = f"; did you mean `{near[0]}`?" if near else ""
    listed = f" Choose from: {', '.join(sorted(known))}" if known else " There are none to choose from"
    return f"there is no {what} `{name}`{hint or '.'}{listed}"


@cache
def _hints(kind: type) -> dict[str, Any]:
    """Return the types of the fields of a dataclass, by name."""
    hints = get_type_hints(kind, include_extras=True)
    return {field.name: hints[field.name] for field in fields(kind) if field.init}


def _parts(value: object, kind: Any, path: str) -> Iterable[tuple[object, Any, str]]:
    """Yield the values inside `value`, each with its path and with the type that `kind` gives for it."""
    kind = _bare(kind)
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


def _bare(kind: Any) -> Any:
    """Return `X` for `X | None` and for `Annotated[X, ...]`; return any other type unchanged."""
    if get_origin(kind) is Annotated:
        return _bare(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        others = [each for each in get_args(kind) if each is not type(None)]
        return _bare(others[0]) if len(others) == 1 else kind
    return kind


def _explain(value: object, kind: Any, path: str) -> str | None:
    """Return a message that says where and why `value` is not a `kind`.

    Return None if it is a `kind`, or if `__post_init__` refuses it with an exception of byheart.
    """
    import msgspec

    if is_dataclass(_bare(kind)) and isinstance(value, Mapping):
        wanted = cast(type, _bare(kind))
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
            if is_dataclass(_bare(kind)) and isinstance(value, Mapping):  # refused by `kind.__post_init__`
                return f"{path.removesuffix('.')}: {error}"
            expected = describe_type(kind)
            return f"{path.removesuffix('.')} is {show_value(value)}; it must be {expected}"
        return str(error) if isinstance(value, Mapping) else f"it is {show_value(value)}, not an object"
    except ByheartError:
        return None
    return None


def describe_type(kind: Any) -> str:
    """Describe the values of a type in words."""
    import msgspec

    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        words = describe_type(inner[0])
        for meta in inner[1:]:
            words = _with_limits(words, meta) if isinstance(meta, msgspec.Meta) else words
        return words
    if origin is Literal:
        return f"one of {', '.join(str(each) for each in inner)}"
    if origin in (Union, UnionType):
        return " or ".join("null" if each is type(None) else describe_type(each) for each in inner)
    if origin in (list, tuple):
        return f"a list, each item {describe_type(inner[0])}"
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}
    return names.get(kind, "an object")


def _with_limits(words: str, meta: msgspec.Meta) -> str:
    if meta.max_length is not None:
        kind, comma, items = words.partition(",")
        unit = "characters" if kind == "a text" else "items"
        return f"{kind} of {meta.min_length:,} to {meta.max_length:,} {unit}{comma}{items}"
    if isinstance(meta.le, float):
        return f"{words}, not negative"
    least = "" if meta.ge is None else f" from {meta.ge:,}"
    return words + least + ("" if meta.le is None else f" to {meta.le:,}")
