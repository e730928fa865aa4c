"""How files of a folder are spoilt."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.attacks.hostile_inputs.case import case


def edit(file: str, **changes: Any) -> Callable[[Path], object]:
    """Fields of a JSON file, or of its architecture, set to other values."""

    def change(folder: Path) -> None:
        document = json.loads((folder / file).read_text(encoding="utf-8"))
        inside = document.get("architecture", {}) if file == "model.json" else {}
        for name, value in changes.items():
            (inside if name in inside else document)[name] = value
        (folder / file).write_text(json.dumps(document), encoding="utf-8")

    return change


def write(file: str, content: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / file).write_bytes(content)


def text(name: str, file: str, content: str, *command: str) -> None:
    def make(folder: Path) -> list[str]:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(content)
        return [each.replace("FOLDER", str(folder)) for each in command]

    case(name)(make)
