"""Compile a data file into a model folder. The result is the document that `byheart compile --json` prints."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from byheart import pipeline
from byheart.bounds import BoundTable, table
from byheart.construct.choice import describe_unknown_input
from byheart.data.dataset import Dataset
from byheart.documents.model_summary import RATES
from byheart.errors import require_extra
from byheart.model import Model
from byheart.process.progress import Progress, in_stage, part_of
from byheart.storage.target import check_target

_READING, _BUILT = 0.14, 0.97
"""Two points of the progress bar, as shares of the whole work: `_READING` when the file has been read, and `_BUILT` when the
model has also been compiled and checked. The rest is for bounds and saving.
"""


@dataclass(frozen=True, eq=False)
class CompiledFile:
    """A model that was verified and saved.

    seconds  the time that each of `compile` and `verify` took, in seconds
    theory   the bounds for the data
    path     the model folder
    """

    model: Model
    seconds: Mapping[str, float]
    theory: BoundTable
    path: Path

    def to_json(self) -> dict[str, Any]:
        """Return a dictionary that can be written as JSON."""
        model, certificate = self.model, self.model.certificate
        assert certificate is not None
        return {
            "method": model.record["method"],
            "theorem": model.record["theorem"],
            "task": model.memoriser.task,
            "precision": model.precision,
            "seed": model.record["seed"],
            "dataset": certificate.dataset.to_json(),
            "size": asdict(model.size),
            "stored_bits": model.size.stored_bits,
            "theorem_size": certificate.theorem_size,
            **{name: getattr(model, name) for name in RATES},
            "seconds": dict(self.seconds),
            "verdict": certificate.verdict,
            "holds": certificate.holds,
            "fitted": certificate.fitted,
            "verified": {
                "checked": certificate.checked,
                "wrong": certificate.wrong,
                "columns": certificate.columns,
                "rows_left_out": certificate.rows_left_out,
                "on_conflict": certificate.on_conflict,
                "left_out": dict(certificate.left_out),
                "backend": certificate.backend,
                "rechecked_by_interpreter": certificate.rechecked_by_interpreter,
            },
            "distribution": None if certificate.distribution is None else asdict(certificate.distribution),
            "assumptions": [asdict(item) for item in certificate.assumptions],
            "bounds": [bound.to_json() for bound in self.theory.applicable],
            "unknown_inputs": describe_unknown_input(model.record),
            "bytes_on_disk": {path.name: path.stat().st_size for path in sorted(self.path.iterdir())},
            "path": str(self.path),
        }


def compile_file(
    data: Path,
    output: Path,
    *,
    reading: Mapping[str, Any],
    progress: Progress,
    read: Any = Dataset.read,
    **options: Any,
) -> CompiledFile:
    """Read a data file, compile it, verify every sample and save the model in the folder `output`.

    reading: keyword arguments for `read`, such as the options of `Dataset.read`.
    progress: a function that is called with the progress of the whole work, from reading to saving.
    read: the function that reads the file.
    options: the options of `byheart.compile`.
    """
    prepare(output, options.get("method"))
    reader, builder = part_of(progress, 0.0, _READING), part_of(progress, _READING, _BUILT)
    reader(0, 1, "read")
    dataset = read(data, progress=in_stage(reader, "read"), **reading)
    start = time.perf_counter()
    model = pipeline.compile(dataset, progress=builder, **options)
    seconds = time.perf_counter() - start
    builder(1, 1, "save")
    compiled = save_compiled(model, seconds, table(dataset), output)
    progress(1, 1, "save")
    return compiled


def prepare(output: Path, method: object) -> None:
    """Raise an error if a model cannot be saved at `output`, or if a package that checks models of `method` is missing."""
    check_target(output)
    if method == "llama":
        require_extra("transformers", "huggingface", "checking the checkpoint with transformers")


def save_compiled(model: Model, seconds: float, theory: BoundTable, output: Path) -> CompiledFile:
    """Save a verified model in the folder `output`. `seconds` is the total time of compiling and verifying it."""
    assert model.certificate is not None
    verify = model.certificate.seconds
    model.save(output)
    parts = {"compile": round(seconds - verify, 3), "verify": verify}
    return CompiledFile(model, parts, theory, output)
