"""Record the type that labels had before they were converted to text, and restore it in answers.

Class names are texts, so that the same data have the same digest whether they come from a file or from Python. A data
set records whether its labels were all whole numbers, all numbers or all Booleans. Its model then answers with values
of that Python type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import numpy as np

from byheart.records.vocabulary import LabelType

Label: TypeAlias = str | int | float | bool

_TRUE, _FALSE = ("True", "true", "1"), ("False", "false", "0")
_KINDS: tuple[tuple[LabelType, tuple[type, ...]], ...] = (
    ("boolean", (bool, np.bool_)),
    ("integer", (int, np.integer)),
    ("number", (float, np.floating)),
)


def type_of_labels(labels: Iterable[Any]) -> LabelType:
    """Return the common type of the labels. If a label is a list, the types of its items count.

    If there are both integers and floats, the type is `number`, provided that a float can represent each of the integers. Other
    mixtures have the type `text`. See also `type_for`.
    """
    items = [item for label in labels for item in _items(label)]
    types = {_type_of(item) for item in items}
    if types == {"integer", "number"}:
        return "number" if all(map(_is_exact_float, items)) else "text"
    return types.pop() if len(types) == 1 else "text"


def type_of_array(labels: np.ndarray) -> LabelType:
    """Return the type of the labels in an array, according to its dtype."""
    kinds: dict[str, LabelType] = {"b": "boolean", "i": "integer", "u": "integer", "f": "number"}
    return kinds.get(labels.dtype.kind, "text")


def type_for(names: Iterable[str], kind: LabelType) -> LabelType:
    """Return `kind`, the type of the labels, if all class names fit it, and otherwise `text`.

    They do not fit if the caller gave other names, or if an integer among floats equals one of them: 1 and 1.0 are two classes, but
    one number.
    """
    return kind if misfit(kind, names) is None else "text"


def reader_of(kind: LabelType) -> Callable[[str], Label]:
    """Return a function that converts the name of a class to its label.

    It raises `ValueError` if the name is not a label of this type.
    """
    readers: dict[LabelType, Callable[[str], Label]] = {
        "text": str,
        "integer": int,
        "number": float,
        "boolean": _boolean,
    }
    return readers[kind]


def misfit(kind: LabelType, names: Iterable[str]) -> str | None:
    """Return the first class name that does not fit labels of this type. Return None if every name fits.

    A name fits if `compile` writes a label of this type so, and if no earlier name stands for the same label. Then different
    classes are different labels in answers.
    """
    if kind == "text":
        return None
    read, seen = reader_of(kind), set()
    for name in names:
        try:
            label = read(name)
        except (TypeError, ValueError):  # TypeError: the name is not a text, which `Dataset` refuses
            return name
        if str(label) in seen or not _is_written_so(label, name):
            return name
        seen.add(str(label))
    return None


def _is_written_so(label: Label, name: str) -> bool:
    """Return whether `compile` gives the name `name` to a class with this label."""
    if isinstance(label, bool):
        return True
    # among floats, an integer keeps its own text: 1 and not 1.0
    is_integer = isinstance(label, float) and label.is_integer() and name == str(int(label))
    return is_integer or (name == str(label) and name != "nan")  # NaN is a missing label


def _boolean(name: str) -> bool:
    if name not in (*_TRUE, *_FALSE):
        raise ValueError(name)
    return name in _TRUE


def _items(label: Any) -> Iterable[Any]:
    return label if isinstance(label, list | tuple | np.ndarray) else (label,)


def _type_of(label: Any) -> LabelType:
    return next((kind for kind, types in _KINDS if isinstance(label, types)), "text")


def _is_exact_float(label: Any) -> bool:
    """Return whether a number is a float or an integer that equals a float."""
    try:
        return bool(float(label) == label)
    except OverflowError:
        return False
