"""`byheart serve`: a local web page to compile, query and inspect models and to change their weights."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from byheart.cli.options import PATH, output_options
from byheart.cli.output import echo_json
from byheart.errors import UsageError, require_extra


@click.command()
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8000, help="Port to listen on; 0 means any free port."
)
@click.option(
    "--host",
    default="127.0.0.1",
    metavar="ADDRESS",
    help="Address to listen on. For an address that other machines can reach, the page asks for an access token.",
)
@click.option(
    "--models",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of models to show; new models are written there too (default: a temporary folder).",
)
@click.option("--store", metavar="FILE", type=PATH, help="File of stored runs to show.")
@click.option(
    "--figures",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder that `byheart reproduce` wrote; its figures are shown (default: results, if it exists).",
)
@click.option("--open", "opens", is_flag=True, help="Open the page in a browser.")
@output_options
def command(
    port: int,
    host: str,
    models: Path | None,
    store: Path | None,
    figures: Path | None,
    opens: bool,
    as_json: bool,
) -> None:
    """Open a local web page to compile a table, query and inspect the model, change its weights, and plan sizes.

    The page works without a network and sends no data anywhere. By default it is reachable from this machine only.
    With --json, the command prints one document with the address and then serves the page.
    """
    for package in ("fastapi", "uvicorn"):
        require_extra(package, "web", "the local page")
    from byheart.web.limits import Limits
    from byheart.web.server import Settings, free_port, make_token, serve

    if figures is None and Path("results").is_dir():
        figures = Path("results")
    for path, option in ((store, "--store"), (figures, "--figures")):
        if path is not None and not path.exists():
            raise UsageError(f"{option} {path} does not exist.", path=str(path))
    limits = Limits()
    start = f"from byheart.web.worker import serve_requests; serve_requests({limits.memory_bytes})"
    worker = [sys.executable, "-c", start]
    settings = Settings(worker, host, free_port(host, port), models, store, figures, limits)
    token = make_token(settings)
    address = settings.address + ("" if token is None else f"?token={token}")
    if as_json:
        echo_json({"address": address, "token": token, "pid": os.getpid()})
    else:
        click.echo(f"The page is at {address}\nStop it with Ctrl-C.")
    sys.stdout.flush()
    if opens:
        import webbrowser

        webbrowser.open(address)
    serve(settings, token)
