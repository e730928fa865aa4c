"""Docstrings are written for people, in plain text with `code` marks; Sphinx wants reStructuredText."""

from __future__ import annotations

import re
from typing import Any

FIELD = re.compile(r"^([A-Za-z][\w, ]{0,24}):(?:\s+(.*))?$")
COLUMNS = re.compile(r"^(\w+) {2,}(.*)$")
CONTRACT = {"Source", "Assumes", "Guarantee", "In floats", "Size", "Departs", "Notation", "Raises"}
SPECIAL = re.compile(r"([\\*_|`<>])")


def to_restructured_text(app: Any, what: str, name: str, item: Any, options: Any, lines: list[str]) -> None:
    """Rewrite `lines` in place; the signature is that of the event `autodoc-process-docstring`."""
    lines[:] = converted(lines)


def converted(lines: list[str]) -> list[str]:
    """The same text as reStructuredText: marks kept, every other special character made plain.

    A block of lines such as `Source:  ...` or `seed: ...`, or of a name and a text in two columns, becomes a
    field list; an indented block becomes a literal block.
    """
    out: list[str] = []
    for block in _blocks(lines):
        if block[0].startswith(("    ", "\t")):
            out += ["::", "", *("    " + line for line in block)]
        elif pattern := _field_pattern(block):
            out += _fields(block, pattern)
        elif block[0].startswith(("- ", "* ")):
            out += [_item(line) for line in block]
        else:
            out += [_inline(line.strip()) for line in block]
        out.append("")
    return out


def _blocks(lines: list[str]) -> list[list[str]]:
    blocks: list[list[str]] = [[]]
    for line in lines:
        if line.strip():
            blocks[-1].append(line.rstrip())
        elif blocks[-1]:
            blocks.append([])
    return [block for block in blocks if block]


def _field_pattern(block: list[str]) -> re.Pattern[str] | None:
    """How the fields of a block are written, if every line that is not indented opens one."""
    openings = [line for line in block if not line.startswith(" ")]
    if all(COLUMNS.match(line) for line in openings):
        return COLUMNS
    names = [match[1] if (match := FIELD.match(line)) else None for line in openings]
    is_list = all(name is not None and (name in CONTRACT or name[0].islower()) for name in names)
    return FIELD if is_list else None


def _fields(block: list[str], pattern: re.Pattern[str]) -> list[str]:
    out = []
    for line in block:
        match = pattern.match(line)
        out.append(f":{match[1]}: {_inline(match[2] or '')}" if match else "    " + _inline(line.strip()))
    return out


def _item(line: str) -> str:
    text = _inline(line.strip().removeprefix("- ").removeprefix("* "))
    return f"- {text}" if line.startswith(("- ", "* ")) else f"  {text}"


def _inline(text: str) -> str:
    parts = text.split("`")
    if len(parts) % 2 == 0:  # an unpaired mark: show the line as it is
        return SPECIAL.sub(r"\\\1", text)
    return "".join(
        f"``{part}``" if index % 2 and part.strip() else SPECIAL.sub(r"\\\1", part)
        for index, part in enumerate(parts)
    )
