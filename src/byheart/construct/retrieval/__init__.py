"""Retrieval structures in the weights of a float network. Storing labels takes few more bits than the labels have.

Read in this order: `layout` (the sizes) with its two kinds `chain` and `dual_table`; `key_hash`, `addresses`, `table_solver`
with `program.gf2`, `label_reader`, `program` (the network as a program); `exactness` (why floats do not round); `constraints`,
`layout_floors` and `search` (the choice of a layout), `size` (size estimates); `method` (the whole construction).
"""

from byheart.construct.retrieval.size import METHOD

__all__ = ["METHOD"]
