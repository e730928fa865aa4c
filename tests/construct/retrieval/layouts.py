"""Layouts small enough to look at, of both kinds."""

from __future__ import annotations

from byheart.construct.retrieval.chain import Chain
from byheart.construct.retrieval.dual_table import Twin
from byheart.construct.retrieval.layout import Entrance, Layout

TABLE = Entrance(
    "table", n_rows=30, dim=0, seq_len=4, ordered=True, pooled="attention", n_folds=2, n_varied=4
)
BAG = Entrance("table", n_rows=30, dim=0, seq_len=4, ordered=False, pooled="attention", n_folds=1, n_varied=4)
SET = Entrance("table", n_rows=30, dim=0, seq_len=4, ordered=False, pooled="sum", n_folds=1, n_varied=4)
GRID = Entrance(
    "grid", n_rows=0, dim=3, seq_len=5, ordered=False, pooled="attention", n_folds=3, spread=45, n_varied=5
)

CHAIN = Chain(TABLE, 300, 3, 4, 5, 2, 3, 7, 6, 2, 53)
TWIN = Twin(TABLE, 300, 3, 4, 6, 3, 2, 11, 3, 2, 53, n_digits=2)
LAYOUTS: dict[str, Layout] = {
    "chain": CHAIN,
    "chain, two pattern words": Chain(TABLE, 300, 3, 2, 20, 10, 2, 5, 2, 3, 24),
    "chain, pattern word": Chain(TABLE, 300, 3, 2, 24, 8, 3, 300, 5, 3, 24),
    "chain, set": Chain(SET, 300, 3, 4, 5, 2, 3, 7, 6, 2, 53),
    "chain, grid": Chain(GRID, 300, 3, 4, 5, 2, 3, 7, 6, 2, 53),
    "twin": TWIN,
    "twin, pattern word": Twin(TABLE, 300, 3, 2, 24, 8, 2, 300, 4, 3, 24, n_digits=3),
    "twin, bag": Twin(BAG, 300, 3, 4, 6, 3, 2, 11, 3, 2, 53, n_digits=3),
    "twin, set": Twin(SET, 300, 3, 4, 6, 3, 2, 11, 3, 2, 53, n_digits=4),
    "twin, grid": Twin(GRID, 300, 3, 4, 6, 3, 2, 11, 0, 2, 53, n_digits=2),
}
