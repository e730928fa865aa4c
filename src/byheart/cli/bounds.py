"""`byheart bounds`: bounds on the size of a model that memorises a data set, and on the capacity of an architecture."""

from __future__ import annotations

from dataclasses import asdict
from fractions import Fraction
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from byheart.cli.options import PATH, WholeNumber, output_options, reading_choices, reading_options
from byheart.cli.output import count, echo_json, say, show_pairs, show_table
from byheart.cli.summary import show_refused
from byheart.errors import UsageError, amount

if TYPE_CHECKING:
    from byheart.bounds import Bound, BoundTable, Capacity, DataShape
    from byheart.bounds.bound import Scope

FIRST = ("parameters", "bits", "bits per weight")
KINDS = {"lower": "at least", "upper": "enough", "exact": "exactly"}
ARBITRARY = "arbitrary next-token distributions"
SIZES = ("n_samples", "seq_len", "n_classes", "vocab", "dim", "radius", "separation")


@click.command()
@click.option("--data", type=PATH, metavar="DATA", help="Data file to show bounds for.")
@click.option("--samples", "n_samples", type=WholeNumber(), metavar="N", help="Number of sequences.")
@click.option(
    "--seq-len", type=WholeNumber(), metavar="n", help="Number of tokens per sequence (default: 1)."
)
@click.option(
    "--classes", "n_classes", type=WholeNumber(), metavar="C", help="Number of different labels (default: 2)."
)
@click.option("--vocab", type=WholeNumber(), metavar="V", help="Number of token ids.")
@click.option(
    "--dim", type=WholeNumber(), metavar="d", help="Dimension of the vectors, if the tokens are vectors."
)
@click.option("--radius", type=float, metavar="r", help="Largest norm of a token vector.")
@click.option("--separation", type=float, metavar="δ", help="Smallest distance between two token vectors.")
@click.option(
    "--config", type=PATH, metavar="FILE", help="Show the capacity of the architecture in this config.json."
)
@reading_options
@output_options
def command(data: Path | None, config: Path | None, as_json: bool, **given: Any) -> None:
    """Show the bounds that apply, each with its theorem, and the reasons why others do not apply.

    Give one of three: a data file (--data), the sizes of a data set (--samples with --vocab or --dim), or an
    architecture (--config).
    """
    sizes = {name: value for name in SIZES if (value := given.pop(name)) is not None}
    if sum((data is not None, config is not None, bool(sizes))) != 1:
        raise UsageError(
            "give one of --data DATA, --config FILE, or sizes such as --samples 1000 --vocab 50.",
            options=["data", "config", "samples"],
        )
    if config is not None:
        _architecture(config, as_json)
        return
    found = _bounds_of_data(data, given) if data is not None else _bounds_of_sizes(sizes, given)
    if as_json:
        echo_json({"problem": _shape_json(found.shape), **found.to_json()})
        return
    say(f"{_describe(found.shape)}\n")
    whose = "these data" if data is not None else "all data of this shape"
    titles: tuple[tuple[Scope, str], ...] = (
        ("these data", f"Bounds for {whose}"),
        ("some data of this shape", "Bounds for some data of this shape, in the worst case"),
        (
            "arbitrary distributions",
            f"Bounds for {ARBITRARY} after this number of contexts; data of this shape may need less",
        ),
    )
    for scope, title in titles:
        _show_scope(found.applicable, scope, title)
    _show_estimates(found, are_data_given=data is not None)
    show_refused(found.not_applicable)


def _bounds_of_data(data: Path, given: dict[str, Any]) -> BoundTable:
    from byheart.bounds import table
    from byheart.construct.estimates import estimates_for_data
    from byheart.data.dataset import Dataset

    dataset = Dataset.read(data, **reading_choices(given))
    return table(dataset, estimates_for_data(dataset))


def _bounds_of_sizes(sizes: dict[str, Any], given: dict[str, Any]) -> BoundTable:
    from byheart.bounds import DataShape, for_shape
    from byheart.construct.estimates import estimates_for_shape

    if "n_samples" not in sizes:
        raise UsageError("--samples N is missing; give the number of sequences.", options=["samples"])
    if ("vocab" in sizes) == ("dim" in sizes):
        raise UsageError(
            "give --vocab V for token ids, or --dim d for tokens that are vectors, and not both.",
            options=["vocab", "dim"],
        )
    task: Any = given["task"] or "next-token"
    ordered = (task != "set" and "vocab" in sizes) if given["ordered"] is None else given["ordered"]
    shape = DataShape(**sizes, task=task, ordered=ordered)
    return for_shape(shape, estimates_for_shape(shape))


def _architecture(path: Path, as_json: bool) -> None:
    from byheart.bounds import capacity_of, read_architecture
    from byheart.records.json_file import read_json

    if not path.exists():
        raise UsageError(f"{path} does not exist or is not a file.", path=str(path))
    capacity = capacity_of(read_architecture(read_json(path)))
    if as_json:
        echo_json(vars(capacity))
    else:
        _show_capacity(capacity, path)


