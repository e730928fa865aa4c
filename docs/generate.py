"""Parts of pages that are made from the code: the theorem index, the command line, the errors."""

from __future__ import annotations

import pkgutil
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from importlib import import_module
from math import isqrt
from pathlib import Path

from byheart import errors, theorems
from byheart.bounds.kajitsuka_sato_2025 import theorem_4_1
from byheart.construct import registry
from byheart.data.shape import DataShape

PACKAGE = Path(theorems.__file__).parent

WORDS = {
    "done": "claimed by a function and checked by a test",
    "untested": "claimed by a function, checked by no test",
    "claimed": "claimed by a function; the tests were not at hand",
    "open": "not built yet",
}


def write_all(folder: Path) -> None:
    """Write every generated part and picture into `folder`."""
    import gaps
    import llama_parts
    import notebooks
    import pictures
    import reproduced
    import retrieval_parts

    folder.mkdir(exist_ok=True)
    pictures.write_all(folder)
    reproduced.write(folder)
    retrieval_parts.write(folder)
    llama_parts.write(folder)
    notebooks.write(folder)
    draw_plan(folder / "plan.svg")
    for name, make in {
        "theorems.md": theorem_index,
        "command-line.md": command_line,
        "errors.md": error_table,
        "sizes.md": size_table,
        "constructions.md": construction_table,
        "families.md": family_table,
        "data-kinds.md": data_kind_table,
        "gaps-next-token.md": lambda: gaps.gap_table("next-token"),
        "gaps-seq-to-seq.md": lambda: gaps.gap_table("seq-to-seq"),
        "orders.md": gaps.order_table,
        "sharing.md": gaps.sharing_table,
    }.items():
        (folder / name).write_text(make(), encoding="utf-8")


def draw_plan(path: Path) -> None:
    """The figure of `byheart plan`."""
    from byheart.bounds import curves, plan
    from byheart.construct.estimates import estimates_for_plan
    from byheart.report.figures import draw_plan

    plans = [plan(10**power, 10, estimates=estimates_for_plan) for power in range(6, 13)]
    draw_plan(curves(plans), "A model for N facts of 10 bits", path)


def theorem_index() -> str:
    """One section per paper; under each statement its functions, then its tests."""
    entries = theorems.index()
    counts = Counter(entry.state for entry in entries)
    lines = [f"{len(entries)} statements:", ""]
    lines += [f"- {counts[state]} {state}: {meaning}" for state, meaning in WORDS.items() if counts[state]]
    for paper, citation in theorems.papers().items():
        lines += ["", f"## {paper}", "", f"{citation}.", ""]
        for entry in entries:
            if entry.statement.paper == paper:
                lines += _definition(entry)
    return "\n".join(lines) + "\n"


def _definition(entry: theorems.Entry) -> list[str]:
    """A statement as an item of a definition list."""
    text = entry.statement.statement.replace("*", "\\*")
    grade = entry.statement.grade + (f": {entry.statement.case}" if entry.statement.case else "")
    lines = [
        f"{entry.id} ({entry.state})",
        f": {text} Becomes: {', '.join(entry.statement.becomes)}. *{grade.capitalize()}.*",
    ]
    places = [f"  - `{place.name}`" for place in (*entry.functions, *entry.tests)]
    return [*lines, *([""] if places else []), *places, ""]


def command_line() -> str:
    """The help text of the program and of each command, as click prints it."""
    import click

    from byheart.cli.main import group

    def context(command: click.Command, name: str, parent: click.Context | None = None) -> click.Context:
        return click.Context(command, info_name=name, parent=parent, terminal_width=88, max_content_width=88)

    program = context(group, "byheart")
    parts = [f"```text\n{group.get_help(program)}\n```\n"]
    for name in group.list_commands(program):
        command = group.get_command(program, name)
        assert command is not None
        text = command.get_help(context(command, name, program))
        parts.append(f"## byheart {name}\n\n```text\n{text}\n```\n")
    return "\n".join(parts)


