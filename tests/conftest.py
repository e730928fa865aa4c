"""What every test shares: shape checks, hypothesis settings, the order of the files and the way to the real data.

The import hook must be in place before byheart is first imported, so this file imports nothing of it.
"""

from __future__ import annotations

import gc
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from jaxtyping import install_import_hook

ROOT = Path(__file__).resolve().parents[1]

# The workers of a parallel run use all cores already. Threads of their own would only wait for each other, and burn time doing so.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# Every call into a module that states the shapes of its arrays has them checked, and its types; mypy alone checks the others.
# byheart.network.exact.limbs holds numba kernels, which a wrapper would keep from compiling, so byheart.network is left out,
# and so is the search for a layout of `retrieval`, which calls small functions of plain numbers a million times.
PACKAGES = ("data", "program", "construct", "bounds", "verify")
UNCHECKED = {"byheart.construct.retrieval.layout", "byheart.construct.retrieval.layout_floors"}


def checked_modules() -> list[str]:
    """The modules whose calls are checked, by name."""
    sources = [
        path for package in PACKAGES for path in (ROOT / "src" / "byheart" / package).rglob("[a-z]*.py")
    ]
    named = {".".join(path.relative_to(ROOT / "src").with_suffix("").parts): path for path in sources}
    return sorted(
        name
        for name, path in named.items()
        if name not in UNCHECKED and "from jaxtyping" in path.read_text("utf-8")
    )


CHECKED_MODULES = checked_modules()

_too_early = [name for name in sys.modules if name in CHECKED_MODULES]
assert not _too_early, f"imported before the shape checks were in place: {_too_early}"
install_import_hook(CHECKED_MODULES, "beartype.beartype")

# Time limits per example would fail on a busy machine. In continuous integration the examples are the same
# on every run, so a failure there is always repeatable; elsewhere new ones are tried.
settings.register_profile("laptop", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, database=None, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "laptop")


# The files that take longest, longest first: started first, they leave short ones to the end, and both workers end together.
LONGEST = (
    "tests/web/test_page_compile.py",
    "tests/web/test_page_explore.py",
    "tests/web/test_page_jobs.py",
    "tests/web/test_page_look.py",
    "tests/web/test_page_attacks.py",
    "tests/web/test_server.py",
    "tests/test_types.py",
    "tests/construct/test_contract.py",
    "tests/attacks/test_fuzz.py",
    "tests/cli/test_llama.py",
    "tests/test_docs.py",
    "tests/golden/test_golden.py",
    "tests/construct/test_own_ground.py",
    "tests/reproduce/test_commands.py",
    "tests/cli/test_failures.py",
    "tests/cli/test_first_hour.py",
    "tests/test_model.py",
    "tests/cli/test_closed_streams.py",
    "tests/cli/test_shards.py",
    "tests/measure/test_stacking.py",
)
SAME_SERVER = LONGEST[:6]  # in one worker, and in this order: the server is started once


def _place(item: pytest.Item) -> int:
    file = item.nodeid.partition("::")[0]
    return LONGEST.index(file) if file in LONGEST else len(LONGEST)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """Give each worker a whole file at a time, in the order of collection; those of one server go together."""
    from xdist.scheduler import LoadFileScheduling

    class WholeFiles(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            return SAME_SERVER[0] if file in SAME_SERVER else file

    config.option.loadscopereorder = False  # that is: by the number of tests, which says little about time
    return WholeFiles(config, log) if config.option.dist == "loadfile" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest files. Skip the tests of a device or a cluster where there is none, and say so."""
    items.sort(key=_place)
    for item in items:
        if item.get_closest_marker("gpu") and not _has_gpu():
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device; runs where torch finds one"))
        if item.get_closest_marker("cluster") and find_spec("ray") is None:
            item.add_marker(pytest.mark.skip(reason="needs Ray; runs where the package ray is installed"))


def pytest_collection_finish() -> None:
    """Keep what is loaded by now, and lives to the end, out of every later search for garbage."""
    gc.collect()
    gc.freeze()


def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


@pytest.fixture(scope="session")
def project_root() -> Path:
    """The root of the checkout."""
    return ROOT


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data that may lie beside the checkout; the test is skipped where it does not."""
    folder = ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("needs the real data: put it at ../shared/data, beside the checkout")
    return folder
