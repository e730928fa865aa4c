"""`byheart plan`: how large a model for so many facts would be."""

from __future__ import annotations

from pathlib import Path

import click

from byheart.cli.numbers import WholeNumber
from byheart.cli.options import output_options
from byheart.cli.output import count, echo_json, one_line, show_pairs, show_table

KINDS = {"compiled": "built", "theorem": "promised", "trained": "trained", "floor": "floor"}


@click.command()
@click.option("--facts", type=WholeNumber(), required=True, metavar="N", help="How many facts, such as 1e9.")
@click.option(
    "--value-bits",
    type=WholeNumber(1, 64),
    default=10,
    show_default=True,
    help="Bits of information a fact.",
)
@click.option("--vocab", type=WholeNumber(), default=1000, show_default=True, help="Number of token ids.")
@click.option("--seq-len", type=WholeNumber(), default=8, show_default=True, help="Tokens of a fact.")
@click.option(
    "--figure",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Also draw parameters against facts, from a million to 1e12, as .png, .svg or .pdf.",
)
@output_options
def command(
    facts: int, value_bits: int, vocab: int, seq_len: int, figure: Path | None, as_json: bool
) -> None:
    """Show the parameters a model for N facts would have: built, promised, trained, and the floor below all.

    A fact is a sequence of tokens in order, with one of 2^value-bits values.
    """
    from byheart.bounds import plan
    from byheart.cli.constructions import construction_sizes

    sizes = construction_sizes()
    found = plan(facts, value_bits, constructions=sizes, vocab=vocab, seq_len=seq_len)
    if figure is not None:
        from byheart.bounds import curves
        from byheart.report.plan_figure import draw_plan

        others = {10**power for power in range(6, 13)} - {facts}
        plans = [plan(n, value_bits, constructions=sizes, vocab=vocab, seq_len=seq_len) for n in others]
        draw_plan(curves([found, *plans]), f"A model for N facts of {value_bits} bits", figure)
    if as_json:
        echo_json(found.to_json())
        return
    click.echo(f"{facts:,} facts of {value_bits} bits: {seq_len} tokens each, vocabulary {vocab:,}")
    click.echo()
    show_table(
        ("", "by", "parameters", "bits"),
        [
            (KINDS[row.kind], row.name, count(row.parameters), "" if row.bits is None else count(row.bits))
            for row in found.rows
        ],
        numbers=(2, 3),
    )
    click.echo("\n  built: by byheart; promised: by a theorem; trained: as was measured;")
    click.echo("  floor: no model is smaller.\n")
    show_pairs([(row.name, row.note) for row in found.rows if row.note and row.kind == "trained"])
    if found.not_applicable:
        click.echo()
        rows = [(entry.name, one_line(entry.reason)) for entry in found.not_applicable]
        show_table(("does not apply", "because"), rows)
