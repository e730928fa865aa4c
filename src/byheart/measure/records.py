"""A run and its record: the full configuration of one trained model, and its outcome. Both are immutable."""

from __future__ import annotations

import hashlib
import io
import json
import math
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch

from byheart.measure.families import ModelConfig, complete_model, family_of
from byheart.measure.recipe import PassRule, Training

# increased whenever the same configuration would train differently, so that old records are not reused
ENGINE = 1

Status = Literal["done", "passed", "diverged"]


@dataclass(frozen=True)
class Run:
    """One model to train: the model, the data, the training options and the seed."""

    model: ModelConfig
    data: Mapping[str, Any]  # the description from which `sources.training_set_of` makes the training set
    training: Training
    seed: int

    def __post_init__(self) -> None:
        """Fill in defaults, so that equal runs have equal keys."""
        object.__setattr__(self, "model", complete_model(family_of(self.model.family), self.model))

    @cached_property
    def config(self) -> dict[str, Any]:
        """Return the configuration as JSON values."""
        return {
            "engine": ENGINE,
            "family": self.model.family,
            "sizes": dict(self.model.sizes),
            "options": dict(self.model.options),
            "data": dict(self.data),
            "training": asdict(self.training),
            "seed": self.seed,
        }

    @cached_property
    def key(self) -> str:
        """The text that identifies the run in every store."""
        return key_of(self.config)

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Run:
        """Return the run that a configuration describes."""
        training = dict(config["training"])
        if training.get("stop"):
            training["stop"] = PassRule(**training["stop"])
        model = ModelConfig(config["family"], config["sizes"], config["options"])
        return cls(model, config["data"], Training(**training), config["seed"])


@dataclass(frozen=True, eq=False)
class Record:
    """The result of one run, which never changes after it is stored."""

    key: str
    config: dict[str, Any]
    status: Status
    steps: int
    measured: dict[str, float]
    n_parameters: int
    n_samples: float
    seconds: float
    device: str
    versions: dict[str, str]
    created: str  # UTC, ISO 8601
    curve_steps: np.ndarray = field(repr=False)
    curve: dict[str, np.ndarray] = field(repr=False)


def key_of(config: Mapping[str, Any]) -> str:
    """Return the key of a run: the SHA-256 of its configuration without file paths.

    A data file is represented by the digest of its content, because its path differs between machines.
    """
    data = {name: value for name, value in config["data"].items() if name != "path"}
    return hashlib.sha256(canonical({**config, "data": data}).encode()).hexdigest()


def versions() -> dict[str, str]:
    """Return the versions of the packages that the numbers depend on."""
    return {"python": platform.python_version(), "torch": torch.__version__, "numpy": np.__version__}


def canonical(value: object) -> str:
    """Return JSON with sorted keys and without spaces. NaN and infinity become null."""
    return json.dumps(finite(value), sort_keys=True, separators=(",", ":"), allow_nan=False)


def finite(value: Any) -> Any:
    """Convert a value for JSON: numbers that are not finite become null, and tuples become lists."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(name): finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value


def pack_curve(steps: np.ndarray, curve: Mapping[str, np.ndarray]) -> bytes:
    """Return a training curve as compressed bytes, with values in float32."""
    buffer = io.BytesIO()
    arrays = {f"curve_{name}": values.astype(np.float32) for name, values in curve.items()}
    np.savez_compressed(buffer, steps=steps, **arrays)  # type: ignore[arg-type]  # an array is taken for the flag allow_pickle
    return buffer.getvalue()
