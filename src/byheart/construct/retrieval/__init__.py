"""Store labels in tables, which are part of the weights of a network. The tables hold hardly more bits than the labels need. The
keys are not stored.

Read the modules in this order: `layout` (the sizes, and the terms that all modules use) with its kinds `chain`, `dual_table` and
`part_tables`; `key_hash`, `addresses`, `table_solver` with `program.gf2`, `label_reader`, `program` (the network as a program);
`exactness` (why floats do not round); `constraints`, `layout_floors` and `search` (the choice of a layout), `size` (size
estimates); `method` (the whole construction).
"""

from byheart.construct.retrieval.size import METHOD

__all__ = ["METHOD"]