def error_table() -> str:
    """Every exception class with its exit status and meaning, each after the one it is a kind of."""
    for part in ("construct", "data", "export", "network", "verify"):
        for module in pkgutil.walk_packages([str(PACKAGE / part)], f"byheart.{part}."):
            import_module(module.name)
    lines = ["| error | kind of | exit status | meaning |", "| --- | --- | --- | --- |"]
    for item in _with_subclasses(errors.ByheartError):
        meaning = (item.__doc__ or "").strip().splitlines()[0]
        parent = item.__mro__[1].__name__
        lines.append(f"| `{item.__name__}` | `{parent}` | {int(item.exit_status)} | {meaning} |")
    return "\n".join(lines) + "\n"


def _with_subclasses(parent: type[errors.ByheartError]) -> Iterator[type[errors.ByheartError]]:
    yield parent
    for child in sorted(parent.__subclasses__(), key=lambda item: item.__name__):
        yield from _with_subclasses(child)


def construction_table() -> str:
    """Every construction of the registry."""
    lines = ["| name | tasks | precision | source |", "| --- " * 4 + "|"]
    for name in registry.names():
        method = registry.get(name)
        tasks, precisions = ", ".join(method.tasks), ", ".join(method.precisions)
        lines.append(f"| `{name}` | {tasks} | {precisions} | {method.source} |")
    return "\n".join(lines) + "\n"


def family_table() -> str:
    """What a model to be trained is sized by; a size without a default must be given."""
    from byheart.measure.families import FAMILIES

    lines = ["| family | source | sizes | options |", "| --- " * 4 + "|"]
    for family in FAMILIES.values():
        sizes = [
            f"`{size.name}` ({size.meaning}{'' if size.default is None else f'; {size.default}'})"
            for size in family.size_fields
        ]
        options = [f"`{option.name}`: {', '.join(option.choices)}" for option in family.option_fields]
        lines.append(
            f"| `{family.name}` | {family.source} | {', '.join(sizes)} | {'; '.join(options) or 'none'} |"
        )
    return (
        "\n".join(lines)
        + "\n\nSizes with a number behind them have it as their default; all others must be given.\n"
    )


def data_kind_table() -> str:
    """What data to train on are described by."""
    from byheart.measure.sources import SOURCES

    lines = ["| kind | must be given | defaults |", "| --- " * 3 + "|"]
    for name, source in SOURCES.items():
        given = ", ".join(f"`{field}`" for field, default in source.fields.items() if default is None)
        rest = ", ".join(f"`{f}` = {value}" for f, value in source.fields.items() if value is not None)
        if name != "prepared":  # made by `byheart reproduce` alone
            lines.append(f"| `{name}` | {given or 'nothing'} | {rest or 'none'} |")
    return "\n".join(lines) + "\n"


def size_table() -> str:
    """What the construction builds, and what the theorem promises, for growing numbers of samples."""
    estimate = registry.get("kajitsuka-sato-2025").estimate
    heads = ("samples", "layers", "parameters", "non-zero", "longest weight, bits")
    heads += ("theorem: layers", "theorem: parameters", "theorem: longest weight, bits")
    lines = [f"| {' | '.join(heads)} |", "| ---: " * len(heads) + "|"]
    for power in range(2, 7):
        n_samples = 10**power
        built = estimate(DataShape(n_samples, seq_len=8, n_classes=16, dim=4))
        # 8 N random points of the unit cube: norm at most 2, and closest pairs about (8 N)^(-1/2) apart
        promised = theorem_4_1(n_samples, 8, 16, 4, 2, Fraction(1, isqrt(8 * n_samples)))
        cells = (
            n_samples,
            built.depth,
            built.parameters_dense,
            built.parameters_nonzero,
            built.weight_bits,
            promised.depth,
            promised.parameters,
            promised.weight_bits,
        )
        lines.append("| " + " | ".join(f"{cell:,}" for cell in cells) + " |")
    return "\n".join(lines) + "\n"
