"""A cluster that is started here listens on the loopback address, where no other machine reaches it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LOOPBACK = ("0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000")

# prints the addresses on which this process and everything that it started listen, as Linux writes them
PROGRAM = """
import json, os
from pathlib import Path
from byheart.process.liveness import _descendants
from byheart.process.task_runner import ray_cluster

def sockets(pid):
    for handle in Path(f"/proc/{pid}/fd").iterdir():
        try:
            name = os.readlink(handle)
        except OSError:
            continue
        if name.startswith("socket:["):
            yield name[8:-1]

with ray_cluster("local", "this test") as ray:
    @ray.remote
    def one():
        return 1
    assert ray.get(one.remote()) == 1
    held = {each for pid in (os.getpid(), *_descendants(os.getpid())) for each in sockets(pid)}
    lines = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
    found = [line[1].partition(":")[0] for line in lines if line[3] == "0A" and line[9] in held]
print(json.dumps(found))
"""


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="only Linux tells who listens where")
def test_a_cluster_of_this_machine_listens_on_the_loopback_address() -> None:
    pytest.importorskip("ray", reason="needs byheart[ray]")
    env = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "PYTHONPATH": str(ROOT / "src")}
    env.pop("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", None)
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, check=True
    )
    found = json.loads(ended.stdout.splitlines()[-1])
    assert len(found) >= 4
    assert set(found) <= set(LOOPBACK)
