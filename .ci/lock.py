"""Print name and version of every package that byheart[dev] needs, as installed here: the content of constraints.txt.

Run by `make lock`. Reads pyproject.toml and the metadata of installed packages; nothing is downloaded.
"""

from __future__ import annotations

import sys
import tomllib
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
HEADER = """\
# Every package that `make setup` installs, by name and version. Written by `make lock`; used with pip install -c.
# torch is pinned for one more reason: a looser request pulls gigabytes of CUDA packages.
"""


def own_requirements(extra: str | None = None) -> list[str]:
    """What pyproject.toml asks for: the dependencies and, where an extra is named, that extra's."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return list(project["optional-dependencies"][extra] if extra else project["dependencies"])


def pins(extra: str = "dev") -> dict[str, str]:
    """The version of every package reached from byheart[extra]."""
    found: dict[str, str] = {}
    seen: set[tuple[str, str]] = set()
    waiting = [(Requirement(text), "") for text in [*own_requirements(), *own_requirements(extra)]]
    while waiting:
        requirement, wanted_by = waiting.pop()
        if requirement.marker and not requirement.marker.evaluate({"extra": wanted_by}):
            continue
        name = canonicalize_name(requirement.name)
        for chosen in {"", *requirement.extras}:
            if (name, chosen) in seen:
                continue
            seen.add((name, chosen))
            if name == "byheart":
                waiting += [(Requirement(text), "") for text in own_requirements(chosen or None)]
                continue
            package = distribution(name)
            found[name] = package.version.split("+")[0]  # 2.13.0+cpu is a build of 2.13.0
            waiting += [(Requirement(text), chosen) for text in package.requires or ()]
    return dict(sorted(found.items()))


if __name__ == "__main__":
    sys.stdout.write(HEADER + "".join(f"{name}=={version}\n" for name, version in pins().items()))
