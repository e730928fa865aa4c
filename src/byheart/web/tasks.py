"""What a worker process can be asked to do. Every task takes and gives plain JSON.

What the command line prints with --json is made by the command line itself, so the page and the terminal say the same.
"""

from __future__ import annotations

import csv
import json
import math
import shutil
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from byheart.errors import ByheartError, DataError, DoesNotHold, UsageError
from byheart.web import edits
from byheart.web.internals import (
    UNKNOWN,
    Dataset,
    Model,
    SparseMatrix,
    Store,
    TokenSequences,
    compile_data,
    curves,
    filtered,
    get_method,
    load,
    locate,
    method_names,
    plan,
    questions,
    read_like,
    row_of,
    statistics_of,
    table,
    verify_model,
)
from byheart.web.processes import Progress
from byheart.web.trace import trace

MOST_NAMED = 1000  # broken facts that are named
MOST_LISTED = 400  # changed weights that are listed
PREVIEW_ROWS = 8
WINDOW = 64  # rows and columns of a matrix shown at a time
CURVE_POWERS = tuple(range(2, 13))
MODELS_KEPT = 4


class CommandLine(Protocol):
    """The command line, as the worker is given it: `web` does not import `cli`, which imports `web`."""

    def document(self, arguments: list[str], progress: Progress) -> dict[str, Any]:
        """What a command prints with --json; its refusal is raised as the `ByheartError` it was."""

    def size_functions(self) -> dict[str, Callable[[Any], Any]]:
        """For each construction a function from a problem to the size it would have."""

    def explain(self, error: Exception) -> ByheartError | None:
        """The error in our own terms, where it is the user's and not ours."""


