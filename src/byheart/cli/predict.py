"""`byheart predict`: ask a saved model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from byheart.cli.options import model_argument, output_options
from byheart.cli.output import echo_json
from byheart.errors import MalformedFile, UsageError

if TYPE_CHECKING:
    from byheart.model import Answer, Model

UNKNOWN = "unknown"


@click.command()
@model_argument
@click.argument("texts", metavar="TEXT...", nargs=-1)
@click.option(
    "--data", metavar="FILE", type=click.Path(path_type=Path), help="NPZ file whose array `inputs` to ask."
)
@output_options
def command(folder: Path, texts: tuple[str, ...], data: Path | None, as_json: bool) -> None:
    """Ask the model in DIR and print one answer a line, "unknown" where it has none.

    TEXT is a text or, for a model without a tokenizer, token ids with spaces between them. A single - reads texts
    from standard input, one a line. Vectors and many ids are read from an NPZ file with --data.
    """
    from byheart.pipeline import load

    if bool(texts) == (data is not None):
        raise UsageError("give texts to ask (or - for standard input), or --data FILE, but not both.")
    model = load(folder)
    asked: Any
    questions: Any
    if data is not None:
        from byheart.data.npz import read_npz

        questions = asked = read_npz(data, ("inputs",))["inputs"]
    else:
        asked = _lines() if texts == ("-",) else list(texts)
        questions = asked if model.memory.tokenizer is not None else [_ids(text, model) for text in asked]
    answers = model.predict(questions)
    if as_json:
        echo_json(
            {
                "answers": [
                    {"input": question, "answer": answer}
                    for question, answer in zip(asked, answers, strict=True)
                ]
            }
        )
        return
    for answer in answers:
        click.echo(_spoken(answer))


def _spoken(answer: Answer) -> str:
    if isinstance(answer, list):
        return " ".join(_spoken(one) for one in answer)
    return UNKNOWN if answer is None else answer


def _lines() -> list[str]:
    try:
        with click.open_file("-", encoding="utf-8") as stream:
            return [str(line).rstrip("\r\n") for line in stream]
    except UnicodeDecodeError as error:
        raise MalformedFile(
            f"standard input is not UTF-8: byte {error.start} is 0x{error.object[error.start]:02x}."
        ) from None


def _ids(text: str, model: Model) -> list[int]:
    if model.network.embedding is None:
        raise UsageError(
            f"this model takes {model.network.seq_len} vectors of dimension {model.network.dim} a sample.\n"
            "  Give them with --data FILE, an NPZ file whose array `inputs` has shape (n_samples, "
            f"{model.network.seq_len}, {model.network.dim})."
        )
    try:
        return [int(word) for word in text.split()]
    except ValueError:
        raise UsageError(
            f"this model has no tokenizer, so it is asked by token ids with spaces between them, not {text!r}."
        ) from None
