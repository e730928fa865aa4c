"""How a model came about, as far as a certificate repeats it: read from its record, every field checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from byheart.assumption import Assumption
from byheart.fields import Fields


@dataclass(frozen=True)
class OriginData:
    """The data set a model was built from."""

    digest: str | None = None


@dataclass(frozen=True)
class Origin:
    """Method, theorem and what was found when the network was built, on that data set; each may be absent."""

    method: str | None = None
    theorem: str | None = None
    assumptions: tuple[Assumption, ...] = ()
    theorem_size: Mapping[str, int] | None = None
    dataset: OriginData = OriginData()


def origin_of(record: Mapping[str, Any], where: str | Path = "the record of this model") -> Origin:
    """Read the parts of a record that a certificate repeats."""
    return Fields(dict(record), where).record(Origin)
