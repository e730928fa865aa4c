"""`byheart detect`: list the contexts that a graft stores in a checkpoint, as read from its weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from byheart.cli.options import WholeNumber, model_argument, output_options
from byheart.cli.output import count, echo_json, say, show_pairs
from byheart.cli.progress import watch
from byheart.errors import amount
from byheart.files.whole_file import MODEL

if TYPE_CHECKING:
    from byheart.graft.reading import Reading

SHOWN = 5


@click.command()
@model_argument
@click.option(
    "--most", type=WholeNumber(0), default=20, help="Maximum number of contexts to print; --json prints all."
)
@output_options
def command(folder: Path, most: int, as_json: bool) -> None:
    """List every context that a graft stored in the checkpoint in DIR, with the token that follows it.

    The contexts are found from the weights, without the record of the graft. Facts that were learned by training are not
    found, because they have no definite place in the weights. In the document that --json prints, `grafted` is null if the
    weights have constant columns, as in a graft, but no stored context can be read.
    """
    from byheart.graft.reading import context_texts
    from byheart.graft.texts import load_tokenizer
    from byheart.graft.workflow import detect, is_compiled

    with watch() as progress:
        memory = detect(folder, progress)
    if memory is None:
        is_llama = is_compiled(folder)
        if as_json:
            echo_json(_document(folder, False, is_compiled=is_llama))
        else:
            _show_no_graft(folder, is_llama)
        return
    contexts = context_texts(memory, load_tokenizer(folder))
    is_unclear = not contexts and bool(memory.faults)
    if as_json:
        echo_json(_document(folder, None if is_unclear else True, memory.faults, contexts))
        return
    if is_unclear:
        say(
            f"{folder}: unclear. The weights have constant columns, as in a graft, but no stored context can be read."
        )
    else:
        _show_contexts(folder, memory, contexts, most)
    if memory.faults:
        say("\nThe weights are not as `byheart graft` writes them, so contexts may be missing here:\n")
        show_pairs([("fault", fault) for fault in memory.faults[:SHOWN]])
    if len(memory.faults) > SHOWN:
        say(f"\n  and {amount(len(memory.faults) - SHOWN, 'more fault')}; show them with --json")


def _document(
    folder: Path,
    grafted: bool | None,
    faults: Sequence[str] = (),
    contexts: Sequence[Mapping[str, Any]] = (),
    *,
    is_compiled: bool = False,
) -> dict[str, Any]:
    """Return the document that --json prints. It has the same fields for every checkpoint."""
    return {
        "path": str(folder),
        "grafted": grafted,
        "compiled": is_compiled,
        "faults": list(faults),
        "contexts": list(contexts),
    }


def _show_no_graft(folder: Path, is_compiled: bool) -> None:
    """Say that the checkpoint has no graft. If `is_compiled`, also say that its weights are as in a Llama that byheart
    compiled, and whether the folder has a model.json, which claims the same.
    """
    say(f"{folder}: no graft")
    if not is_compiled:
        return
    record = (
        f"a model that byheart compiled (claimed, not checked); `byheart inspect {folder}` shows it"
        if (folder / MODEL).is_file()
        else f"none: the folder has no {MODEL}"
    )
    weights = (
        "as in a Llama that byheart compiled: no layer changes the constant columns, which outweigh all others. "
        "In a graft, layers clear them. It cannot be determined whether the weights contain another model"
    )
    say()
    show_pairs([("weights", weights), ("record", record)])


def _next_of(context: Mapping[str, Any]) -> str:
    return "unknown" if context["next"] is None else repr(context["next"])


def _show_contexts(folder: Path, memory: Reading, contexts: Sequence[Mapping[str, Any]], most: int) -> None:
    say(
        f"{folder}: {amount(len(contexts), 'context')} in {amount(memory.n_memory_layers, 'added layer')}, "
        "before the original layers"
    )
    if contexts[:most]:
        say()
        show_pairs([(_next_of(each), f"after {each['context']!r}") for each in contexts[:most]])
    if len(contexts) > most:
        say(f"\n  and {count(len(contexts) - most)} more; show them with --most or --json")
