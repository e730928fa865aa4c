"""`byheart inspect --fact`: the weights that hold one fact, and the facts that share them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np

from byheart.cli.output import count, echo_json, printable, show_pairs, show_table
from byheart.cli.predict import format_answer
from byheart.errors import UsageError

if TYPE_CHECKING:
    from byheart.data.dataset import Dataset
    from byheart.model import Model

MOST_SHARING = 10


def show_fact(folder: Path, fact: str | None, data: Path | None, as_json: bool) -> None:
    """Print the rows, columns and bits that hold `fact`, and with `data` the facts that read the same words."""
    from byheart.construct.retrieval.locate import locate
    from byheart.pipeline import load, read_like

    if fact is None:
        raise UsageError("--data goes with --fact TEXT.")
    model = load(folder)
    if model.network.spec.family == "llama":
        show_llama_fact(model, fact, data, as_json)
        return
    if model.record.get("method") != "retrieval" or model.memory.tokenizer is None:
        raise UsageError("a map of memory needs a model that `retrieval` or `llama` compiled from texts.")
    (answer,) = model.predict([fact])
    if answer is None:
        raise UsageError(f"{fact!r}: this model does not know it.", fact=fact)
    from byheart.data.sequences import TokenSequences

    ids = np.array(model.memory.tokenizer.encode(fact), dtype=np.int64)
    asked = TokenSequences(ids, np.array([0, len(ids)]), len(model.memory.tokenizer.vocabulary))
    encoded = model.memory.encode(asked)
    dataset = None
    if data is not None:
        dataset = read_like(model, data)
        if dataset.tokenizer is None or dataset.tokenizer.vocabulary != model.memory.tokenizer.vocabulary:
            raise UsageError(
                f"{data}: its vocabulary is not that of the model; give the data it was made of."
            )
        encoded = np.concatenate([encoded, model.memory.encode(dataset.inputs)])
    notes = model.record.get("notes", {})
    found = locate(model.memory, notes, encoded)
    cells, bits = found.cells(0), found.bits(0)
    sharing: list[str] = []
    if dataset is not None:
        is_itself = (encoded == encoded[0]).all(axis=1)
        others = [int(i) - 1 for i in found.sharing(0) if not is_itself[i]]
        sharing = [dataset.describe_input(sample) for sample in others]
    if as_json:
        echo_json(
            {
                "fact": fact,
                "answer": answer,
                "cells": [asdict(cell) for cell in cells],
                "bits": [bits.start, bits.stop],
                "sharing": sharing if dataset is not None else None,
            }
        )
        return
    click.echo(f"{printable(fact)}: {format_answer(answer)}\n")
    show_table(
        ("layer", "matrix", "row", "column"),
        [(str(cell.layer), cell.matrix, str(cell.row), str(cell.column)) for cell in cells],
        numbers=(0, 2, 3),
    )
    click.echo()
    show_pairs([("bits of each word", f"{bits.start} to {bits.stop - 1}")])
    if dataset is not None:
        click.echo()
        named = ", ".join(sharing[:MOST_SHARING])
        rest = f", and {count(len(sharing) - MOST_SHARING)} more" if len(sharing) > MOST_SHARING else ""
        show_pairs([("shared with", f"{named}{rest}" if sharing else "no other fact")])


def show_llama_fact(model: Model, fact: str, data: Path | None, as_json: bool) -> None:
    """Print the entries of the checkpoint that hold the text of an answer, and the facts that read some of them too."""
    from byheart.network.llama.architecture import Llama
    from byheart.network.llama.generation import full_prompt, generate
    from byheart.network.llama.locate import locate
    from byheart.pipeline import read_like

    llama, tokenizer = model.network, model.memory.tokenizer
    assert isinstance(llama, Llama)
    assert tokenizer is not None
    (answer,) = model.predict([fact])
    if answer is None:
        raise UsageError(f"{fact!r}: this model does not know it.", fact=fact)
    dataset = None if data is None else read_like(model, data, tokenizer=tokenizer)
    keys = [tokenizer.encode(fact), *([] if dataset is None else _keys(dataset))]
    prompts = [full_prompt(llama, key) for key in keys]
    answers = generate(llama, prompts, llama.backend)
    known = [i for i, each in enumerate(answers) if each]
    places = locate(llama, model.record.get("notes", {}), [(prompts[i], answers[i]) for i in known])
    mine = places[0]
    others = [
        i - 1 for i, place in zip(known, places, strict=True) if i and place & mine and keys[i] != keys[0]
    ]
    sharing = [] if dataset is None else [dataset.describe_input(i) for i in others]
    names = [each.name for each in sorted(mine, key=lambda each: (each.layer, each.unit, each.column))]
    if as_json:
        echo_json(
            {
                "fact": fact,
                "answer": answer,
                "parameters": names,
                "sharing": sharing if dataset is not None else None,
            }
        )
        return
    click.echo(f"{printable(fact)}: {format_answer(answer)}\n")
    for name in names:
        click.echo(f"  {name}")
    if dataset is not None:
        named = ", ".join(sharing[:MOST_SHARING])
        rest = f", and {count(len(sharing) - MOST_SHARING)} more" if len(sharing) > MOST_SHARING else ""
        click.echo()
        show_pairs([("shared with", f"{named}{rest}" if sharing else "no other fact")])


def _keys(dataset: Dataset) -> list[list[int]]:
    return [dataset.inputs[i].tolist() for i in range(dataset.n_samples)]
