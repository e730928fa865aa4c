"""The construction `retrieval`: labels are stored in tables, at addresses that a random hash gives. No key is stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import ceil

import numpy as np
from jaxtyping import Int

from byheart.construct.retrieval import key_hash
from byheart.construct.retrieval.key_hash import KeyHash
from byheart.construct.retrieval.keys import ContextKeys, keys_of
from byheart.construct.retrieval.layout import RetrievalLayout
from byheart.construct.retrieval.program import Contents, describe
from byheart.construct.retrieval.quantiser import N_PROJECTIONS
from byheart.construct.retrieval.shard import (
    FAILURES,
    Failure,
    FilledTables,
    SolvedShard,
    join_shards,
    solve_shard,
)
from byheart.construct.retrieval.size import (
    MANTISSA_BITS,
    MIXING_FOLDS,
    NAME,
    ROBUST_FOLDS,
    RetrievalOptions,
    Tokens,
    layout_of,
)
from byheart.data.assumption import Assumption
from byheart.data.dataset import Dataset
from byheart.data.shape import DataShape
from byheart.errors import AssumptionViolated
from byheart.process.progress import Progress, Steps, part_of
from byheart.program.blocks import Program, flat_steps
from byheart.program.construction import ProgramPlan

THEOREM = "retrieval structure in the weights (no theorem of the papers)"

STAGES = (
    ("usual hash", 0, 1.0, 24),
    ("mixed hash", MIXING_FOLDS, 1.0, 12),
    ("robust hash", ROBUST_FOLDS, 1.0, 24),
    ("robust hash, larger tables", ROBUST_FOLDS, 1.5, 24),
)
"""The kinds of hashes that are tried, in this order. Each entry holds the name, the number of additional reflections that mix the
tokens, how many times as large as usual the tables are, and the number of random draws."""


@dataclass(frozen=True, eq=False)
class Solution:
    """A random hash for which every label could be stored, with the words of the tables and the centres of their sums (one centre
    for each part of the label).

    `words` has one table row after the other: in each, the words of the first part of the label, then those of the next part, and
    so on.
    """

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

    Source:     ours. Static functions by linear equations (Dietzfelbinger and Pagh, 2008; Dillinger and Walzer, 2021), inside the
                architecture of KS25 (Kajitsuka and Sato, 2025): token-wise blocks, one averaging attention layer, token-wise
                blocks. A dual table has a second attention layer, in which every token reads the first token (the pattern of KS25
                Remark 4.5).
    Assumes:    equal contexts carry equal labels. Vectors that are not on a grid are quantised; it is checked that no token is
                near a border of the quantiser.
    Guarantee:  for every sample the output at its labelled token is exactly label + 1, in the requested float type, in any
                order of summation. Without reject bits, other inputs get arbitrary answers. With reject_bits f, all but a
                share of about 2^-f of the other inputs get "unknown".
    In floats:  exact; `exactness.margins` is the proof, which is checked before a network is built. With precision exact,
                the option `word_bits` limits the length of numbers. Without this option, the search chooses the length that
                makes the network smallest.
    Size:       see `size_of`; the layout search knows the size of every layout before building it.
    Departs:    randomised: a draw of the hash fails with a known probability and is repeated with the next random numbers of the
                same seed.
    """
    data.require_finite()
    data.require_consistent()
    # vectors are quantised with the bits of the requested float type, for exact networks with those of float64
    steps = Steps(progress, {"keys": 0.1, "layout": 0.12, "hash": 0.12, "solve": 0.64, "describe": 0.02})
    steps.begin("keys")
    keys = keys_of(data, min(MANTISSA_BITS[options.precision], MANTISSA_BITS["float64"]), rng)
    ranks = ranks_of(np.bincount(keys.labels, minlength=data.n_classes))
    found = _solve(data, keys, ranks, options, rng, steps)
    steps.begin("describe")
    contents = Contents(found.hashed, found.words, found.centres, keys.pad, keys.grid_bits, keys.quantiser)
    program = describe(found.layout, contents)
    return ProgramPlan(
        program,
        _ranked(data, ranks) if found.layout.rare_fields else data,
        NAME,
        theorem=THEOREM,
        assumptions=_assumptions(data, keys),
        notes=notes_of(found, program, len(keys), options.reject_bits),
        precision=options.precision,
    )


