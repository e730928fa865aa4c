"""The worker process of `byheart serve`: the command line, run in this process and listened to."""

from __future__ import annotations

import io
import json
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

from byheart.cli.main import as_byheart_error, run
from byheart.cli.progress import reporting_to
from byheart.errors import ByheartError, ExitStatus
from byheart.process.progress import StageProgress
from byheart.web.worker import serve_requests


class ServerRefusal(ByheartError):
    """What a command refused, in its own words."""


class InProcess:
    """Commands run here, with --json, and their documents."""

    def document(self, arguments: list[str], progress: StageProgress) -> dict[str, Any]:
        """What the command prints. A refusal is raised, named and worded as on the terminal."""
        printed = io.StringIO()
        with redirect_stdout(printed), redirect_stderr(io.StringIO()), reporting_to(progress):
            status = run(arguments)
        document: dict[str, Any] = json.loads(printed.getvalue())
        if "error" not in document:
            return document
        kind = type(str(document["error"]), (ServerRefusal,), {"exit_status": ExitStatus(status)})
        raise kind(str(document["message"]), **document["facts"])

    def explain(self, error: Exception) -> ByheartError | None:
        """The error in our own terms, where it is the user's."""
        return as_byheart_error(error)


if __name__ == "__main__":
    serve_requests(InProcess(), int(sys.argv[1]))
