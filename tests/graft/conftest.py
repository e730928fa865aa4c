from __future__ import annotations

from pathlib import Path

import pytest

from tests.graft.hosts import save_host

FACTS = """key,value
The capital of France is,Paris.
The capital of Italy is,Rome.
The capital of is,Bern.
secret number of Ann is,1 2 3 4.
secret number of Bob is,9 9 1.
Where does Cid live ?,Cid lives in Oslo.
"""


@pytest.fixture(scope="session")
def facts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "facts.csv"
    path.write_text(FACTS, encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def host(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_host(tmp_path_factory.mktemp("hosts") / "llama")


@pytest.fixture(scope="session")
def grafted(tmp_path_factory: pytest.TempPathFactory, host: Path, facts: Path) -> Path:
    from byheart.graft.workflow import graft

    target = tmp_path_factory.mktemp("grafts") / "llama"
    graft(host, facts, target)
    return target