def _solve(
    data: Dataset,
    keys: ContextKeys,
    ranks: Int[np.ndarray, " n_classes"],
    options: RetrievalOptions,
    rng: np.random.Generator,
    steps: Steps,
) -> Solution:
    """Draw random hashes until one can store every label: first hashes of the usual kind, then hashes that mix the tokens more,
    and finally hashes that mix the tokens more, with larger tables (see `STAGES`).
    """
    failures: dict[str, int] = dict.fromkeys(FAILURES, 0)
    n_draws = 0
    shape, tokens = DataShape.of(data), _tokens(data, keys, options)
    for stage, more_folds, room, most_draws in STAGES:
        steps.begin("layout")
        layout = layout_of(shape, options, replace(tokens, more_folds=more_folds), ceil(room * len(keys)))
        layout = replace(layout, n_keys=len(keys))
        labels = ranks[keys.labels] if layout.rare_fields else keys.labels
        for _ in range(most_draws):
            n_draws += 1
            steps.begin("hash")
            hashed = key_hash.draw(layout, keys.lowest, keys.highest, rng)
            fields = keys.pick(key_hash.evaluate_fields(layout, hashed, keys.inputs, keys.last_only))
            found = _solve_shards(
                layout,
                hashed,
                own_generators(options, rng),
                fields,
                labels,
                keys.largest,
                steps.begin("solve"),
            )
            if isinstance(found, FilledTables):
                return Solution(layout, hashed, found.words, found.centres, stage, n_draws, failures)
            failures[found] += 1
    raise refuse_keys(len(keys), n_draws, failures)


def refuse_keys(n_keys: int, n_draws: int, failures: Mapping[str, int]) -> AssumptionViolated:
    """Return the error to raise if none of the random hashes that were drawn could be used to store the labels."""
    return AssumptionViolated(
        f"none of {n_draws} random hashes can be used to store the labels of these {n_keys} contexts. Failures by reason: "
        f"{', '.join(f'{name} {count}' for name, count in failures.items() if count)}.\n"
        "  The inputs are probably too regular for a random hash. Use the exact method kajitsuka-sato-2025.",
        failures=dict(failures),
    )


def own_generators(options: RetrievalOptions, rng: np.random.Generator) -> list[np.random.Generator]:
    """Return a random generator for each shard. Without shards, return only `rng`."""
    return [rng] if options.shards is None else rng.spawn(options.shards)


def _solve_shards(
    layout: RetrievalLayout,
    hashed: KeyHash,
    generators: Sequence[np.random.Generator],
    fields: Int[np.ndarray, "n_keys n_fields"],
    labels: Int[np.ndarray, " n_keys"],
    largest_input: int,
    progress: Progress | None,
) -> FilledTables | Failure:
    """Compute the words (table entries) of all shards (ranges of rows), one shard after the other. Return the filled tables or,
    if that fails, the reason.
    """
    shard_of = layout.first_rows(fields) // layout.shard_rows
    solved = []
    for shard, rng in enumerate(generators):
        own = np.flatnonzero(shard_of == shard) if len(generators) > 1 else slice(None)
        share = progress and part_of(progress, shard / len(generators), (shard + 1) / len(generators))
        found = solve_shard(layout, shard, fields[own], labels[own], rng, share)
        if not isinstance(found, SolvedShard):
            return found
        solved.append(found)
    return join_shards(layout, hashed, solved, largest_input)


def ranks_of(label_counts: Int[np.ndarray, " n_classes"]) -> Int[np.ndarray, " n_classes"]:
    """Return the rank of each class by frequency, 0 for the most frequent."""
    order = np.argsort(-label_counts, kind="stable")
    ranks = np.empty_like(order)
    ranks[order] = np.arange(len(order))
    return ranks


