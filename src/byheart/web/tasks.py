"""What a worker process can be asked to do. Every task takes and gives plain JSON.

Documents are made by the functions that the command line prints with --json, so the page and the terminal say the same.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from byheart.bounds import capacity_of, read_architecture
from byheart.data.dataset import Dataset
from byheart.documents.compilation import compile_file
from byheart.documents.exports import Format, export_model
from byheart.documents.model_summary import summarise
from byheart.documents.predictions import ask, questions_in
from byheart.pipeline import compile as compile_data
from byheart.web import damage, examination, overview, weights
from byheart.web.context import Context, Document, open_model
from byheart.web.trace import draw_trace


def warm_up(context: Context) -> Document:
    """Import and compile what every job needs, on a data set of four facts."""
    data = Dataset.from_pairs([("ab", "1"), ("ba", "2"), ("bb", "3"), ("aa", "1")])
    compile_data(data, method="retrieval", precision="float64")
    return {}


def compile_data_file(
    context: Context, path: str, model: str, keep_data: str, reading: Document, options: Document
) -> Document:
    """What `byheart compile --json` prints. The data are kept beside the model, so that it can be verified again."""
    found = compile_file(Path(path), Path(model), reading=reading, progress=context.progress, **options)
    shutil.copyfile(path, keep_data)
    return {"schema": 1, **found.to_json(), "model": Path(model).name}


def predict(context: Context, model: str, texts: list[str]) -> Document:
    """What `byheart predict --json` prints, from a model that stays in memory."""
    return {"schema": 1, **ask(open_model(model), list(texts)).to_json()}


def predict_file(context: Context, model: str, path: str) -> Document:
    """What `byheart predict --data --json` prints."""
    opened = open_model(model)
    rows, column = questions_in(opened, Path(path))
    context.progress(0, 1, "answer")
    return {"schema": 1, **ask(opened, [row[column] for row in rows]).to_json()}


def inspect(context: Context, model: str) -> Document:
    """What `byheart inspect --json` prints."""
    return {"schema": 1, **summarise(open_model(model), Path(model))}


def export(context: Context, model: str, output: str, to: Format) -> Document:
    """What `byheart export --json` prints, and the name to download."""
    return {"schema": 1, **export_model(Path(model), to, Path(output)).to_json(), "name": Path(output).name}


def capacity(context: Context, config: Document) -> Document:
    """What `byheart bounds --config --json` prints."""
    return {"schema": 1, **vars(capacity_of(read_architecture(config)))}


def list_examples(context: Context, model: str, data: str | None) -> Document:
    """A few questions the model knows, from the data it was made of."""
    rows = [] if data is None else examination.preview(Path(data))["rows"]
    return {"schema": 1, "questions": [row[0] for row in rows if row]}


def trace_question(context: Context, model: str, text: str) -> Document:
    """The question's way through the network."""
    return {"schema": 1, **draw_trace(open_model(model), text)}


TASKS: dict[str, Callable[..., Document]] = {
    "warm_up": warm_up,
    "examine": examination.examine,
    "compile": compile_data_file,
    "predict": predict,
    "predict_file": predict_file,
    "inspect": inspect,
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
    "capacity": capacity,
    "runs": overview.list_runs,
    "curves": overview.show_curves,
}
