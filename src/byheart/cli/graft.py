"""`byheart graft`: put facts into an existing checkpoint, or take them out again."""

from __future__ import annotations

from pathlib import Path

import click

from byheart.cli.graft_checks import GROWN
from byheart.cli.options import (
    PATH,
    column_options,
    output_option,
    output_options,
    prompt_options,
    text_options,
    threads_option,
)
from byheart.cli.output import count, echo_json, say, show_pairs
from byheart.cli.progress import watch
from byheart.errors import UsageError, amount


@click.command()
@click.argument("host", metavar="HOST", type=PATH)
@click.argument("data", metavar="[DATA]", type=PATH, required=False)
@output_option("DIR", "Folder to write.")
@prompt_options()
@click.option(
    "--bit-identical",
    is_flag=True,
    help="Make the new model four times as wide as HOST. The weights of HOST's normalisation layers are then "
    "multiplied by exactly 1/2, which needs no rounding.",
)
@click.option(
    "--precision",
    type=click.Choice(["float32", "bfloat16"]),
    help="Kind of weights (default: bfloat16 if the host is stored in bfloat16, otherwise float32).",
)
@click.option("--dry-run", is_flag=True, help="Show the sizes and write nothing.")
@click.option(
    "--remove",
    is_flag=True,
    help="Undo a graft: HOST is the grafted folder, and the original files are written to DIR, byte for byte.",
)
@column_options
@text_options
@threads_option
@output_options
def command(
    host: Path,
    data: Path | None,
    output: Path | None,
    chat: bool,
    chat_column: str | None,
    template: str | None,
    end: bool | None,
    bit_identical: bool,
    precision: str | None,
    dry_run: bool,
    remove: bool,
    as_json: bool,
    **reading: str | None,
) -> None:
    """Write a copy of the checkpoint HOST that also holds the facts of DATA: after a text that ends in a key, the
    copy continues with the answer, word for word.

    HOST is a Hugging Face folder or a GGUF file of a Llama, Mistral (without sliding window), Qwen2 or Qwen3 model.
    DIR becomes a Hugging Face folder that unmodified transformers can load. At all other positions the copy computes
    what HOST computes, up to rounding (see --bit-identical). Nothing is trained.
    """
    if remove:
        from byheart.graft.removal import remove_graft

        if output is None or data is not None or dry_run:
            raise UsageError("--remove takes a grafted folder and -o DIR, but no data file and no --dry-run.")
        files = remove_graft(host, output)
        if as_json:
            echo_json({"path": str(output), "files": files})
        else:
            say(f"{output}: {count(len(files))} files of the host, each with its original digest")
        return
    if output is None and not dry_run:
        raise UsageError("the folder to write is missing: give -o DIR, or --dry-run to write nothing.")
    if data is None:
        raise UsageError("the data file is missing. Use: byheart graft HOST DATA -o DIR.")
    from byheart.graft.texts import Asking
    from byheart.graft.workflow import graft

    with watch() as progress:
        plan = graft(
            host,
            data,
            None if dry_run else output,
            Asking(chat, chat_column, template, end),
            precision=precision,
            bit_identical=bit_identical,
            progress=progress,
            **reading,
        )
    said = plan.summary()
    if as_json:
        echo_json({**said, "path": None if dry_run else str(output)})
        return
    written = "nothing was written (--dry-run)" if dry_run else str(output)
    say(f"{host} with the {amount(said['rows'], 'fact')} of {data}: {written}\n")
    show_pairs(
        [
            (
                "parameters",
                f"{count(said['grafted_parameters'])}, {said['ratio']:.3f} times the host's {count(said['host_parameters'])}",
            ),
            (
                "stored",
                f"{amount(said['contexts'], 'context')} of up to {amount(said['longest_context'], 'token')}",
            ),
            *[
                (name, f"{count(said[name][0])} in the host, {count(said[name][1])} in the graft")
                for name in GROWN
            ],
        ]
    )