def _show_capacity(capacity: Capacity, path: Path) -> None:
    architecture = capacity.architecture
    kind = f"{architecture.family} {architecture.kind}"
    say(f"{path}: {kind}, {architecture.parameters:,} parameters (class {architecture.counted_class})\n")
    show_pairs([(part.name, f"{part.parameters:,}") for part in architecture.parts])
    bits, n_bits = amount(capacity.value_bits, "bit"), capacity.bits_per_parameter
    facts = f"Capacity for facts of {bits} each, with {n_bits} bits per parameter"
    say()
    _show_scope(capacity.bounds, "some data of this shape", facts)
    _show_scope(
        capacity.bounds,
        "arbitrary distributions",
        f"Contexts for {ARBITRARY} (given data may allow more)",
    )
    show_table(
        ("trained models", "facts", "note"),
        [(row.name, count(row.n_facts), row.note) for row in capacity.trained],
        numbers=(1,),
    )
    show_refused(capacity.not_applicable)


def _show_scope(bounds: tuple[Bound, ...], speaks_of: Scope, title: str) -> None:
    """Print the bounds with the scope `speaks_of`, under a title, with the conditions under which each bound holds."""
    chosen = tuple(bound for bound in bounds if bound.speaks_of == speaks_of)
    if chosen:
        say(f"  {title}:\n")
        _show_bounds(chosen)
        say()
        _show_conditions(chosen)
        say()


def _show_conditions(bounds: tuple[Bound, ...]) -> None:
    """Print the conditions of the bounds. Bounds with the same conditions share one line."""
    names: dict[tuple[str, ...], list[str]] = {}
    for bound in bounds:
        sharing = names.setdefault(bound.assumptions, [])
        if bound.name not in sharing:
            sharing.append(bound.name)
    rows = [(", ".join(sharing), "; ".join(conditions)) for conditions, sharing in names.items()]
    show_table(("by", "conditions"), rows, first_width=28)


def _show_bounds(bounds: tuple[Bound, ...]) -> None:
    """Print the bounds, grouped by quantity. Each group lists its lower bounds by value, then all others by value."""
    from byheart.bounds.bound import CAPACITIES

    rows = []
    for quantity, group in groupby(sorted(bounds, key=_order), key=lambda bound: bound.quantity):
        name = quantity
        for bound in group:
            kind = "at most" if bound.kind == "upper" and bound.quantity in CAPACITIES else KINDS[bound.kind]
            rows.append((name, kind, count(bound.value), bound.name))
            name = ""
    show_table(("", "", "value", "by"), rows, numbers=(2,), first_width=22)


def _order(bound: Bound) -> tuple[int, str, bool, int | Fraction]:
    place = FIRST.index(bound.quantity) if bound.quantity in FIRST else len(FIRST)
    return place, bound.quantity, bound.kind != "lower", bound.value


def _show_estimates(found: BoundTable, *, are_data_given: bool) -> None:
    """Print the sizes of byheart's own constructions: exact sizes for a data file with few labels, otherwise estimates."""
    from byheart.construct.estimates import MOST_PLANNED

    if not found.estimates:
        return
    planned = all(estimate.is_planned for estimate in found.estimates)
    what = (
        "Planned for these data: the exact sizes that `compile --method` builds"
        if planned
        else "Estimates, not bounds: probable sizes for random data of this shape"
    )
    say(f"  {what}\n")
    ordered = sorted(found.estimates, key=lambda estimate: estimate.parameters)
    show_table(
        ("", "weights", "parameters", "bits"),
        [(each.title, each.precision, count(each.parameters), count(each.bits)) for each in ordered],
        numbers=(2, 3),
    )
    if not planned:
        unit = "sample" if found.shape.task in ("next-token", "set") else "token"
        few = f"at most {MOST_PLANNED:,} labels, one per {unit}"
        if are_data_given:
            say(
                f"\n  Exact sizes are shown for {few}.\n  These data have {found.shape.label_count:,} labels."
            )
        else:
            say(f"\n  For exact sizes, give data (--data) with {few}.")


def _describe(shape: DataShape) -> str:
    kind = (
        f"{amount(shape.seq_len, 'vector')} of dimension {shape.dim}"
        if shape.vocab is None
        else f"{amount(shape.seq_len, 'token')} (vocabulary {shape.vocab:,})"
    )
    order = "positions matter" if shape.has_positions else "order ignored"
    at_most = "at most " if shape.n_contexts is None else ""
    return (
        f"{amount(shape.n_samples, 'sequence')} of up to {kind}, {amount(shape.n_classes, 'class')}\n"
        f"{shape.task}, {order}, {at_most}{amount(shape.context_count, 'context')}"
    )


def _shape_json(shape: DataShape) -> dict[str, Any]:
    return {
        name: float(value) if name in ("radius", "separation") and value is not None else value
        for name, value in asdict(shape).items()
    }
