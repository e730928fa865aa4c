"""`byheart recite`: continue a prompt by heart."""

from __future__ import annotations

import re
from pathlib import Path

import click

from byheart.cli.options import model_argument, output_options
from byheart.cli.output import echo_json


@click.command()
@model_argument
@click.argument("prompt", metavar="PROMPT")
@click.option(
    "--max-tokens", type=click.IntRange(min=1), default=10_000, show_default=True, help="Stop after so many."
)
@output_options
def command(folder: Path, prompt: str, max_tokens: int, as_json: bool) -> None:
    """Continue PROMPT with what the model in DIR has by heart, until the text ends or is unknown.

    The model must have been compiled with `byheart compile DATA -o DIR --method retrieval --recite`.
    """
    from byheart.construct.retrieval.documents import recite
    from byheart.pipeline import load

    model = load(folder)
    tokens = recite(model.memory, prompt, max_tokens)
    if as_json:
        echo_json({"prompt": prompt, "tokens": list(tokens)})
        return
    has_words = model.memory.tokenizer is not None and model.memory.tokenizer.name == "word"
    click.echo(prompt, nl=False)
    for token in tokens:
        # word tokens carry no spaces: one is set before words and opening marks
        space = " " if has_words and re.match(r"[\w\"(]", token) else ""
        click.echo(f"{space}{token}", nl=False)
    click.echo()
