"""Carry out a specification (which models to train, on what data, and how), given as a file or a dictionary.

`byheart.measure(...)` and `byheart measure` call this module.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from byheart.errors import UsageError
from byheart.measure.families import Factory, add_family, family_of
from byheart.measure.measurement import Measurement, carry_out
from byheart.measure.records import Record, Run
from byheart.measure.specification import Specification, read_specification, specification_of
from byheart.measure.steppers import Engine
from byheart.measure.store import Store
from byheart.measure.sweep import SweepState
from byheart.measure.tuner import Trainer
from byheart.measure.workers import make_trainer


def measure(
    spec: str | Path | Mapping[str, Any] | Specification,
    *,
    store: str | Path | None = None,
    families: Sequence[Factory] = (),
    device: str = "auto",
    engine: Engine = "auto",
    workers: int = 1,
    cluster: str | None = None,
    on_progress: Callable[[SweepState], None] | None = None,
) -> Measurement:
    """Train the models that a specification describes, except those that are already in the store.

    spec      a TOML file, or its content as a dictionary; in a dictionary, `family` in `model` may also be a function that makes a
              module
    store     an SQLite file that stores every finished run; by default, runs are not kept
    families  functions that make modules; the specification names each of them as MODULE:FUNCTION (see `families.own_module`)
    device    "auto", "cpu" or "cuda"
    engine    how training steps run: "auto", "eager", "graph" (a CUDA graph) or "compile" (`torch.compile`)
    workers, cluster
              number of processes to train with, and the address of a Ray cluster. Leave out both for modules that your own
              functions make: they train in this process only

    The result is a sequence of runs as dictionaries; its method `frame()` returns it as a pandas DataFrame.
    """
    specification = read(spec, families)
    own = {point["model"]["family"] for point in specification.points if not _is_stacked(point)}
    if own and (workers > 1 or cluster is not None):
        raise UsageError(
            f"models of {', '.join(sorted(own))} train one at a time, in this process: leave out `workers` "
            "and `cluster`.",
            families=sorted(own),
        )
    with _opened(store) as opened:
        trainer = make_trainer(
            specification,
            opened,
            device=device,
            engine=engine,
            n_workers=workers,
            cluster=cluster,
            on_progress=on_progress,
            keeps_runs=store is not None,
        )
        counting = _CountingTrainer(trainer, opened)
        measurement = carry_out(specification, counting)
        return replace(measurement, n_stored=counting.n_stored, n_trained=counting.n_trained)


class _CountingTrainer:
    """Calls a trainer, and notes for each run whether it was in the store before."""

    def __init__(self, trainer: Trainer, store: Store) -> None:
        self.trainer, self.store = trainer, store
        self.was_stored: dict[str, bool] = {}

    def __call__(self, runs: Sequence[Run]) -> Sequence[Record]:
        new = [run.key for run in runs if run.key not in self.was_stored]
        stored = self.store.stored_keys(new)
        self.was_stored.update({key: key in stored for key in new})
        return self.trainer(runs)

    @property
    def n_stored(self) -> int:
        return sum(self.was_stored.values())

    @property
    def n_trained(self) -> int:
        return len(self.was_stored) - self.n_stored


def read(
    spec: str | Path | Mapping[str, Any] | Specification, families: Sequence[Factory] = ()
) -> Specification:
    """Read and check a specification. Register the functions `families` for this process."""
    for factory in families:
        add_family(factory)
    if isinstance(spec, Specification):
        return spec
    if isinstance(spec, str | Path):
        return read_specification(spec)
    if not isinstance(spec, Mapping):
        raise UsageError(
            f"measure takes a TOML file or its content as a dictionary; got a value of type {type(spec).__name__}.",
            spec=type(spec).__name__,
        )
    table = dict(spec)
    if isinstance(table.get("model"), Mapping) and "family" in table["model"]:
        table["model"] = {**table["model"], "family": _named(table["model"]["family"])}
    return specification_of(table, Path())


def load_factory(text: str) -> Factory:
    """Load the function FILE.py:FUNCTION. This executes the file, so call it only for a file that the user named."""
    path, colon, name = text.rpartition(":")
    if not colon or not path.endswith(".py") or not Path(path).is_file():
        raise UsageError(
            f"--family takes FILE.py:FUNCTION, with a file that exists; got {text!r}.", family=text
        )
    stem = Path(path).stem
    spec = importlib.util.spec_from_file_location(stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(stem, module)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise UsageError(f"{path} cannot be run: {type(error).__name__}: {error}", path=path) from error
    factory = getattr(module, name, None)
    if not callable(factory):
        raise UsageError(f"{path} has no function `{name}`.", path=path, name=name)
    found: Factory = factory
    return found


def _named(family: Any) -> Any:
    if isinstance(family, list):
        return [_named(each) for each in family]
    return add_family(family).name if callable(family) else family


def _is_stacked(point: Mapping[str, Mapping[str, Any]]) -> bool:
    return family_of(point["model"]["family"]).is_stacked


@contextmanager
def _opened(store: str | Path | None) -> Iterator[Store]:
    """Open the store at the path `store`, or a temporary store if it is None."""
    if store is not None:
        with Store(Path(store)) as opened:
            yield opened
        return
    with TemporaryDirectory(prefix="byheart-") as folder, Store(Path(folder) / "runs.sqlite") as opened:
        yield opened
