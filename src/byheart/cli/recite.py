"""`byheart recite`: continue a prompt with the memorised text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import click

from byheart.cli.options import WholeNumber, model_argument, output_options, threads_option
from byheart.cli.output import echo_json, printable
from byheart.errors import UsageError

if TYPE_CHECKING:
    from byheart.model import Model


@click.command()
@model_argument
@click.argument("prompt", metavar="PROMPT")
@click.option("--max-tokens", type=WholeNumber(), default=10_000, help="Maximum number of tokens to add.")
@threads_option
@output_options
def command(folder: Path, prompt: str, max_tokens: int, as_json: bool) -> None:
    """Continue PROMPT with the texts that the model in DIR memorised, until the text ends or the next token is unknown.

    The model must have been compiled with `byheart compile DATA -o DIR --recite`, with the method
    `retrieval` or `llama`.
    """
    from byheart.construct.retrieval.documents import recite
    from byheart.pipeline import load

    model = load(folder)
    _require_texts(model, folder)
    tokens = (
        _recite_llama(model, prompt, max_tokens)
        if model.network.spec.family == "llama"
        else recite(model.memoriser, prompt, max_tokens)
    )
    first = next(tokens, None)  # report errors in the prompt before printing it
    if first is None:
        raise UsageError(f"the model in {folder} knows no text that continues {prompt!r}.", prompt=prompt)
    if as_json:
        echo_json({"prompt": prompt, "tokens": [first, *tokens]})
        return
    assert model.memoriser.tokenizer is not None
    has_words = model.memoriser.tokenizer.name == "word"
    click.echo(printable(prompt), nl=False)
    for token in chain([first], tokens):
        # word tokens hold no spaces, so a space is put before each word and each opening bracket or quotation mark
        space = " " if has_words and re.match(r"[\w\"(]", token) else ""
        click.echo(printable(f"{space}{token}", keep="\n\t"), nl=False)
    click.echo()


def _recite_llama(model: Model, prompt: str, max_tokens: int) -> Iterator[str]:
    from byheart.network.llama.architecture import Llama
    from byheart.network.llama.generation import recite

    tokenizer, llama = model.memoriser.tokenizer, model.network
    assert tokenizer is not None
    assert isinstance(llama, Llama)
    ids = tokenizer.encode(prompt)
    if not ids or len(ids) + 2 > llama.spec.max_positions:
        raise UsageError(
            f"this model needs a prompt of 1 to {llama.spec.max_positions - 2} tokens; the given one has {len(ids)}.",
            n_ids=len(ids),
        )
    return recite(llama, ids, tokenizer.vocabulary, max_tokens)


def _require_texts(model: Model, folder: Path) -> None:
    """Raise an error if the labels of the model are not the next tokens of texts."""
    from byheart.construct.retrieval.documents import END

    tokenizer = model.memoriser.tokenizer
    if tokenizer is None or model.memoriser.label_names != (*tokenizer.vocabulary, END):
        raise UsageError(
            f"{folder} was not compiled to recite: its labels are answers, not the next words of a text.\n"
            "  Ask it with `byheart predict`, or compile texts with "
            "`byheart compile TEXTS -o DIR --method retrieval --recite`.",
            path=str(folder),
        )
