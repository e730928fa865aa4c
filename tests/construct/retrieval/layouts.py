"""Layouts small enough to look at, of both kinds, and networks built for the tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from byheart.construct.registry import get
from byheart.construct.retrieval.chain import Chain
from byheart.construct.retrieval.dual_table import DualTable
from byheart.construct.retrieval.label_code import RareField
from byheart.construct.retrieval.layout import Entrance, RetrievalLayout
from byheart.data.dataset import Dataset
from byheart.program.construction import Construction

TABLE = Entrance(
    "table", n_rows=30, dim=0, seq_len=4, ordered=True, pooling="attention", n_folds=2, n_varied=4
)
BAG = Entrance(
    "table", n_rows=30, dim=0, seq_len=4, ordered=False, pooling="attention", n_folds=1, n_varied=4
)
SET = Entrance("table", n_rows=30, dim=0, seq_len=4, ordered=False, pooling="sum", n_folds=1, n_varied=4)
GRID = Entrance(
    "grid", n_rows=0, dim=3, seq_len=5, ordered=False, pooling="attention", n_folds=3, spread=45, n_varied=5
)

CHAIN = Chain(TABLE, 300, 3, 4, 5, 2, 3, 7, 6, 2, 53)
DUAL = DualTable(TABLE, 300, 3, 4, 6, 3, 2, 11, 3, 2, 53, n_digits=2)
NARROW = replace(TABLE, is_narrow=True, n_folds=5)
RARE = (RareField(n_bits=2, n_planes=2, first=5), RareField(n_bits=1, n_planes=3, first=9))
LAYOUTS: dict[str, RetrievalLayout] = {
    "chain": CHAIN,
    "chain, two pattern words": Chain(TABLE, 300, 3, 2, 20, 10, 2, 5, 2, 3, 24),
    "chain, pattern word": Chain(TABLE, 300, 3, 2, 24, 8, 3, 300, 5, 3, 24),
    "chain, set": Chain(SET, 300, 3, 4, 5, 2, 3, 7, 6, 2, 53),
    "chain, grid": Chain(GRID, 300, 3, 4, 5, 2, 3, 7, 6, 2, 53),
    "chain, shards": replace(CHAIN, n_rows=21, n_shards=3),
    "dual table": DUAL,
    "dual table, shards": replace(DUAL, n_rows=33, n_shards=3),
    "dual table, shards with margins": replace(DUAL, n_rows=42, n_shards=3, margin_rows=2),
    "dual table, pattern word": DualTable(TABLE, 300, 3, 2, 24, 8, 2, 300, 4, 3, 24, n_digits=3),
    "dual table, bag": DualTable(BAG, 300, 3, 4, 6, 3, 2, 11, 3, 2, 53, n_digits=3),
    "dual table, set": DualTable(SET, 300, 3, 4, 6, 3, 2, 11, 3, 2, 53, n_digits=4),
    "dual table, grid": DualTable(GRID, 300, 3, 4, 6, 3, 2, 11, 0, 2, 53, n_digits=2),
    "chain, narrow": replace(CHAIN, entrance=NARROW),
    "dual table, narrow": replace(DUAL, entrance=NARROW),
    "chain, rare labels": replace(CHAIN, rare_fields=RARE),
    "dual table, rare labels": replace(DUAL, rare_fields=RARE),
    "dual table, one field for rare labels": replace(DUAL, n_planes=1, rare_fields=(RareField(4, 1, 6),)),
}


def memorise(data: Dataset, options: Mapping[str, object], seed: int = 0) -> Construction:
    return get("retrieval").build(data, options, np.random.default_rng(seed), None)
