"""Store labels in the weights of a float network, in little more space than the labels themselves need. The keys are not stored.

Read the modules in this order: `layout` (the sizes and the vocabulary) with the two kinds `chain` and `dual_table`; `key_hash`,
`addresses`, `table_solver` with `program.gf2`, `label_reader`, `program` (the network as a program); `exactness` (why floats do
not round); `constraints`, `layout_floors` and `search` (the choice of a layout), `size` (size estimates); `method` (the whole
construction).
"""

from byheart.construct.retrieval.size import METHOD

__all__ = ["METHOD"]
