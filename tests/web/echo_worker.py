"""A worker that speaks the protocol of `byheart.web.worker` and does as it is told: for tests of queues and processes."""

from __future__ import annotations

import json
import os
import sys
import time


def say(document: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


for line in sys.stdin:
    request = json.loads(line)
    task, arguments = request["task"], request["arguments"]
    if task == "sleep":
        for step in range(arguments["steps"]):
            say({"progress": [step, arguments["steps"], "sleep"]})
            time.sleep(arguments["seconds"] / arguments["steps"])
        say({"result": {"slept": arguments["seconds"]}})
    elif task == "die":
        os.kill(os.getpid(), 9)
    elif task == "refuse":
        say(
            {
                "error": {
                    "error": "UsageError",
                    "message": "no.\n  Ask for something else.",
                    "facts": {},
                    "status": 2,
                }
            }
        )
    else:
        say({"result": {"echo": arguments, "pid": os.getpid()}})
