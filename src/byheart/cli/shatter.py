"""`byheart shatter`: build and verify networks of one architecture for every labelling of a few inputs."""

from __future__ import annotations

from dataclasses import asdict

import click

from byheart.cli.options import WholeNumber, output_options, seed_option
from byheart.cli.output import echo_json, show_pairs
from byheart.cli.progress import watch
from byheart.errors import ExitStatus
from byheart.process.progress import in_stage


@click.command()
@click.option(
    "--points",
    "n_points",
    type=WholeNumber(1),
    required=True,
    help="Number K of inputs; 2^K networks are built.",
)
@click.option(
    "--method", default="kajitsuka-sato-2025", help="Construction to use; it must support exact arithmetic."
)
@click.option("--seq-len", type=WholeNumber(1, 1 << 16), default=1, help="Number of tokens per input.")
@seed_option
@output_options
def command(n_points: int, method: str, seq_len: int, seed: int, as_json: bool) -> int:
    """Build and verify a network for each of the 2^K ways to give K inputs (--points) one of two labels each.

    All networks have the same architecture. If all networks are right, the VC dimension of the architecture is at least K. An
    upper bound, from counting sign patterns, is shown too if there is one.
    """
    from byheart.shatter import shatter

    with watch() as progress:
        found = shatter(
            n_points,
            method=method,
            seq_len=seq_len,
            seed=seed,
            progress=in_stage(progress, "shatter"),
        )
    if as_json:
        echo_json({**asdict(found), "holds": found.holds})
    else:
        least = f"at least {found.n_points}" if found.holds else f"not shown to be {found.n_points} or more"
        most = (
            f"no upper bound: {found.no_bound}"
            if found.vc_at_most is None
            else f"at most {found.vc_at_most:,}"
        )
        show_pairs(
            [
                ("method", f"{found.method}, exact"),
                ("architecture", f"{found.size.parameters_dense:,} parameters, depth {found.size.depth:,}"),
                (
                    "labellings",
                    f"{found.n_realised:,} of {found.n_labellings:,} right, each verified on every input",
                ),
                ("VC dimension", f"{least}; {most}"),
                ("seconds", f"{found.seconds:.1f}"),
            ]
        )
    return ExitStatus.HOLDS if found.holds else ExitStatus.FALSE