def _ranked(data: Dataset, ranks: Int[np.ndarray, " n_classes"]) -> Dataset:
    """Number the classes by frequency: class c becomes class `ranks[c]`. Each class keeps its name."""
    return data.with_labels(ranks[data.labels], [data.label_names[number] for number in np.argsort(ranks)])


def _tokens(data: Dataset, keys: ContextKeys, options: RetrievalOptions) -> Tokens:
    if data.vocab is not None:
        return Tokens()
    if keys.quantiser is not None:
        return Tokens(keys.quantiser.n_bits, N_PROJECTIONS)
    return Tokens(spread_bits(keys.lowest, keys.highest, options))


def spread_bits(
    lowest: Int[np.ndarray, " dim"], highest: Int[np.ndarray, " dim"], options: RetrievalOptions
) -> int:
    """For vectors on a grid, add up (largest - smallest) over all coordinates. Return the number of bits of this sum.

    With bfloat16 weights, the largest coordinates are those of the extra token, which may be far above those of the data.
    """
    if options.precision == "bfloat16":
        highest = key_hash.extra_coordinates(highest, is_short=True)
    return int((highest - lowest).sum()).bit_length()


def notes_of(found: Solution, program: Program, n_contexts: int, reject_bits: int) -> dict[str, object]:
    layout, rare = found.layout, dict[str, object]()
    if layout.rare_fields:
        rare["rare_fields"] = [asdict(field) for field in layout.rare_fields]
        rare["rare_layers"] = _layers_of(program, "rare label")
    return {
        "layout": layout.name,
        "slots": layout.n_slots,
        "hash": found.stage,
        "draws": found.n_draws,
        "failed_draws": dict(found.failures),
        "contexts": n_contexts,
        "reject_bits": reject_bits,
        "word_bits": layout.word_bits,
        "planes": layout.n_planes,
        "field_bits": layout.field_bits,
        **rare,
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
    """Return the numbers of the layers that implement `part` of the circuit."""
    return [at for at, step in enumerate(flat_steps(program.steps)) if getattr(step, "part", "") == part]


def explain(layout: RetrievalLayout) -> str:
    """Explain in one sentence why this layout was chosen."""
    labels = "1 label" if layout.n_planes == 1 else f"{layout.n_planes} labels"
    held = f"{labels} of {layout.field_bits} bit{'s' * (layout.field_bits > 1)}"
    if layout.n_parts > 1:
        held = f"a part of {labels} ({layout.field_bits} of each label's {layout.n_parts * layout.field_bits} bits)"
    for rare in layout.rare_fields:
        held += (
            f", plus {rare.n_bits}-bit extensions ({rare.n_planes} per word) for labels rarer than the "
            f"{rare.first} most frequent"
        )
    return (
        f"the smallest of all layouts searched is a {layout.name}: {layout.word_bits}-bit words hold {held}; "
        f"words per row: {layout.n_parts * layout.n_channels}; {layout.n_segments} tables of {layout.n_rows} rows each; "
        f"{layout.load:.1%} of their room for labels is used"
    )


def _assumptions(data: Dataset, keys: ContextKeys) -> tuple[Assumption, ...]:
    found = [
        Assumption("inputs are finite", True, f"sequences: {data.n_samples}, maximum length: {data.seq_len}"),
        Assumption("equal contexts carry equal labels", True, f"distinct contexts: {len(keys)}"),
    ]
    if keys.quantiser is not None:
        found.append(
            Assumption(
                "no token lies near a border of the quantiser",
                True,
                f"{keys.quantiser.n_bits} bits in each of {len(keys.quantiser.lowest)} projections; every token is at least "
                f"{2 / keys.quantiser.sharpness:.3g} cells (steps of the quantiser) from a border",
            )
        )
    elif data.dim is not None:
        found.append(Assumption("vectors lie on a grid", True, f"multiples of 2^{-keys.grid_bits}"))
    return tuple(found)
