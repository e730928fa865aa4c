"""The whole pipeline: data in, checked weights out. Read this first.

compile              data -> construction -> verified model
compile_in_shards    the same for a file that need not fit in memory
load                 a saved model
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from byheart.construct.choice import USUAL, build
from byheart.construct.registry import get
from byheart.data.conversion import READING_OPTIONS, dataset_of
from byheart.data.dataset import Dataset, Task
from byheart.data.dataset_pieces import DatasetPieces
from byheart.data.distinct_contexts import read_in_pieces
from byheart.data.shape import DataShape
from byheart.data.textfile import require_file
from byheart.files.work_folder import claimed_folder, describe_job
from byheart.model import Model
from byheart.network.transformer.architecture import Precision
from byheart.process.progress import Progress, Steps
from byheart.process.task_runner import Workers
from byheart.program.construction import Construction
from byheart.storage.folder import load_folder
from byheart.storage.signature import require_signed
from byheart.verify.certificate import Origin, OriginData
from byheart.verify.digest import require_certified
from byheart.verify.verifier import verify
from byheart.verify.versions import versions

_SHARDED = {"read": 0.2, "compile": 0.4, "verify": 0.4}
"""Shares of the time of a compilation in shards."""


def compile(
    data: Dataset | str | Path | Mapping[Any, Any] | Iterable[Any] | Any,
    labels: Any = None,
    *,
    method: str = "auto",
    precision: Precision | None = None,
    task: Task | None = None,
    seed: int = 0,
    check: bool = True,
    progress: Progress | None = None,
    **options: object,
) -> Model:
    """Compile `data` into a Transformer that memorises it, and verify every sample.

    data: a `Dataset`, the path of a file, (input, label) pairs, a dictionary, a data frame (pandas or polars), or a pair of arrays.
    labels: where `data` are inputs alone, the label of each; `Model.predict` answers with labels of their own type.
    method: a construction of the registry, or `auto` (see `byheart.construct.choice`); the model's record says why it was chosen.
    precision: what the weights are stored in; by default the first that the method offers.
    task: what the labels belong to; must be the task of `data` where that is a `Dataset`.
    seed: everything random is drawn from it, so the same call gives the same weights.
    check: verify the result; where it does not hold, `DoesNotHold` is raised with the certificate (see `Certificate.fitted`).
    options: of the construction; where `data` is not a `Dataset`, also those of `Dataset.read`, which say how to read it.
    """
    reading = {name: options.pop(name) for name in READING_OPTIONS if name in options}
    data = dataset_of(data, labels, task=task, **reading)
    data.require_finite()
    data.require_consistent()
    verifying = get(USUAL if method == "auto" else method).verifying
    steps = Steps(progress, {"compile": 1 - verifying, "verify": verifying}, are_named=True)
    construction, choice = build(method, data, precision, seed, options, steps.begin("compile"))
    return _verified(construction, data, {"seed": seed, **choice}, steps, check=check)


def compile_in_shards(
    path: str | Path,
    *,
    n_shards: int,
    work: str | Path,
    precision: Precision = "float64",
    seed: int = 0,
    sample: int | None = None,
    workers: Workers | None = None,
    progress: Progress | None = None,
    reading: Mapping[str, Any] | None = None,
    **options: object,
) -> Model:
    """Compile a data file, which may be larger than memory, with `retrieval`, in `n_shards` shards solved separately.

    The weights are those of `compile` with the option `shards`. Memory holds one piece of the file or one shard for each
    worker. Finished parts are kept in the folder `work`: after an interruption, the same call continues from there.
    sample: check only that many samples; the certificate says so. reading: how to read the file, as for `Dataset.read`.
    workers: processes of this machine or a Ray cluster, all of which see `work`; this process unless given.
    """
    from byheart.construct.retrieval.out_of_core import build as solve

    path, folder, workers = Path(path), Path(work), workers or Workers()
    require_file(path)
    method, given_options = get("retrieval"), {**options, "shards": n_shards}
    chosen = method.read_options(given_options, precision)
    told = {name: value for name, value in (reading or {}).items() if value is not None}
    job = describe_job(path, seed=seed, options=vars(chosen), reading=told, versions=versions("numpy"))
    steps, rng = Steps(progress, _SHARDED, are_named=True), np.random.default_rng(seed)
    with claimed_folder(folder, job), workers.connected():
        pieces = read_in_pieces(path, folder, workers, steps.begin("read"), **told)
        settled = method.fitting_options(DataShape.of(pieces), precision, given_options)
        chosen = method.read_options(settled, precision)
        construction = solve(pieces, chosen, rng, folder / "solution", workers, steps.begin("compile"))
        given = {"seed": seed, "options": {**settled, "precision": precision}}
        remedy = f"If files in {folder} were changed, remove the folder and run the same command again."
        return _verified(construction, pieces, given, steps, sample=sample, remedy=remedy)


def load(path: str | Path, *, check: bool = True, signed_by: str | Path | None = None) -> Model:
    """The model saved at `path`.

    With `check`, weights, labels, tokenizer, task, order and architecture must be those of its certificate, or
    `CorruptModel` is raised; without, a changed model can be opened, for `verify` to say what is wrong with it.
    signed_by: a public key (a file, or 64 hexadecimal digits); a folder that it did not sign is refused with `CorruptModel`.
    """
    if signed_by is not None:
        require_signed(path, signed_by)
    memoriser, record, certificate = load_folder(path)
    if check and certificate is not None:
        require_certified(memoriser, certificate, path)
    return Model(memoriser, record, certificate)


def _verified(
    construction: Construction,
    data: Dataset | DatasetPieces,
    choice: Mapping[str, Any],
    steps: Steps,
    *,
    check: bool = True,
    sample: int | None = None,
    remedy: str = "",
) -> Model:
    """The model with every sample checked."""
    record = construction.record(data, {**choice, "versions": versions("numpy")})
    model = Model(construction.memoriser, record, None)
    if not check:
        return model
    rule, origin = construction.target(), Origin(**construction.claims(), dataset=OriginData(data.digest))
    told = steps.begin("verify")
    certificate = verify(model.memoriser, data, origin=origin, sample=sample, progress=told, **rule)
    if not certificate.holds:
        certificate.require_fitted(construction.method, choice["options"], remedy)
    return replace(model, certificate=certificate)
