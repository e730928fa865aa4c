"""Retrieval structures in the weights: storing labels costs little more than their bits, in plain floats.

Read in this order: `layout` (the numbers) with its two kinds `chain` and `dual_table`; `key_hash`, `addresses`, `table_solver` with
`program.gf2`, `label_reader`, `program` (the network as one description); `exactness` (why floats do not round); `constraints`,
`layout_floors` and `search` (which layout and why), `size` (how large); `method` (all of it).
"""

from byheart.construct.retrieval.size import METHOD

__all__ = ["METHOD"]
