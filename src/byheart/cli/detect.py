"""`byheart detect`: list the contexts that a graft stores in a checkpoint, as read from its weights."""

from __future__ import annotations

from pathlib import Path

import click

from byheart.cli.options import WholeNumber, model_argument, output_options
from byheart.cli.output import count, echo_json, say, show_pairs
from byheart.cli.progress import watch
from byheart.errors import amount


@click.command()
@model_argument
@click.option(
    "--most", type=WholeNumber(0), default=20, help="Maximum number of contexts to print; --json prints all."
)
@output_options
def command(folder: Path, most: int, as_json: bool) -> None:
    """List every context that a graft stored in the checkpoint in DIR, with the token that follows it.

    The contexts are found from the weights, without the record of the graft. Facts that were learned by training are not
    found, because they have no definite place in the weights.
    """
    from byheart.graft.reading import context_texts
    from byheart.graft.texts import load_tokenizer
    from byheart.graft.workflow import detect

    with watch() as progress:
        memory = detect(folder, progress)
    if memory is None:
        if as_json:
            echo_json({"path": str(folder), "grafted": False, "contexts": []})
        else:
            say(f"{folder}: no graft")
        return
    contexts = context_texts(memory, load_tokenizer(folder))
    if as_json:
        echo_json({"path": str(folder), "grafted": True, "faults": memory.faults, "contexts": contexts})
        return
    say(
        f"{folder}: {amount(len(contexts), 'context')} in {amount(memory.n_memory_layers, 'added layer')}, "
        "before the original layers\n"
    )
    show_pairs([(repr(each["next"]), f"after {each['context']!r}") for each in contexts[:most]])
    if len(contexts) > most:
        say(f"\n  and {count(len(contexts) - most)} more; show them with --most or --json")
    for fault in memory.faults[:5]:
        say(f"  fault: {fault}")