class Tasks:
    """The tasks by name, with the command line they use."""

    def __init__(self, command_line: CommandLine) -> None:
        """Keep it."""
        self.command_line = command_line

    def run(self, task: str, arguments: dict[str, Any], progress: Progress) -> Any:
        """Do one task; `arguments` become keywords."""
        return getattr(self, f"do_{task}")(progress=progress, **arguments)

    def explain(self, error: Exception) -> ByheartError | None:
        """The error in our own terms, where it is the user's."""
        return self.command_line.explain(error)

    # --- compile ----------------------------------------------------------------------------------------------

    def do_warm_up(self, progress: Progress) -> bool:
        """Import and compile what every job needs, on a data set of four facts."""
        data = Dataset.from_pairs([("ab", "1"), ("ba", "2"), ("bb", "3"), ("aa", "1")])
        compile_data(data, method="retrieval", precision="float64")
        return True

    def do_examine(self, progress: Progress, path: str, reading: list[str]) -> dict[str, Any]:
        """Rows, duplicates and conflicts of a data file, what every construction would take, and the bounds."""
        file = Path(path)
        progress("read", 0, 2)
        data = _read(file, reading)
        report = data.check()
        document: dict[str, Any] = {
            "file": file.name,
            "n_samples": data.n_samples,
            "n_labels": data.n_labels,
            "n_classes": data.n_classes,
            "task": data.task,
            "seq_len": data.seq_len,
            "vocab": data.vocab,
            "dim": data.dim,
            "label_bits": data.label_bits,
            "duplicates": len(report.duplicates),
            "conflicts": len(report.conflicts),
            "conflict_examples": list(report.examples),
            "non_finite": len(report.non_finite),
            "is_memorisable": report.is_memorisable,
            "preview": _preview(file),
        }
        if not report.is_memorisable:
            return {**document, "bounds": [], "methods": []}
        progress("bounds", 1, 2)
        theory = table(data)
        return {
            **document,
            "bounds": [bound.to_json() for bound in theory.applicable],
            "not_applicable": [entry.to_json() for entry in theory.not_applicable],
            "methods": [_estimate(name, data) for name in method_names()],
        }

    def do_compile(
        self, progress: Progress, path: str, model: str, keep_data: str, options: list[str]
    ) -> dict[str, Any]:
        """Compile a data file, and keep the data beside the model so that it can be verified again."""
        document = self.command_line.document(
            ["compile", "--json", "-o", model, *options, "--", path], progress
        )
        shutil.copyfile(path, keep_data)
        return {**document, "model": Path(model).name}

    # --- ask and look -----------------------------------------------------------------------------------------

    def do_predict(self, progress: Progress, model: str, texts: list[str]) -> dict[str, Any]:
        """What `byheart predict --json` prints."""
        loaded = _loaded(model)
        asked: list[Any] = (
            list(texts) if loaded.memory.tokenizer is not None else [_ids(text) for text in texts]
        )
        answers = loaded.predict(asked)
        return {
            "schema": 1,
            "answers": [{"input": t, "answer": a} for t, a in zip(texts, answers, strict=True)],
        }

    def do_predict_file(self, progress: Progress, model: str, path: str, most: int) -> dict[str, Any]:
        """Ask every line of a text file, or the first column of a table."""
        texts = _questions_of(Path(path))
        if len(texts) > most:
            raise UsageError(
                f"the file holds {len(texts):,} questions; at most {most:,} are asked at a time."
            )
        answers: list[dict[str, Any]] = []
        step = 2000
        for start in range(0, len(texts), step):
            progress("ask", start, len(texts))
            answers += self.do_predict(progress, model, texts[start : start + step])["answers"]
        n_unknown = sum(entry["answer"] is None for entry in answers)
        return {"schema": 1, "answers": answers, "n_unknown": n_unknown}

    def do_inspect(self, progress: Progress, model: str) -> dict[str, Any]:
        """What `byheart inspect --json` prints."""
        return self.command_line.document(["inspect", "--json", "--", model], progress)

    def do_examples(self, progress: Progress, model: str, data: str | None) -> dict[str, Any]:
        """A few questions the model knows, from the data it was made of."""
        rows = [] if data is None else _preview(Path(data))["rows"]
        return {"questions": [row[0] for row in rows if row][:PREVIEW_ROWS]}

    def do_trace(self, progress: Progress, model: str, text: str) -> dict[str, Any]:
        """The question's way through the network."""
        return trace(_loaded(model), text)

    def do_fact(self, progress: Progress, model: str, text: str, data: str | None) -> dict[str, Any]:
        """What `byheart inspect --fact --json` prints, with the value and the bits of each weight it names."""
        extra = [] if data is None else ["--data", data]
        arguments = ["inspect", "--json", *extra, f"--fact={text}", "--", model]
        document = self.command_line.document(arguments, progress)
        loaded = _loaded(model)
        scales = _scales(loaded, text)
        for number, cell in enumerate(document["cells"]):
            matrix = f"layers.{cell['layer']}.{cell['matrix']}"
            row, column = (cell["row"], cell["column"])
            if cell["matrix"] == "w2":
                row, column = column, row
            scale = scales.get((cell["layer"], cell["matrix"]))
            cell["weight"] = {"matrix": matrix, "row": row, "column": column}
            cell.update(_weight(loaded, matrix, row, column))
            if scale is not None and math.log2(scale).is_integer():
                # bit b of the word is worth 2^b / scale in the weight
                cell["label_powers"] = [b - int(math.log2(scale)) for b in range(*document["bits"])]
            document["cells"][number] = cell
        return document

    # --- break ------------------------------------------------------------------------------------------------

    def do_weights(self, progress: Progress, model: str) -> dict[str, Any]:
        """Every weight matrix with its shape and how many of its entries are not zero."""
        found = []
        for name, weights in edits.matrices_of(_loaded(model)):
            found.append(
                {
                    "matrix": name,
                    "shape": list(edits.shape_of(weights)),
                    "n_nonzero": edits.n_nonzero(weights),
                }
            )
        return {"matrices": found}

    def do_matrix(self, progress: Progress, model: str, matrix: str, row: int, column: int) -> dict[str, Any]:
        """A window of one matrix, as floats."""
        weights = edits.find_matrix(_loaded(model), matrix)
        n_rows, n_columns = edits.shape_of(weights)
        row, column = (
            max(0, min(at, size - 1)) // WINDOW * WINDOW for at, size in ((row, n_rows), (column, n_columns))
        )
        stop_row, stop_column = min(n_rows, row + WINDOW), min(n_columns, column + WINDOW)
        if isinstance(weights, SparseMatrix):
            values = [[0.0] * (stop_column - column) for _ in range(row, stop_row)]
            for (r, c), value in weights.entries.items():
                if row <= r < stop_row and column <= c < stop_column:
                    values[r - row][c - column] = _as_float(value.fraction)
        else:
            values = (
                weights.reshape(n_rows, n_columns)[row:stop_row, column:stop_column].astype(float).tolist()
            )
        return {
            "matrix": matrix,
            "shape": [n_rows, n_columns],
            "row": row,
            "column": column,
            "values": values,
        }

    def do_weight(self, progress: Progress, model: str, matrix: str, row: int, column: int) -> dict[str, Any]:
        """One weight: its value and its bits."""
        return {
            "matrix": matrix,
            "row": row,
            "column": column,
            **_weight(_loaded(model), matrix, row, column),
        }

    def do_break(
        self, progress: Progress, model: str, data: str, changes: list[dict[str, Any]]
    ) -> dict[str, Any]:
        """Change weights, verify every sample again, and name what broke."""
        whole = _loaded(model)
        dataset = read_like(whole, data)
        broken, done = edits.edited(whole, changes)
        certificate = verify_model(broken, dataset, progress=lambda a, b: progress("verify", a, b))
        named = _broken_facts(broken, dataset) if certificate.wrong else []
        return {
            "edits": done,
            "certificate": certificate.to_json(),
            "checked": certificate.checked,
            "wrong": certificate.wrong,
            "broken": named,
        }

    def do_forget(self, progress: Progress, model: str, data: str, text: str) -> dict[str, Any]:
        """Compile the data again without one fact, from the same seed, and say which weights differ."""
        whole = _loaded(model)
        dataset = read_like(whole, data)
        sample = _sample_of(dataset, text)
        rest = dataset.subset([at for at in range(dataset.n_samples) if at != sample])
        record = whole.record
        without = compile_data(
            rest,
            method=str(record["method"]),
            precision=whole.network.precision,
            seed=int(record["seed"]),
            progress=progress,
            **{name: value for name, value in record.get("options", {}).items() if name != "precision"},
        )
        assert without.certificate is not None
        (before,), (after,) = whole.predict([text]), without.predict([text])
        return {
            "fact": text,
            "answer": before,
            "answer_without": after,
            "verified": {"checked": without.certificate.checked, "wrong": without.certificate.wrong},
            "size": asdict(whole.size),
            "size_without": asdict(without.size),
            **edits.differences(whole, without, MOST_LISTED),
        }

    # --- how much fits ----------------------------------------------------------------------------------------

    def do_plan(
        self, progress: Progress, facts: int, value_bits: int, vocab: int, seq_len: int
    ) -> dict[str, Any]:
        """What `byheart plan --json` prints, and the curves of its figure."""
        sizes = self.command_line.size_functions()
        powers = {10**power for power in CURVE_POWERS} | {facts}
        plans = [_plan(n, value_bits, vocab, seq_len, sizes) for n in sorted(powers)]
        (own,) = (found for found in plans if found.n_facts == facts)
        lines = [asdict(curve) for curve in curves(plans)]
        return {"schema": 1, **own.to_json(), "vocab": vocab, "seq_len": seq_len, "curves": lines}

    def do_capacity(self, progress: Progress, path: str) -> dict[str, Any]:
        """What `byheart bounds --config --json` prints."""
        return self.command_line.document(["bounds", "--json", "--config", path], progress)

    # --- figures and runs -------------------------------------------------------------------------------------

    def do_runs(self, progress: Progress, store: str, where: list[str], most: int) -> dict[str, Any]:
        """The runs of a store that meet every condition, as `byheart runs list --json` prints them."""
        with Store(store, create=False) as opened:
            rows = [row_of(record) for record in opened.records()]
        kept = filtered(rows, where)
        newest = kept[-most:][::-1]
        return {
            "schema": 1,
            "n_runs": len(rows),
            "n_kept": len(kept),
            "runs": [_finite(row) for row in newest],
        }

    def do_curves(self, progress: Progress, store: str, keys: list[str]) -> dict[str, Any]:
        """How the measured numbers of some runs changed while they trained."""
        with Store(store, create=False) as opened:
            records = opened.records(keys)
        return {
            "curves": [
                {
                    "key": record.key,
                    "steps": record.curve_steps.tolist(),
                    "values": {
                        name: [v if math.isfinite(v) else None for v in values.tolist()]
                        for name, values in record.curve.items()
                    },
                }
                for record in records
            ]
        }


