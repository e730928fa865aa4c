"""`byheart serve`: a local page to compile, ask, look inside and break models."""

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
    "--port", type=click.IntRange(0, 65535), default=8000, help="Port to listen on; 0 takes any free one."
)
@click.option(
    "--host",
    default="127.0.0.1",
    metavar="ADDRESS",
    help="Address to listen on. Any address but this machine's own requires a token.",
)
@click.option(
    "--models",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of models to show and to write to (default: a temporary one).",
)
@click.option("--store", metavar="FILE", type=PATH, help="Run store to show.")
@click.option(
    "--figures",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of figure records to show (default: results, where there is one).",
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
    """Open a local page: compile a table, ask the model, look inside, break it, and plan.

    It works without a network, listens on this machine alone unless told otherwise, and sends nothing anywhere.
    With --json it prints one document with the address, then serves.
    """
    for package in ("fastapi", "uvicorn"):
        require_extra(package, "web", "the local page")
    from byheart.web.limits import Limits
    from byheart.web.server import Settings, free_port, make_token, serve

    if figures is None and Path("results").is_dir():
        figures = Path("results")
    for path, option in ((store, "--store"), (figures, "--figures")):
        if path is not None and not path.exists():
            raise UsageError(f"{path}, given with {option}, does not exist.", path=str(path))
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
