"""`retrieval`: no key is stored, and the whole mantissa carries labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil

import numpy as np
from jaxtyping import Int

from byheart.assumption import Assumption
from byheart.construct.retrieval import exactness, key_hash, table_solver
from byheart.construct.retrieval.addresses import Addresses
from byheart.construct.retrieval.key_hash import KeyHash
from byheart.construct.retrieval.keys import ContextKeys, keys_of
from byheart.construct.retrieval.layout import RetrievalLayout
from byheart.construct.retrieval.program import Contents, describe
from byheart.construct.retrieval.quantiser import N_PROJECTIONS
from byheart.construct.retrieval.size import MANTISSA_BITS, NAME, RetrievalOptions, Tokens, layout_of
from byheart.construct.retrieval.table_solver import SolvedTable
from byheart.data.dataset import Dataset
from byheart.data.shape import DataShape
from byheart.errors import AssumptionViolated
from byheart.network.memory import Progress
from byheart.program.blocks import Program, flat_steps
from byheart.program.program_plan import ProgramPlan

# What is tried, each with so many draws: whether more reflections stir the tokens, and room for how many times the keys.
_STAGES = (("usual hash", False, 1.0), ("robust hash", True, 1.0), ("robust hash, roomy tables", True, 1.5))
_DRAWS = 24


@dataclass(frozen=True, eq=False)
class Solution:
    """A draw of the hash that holds every label: the words of the tables, part after part in every row, and their centres."""

    layout: RetrievalLayout
    hashed: KeyHash
    words: np.ndarray
    centres: tuple[int, ...]
    stage: str
    n_draws: int
    failures: Mapping[str, int]


def plan(
    data: Dataset, options: RetrievalOptions, rng: np.random.Generator, progress: Progress | None = None
) -> ProgramPlan:
    """Compile `data` into a Transformer that runs natively in floats and stores no keys.

    Source:     ours. Static functions by linear equations (Dietzfelbinger and Pagh, 2008; Dillinger and Walzer, 2021), inside
                KS25's architecture: token-wise blocks, one averaging attention layer, token-wise blocks; in a dual table a second
                attention layer, in which every token reads the first one (the pattern of Remark 4.5).
    Assumes:    equal contexts carry equal labels. Vectors off any grid are quantised; that no token lies near a border of the
                quantiser is measured.
    Guarantee:  for every sample the output at its labelled token is exactly label + 1, in the float type asked for, in any order of
                summation. Other inputs answer arbitrarily; with reject_bits f they answer "unknown" but for a share of about 2^-f.
    In floats:  exact; `exactness.margins` is the proof, checked before a network is emitted. With precision exact the same
                network has words as long as make it smallest, or numbers of at most `word_bits` bits.
    Size:       `size_of`; the layout search knows the size of every layout before building it.
    Departs:    randomised: a draw of the hash fails with a known probability and is drawn again from the same seed.
    """
    data.require_finite()
    data.require_consistent()
    # vectors are quantised with the bits of the floats asked for; for exact networks with those of float64
    keys = keys_of(data, min(MANTISSA_BITS[options.precision], MANTISSA_BITS["float64"]), rng)
    found = _solve(data, keys, options, rng, progress)
    contents = Contents(found.hashed, found.words, found.centres, keys.pad, keys.grid_bits, keys.quantiser)
    program = describe(found.layout, contents)
    return ProgramPlan(
        program,
        data,
        NAME,
        theorem="retrieval structure in the weights (no theorem of the papers)",
        assumptions=_assumptions(data, keys),
        notes=_notes(found, program, len(keys), options.reject_bits),
        precision=options.precision,
    )


def _solve(
    data: Dataset,
    keys: ContextKeys,
    options: RetrievalOptions,
    rng: np.random.Generator,
    progress: Progress | None,
) -> Solution:
    """Draw hashes until one holds every label: the usual kind first, then the robust one."""
    failures = {"equal addresses": 0, "dependent equations": 0, "headroom": 0}
    n_draws = 0
    shape, tokens = DataShape.of(data), _tokens(data, keys)
    for stage, is_robust, room in _STAGES:
        layout = layout_of(shape, options, replace(tokens, is_robust=is_robust), ceil(room * len(keys)))
        layout = replace(layout, n_keys=len(keys))
        for _ in range(_DRAWS):
            n_draws += 1
            hashed = key_hash.draw(layout, keys.lowest, keys.highest, rng)
            fields = keys.pick(key_hash.evaluate_fields(layout, hashed, keys.inputs, keys.last_only))
            where = layout.addresses(fields)
            if where.n_duplicates:
                failures["equal addresses"] += 1
                continue
            tables = _solve_parts(layout, where, keys.labels, rng, progress)
            if tables is None:
                failures["dependent equations"] += 1
                continue
            centres = tuple(exactness.centre_of(layout, table.sums) for table in tables)
            largest = int(max(np.abs(keys.lowest).max(initial=0), np.abs(keys.highest).max(initial=0)))
            try:
                for table, centre in zip(tables, centres, strict=True):
                    found = exactness.margins(layout, hashed, table.words, table.sums, centre, largest)
                    exactness.require_exact(found, layout.mantissa_bits)
            except exactness.NotExactInFloats:
                failures["headroom"] += 1
                continue
            words = [table.words.reshape(-1, layout.n_channels) for table in tables]
            return Solution(
                layout, hashed, np.concatenate(words, axis=1).reshape(-1), centres, stage, n_draws, failures
            )
    raise AssumptionViolated(
        f"no hash tells these {len(keys)} contexts apart: {n_draws} draws failed "
        f"({', '.join(f'{count} by {name}' for name, count in failures.items() if count)}).\n"
        "  The inputs are too regular for a random hash. Use the method kajitsuka-sato-2025, which is exact and holds any data.",
        failures=failures,
    )


def _solve_parts(
    layout: RetrievalLayout,
    where: Addresses,
    labels: Int[np.ndarray, " n_keys"],
    rng: np.random.Generator,
    progress: Progress | None,
) -> list[SolvedTable] | None:
    """The words of every part: the same equations for other bits of the labels. None if they are dependent."""
    tables = []
    for part in range(layout.n_parts):
        own = (labels >> part * layout.field_bits) & ((1 << layout.field_bits) - 1)
        table = table_solver.solve(layout, where, own, rng, progress)
        if not isinstance(table, SolvedTable):
            return None
        assert (table_solver.read_labels(layout, where, table.sums) == own).all()
        tables.append(table)
    return tables


def _tokens(data: Dataset, keys: ContextKeys) -> Tokens:
    if data.vocab is not None:
        return Tokens()
    if keys.quantiser is not None:
        return Tokens(keys.quantiser.n_bits, N_PROJECTIONS)
    return Tokens(int((keys.highest - keys.lowest).sum()).bit_length())


def _notes(found: Solution, program: Program, n_contexts: int, reject_bits: int) -> dict[str, object]:
    layout = found.layout
    return {
        "layout": layout.name,
        "hash": found.stage,
        "draws": found.n_draws,
        "failed_draws": dict(found.failures),
        "contexts": n_contexts,
        "reject_bits": reject_bits,
        "word_bits": layout.word_bits,
        "planes": layout.n_planes,
        "field_bits": layout.field_bits,
        "parts": layout.n_parts,
        "channels": layout.n_channels,
        "groups": layout.n_groups,
        "segments": layout.n_segments,
        "rows": layout.n_rows,
        "window": 2 ** layout.windows[0],
        "load": round(layout.load, 4),
        "tables": _layers_of(program, "table"),
        "sum": _layers_of(program, "sum")[-1],
        "why": explain(layout),
    }


def _layers_of(program: Program, part: str) -> list[int]:
    """The numbers of the layers that belong to one part of the circuit."""
    return [at for at, step in enumerate(flat_steps(program.steps)) if getattr(step, "part", "") == part]


def explain(layout: RetrievalLayout) -> str:
    """Why this layout, in one sentence."""
    labels = "1 label" if layout.n_planes == 1 else f"{layout.n_planes} labels"
    held = f"{labels} of {layout.field_bits} bits"
    if layout.n_parts > 1:
        held = f"a part of {labels}, {layout.field_bits} bits of {layout.n_parts * layout.field_bits}"
    return (
        f"the smallest of all layouts searched is a {layout.name}: words of {layout.word_bits} bits hold {held}, "
        f"{layout.n_parts * layout.n_channels} words to a row, {layout.n_rows} rows in each of {layout.n_segments} tables, "
        f"{layout.load:.1%} of them used"
    )


def _assumptions(data: Dataset, keys: ContextKeys) -> tuple[Assumption, ...]:
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
