"""`retrieval`: no key is stored, and the whole mantissa carries labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from byheart.construct.registry import Method
from byheart.construct.retrieval import emission, exactness, key_hash, table_solver
from byheart.construct.retrieval.addresses import Addresses
from byheart.construct.retrieval.key_hash import Hash
from byheart.construct.retrieval.keys import Keys, keys_of
from byheart.construct.retrieval.layout import Layout
from byheart.construct.retrieval.size import (
    MANTISSA_BITS,
    layout_of,
    numbers_of,
    size_of,
    statistics_for,
)
from byheart.construct.retrieval.table_solver import Table
from byheart.data.dataset import Dataset
from byheart.errors import AssumptionViolated, UsageError
from byheart.network.memory import Memory, Progress
from byheart.network.transformer.architecture import FeedForward, Precision, Transformer
from byheart.program.construction import Assumption, Construction, Statistics

NAME = "retrieval"
MAX_REJECT_BITS = 24
LEAST_WORD_BITS = 24

# What is tried, each with so many draws: whether more reflections stir the tokens, and room for how many times the keys.
_STAGES = (("usual hash", False, 1.0), ("robust hash", True, 1.0), ("robust hash, roomy tables", True, 1.5))
_DRAWS = 24


@dataclass(frozen=True, eq=False)
class Solved:
    """A draw of the hash that holds every label."""

    layout: Layout
    statistics: Statistics
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
    In floats:  exact; `exactness.margins` is the proof, checked before a network is emitted. With precision exact the same
                network has words as long as make it smallest, or numbers of at most `word_bits` bits.
    Size:       `size_of`; the layout search knows the size of every layout before building it.
    Departs:    randomised: a draw of the hash fails with a known probability and is drawn again from the same seed.
    """
    asked = _read_options(options)
    data.require_finite()
    data.require_consistent()
    keys = keys_of(data, asked.quantiser_bits, rng)
    solved = _solve(data, keys, asked, rng, progress)
    layout, words, precision = solved.layout, solved.table.words, asked.precision
    network = emission.emit(
        layout,
        solved.hashed,
        words,
        solved.centre,
        keys.pad,
        precision,
        keys.grid_bits,
        keys.quantiser,
    )
    numbers = numbers_of(layout, solved.hashed, keys, words, solved.centre, precision)
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
            "reject_bits": asked.reject_bits,
            "word_bits": layout.word_bits,
            "planes": layout.n_planes,
            "field_bits": layout.field_bits,
            "channels": layout.n_channels,
            "groups": layout.n_groups,
            "segments": layout.n_segments,
            "rows": layout.n_rows,
            "window": 2 ** layout.windows[0],
            "load": round(layout.load, 4),
            "tables": _layers_of(network, layout, "table"),
            "sum": _layers_of(network, layout, "sum")[0],
            "why": explain(layout),
        },
        statistics=replace(solved.statistics, numbers=numbers),
    )


def _solve(
    data: Dataset,
    keys: Keys,
    asked: Asked,
    rng: np.random.Generator,
    progress: Progress | None,
) -> Solved:
    """Draw hashes until one holds every label: the usual kind first, then the robust one."""
    failures = {"equal addresses": 0, "dependent equations": 0, "headroom": 0}
    n_draws = 0
    for stage, is_robust, room in _STAGES:
        statistics = statistics_for(
            data,
            keys,
            asked.precision,
            asked.reject_bits,
            asked.word_bits,
            is_robust=is_robust,
            room=room,
        )
        layout = replace(layout_of(statistics), n_keys=len(keys))
        for _ in range(_DRAWS):
            n_draws += 1
            hashed = key_hash.draw(layout, keys.lowest, keys.highest, rng)
            words = keys.pick(key_hash.evaluate_words(layout, hashed, keys.inputs, keys.last_only))
            where = layout.addresses(words)
            if where.n_duplicates:
                failures["equal addresses"] += 1
                continue
            table = table_solver.solve(layout, where, keys.labels, rng, progress)
            if not isinstance(table, Table):
                failures["dependent equations"] += 1
                continue
            centre = exactness.centre_of(layout, table.sums)
            largest = int(max(np.abs(keys.lowest).max(initial=0), np.abs(keys.highest).max(initial=0)))
            try:
                found = exactness.margins(layout, hashed, table.words, table.sums, centre, largest)
                exactness.require_exact(found, layout.mantissa_bits)
            except exactness.NotExactInFloats:
                failures["headroom"] += 1
                continue
            assert (table_solver.read_labels(layout, where, table.sums) == keys.labels).all()
            return Solved(layout, statistics, hashed, where, table, centre, stage, n_draws, failures)
    raise AssumptionViolated(
        f"no hash tells these {len(keys)} contexts apart: {n_draws} draws failed "
        f"({', '.join(f'{count} by {name}' for name, count in failures.items() if count)}).\n"
        "  The inputs are too regular for a random hash. Use the method kajitsuka-sato-2025, which is exact and holds any data.",
        failures=failures,
    )


@dataclass(frozen=True)
class Asked:
    """The options, read."""

    precision: Precision = "float64"
    reject_bits: int = 0
    word_bits: int | None = None

    @property
    def quantiser_bits(self) -> int:
        """Bits of the floats that vectors are quantised with; the quantiser is drawn in float64 for exact networks."""
        return min(MANTISSA_BITS[self.precision], MANTISSA_BITS["float64"])


def _read_options(options: Mapping[str, object]) -> Asked:
    unknown = set(options) - {"precision", "reject_bits", "word_bits"}
    if unknown:
        raise UsageError(
            f"{NAME} has the options precision, reject_bits and word_bits; got {', '.join(sorted(unknown))}."
        )
    precision = options.get("precision", "float64")
    if precision not in ("float64", "float32", "exact"):
        raise UsageError(f"{NAME} offers the precisions {', '.join(MANTISSA_BITS)}; got `{precision}`.")
    reject_bits = _whole_number("reject_bits", options.get("reject_bits", 0), 0, MAX_REJECT_BITS)
    word_bits = options.get("word_bits")
    if word_bits is None:
        return Asked(precision, reject_bits)
    if precision != "exact":
        raise UsageError(
            f"word_bits is an option of precision exact; floats of precision {precision} have their own word size."
        )
    longest = MANTISSA_BITS["exact"]
    return Asked(precision, reject_bits, _whole_number("word_bits", word_bits, LEAST_WORD_BITS, longest))


def _layers_of(network: Transformer, layout: Layout, part: str) -> list[int]:
    """The numbers of the layers that belong to one part of the circuit."""
    blocks = [number for number, layer in enumerate(network.layers) if isinstance(layer, FeedForward)]
    return [number for number, shape in zip(blocks, layout.blocks, strict=True) if shape.part == part]


def _whole_number(name: str, value: object, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise UsageError(f"{name} must be a whole number from {least} to {most}; got {value!r}.")
    return value


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


METHOD = Method(
    name=NAME,
    source="byheart: retrieval structures in the weights",
    tasks=("next-token", "seq-to-seq", "set"),
    precisions=("float64", "float32", "exact"),
    size_of=size_of,
    build=memorise,
)
