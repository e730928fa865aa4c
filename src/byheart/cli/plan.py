"""`byheart plan`: show how large a model for a given number of facts would be."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from pathlib import Path

import click

from byheart.cli.options import WholeNumber, figure_option, output_options
from byheart.cli.output import count, echo_json, ratio, say, show_pairs, show_table
from byheart.cli.summary import show_refused
from byheart.errors import amount

KINDS = {"estimate": "estimate", "theorem": "promised", "trained": "trained", "floor": "worst case, at least"}

FIGURE_FACTS = tuple(10**power for power in range(6, 13))
"""The numbers of facts in the figure, besides the number that was asked for."""


@click.command()
@click.option("--facts", type=WholeNumber(), required=True, metavar="N", help="Number of facts, such as 1e9.")
@click.option("--value-bits", type=WholeNumber(1, 64), default=10, help="Bits of information per fact.")
@click.option("--vocab", type=WholeNumber(), default=1000, help="Number of token ids.")
@click.option("--seq-len", type=WholeNumber(), default=8, help="Number of tokens per fact.")
@figure_option("the number of parameters against the number of facts, from 1e6 to 1e12 as far as possible")
@output_options
def command(
    facts: int, value_bits: int, vocab: int, seq_len: int, figure: Path | None, as_json: bool
) -> None:
    """Show how large a model for N facts would be, according to our estimates, theorems, trained models and lower bounds.

    A fact is an ordered sequence of tokens with one of 2^value-bits values.
    """
    from byheart.bounds import plan
    from byheart.bounds.empirical import STATIC_FUNCTION_BITS_PER_STORED_BIT
    from byheart.construct.estimates import estimates_for_plan

    found = plan(facts, value_bits, estimates=estimates_for_plan, vocab=vocab, seq_len=seq_len)
    if figure is not None:
        from byheart.bounds import curves
        from byheart.report.figures import draw_plan

        most = replace(found.shape, n_samples=FIGURE_FACTS[-1]).sequence_sizes.most_distinct()
        others = {n for n in FIGURE_FACTS if n <= most} - {facts}
        if most < FIGURE_FACTS[-1]:
            last = max({facts, *others})
            click.echo(
                f"Note: the figure ends at {amount(last, 'fact')}, because only {most:,} distinct sequences are possible.",
                err=True,
            )
        plans = [
            plan(n, value_bits, estimates=estimates_for_plan, vocab=vocab, seq_len=seq_len) for n in others
        ]
        draw_plan(curves([found, *plans]), f"A model for N facts of {amount(value_bits, 'bit')}", figure)
    if as_json:
        echo_json(found.to_json())
        return
    say(
        f"{amount(facts, 'fact')} of {amount(value_bits, 'bit')}: {amount(seq_len, 'token')} each, vocabulary {vocab:,}"
    )
    say()
    lines: list[tuple[str, ...]] = []
    for kind, rows in groupby(found.rows, key=lambda row: row.kind):
        lines.append((f"{KINDS[kind]}:", "", "", ""))
        lines += [
            (f"  {row.name}", ratio(row.bits_per_stored_bit), row.precision, count(row.parameters))
            for row in rows
        ]
    show_table(("", "bits/stored bit", "weights", "parameters"), lines, numbers=(1, 3), first_width=34)
    say("\n  estimate: what byheart would probably build;")
    say("  promised: what a theorem guarantees; trained: what was measured;")
    say("  worst case: what the most difficult facts of this shape need.")
    share = float(STATIC_FUNCTION_BITS_PER_STORED_BIT)
    say(f"  A static function (a table, not a network) holds {share} bits per stored bit.\n")
    show_pairs(
        [(row.name, row.note) for row in found.rows if row.note and row.kind == "trained"]
        + [(row.name, f"only for {row.networks}") for row in found.rows if row.networks]
    )
    show_refused(found.not_applicable)