@lru_cache(maxsize=MODELS_KEPT)
def _load_version(path: str, version: int) -> Model:
    return load(path)


def _loaded(path: str) -> Model:
    """The model at `path`, read once per version of its folder."""
    return _load_version(path, Path(path, "model.json").stat().st_mtime_ns)


@lru_cache(maxsize=512)
def _plan_of(
    n_facts: int, value_bits: int, vocab: int, seq_len: int, sizes: tuple[tuple[str, Any], ...]
) -> Any:
    return plan(n_facts, value_bits, constructions=dict(sizes), vocab=vocab, seq_len=seq_len)


def _plan(n_facts: int, value_bits: int, vocab: int, seq_len: int, sizes: dict[str, Any]) -> Any:
    return _plan_of(n_facts, value_bits, vocab, seq_len, tuple(sizes.items()))


def _read(path: Path, reading: list[str]) -> Dataset:
    """The data file, conflicts kept so that they can be counted. `reading` is (option, value) pairs in one list."""
    options = dict(zip(reading[::2], reading[1::2], strict=True))
    named: dict[str, Any] = {name.removeprefix("--"): value for name, value in options.items()}
    return Dataset.read(path, **{**named, "on_conflict": "keep"})


def _estimate(name: str, data: Dataset) -> dict[str, Any]:
    """What a construction would take on data of this shape, or why it does not take them."""
    method = get_method(name)
    row: dict[str, Any] = {
        "method": name,
        "source": method.source,
        "precisions": list(method.precisions),
        "size": None,
        "refusal": None,
    }
    try:
        if data.task not in method.tasks:
            raise UsageError(f"it offers {', '.join(method.tasks)}, and the task is {data.task}.")
        statistics = replace(statistics_of(data), precision=method.precisions[0])
        row["size"] = asdict(method.size_of(statistics))
    except (ByheartError, MemoryError) as refusal:
        row["refusal"] = str(refusal) or type(refusal).__name__
    return row


