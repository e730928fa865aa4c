"""What a worker process can be asked to do. Every task takes and gives plain JSON.

What the command line prints with --json is made by the command line itself, so the page and the terminal say the same.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from byheart.construct.choice import describe_unknown_input
from byheart.data.dataset import Dataset
from byheart.data.tokenizers import parse_ids
from byheart.pipeline import compile as compile_data
from byheart.web import damage, examination, overview, weights
from byheart.web.context import Context, Document, open_model
from byheart.web.trace import draw_trace


def warm_up(context: Context) -> Document:
    """Import and compile what every job needs, on a data set of four facts."""
    data = Dataset.from_pairs([("ab", "1"), ("ba", "2"), ("bb", "3"), ("aa", "1")])
    compile_data(data, method="retrieval", precision="float64")
    return {}


def compile_file(context: Context, path: str, model: str, keep_data: str, options: list[str]) -> Document:
    """Compile a data file, and keep the data beside the model so that it can be verified again."""
    document = context.command("compile", "--json", "-o", model, *options, "--", path)
    shutil.copyfile(path, keep_data)
    return {**document, "model": Path(model).name}


def predict(context: Context, model: str, texts: list[str]) -> Document:
    """What `byheart predict --json` prints, from a model that stays in memory."""
    opened = open_model(model)
    asked: list[Any] = list(texts)
    if opened.memoriser.tokenizer is None:
        words = "this model is asked by token ids with spaces between them, not {!r}."
        asked = [parse_ids(text, words.format(text)) for text in texts]
    pairs = zip(texts, opened.predict(asked), strict=True)
    answers = [{"input": text, "answer": answer} for text, answer in pairs]
    return {"schema": 1, "answers": answers, "unknown_inputs": describe_unknown_input(opened.record)}


def export(context: Context, model: str, output: str, to: str) -> Document:
    """What `byheart export --json` prints, and the name to download."""
    document = context.command("export", "--json", "--to", to, "-o", output, "--", model)
    return {**document, "name": Path(output).name}


def list_examples(context: Context, model: str, data: str | None) -> Document:
    """A few questions the model knows, from the data it was made of."""
    rows = [] if data is None else examination.preview(Path(data))["rows"]
    return {"schema": 1, "questions": [row[0] for row in rows if row]}


def trace_question(context: Context, model: str, text: str) -> Document:
    """The question's way through the network."""
    return {"schema": 1, **draw_trace(open_model(model), text)}


def _command(*words: str) -> Callable[..., Document]:
    """The task that gives what a command prints with --json; an argument stands in its words by name."""
    return lambda context, **arguments: context.command(*(word.format(**arguments) for word in words))


TASKS: dict[str, Callable[..., Document]] = {
    "warm_up": warm_up,
    "examine": examination.examine,
    "compile": compile_file,
    "predict": predict,
    "predict_file": _command("predict", "--json", "--data", "{path}", "--", "{model}"),
    "inspect": _command("inspect", "--json", "--", "{model}"),
    "export": export,
    "examples": list_examples,
    "trace": trace_question,
    "fact": weights.show_fact,
    "weights": weights.list_matrices,
    "matrix": weights.show_matrix,
    "weight": weights.show_weight,
    "break": damage.break_model,
    "forget": damage.forget,
    "plan": overview.plan_facts,
    "capacity": _command("bounds", "--json", "--config", "{path}"),
    "runs": overview.list_runs,
    "curves": overview.show_curves,
}
