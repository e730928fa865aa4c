"""The whole pipeline, from data to verified weights. Read this module first.

compile              data -> construction -> verified model
compile_in_shards    the same for a file that may be larger than memory
load                 folder of a saved model -> model
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
from byheart.storage.signature import load_signed
from byheart.verify.certificate import Origin, OriginData
from byheart.verify.digest import require_certified
from byheart.verify.verifier import verify
from byheart.verify.versions import versions

_SHARDED = {"read": 0.2, "compile": 0.4, "verify": 0.4}
"""The approximate share of the time that each step of a compilation in shards takes."""


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
    labels: the label of each input, if `data` holds only inputs. `Model.predict` answers with labels of their original type.
    method: the name of a construction, or `auto` (see `byheart.construct.choice`). The model's record says why it was chosen.
    precision: the number type of the weights; by default, the first that the method offers, and for `auto` float64 or else exact.
    task: what each label belongs to: a sequence (`next-token`), a set of tokens (`set`), each token (`seq-to-seq`) or each
        beginning of a document (`distribution`). If `data` is a `Dataset`, it must be the task of that data set.
    seed: the seed of all random choices. The same call gives the same weights.
    check: verify the result; if the model does not memorise the data, raise `DoesNotHold` with the certificate.
    options: options of the construction. If `data` is not a `Dataset`, also options of `Dataset.read`.
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
    """Compile a data file with `retrieval`, in `n_shards` shards that are solved separately. The file may be larger than memory.

    The weights equal those of `compile` with the option `shards`. Each worker holds one piece of the file or one shard in memory.
    Finished parts are stored in the folder `work`, so that the same call continues after an interruption.
    sample: check only this many samples; the certificate says so.
    reading, options: options of `Dataset.read`, and the other options of `retrieval`.
    workers: processes of this machine, or a Ray cluster whose machines all see the folder `work`; by default, this process.
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
    """Load the model saved at `path`.

    check: raise `CorruptModel` unless weights, labels, tokenizer, task, architecture and token order (whether it matters) match the
        certificate, if there is one. If false, a changed model can be loaded, so that `verify` can report what is wrong with it.
    signed_by: a public key, as a file or as 64 hexadecimal digits. Raise `CorruptModel` unless this key signed the folder.
    """
    found = load_folder(path) if signed_by is None else load_signed(path, signed_by)
    memoriser, record, certificate, *_ = found
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
    """Verify all samples, or `sample` of them, and return the model with its certificate, or without one if `check` is false."""
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