def _preview(path: Path) -> dict[str, Any]:
    """The first rows of a text file as they stand."""
    if path.suffix.lower() not in (".csv", ".tsv", ".txt", ".jsonl"):
        return {"columns": [], "rows": []}
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as stream:
        lines = [line[:2000] for _, line in zip(range(PREVIEW_ROWS + 1), stream, strict=False)]
    if path.suffix.lower() == ".txt":
        return {"columns": ["text"], "rows": [[line.rstrip("\r\n")] for line in lines[:PREVIEW_ROWS]]}
    if path.suffix.lower() == ".jsonl":
        entries = [_json_line(line) for line in lines[:PREVIEW_ROWS]]
        columns = list(dict.fromkeys(name for entry in entries for name in entry))
        return {
            "columns": columns,
            "rows": [[str(entry.get(name, "")) for name in columns] for entry in entries],
        }
    table_rows = list(csv.reader(lines, delimiter="\t" if path.suffix.lower() == ".tsv" else ","))
    return {"columns": table_rows[0] if table_rows else [], "rows": table_rows[1:]}


def _json_line(line: str) -> dict[str, Any]:
    try:
        entry = json.loads(line)
    except ValueError:
        return {"": line}
    return entry if isinstance(entry, dict) else {"": line}


def _questions_of(path: Path) -> list[str]:
    """The lines of a text, or the column `key` (or else the first) of a table."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path.name} is not UTF-8: byte {error.start} cannot be read.") from None
    if path.suffix.lower() not in (".csv", ".tsv"):
        return [line for line in text.splitlines() if line]
    rows = list(csv.reader(text.splitlines(), delimiter="\t" if path.suffix.lower() == ".tsv" else ","))
    if rows and "key" in rows[0]:
        column = rows[0].index("key")
        return [row[column] for row in rows[1:] if len(row) > column]
    return [row[0] for row in rows if row]


def _ids(text: str) -> list[int]:
    try:
        return [int(word) for word in text.split()]
    except ValueError:
        raise UsageError(
            f"this model is asked by token ids with spaces between them, not {text!r}."
        ) from None


def _weight(model: Model, matrix: str, row: int, column: int) -> dict[str, Any]:
    value = edits.value_at(edits.find_matrix(model, matrix), row, column)
    return {"value": edits.shown(value), "number": _as_float(value), "binary": edits.bits_of(value)}


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.copysign(1e308, value)


def _scales(model: Model, text: str) -> dict[tuple[int, str], float]:
    """What makes a word of the weights of each table."""
    tokenizer = model.memory.tokenizer
    assert tokenizer is not None
    ids = np.array(tokenizer.encode(text), dtype=np.int64)
    asked = TokenSequences(ids, np.array([0, len(ids)]), len(tokenizer.vocabulary))
    found = locate(model.memory, model.record.get("notes", {}), model.memory.encode(asked))
    segments = range(len(found.tables))
    names = ["w1" if found.is_twin and segment == 0 else "w2" for segment in segments]
    return {(found.tables[segment], names[segment]): found.scales[segment] for segment in segments}


def _broken_facts(model: Model, data: Dataset) -> list[dict[str, Any]]:
    """Every wrong sample by name: what was asked, what is right, what is answered now."""
    memory = model.memory
    asked = questions(memory, data.inputs, data.tokenizer)
    backend: Any = "exact" if model.precision == "exact" else "module"
    answers = memory.answer(asked.encoded, backend=backend).reshape(len(asked.asked), -1)[:, -1]
    expected = memory.expected(data)
    if len(expected) != data.n_samples:  # a label per token: the certificate names the first few
        return []
    wrong = np.flatnonzero(answers != expected[asked.asked])[:MOST_NAMED]
    return [
        {
            "input": _input_text(data, int(asked.asked[at])),
            "expected": data.label_names[int(data.labels[asked.asked[at]])],
            "got": None if answers[at] == UNKNOWN else memory.label_names[int(answers[at])],
        }
        for at in wrong
    ]


def _input_text(data: Dataset, sample: int) -> str:
    if isinstance(data.inputs, TokenSequences) and data.tokenizer is not None:
        return str(data.tokenizer.decode(data.inputs[sample].tolist()))
    return data.describe_input(sample)


def _sample_of(data: Dataset, text: str) -> int:
    for sample in range(data.n_samples):
        if _input_text(data, sample) == text:
            return sample
    raise DoesNotHold(f"{text!r} is not one of the facts of this model.", fact=text)


def _finite(row: dict[str, Any]) -> dict[str, Any]:
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in row.items()}
