"""Build and verify every construction on one data set, and compare their sizes with upper and lower bounds."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import ceil
from types import ModuleType
from typing import Any, Literal

from byheart.bounds import BoundTable, DataShape, table
from byheart.bounds.bound import Scope
from byheart.bounds.orders import park_2021, table_1
from byheart.bounds.token_vectors import tokens_as_vectors
from byheart.construct.estimates import require_offer, usual_estimate
from byheart.construct.registry import Method, get, names
from byheart.data.conversion import dataset_of
from byheart.data.dataset import Dataset
from byheart.data.shape import DataRecord
from byheart.errors import ByheartError, DoesNotHold, UsageError
from byheart.model import Model
from byheart.network.protocol import FLOAT_BITS
from byheart.network.size import Size
from byheart.network.transformer.architecture import Precision
from byheart.pipeline import compile
from byheart.process.progress import Progress, in_stage, part_of
from byheart.records.json_record import JsonRecord
from byheart.theorems import realises

MOST_PARAMETERS = 20_000_000
"""By default, a construction is not built if it would have more parameters than this."""

State = Literal["memorised", "refused", "wrong"]


@dataclass(frozen=True)
class Formula:
    """The number of parameters that a paper states for a construction on these data.

    If `is_order` is set, the paper states only an order of growth. `parameters` is then the value of the expression inside
    O(.), without its constant, and says how the size grows, not how large it is.
    """

    source: str
    expression: str
    parameters: int
    is_order: bool


@dataclass(frozen=True)
class Row(JsonRecord):
    """The result of one construction.

    state      memorised: built, and every sample verified. refused: not built, for the `reason` given.
               wrong: built, but wrong on some sample, which is a bug of byheart.
    options    the options that `compile` chose itself, such as `reject_bits` of retrieval
    planned    the estimated size for data of this shape; None if the construction does not apply
    floors     lower bounds for networks of this precision; each says whether it holds for these data or for some data
               of this shape, and about which networks it is. This row's network may be of another kind
    """

    method: str
    source: str
    precision: Precision
    state: State
    reason: str | None = None
    options: Mapping[str, object] = field(default_factory=dict)
    planned: Size | None = None
    size: Size | None = None
    formula: Formula | None = None
    floors: tuple[Floor, ...] = ()
    bits_per_parameter: float | None = None
    bits_per_stored_bit: float | None = None
    checked: int = 0
    wrong: int = 0
    backend: str | None = None
    seconds_compile: float | None = None
    seconds_verify: float | None = None


@dataclass(frozen=True)
class Comparison:
    """The results of all constructions on one data set. Constructions that memorised the data come first, ordered by size."""

    dataset: DataRecord
    seed: int
    rows: tuple[Row, ...]

    @property
    def memorised(self) -> tuple[Row, ...]:
        """The rows of constructions that memorised the data, with every sample verified."""
        return tuple(row for row in self.rows if row.state == "memorised")

    def to_json(self) -> dict[str, Any]:
        return {
            "dataset": self.dataset.to_json(),
            "label_bits": self.dataset.label_bits,
            "seed": self.seed,
            "rows": [row.to_json() for row in self.rows],
        }


@dataclass(frozen=True)
class Floor:
    """The largest lower bound on a quantity, its source, and the data and the networks that it is about.

    `networks` is empty if the bound is about all networks.
    """

    quantity: str
    value: int
    source: str
    speaks_of: str
    networks: str = ""


@realises("KS25-Tab1", "DPC24-S6")
def compare(
    data: Dataset | Any,
    methods: Sequence[str] | None = None,
    *,
    precision: Precision | None = None,
    seed: int = 0,
    most_parameters: int = MOST_PARAMETERS,
    progress: Progress | None = None,
) -> Comparison:
    """Build and verify every construction that accepts `data`. If a construction does not accept the data, its row holds the
    reason.

    data: a `Dataset`, or anything that `compile` accepts.
    methods: names of constructions; by default, all of them.
    precision: the precision of every construction; by default, the first one that each construction offers.
    most_parameters: a construction that would have more parameters (including zeros) is not built.
    """
    data = dataset_of(data)
    data.require_finite()
    data.require_consistent()
    chosen = [get(name) for name in (names() if methods is None else methods)]
    theory = table(data)
    rows = []
    for number, method in enumerate(chosen, 1):
        share = progress and part_of(progress, (number - 1) / len(chosen), number / len(chosen))
        stage = share and in_stage(share, f"{number}/{len(chosen)} {method.name}")
        row = _row(
            data, method, precision or method.precisions[0], theory.shape, seed, most_parameters, stage
        )
        rows.append(replace(row, floors=_floors(theory, row.precision)))
    order = {"memorised": 0, "wrong": 1, "refused": 2}
    rows.sort(key=lambda row: (order[row.state], row.size.parameters_dense if row.size else 0))
    return Comparison(DataRecord.of(data), seed, tuple(rows))


def _row(
    data: Dataset,
    method: Method,
    precision: Precision,
    shape: DataShape,
    seed: int,
    most_parameters: int,
    progress: Progress | None,
) -> Row:
    """Build and verify one construction, and return its row."""
    row = Row(method.name, method.source, precision, "refused", formula=_order(method.name, shape))
    start = time.perf_counter()
    try:
        require_offer(method, data.task, precision)
        planned, options = usual_estimate(method, shape, precision)
        row = replace(row, planned=planned, options=options)
        if planned.parameters_dense > most_parameters:
            size = f"{planned.parameters_dense:,} parameters, more than the {most_parameters:,} allowed"
            raise UsageError(f"the network would have about {size}.", size=size)
        model = compile(data, method=method.name, precision=precision, seed=seed, progress=progress)
    except DoesNotHold as failure:
        return replace(row, state="wrong", reason=str(failure))
    except (ByheartError, MemoryError) as refusal:
        return replace(row, reason=str(refusal) or type(refusal).__name__)
    certificate = model.certificate
    assert certificate is not None
    return replace(
        row,
        state="memorised",
        size=model.size,
        options={name: model.record["options"][name] for name in options},
        formula=_theorem_formula(model) or row.formula,
        bits_per_parameter=model.bits_per_parameter,
        bits_per_stored_bit=model.bits_per_stored_bit,
        checked=certificate.checked,
        wrong=certificate.wrong,
        backend=certificate.backend,
        seconds_compile=round(time.perf_counter() - start - certificate.seconds, 3),
        seconds_verify=certificate.seconds,
    )


def _theorem_formula(model: Model) -> Formula | None:
    """Return the number of parameters by the theorem's formula with its constants, or None if the model's record lacks it."""
    sizes = model.record.get("theorem_size")
    if not sizes:
        return None
    return Formula(str(model.record["theorem"]), "with constants", int(sizes["parameters"]), is_order=False)


def _order(method: str, shape: DataShape) -> Formula | None:
    """Return the order of growth of the number of parameters for `park-2021` and `kim-2023`, and None for all other methods."""
    if method == "park-2021":
        vectors = tokens_as_vectors(shape)
        ends = (1, 1) if vectors is None else (Fraction(vectors.radius), Fraction(vectors.separation))
        order = park_2021(shape.n_samples, *ends)
    elif method == "kim-2023":
        rows = table_1(shape.n_samples, shape.seq_len, shape.dim or 1, shape.vocab or 1)
        order = next(row for row in rows if row.name == "KKM23")
    else:
        return None
    return Formula(order.source, order.expression, order.value, is_order=True)


_SCOPES: tuple[Scope, ...] = ("these data", "some data of this shape")


def _floors(theory: BoundTable, precision: Precision) -> tuple[Floor, ...]:
    floors = []
    stored = f"parameters of {FLOAT_BITS[precision]} bits" if precision in FLOAT_BITS else "bits"
    for quantity in ("parameters", stored):
        for scope in _SCOPES:
            bounds = theory.of(quantity, "lower", scope)
            if bounds:
                largest = max(bounds, key=lambda bound: bound.value)
                floors.append(Floor(quantity, ceil(largest.value), largest.name, scope, largest.networks))
    return tuple(floors)


class _CallableModule(ModuleType):
    """A module that can be called. `byheart.compare` is both a module and a function."""

    def __call__(self, data: Dataset, methods: Sequence[str] | None = None, **options: Any) -> Comparison:
        """Build and verify every construction that accepts `data`; see the function `compare`."""
        return compare(data, methods, **options)


sys.modules[__name__].__class__ = _CallableModule
