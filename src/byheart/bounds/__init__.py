"""Bounds from theory: numbers that theorems prove, each with its source.

`table(dataset)` and `for_shape(shape)` evaluate bounds for a data set. For most bounds that do not apply, they give
the reason. Each theorem is also a function, in a module named after its source or its subject.
"""

from byheart.bounds.architecture import Architecture, Part, read_architecture
from byheart.bounds.bound import Bound, Estimate, NotApplicable
from byheart.bounds.empirical import PUBLISHED_LAWS, EmpiricalLaw, law_from_runs
from byheart.bounds.kajitsuka_sato_2025 import (
    TheoremSize,
    corollary_4_1,
    theorem_4_1,
    theorem_d_1,
    theorem_e_1,
    theorem_f_1,
)
from byheart.bounds.kajitsuka_sato_2025_lower import theorem_4_2, theorem_4_3
from byheart.bounds.orders import Order, table_1
from byheart.bounds.pigeonhole import counting_next_token, counting_seq_to_seq, label_bits, parameter_floor
from byheart.bounds.planner import Capacity, Curve, PlanRow, SizePlan, capacity_of, curves, plan
from byheart.bounds.table import BoundTable, for_shape, table
from byheart.bounds.token_vectors import shape_of
from byheart.data.shape import DataShape

__all__ = [
    "PUBLISHED_LAWS",
    "Architecture",
    "Bound",
    "BoundTable",
    "Capacity",
    "Curve",
    "DataShape",
    "EmpiricalLaw",
    "Estimate",
    "NotApplicable",
    "Order",
    "Part",
    "PlanRow",
    "SizePlan",
    "TheoremSize",
    "capacity_of",
    "corollary_4_1",
    "counting_next_token",
    "counting_seq_to_seq",
    "curves",
    "for_shape",
    "label_bits",
    "law_from_runs",
    "parameter_floor",
    "plan",
    "read_architecture",
    "shape_of",
    "table",
    "table_1",
    "theorem_4_1",
    "theorem_4_2",
    "theorem_4_3",
    "theorem_d_1",
    "theorem_e_1",
    "theorem_f_1",
]
