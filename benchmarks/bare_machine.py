"""Import this before byheart on a machine that has torch and numpy only: the package is found in src, jaxtyping may be missing."""

from __future__ import annotations

import sys
import types
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))
if find_spec("jaxtyping") is None:  # shapes in annotations are never evaluated; only the names must be there
    stand_in = types.ModuleType("jaxtyping")
    for name in ("Bool", "Float", "Int", "UInt64"):
        setattr(stand_in, name, type(name, (), {"__class_getitem__": classmethod(lambda cls, _: cls)}))
    sys.modules["jaxtyping"] = stand_in
