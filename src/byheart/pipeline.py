"""The whole pipeline: data in, checked weights out. Read this first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from byheart.construct import registry
from byheart.construct.choice import explain, trials
from byheart.data.conversion import READING_OPTIONS, dataset_of
from byheart.data.data_record import DataRecord
from byheart.data.dataset import Dataset, Task
from byheart.data.dataset_pieces import DatasetPieces, spool
from byheart.data.distinct_contexts import count_contexts
from byheart.data.options import DataSource
from byheart.data.readers import kind_of
from byheart.data.sequences import TokenSequences
from byheart.data.shape import DataShape
from byheart.data.textfile import require_file
from byheart.data.tokenizers import Tokenizer
from byheart.errors import AssumptionViolated, DoesNotHold, UsageError
from byheart.files.work_folder import claimed_folder
from byheart.model import Model
from byheart.network.transformer.architecture import Precision
from byheart.process.progress import Progress, StageProgress, in_stage
from byheart.process.task_runner import Workers
from byheart.program.construction import Construction
from byheart.records.reader import read_values
from byheart.records.refusals import corrupt
from byheart.storage.folder import load_folder
from byheart.verify.certificate import Origin, OriginData
from byheart.verify.digest import require_certified
from byheart.verify.verifier import verify
from byheart.verify.versions import versions


def compile(
    data: Dataset | str | Path | Mapping[Any, Any] | Iterable[Any] | Any,
    *,
    method: str = "auto",
    precision: Precision | None = None,
    task: Task | None = None,
    seed: int = 0,
    check: bool = True,
    progress: StageProgress | None = None,
    **options: object,
) -> Model:
    """Compile `data` into a Transformer that memorises it, and verify every sample.

    data: a `Dataset`, or what one can be made of: the path of a file, (input, label) pairs, a dictionary, a
        data frame of pandas or polars, or a pair of arrays.
    method: a construction of the registry, or `auto`: natively in float64 with unknown inputs turned away, by
        `retrieval` where it takes the data (see `byheart.construct.choice`); the model's record says what was
        chosen and why, and which constructions refused.
    precision: `exact`, `float64` or `float32`; what the method offers first unless given.
    task: what the labels belong to; must be the task of `data` where that is a `Dataset`.
    seed: everything random is drawn from it, so the same call gives the same weights.
    check: verify the result. A model that does not verify is never returned: `DoesNotHold` carries the
        certificate. One by a solver that aims at the total gap may be fitted without memorising every context:
        `certificate.fitted` is then true and `certificate.holds` false.
    options: for the construction; where `data` is not a `Dataset`, also `input`, `label`, `tokenizer`, `ordered`,
        `on_conflict`, `empty_labels`, `delimiter`, `encoding` and `label_names`, which say how to read it (see
        `Dataset.read`).
    """
    if isinstance(data, Dataset) and task is not None and task != data.task:
        raise UsageError(f"the data set is for the task {data.task}, not {task}.", task=task)
    if not isinstance(seed, int | np.integer) or seed < 0:
        raise UsageError(f"seed must be a whole number from 0 on, not {seed!r}.", seed=str(seed))
    reading = {name: options.pop(name) for name in READING_OPTIONS if name in options}
    data = dataset_of(data, task=None if isinstance(data, Dataset) else task, **reading)
    data.require_finite()
    data.require_consistent()
    construction, choice = _build(
        method, data, precision, seed, options, progress and in_stage(progress, "compile")
    )
    origin = _origin(construction, data)
    record = _record(origin, construction, data, seed, choice)
    certificate = None
    if check:
        certificate = verify(
            construction.memoriser,
            data,
            origin=origin,
            progress=progress and in_stage(progress, "verify"),
            **_distribution_rule(construction),
        )
    return _checked(Model(construction.memoriser, record, certificate))


def compile_in_shards(
    path: str | Path,
    *,
    n_shards: int,
    work: str | Path,
    precision: Precision = "float64",
    seed: int = 0,
    sample: int | None = None,
    workers: Workers | None = None,
    progress: StageProgress | None = None,
    reading: Mapping[str, Any] | None = None,
    **options: object,
) -> Model:
    """Compile a data file that need not fit memory by `retrieval`, in `n_shards` shards that are solved apart.

    The weights are those of `compile` with the option `shards`. Memory holds one piece of the file or one shard for each
    worker. What is finished is kept in the folder `work`: the same call goes on from there, however it was ended.

    sample: check only that many samples; the certificate says so.
    workers: processes of this machine or a Ray cluster, all of which see `work`; this process unless given.
    reading: how to read the file, as for `Dataset.read`.
    """
    from byheart.construct.retrieval.out_of_core import build

    path, folder, workers = Path(path), Path(work), workers or Workers()
    require_file(path)
    chosen = registry.get("retrieval").read_options({**options, "shards": n_shards}, precision)
    told = {name: value for name, value in (reading or {}).items() if value is not None}
    stat = path.stat()
    job = {
        "file": str(path.resolve()),
        "bytes": stat.st_size,
        "changed": stat.st_mtime_ns,
        "seed": seed,
        "options": {name: str(value) for name, value in vars(chosen).items()},
        "reading": {name: str(value) for name, value in told.items()},
        "versions": versions("numpy"),
    }
    with claimed_folder(folder, job):
        pieces = spool(path, folder / "pieces", **told)
        stage, rng = progress and in_stage(progress, "compile"), np.random.default_rng(seed)
        with workers.connected():
            n_contexts = count_contexts(pieces, folder / "contexts", workers, stage)
            pieces = replace(pieces, n_contexts=n_contexts)
            construction = build(pieces, n_contexts, chosen, rng, folder / "solution", workers, stage)
        given = {**options, "shards": n_shards, "precision": precision}
        origin = _origin(construction, pieces)
        record = _record(origin, construction, pieces, seed, {"options": given})
        certificate = verify(
            construction.memoriser,
            pieces,
            origin=origin,
            sample=sample,
            progress=progress and in_stage(progress, "verify"),
        )
    return _checked(
        Model(construction.memoriser, record, certificate),
        f"If files in {folder} were changed, remove the folder and run the same command again.\n  If not: {OUR_MISTAKE}",
    )


OUR_MISTAKE = "This is a mistake in byheart. Please report it with the data."


def _checked(model: Model, remedy: str = "") -> Model:
    """The model, if its certificate holds, or says fitted where the caller chose a solver that aims at the total gap."""
    certificate = model.certificate
    if certificate is not None and not certificate.holds and not certificate.fitted:
        options = {
            name: value
            for name, value in model.record["options"].items()
            if name not in ("precision", "shards")
        }
        if options and not remedy:
            given = ", ".join(f"{name}={value}" for name, value in options.items())
            remedy = (
                f"Leave out the options ({given}), or change them.\n  If that does not help: {OUR_MISTAKE}"
            )
        raise DoesNotHold(
            f"{model.record['method']} built a network that does not memorise these data; nothing is kept.\n"
            f"  {certificate.problems[0]}\n"
            f"  {remedy or OUR_MISTAKE}",
            certificate=certificate,
        )
    return model


def _build(
    method: str,
    data: Dataset,
    precision: Precision | None,
    seed: int,
    options: dict[str, object],
    progress: Progress | None,
) -> tuple[Construction, dict[str, object]]:
    """The first construction that takes the data, and what the record says of how it was chosen."""
    refused: dict[str, str] = {}
    shape = DataShape.of(data)
    for trial in trials(method, precision, shape, options):
        chosen = trial.method
        given = (
            {**trial.options, "precision": trial.precision} if len(chosen.precisions) > 1 else trial.options
        )
        read = chosen.read_options(trial.options, trial.precision)
        if trial.options:  # sizes that the caller chose, and not the construction
            chosen.require_memory(shape, read)
        try:
            plan = chosen.plan(
                data,
                read,
                np.random.default_rng(seed),
                progress,
            )
        except AssumptionViolated as error:
            if method != "auto":
                raise
            refused[chosen.name] = str(error)
            continue
        construction = plan.emit(progress)
        assert construction.memoriser.network.precision == trial.precision, (
            f"{chosen.name} built another precision"
        )
        refused.pop(chosen.name, None)  # with more reject bits than fit
        choice = {"choice": explain(trial, data.task, refused)} if method == "auto" else {}
        return construction, {"options": dict(given), **choice, **({"refused": refused} if refused else {})}
    reasons = "\n".join(f"    {name}: {reason}" for name, reason in refused.items())
    raise AssumptionViolated(f"no construction takes these data.\n{reasons}", refused=refused)


def load(path: str | Path, *, check: bool = True) -> Model:
    """The model saved at `path`.

    With `check`, weights, labels, tokenizer, task, order and architecture must be those its certificate speaks of, or
    `CorruptModel` is raised; without, a changed model can be opened, for `verify` to say what is wrong with it.
    """
    memoriser, record, certificate = load_folder(path)
    if check and certificate is not None:
        require_certified(memoriser, certificate, path)
    return Model(memoriser, record, certificate)


def _distribution_rule(construction: Construction) -> dict[str, Any]:
    """Where the solver that the caller chose aims at the total gap, the certificate also says whether that is met."""
    notes = construction.notes
    if "allowed_divergence" not in notes or notes["allowed_divergence"] is not None:
        return {}
    return {"rule": "total-gap", "allowed_gap": notes["allowed_gap"]}


def source_of(model: Model) -> DataSource:
    """How the data of a model were read, as far as its record says."""
    recorded = model.record.get("reading") or {}
    return read_values(
        recorded, DataSource, "the record of this model, reading", refuse=corrupt, ignore_unknown=True
    )


def read_like(model: Model, path: str | Path, **changed: Any) -> Dataset:
    """Read a data file as the data of `model` were read: the same columns, task, order and tokenizer.

    Every row is kept unless `on_conflict` is given: the record of a model does not decide which rows are left out, or it might
    leave out what the model does not know.
    """
    source = source_of(model)
    tokenizer = model.memoriser.tokenizer
    # a vocabulary counted anew names what the model does not know, where its own tokenizer would stop
    kind = None if tokenizer is None else tokenizer if tokenizer.name == "file" else tokenizer.name
    written = source.text_options(kind_of(Path(path)))
    if source.recite:
        if kind is None:
            raise corrupt(
                "the record of this model", "it says that texts are recited, and the model has no tokenizer"
            )
        texts: dict[str, Any] = {"tokenizer": kind, "input": source.input, **written, **changed}
        for name in ("label", "on_conflict"):  # what follows in the text is the label
            texts.pop(name, None)
        return read_recitation(path, **texts)
    options: dict[str, Any] = {
        "task": model.memoriser.task,
        "ordered": model.memoriser.ordered,
        "input": source.input,
        "label": source.label,
        "on_conflict": "keep",
        "empty_labels": source.empty_labels
        if "empty_labels" in (model.record.get("reading") or {})
        else "keep",
        **written,
        **({} if kind is None else {"tokenizer": kind}),
    }
    return Dataset.read(path, **{**options, **changed})


def read_again(model: Model, path: str | Path, **changed: Any) -> Dataset:
    """The rows that `model` was compiled from, without those that its record says were left out. Not for checking it."""
    rule = source_of(model).on_conflict
    return read_like(model, path, **{"on_conflict": "keep" if rule == "error" else rule, **changed})


def read_recitation(
    path: str | Path, *, tokenizer: str | Path | Tokenizer = "word", **reading: Any
) -> Dataset:
    """The texts of a file as windows with the token that follows each, for `byheart recite`."""
    from byheart.construct.retrieval.documents import recitation_of_tokens

    documents = Dataset.from_documents(path, tokenizer=tokenizer, **reading)
    assert isinstance(documents.inputs, TokenSequences)
    assert documents.source is not None
    windows = recitation_of_tokens(documents.inputs, documents.tokenizer)
    return replace(windows, source=replace(documents.source, recite=True))


def _origin(construction: Construction, data: Dataset | DatasetPieces) -> Origin:
    """What a certificate repeats of the construction."""
    promised = construction.theorem_size
    sizes = ("width", "depth", "parameters", "weight_bits")
    return Origin(
        construction.method,
        construction.theorem,
        construction.assumptions,
        None if promised is None else {name: int(getattr(promised, name)) for name in sizes},
        OriginData(data.digest),
    )


def _record(
    origin: Origin,
    construction: Construction,
    data: Dataset | DatasetPieces,
    seed: int,
    choice: Mapping[str, object],
) -> dict[str, Any]:
    """How the model came about. It holds no clock time, so equal calls save equal bytes."""
    record: dict[str, Any] = {
        **asdict(origin),
        "notes": dict(construction.notes),
        "seed": seed,
        **choice,
        "dataset": DataRecord.of(data).to_json(),
        "versions": versions("numpy"),
    }
    if data.source is not None:
        record["reading"] = data.source.to_json()
    return {name: _plain(value) for name, value in record.items()}


def _plain(value: Any) -> Any:
    """A value as JSON has it: numbers of numpy as they are, tuples as lists, what JSON lacks in words."""
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
