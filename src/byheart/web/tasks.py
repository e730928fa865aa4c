"""The tasks of a worker process. Every task takes and returns JSON values.

If the command line prints the same document with --json, the same function makes both.
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
from byheart.files.whole_file import whole_file
from byheart.pipeline import compile as compile_data
from byheart.storage.data_source import source_of
from byheart.web import damage, examination, overview, weights
from byheart.web.context import Context, Document, open_model
from byheart.web.trace import draw_trace


def warm_up(context: Context) -> Document:
    """Compile and verify a data set of four facts, so that all packages are imported and ready for the first job."""
    data = Dataset.from_pairs([("ab", "1"), ("ba", "2"), ("bb", "3"), ("aa", "1")])
    compile_data(data, method="retrieval", precision="float64")
    return {}


def compile_data_file(
    context: Context, path: str, model: str, keep_data: str, reading: Document, options: Document
) -> Document:
    """Compile the data file `path` to the folder `model`. Return the document of `byheart compile --json`.

    The data file is copied to `keep_data`, so that the model can be verified again.
    """
    found = compile_file(Path(path), Path(model), reading=reading, progress=context.progress, **options)
    with whole_file(Path(keep_data)) as fresh:
        shutil.copyfile(path, fresh)
    return {"schema": 1, **found.to_json(), "model": Path(model).name}


def predict(context: Context, model: str, texts: list[str]) -> Document:
    """Return the document of `byheart predict --json`. The model stays in memory."""
    return {"schema": 1, **ask(open_model(model), list(texts)).to_json()}


def predict_file(context: Context, model: str, path: str) -> Document:
    """Answer the questions in the file `path`, and return the document of `byheart predict --data --json`. Empty lines of a text
    file are left out.
    """
    opened = open_model(model)
    rows, column = questions_in(opened, Path(path))
    context.progress(0, 1, "answer")
    questions = [row[column] for row in rows]
    if Path(path).suffix.lower() == ".txt":
        questions = [text for text in questions if text]
    return {"schema": 1, **ask(opened, questions).to_json()}


def inspect(context: Context, model: str) -> Document:
    """Return the document of `byheart inspect --json`."""
    return {"schema": 1, **summarise(open_model(model), Path(model))}


def export(context: Context, model: str, output: str, to: Format) -> Document:
    """Write the model to the file `output`. Return the document of `byheart export --json`, with the name of the file."""
    return {"schema": 1, **export_model(Path(model), to, Path(output)).to_json(), "name": Path(output).name}


def capacity(context: Context, config: Document) -> Document:
    """Return the document of `byheart bounds --config --json`."""
    return {"schema": 1, **vars(capacity_of(read_architecture(config)))}


def list_examples(context: Context, model: str, data: str | None) -> Document:
    """Return the first few questions in the data file of the model; none if there is no data file, or if it is not a text
    file.
    """
    if data is None:
        return {"schema": 1, "questions": []}
    opened = open_model(model)
    source = source_of(opened)
    shown = examination.preview(Path(data), source.delimiter)
    wanted = source.question_column(opened.memoriser.task)
    place = shown["columns"].index(wanted) if wanted in shown["columns"] else 0
    return {"schema": 1, "questions": [row[place] for row in shown["rows"] if len(row) > place]}


def trace_question(context: Context, model: str, text: str) -> Document:
    """Return the trace of a question through the network."""
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
