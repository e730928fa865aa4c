"""`retrieval`: no key is stored, and the whole mantissa carries labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil

import numpy as np

from byheart.construct.registry import Assumption, Construction, Method, Statistics
from byheart.construct.retrieval import emitting, exactness, hashing, solving
from byheart.construct.retrieval.addressing import Addresses
from byheart.construct.retrieval.entry import Keys, entrance_of, keys_of, usual_folds
from byheart.construct.retrieval.hashing import Hash
from byheart.construct.retrieval.layout import Entrance, Layout
from byheart.construct.retrieval.search import find_layout
from byheart.construct.retrieval.solving import Table
from byheart.data.dataset import Dataset
from byheart.errors import AssumptionViolated, UsageError
from byheart.network.counting import FLOAT_BITS, Size
from byheart.network.memory import Memory, Progress

NAME = "retrieval"
MANTISSA_BITS = {"float64": 53, "float32": 24}
DTYPES: dict[str, type[np.floating]] = {"float64": np.float64, "float32": np.float32}
MAX_REJECT_BITS = 24

# What is tried, each with so many draws: whether more reflections stir the tokens, and room for how many times the keys.
_STAGES = (("usual hash", False, 1.0), ("robust hash", True, 1.0), ("robust hash, roomy tables", True, 1.5))
_DRAWS = 24


@dataclass(frozen=True, eq=False)
class Solved:
    """A draw of the hash that holds every label."""

    layout: Layout
    hashed: Hash
    where: Addresses
    table: Table
    centre: int
    stage: str
    n_draws: int
    failures: Mapping[str, int]


def memorise(
    data: Dataset, options: Mapping[str, object], rng: np.random.Generator, progress: Progress | None = None
) -> Construction:
    """Compile `data` into a Transformer that runs natively in floats and stores no keys.

    Source:     ours. Static functions by linear equations (Dietzfelbinger and Pagh, 2008; Dillinger and Walzer, 2021), inside
                KS25's architecture: token-wise blocks, one averaging attention layer, token-wise blocks.
    Assumes:    equal contexts carry equal labels. Vectors off any grid are quantised; that no token lies near a border of the
                quantiser is measured.
    Guarantee:  for every sample the output at its labelled token is exactly label + 1, in the float type asked for, in any order of
                summation. Other inputs answer arbitrarily; with reject_bits f they answer "unknown" but for a share of about 2^-f.
    In floats:  exact; `exactness.margins` is the proof, checked before a network is emitted.
    Size:       `size_of`; the layout search knows the size of every layout before building it.
    Departs:    randomised: a draw of the hash fails with a known probability and is drawn again from the same seed.
    """
    precision, reject_bits = _read_options(options)
    data.require_finite()
    data.require_consistent()
    keys = keys_of(data, MANTISSA_BITS[precision], rng)
    field_bits = label_bits(data.n_classes) + reject_bits
    solved = _solve(data, keys, field_bits, reject_bits, MANTISSA_BITS[precision], rng, progress)
    layout = solved.layout
    network = emitting.emit(
        layout,
        solved.hashed,
        solved.table.words,
        solved.centre,
        keys.pad,
        DTYPES[precision],
        keys.grid_bits,
        keys.quantiser,
    )
    return Construction(
        memory=Memory(network, data.task, data.label_names, data.tokenizer, data.ordered),
        method=NAME,
        theorem="retrieval structure in the weights (no theorem of the papers)",
        assumptions=_assumptions(data, keys),
        theorem_size=None,
        notes={
            "layout": type(layout).__name__.lower(),
            "hash": solved.stage,
            "draws": solved.n_draws,
            "failed_draws": dict(solved.failures),
            "contexts": len(keys),
            "reject_bits": reject_bits,
            "planes": layout.n_planes,
            "field_bits": layout.field_bits,
            "channels": layout.n_channels,
            "groups": layout.n_groups,
            "segments": layout.n_segments,
            "rows": layout.n_rows,
            "window": 2**layout.window_bits,
            "load": round(layout.load, 4),
            "why": explain(layout),
        },
    )


def _solve(
    data: Dataset,
    keys: Keys,
    field_bits: int,
    reject_bits: int,
    mantissa_bits: int,
    rng: np.random.Generator,
    progress: Progress | None,
) -> Solved:
    """Draw hashes until one holds every label: the usual kind first, then the robust one."""
    failures = {"equal addresses": 0, "dependent equations": 0, "headroom": 0}
    n_draws = 0
    for stage, is_robust, room in _STAGES:
        entrance = entrance_of(data, keys, is_robust)
        layout = find_layout(
            entrance,
            ceil(room * len(keys)),
            field_bits,
            mantissa_bits,
            reject_bits=reject_bits,
            allow_twin=keys.last_only and keys.quantiser is None,
        )
        layout = replace(layout, n_keys=len(keys))
        for _ in range(_DRAWS):
            n_draws += 1
            hashed = hashing.draw(layout, keys.lowest, keys.highest, rng)
            words = keys.pick(hashing.evaluate_words(layout, hashed, keys.inputs, keys.last_only))
            where = layout.addresses(words)
            if where.n_duplicates:
                failures["equal addresses"] += 1
                continue
            table = solving.solve(layout, where, keys.labels, rng, progress)
            if not isinstance(table, Table):
                failures["dependent equations"] += 1
                continue
            centre = exactness.centre_of(layout, table.sums)
            largest = int(max(np.abs(keys.lowest).max(initial=0), np.abs(keys.highest).max(initial=0)))
            try:
                found = exactness.margins(layout, hashed, table.words, table.sums, centre, largest)
                exactness.require_exact(found, mantissa_bits)
            except exactness.NotExactInFloats:
                failures["headroom"] += 1
                continue
            assert (solving.read_labels(layout, where, table.sums) == keys.labels).all()
            return Solved(layout, hashed, where, table, centre, stage, n_draws, failures)
    raise AssumptionViolated(
        f"no hash tells these {len(keys)} contexts apart: {n_draws} draws failed "
        f"({', '.join(f'{count} by {name}' for name, count in failures.items() if count)}).\n"
        "  The inputs are too regular for a random hash. Use the method kajitsuka-sato-2025, which is exact and holds any data.",
        failures=failures,
    )


def _read_options(options: Mapping[str, object]) -> tuple[str, int]:
    unknown = set(options) - {"precision", "reject_bits"}
    if unknown:
        raise UsageError(
            f"{NAME} has the options precision and reject_bits; got {', '.join(sorted(unknown))}."
        )
    precision = str(options.get("precision", "float64"))
    if precision not in MANTISSA_BITS:
        raise UsageError(f"{NAME} offers the precisions {', '.join(MANTISSA_BITS)}; got `{precision}`.")
    reject_bits = options.get("reject_bits", 0)
    if (
        isinstance(reject_bits, bool)
        or not isinstance(reject_bits, int)
        or not 0 <= reject_bits <= MAX_REJECT_BITS
    ):
        raise UsageError(
            f"reject_bits must be a whole number from 0 to {MAX_REJECT_BITS}; got {reject_bits!r}."
        )
    return precision, reject_bits


def label_bits(n_classes: int) -> int:
    """Bits of a class number; at least one."""
    return max(1, (n_classes - 1).bit_length())


def explain(layout: Layout) -> str:
    """Why this layout, in one sentence."""
    return (
        f"the smallest of all layouts searched is a {type(layout).__name__.lower()}: words of {layout.word_bits} bits hold "
        f"{layout.n_planes} labels of {layout.field_bits} bits each, {layout.n_channels} words to a row, {layout.n_rows} "
        f"rows in each of {layout.n_segments} tables, {layout.load:.1%} of them used"
    )


def _assumptions(data: Dataset, keys: Keys) -> tuple[Assumption, ...]:
    found = [
        Assumption("inputs are finite", True, f"{data.n_samples} sequences of at most {data.seq_len} tokens"),
        Assumption("equal contexts carry equal labels", True, f"{len(keys)} distinct contexts"),
    ]
    if keys.quantiser is not None:
        found.append(
            Assumption(
                "no token lies near a border of the quantiser",
                True,
                f"{keys.quantiser.n_bits} bits in each of {len(keys.quantiser.lowest)} projections; every token at least "
                f"{2 / keys.quantiser.sharpness:.3g} cells from a border",
            )
        )
    elif data.dim is not None:
        found.append(Assumption("vectors lie on a grid", True, f"multiples of 2^{-keys.grid_bits}"))
    return tuple(found)


def size_of(statistics: Statistics) -> Size:
    """The size in float64, exactly, if the usual hash succeeds (it nearly always does), without building.

    For vectors the number of levels of the grid is taken as 16 a coordinate unless `token_bits` tells the bits of Σ levels.
    """
    is_table = statistics.vocab is not None
    per_sample = statistics.seq_len if statistics.task == "seq-to-seq" else 1
    dim = statistics.dim or 1
    entrance = Entrance(
        kind="table" if is_table else "grid",
        n_rows=(statistics.vocab or 0) + statistics.ragged if is_table else 0,
        dim=0 if is_table else dim,
        seq_len=statistics.seq_len,
        ordered=statistics.ordered and is_table,
        pooled="sum" if statistics.task == "set" else "attention",
        n_folds=usual_folds(is_table, statistics.ordered),
        spread=0 if is_table else 15 * dim,
        n_varied=1 if statistics.ragged else statistics.seq_len,
    )
    n_keys = statistics.n_contexts if statistics.n_contexts is not None else statistics.n_samples * per_sample
    layout = find_layout(
        entrance,
        n_keys,
        label_bits(statistics.n_classes),
        MANTISSA_BITS["float64"],
        allow_twin=statistics.task != "seq-to-seq",
    )
    return layout.size(FLOAT_BITS["float64"])


METHOD = Method(
    name=NAME,
    source="byheart: retrieval structures in the weights",
    tasks=("next-token", "seq-to-seq", "set"),
    precisions=("float64", "float32"),
    size_of=size_of,
    build=memorise,
)
