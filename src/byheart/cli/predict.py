"""`byheart predict`: show the answers of a saved model."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from byheart.cli.options import (
    PATH,
    model_argument,
    output_option,
    output_options,
    text_options,
    threads_option,
)
from byheart.cli.output import echo_json, is_quiet, json_text, printable, say
from byheart.cli.progress import watch
from byheart.cli.summary import turns_away
from byheart.documents.batch import output_kind, write_answers
from byheart.errors import MalformedFile, UsageError, amount
from byheart.records.json_file import distinct_keys

if TYPE_CHECKING:
    from byheart.data.textfile import TextFormat
    from byheart.model import Answer

UNKNOWN = "unknown"
ANSWER = "answer"


@click.command()
@model_argument
@click.argument("texts", metavar="[TEXT]...", nargs=-1)
@click.option(
    "--data",
    type=PATH,
    metavar="FILE",
    help="Read the questions from the rows of a table, the lines of a .txt file, or the array `inputs` of an NPZ file.",
)
@click.option(
    "--input",
    metavar="COLUMN",
    help="Column of questions in --data (default: the input column that the model was compiled from, or else the column `key`).",
)
@output_option(
    "FILE",
    "File to write (.csv, .tsv or .jsonl): the rows read by --data or --jsonl, with an added column `answer`.",
)
@click.option(
    "--jsonl",
    is_flag=True,
    help="Read questions from standard input as JSON lines, each a string or an object, and write JSON lines.",
)
@text_options
@threads_option
@output_options
def command(
    folder: Path,
    texts: tuple[str, ...],
    data: Path | None,
    input: str | None,
    output: Path | None,
    jsonl: bool,
    delimiter: str | None,
    encoding: str | None,
    as_json: bool,
) -> None:
    """Run the model in DIR on questions, and print one answer per line, or "unknown".

    TEXT is a question or, for a model without a tokenizer, token ids separated by spaces. Without TEXT, or if TEXT is
    -, questions are read from standard input, one per line. With --data, they are read from a file.
    """
    from byheart.data.textfile import TextFormat
    from byheart.documents.predictions import ask, questions_in
    from byheart.pipeline import load
    from byheart.storage.data_source import source_of

    from_input = data is None and (texts == ("-",) or (not texts and (jsonl or not sys.stdin.isatty())))
    if bool(texts) == (data is not None) and not from_input:
        raise UsageError("give texts to ask (or - for standard input), or --data FILE, but not both.")
    if data is None and (output is not None or input is not None) and not jsonl:
        raise UsageError("--output and --input need --data FILE, or --jsonl for questions on standard input.")
    if delimiter is not None and data is None:
        raise UsageError("--delimiter needs --data FILE.")
    if encoding is not None and texts and not from_input:
        raise UsageError("--encoding needs --data FILE or questions on standard input.")
    if jsonl and not from_input:
        raise UsageError(
            "--jsonl is for questions on standard input. Leave it out: --data recognises a .jsonl file by its suffix."
        )
    if output is not None:
        output_kind(output)
    model = load(folder)
    column = input or source_of(model).question_column(model.memoriser.task)
    if data is not None:
        rows, column = questions_in(model, data, input, delimiter, encoding)
    elif from_input:
        lines = _lines(TextFormat(encoding or "utf-8"))
        rows = _json_rows(lines, column) if jsonl else [{column: line} for line in lines]
    else:
        rows = [{column: text} for text in texts]
    column_of_answers = ANSWER
    while output is not None and any(column_of_answers in row for row in rows):
        column_of_answers = f"model {column_of_answers}"
    asked = [row[column] for row in rows]
    with watch() as progress:
        progress(0, 1, "answer")
        found = ask(model, asked)
    answers = found.answers
    if output is not None:
        write_answers(output, rows, answers, column_of_answers)
        n_known = sum(answer is not None for answer in answers)
        say(
            f"{output}: {amount(len(answers), 'row')}, {n_known:,} answered, {len(answers) - n_known:,} unknown"
            + (f", in the column `{column_of_answers}`" if column_of_answers != ANSWER else "")
        )
    elif jsonl:
        for row, answer in zip(rows, answers, strict=True):
            click.echo(json_text({**row, ANSWER: answer}))
    elif as_json:
        echo_json(found.to_json())
    else:
        for answer in answers:
            click.echo(format_answer(answer))
    if not (as_json or is_quiet() or turns_away(model)):
        click.echo(printable(f"Note: {found.unknown_inputs}."), err=True)


def format_answer(answer: Answer) -> str:
    if isinstance(answer, list):
        return " ".join(format_answer(one) for one in answer)
    return UNKNOWN if answer is None else printable(str(answer))


def _json_rows(lines: list[str], column: str) -> list[dict[str, Any]]:
    rows = []
    for number, line in enumerate(lines, start=1):
        try:
            found = json.loads(line, object_pairs_hook=distinct_keys)
        except (ValueError, RecursionError) as error:
            raise MalformedFile(
                f"standard input, line {number}: this is not valid JSON: {error}.", line=number
            ) from None
        row = found if isinstance(found, dict) else {column: found}
        if not isinstance(row.get(column), str | list):
            raise MalformedFile(
                f"standard input, line {number}: no question in the field `{column}`.\n"
                f'  Write "a text" or {{"{column}": "a text"}}, or name the field with --input.',
                line=number,
                column=column,
            )
        rows.append(row)
    return rows


def _lines(written: TextFormat) -> list[str]:
    try:
        with click.open_file("-", encoding=written.encoding) as stream:
            return [str(line).rstrip("\r\n") for line in stream]
    except UnicodeDecodeError as error:
        byte = f"byte {error.start} is 0x{error.object[error.start]:02x}"
        raise MalformedFile(
            f"standard input is not {written.encoding}: {byte}.\n  Name its encoding with --encoding, such as cp1252.",
            encoding=written.encoding,
            byte_offset=error.start,
        ) from None
