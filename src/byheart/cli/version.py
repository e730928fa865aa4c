"""`byheart version`: show the versions to give in a bug report."""

from __future__ import annotations

import platform

import click

from byheart.cli.options import output_options
from byheart.cli.output import echo_json, show_pairs

PACKAGES = ("byheart", "torch", "numpy", "numba", "scipy", "safetensors")


@click.command()
@output_options
def command(as_json: bool) -> None:
    """Show the versions of byheart, of Python and of the packages that weights depend on."""
    from byheart.verify.versions import package_version

    found = {name: package_version(name) for name in PACKAGES}
    found["python"] = platform.python_version()
    if as_json:
        echo_json({"versions": found})
    else:
        show_pairs(list(found.items()))
