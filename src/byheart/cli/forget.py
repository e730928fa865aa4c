"""`byheart forget`: compile a Llama again without some of its facts, and show which weights differ."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from byheart.cli.options import data_argument, model_argument, output_option, output_options, threads_option
from byheart.cli.output import count, echo_json, say, say_wrapped, show_pairs
from byheart.errors import UsageError

if TYPE_CHECKING:
    from byheart.model import Model


@click.command()
@model_argument
@data_argument
@click.option(
    "--keys",
    "keys",
    multiple=True,
    required=True,
    metavar="KEY",
    help="Key of a fact to leave out; may be repeated.",
)
@output_option("DIR2", "Folder to write.", required=True)
@threads_option
@output_options
def command(folder: Path, data: Path, keys: tuple[str, ...], output: Path, as_json: bool) -> None:
    """Compile DATA without some facts, with the seed, shape and hash function of the Llama in DIR, and compare the weights.

    DATA must be the data from which DIR was compiled. The new model holds all of their facts except the given ones. The two models
    differ in a known way, so they can be used to test methods of model editing and unlearning. If DIR is a graft
    (`byheart graft`), the hidden units that hold the given facts are set to zero instead.
    """
    from byheart.storage.target import check_target, is_graft, refuse_same_folder

    if is_graft(folder):
        from byheart.cli.graft_checks import forget_of_graft

        forget_of_graft(folder, data, keys, output, as_json)
        return
    from byheart.documents.forgetting import forget_facts
    from byheart.pipeline import load

    check_target(output)
    refuse_same_folder(output, folder)
    if (folder / "config.json").is_file() and not (folder / "model.json").exists():
        raise _neither(folder)
    model = load(folder)
    if model.record.get("method") != "llama" or model.memoriser.tokenizer is None:
        raise _neither(folder)
    found = forget_facts(model, data, keys)
    found.model.save(output)
    if as_json:
        echo_json({**found.to_json(), "path": str(output)})
        return
    say(f"{output}: {folder} without {', '.join(keys)}\n")
    changed = [(name, f"different weights: {count(len(at))}") for name, at in found.changes.indices.items()]
    same = ("weights", "equal" if found.changes.same_shape else _different_shapes(model, found.model))
    show_pairs(changed or [same])
    if not found.is_compared:
        say()
        say_wrapped(
            f"The model stores no digest of its data, so it was not checked that {data} contains these data."
        )


def _different_shapes(before: Model, after: Model) -> str:
    """Say why weights were not compared: name the first tensor that only one model has, or that has two shapes."""
    left, right = (
        {name: each.shape for name, each in model.network.parameters()} for model in (before, after)
    )
    name = next(name for name in {**left, **right} if left.get(name) != right.get(name))
    shapes = [
        "is missing" if shape is None else f"has shape {tuple(shape)}"
        for shape in (left.get(name), right.get(name))
    ]
    return f"not compared, because the shapes differ: {name} {shapes[0]} in the model, but {shapes[1]} in the new one"


def _neither(folder: Path) -> UsageError:
    return UsageError(
        "forget needs a grafted checkpoint, or a model that the method `llama` compiled from a table of keys and values.\n"
        f"  {folder} is neither.",
        path=str(folder),
    )
