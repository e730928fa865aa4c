"""The choices that users have, each listed only here. This module imports nothing, so that `byheart --help` is fast.

Task           what the labels belong to
Precision      what weights are stored in
Rule           which of conflicting labels stays; OnConflict adds what a reader may do instead
RowRule        what a reader does with a row that cannot be memorised; EmptyLabels adds that an empty label may be one
LabelType      what labels were before they were written as text
"""

from __future__ import annotations

from typing import Literal

Task = Literal["next-token", "seq-to-seq", "set", "distribution"]
Precision = Literal["exact", "float64", "float32", "bfloat16", "int8"]
Rule = Literal["first", "last", "majority", "drop"]
OnConflict = Literal["error", Rule, "keep"]
Compilable = Literal["error", Rule]
"""The rules under which data can be compiled: labels that conflict and are kept cannot be."""
RowRule = Literal["error", "drop"]
EmptyLabels = Literal["error", "keep", "drop"]
LabelType = Literal["text", "integer", "number", "boolean"]
