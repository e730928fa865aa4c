"""The values of options that users can choose from. Each list of values is defined only here.

This module imports no other module of byheart, so that `byheart --help` is fast.

Task           what a label belongs to: a sequence, a token, a set or a prefix of a document
Precision      the number type of the weights
NumberType     the number type in which an inference engine computes
Rule           which of several conflicting labels to keep; OnConflict adds the other ways to handle a conflict
RowRule        how to treat a row that cannot be memorised
EmptyLabels    how to treat a row with an empty label
LabelType      the type that labels had before they were converted to text
"""

from __future__ import annotations

from typing import Literal

Task = Literal["next-token", "seq-to-seq", "set", "distribution"]
Precision = Literal["exact", "float64", "float32", "bfloat16", "int8"]
NumberType = Literal["float32", "float16", "bfloat16"]
"""`float32`: everything is float32. `float16`: keys, values and the sums of attention are float16, and everything else is
float32; this is the default of llama.cpp. `bfloat16`: every stored number is bfloat16, and sums are float32.
"""
Rule = Literal["first", "last", "majority", "drop"]
OnConflict = Literal["error", Rule, "keep"]
Compilable = Literal["error", Rule]
"""How `compile` may handle conflicting labels. `keep` is not among the values, because conflicting labels cannot be memorised."""
RowRule = Literal["error", "drop"]
EmptyLabels = Literal["error", "keep", "drop"]
LabelType = Literal["text", "integer", "number", "boolean"]
