"""The server of the API and of the page's files. Every request first passes `Guard`, which refuses unsafe requests."""

from __future__ import annotations

import secrets
import socket
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import uvicorn
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.staticfiles import StaticFiles

import byheart
from byheart.errors import ByheartError, DataError, DoesNotHold, UsageError
from byheart.web.api import make_router
from byheart.web.connections import MOST_WAITING, TimedConnection
from byheart.web.folders import Folders, TooLarge, UnknownName
from byheart.web.guard import Guard, is_loopback
from byheart.web.janitor import Janitor
from byheart.web.jobs import JobQueue, TooManyJobs, UnknownJob
from byheart.web.limits import Limits
from byheart.web.processes import Questions, Refused, WorkerFailed
from byheart.web.requests import describe_bodies

HERE = Path(__file__).parent
STATIC, EXAMPLES = HERE / "static", HERE / "examples"
VIEWS = ("compile", "ask", "inside", "break", "fits", "figures", "api")

# The HTTP status of each error; the first match counts. Any other byheart error is a failure of the server.
STATUSES: tuple[tuple[type[ByheartError], int], ...] = (
    (UnknownName, 404),
    (UnknownJob, 404),
    (TooLarge, 413),
    (TooManyJobs, 429),
    (WorkerFailed, 503),
    (UsageError, 400),
    (DataError, 422),
    (DoesNotHold, 409),
)
EXIT_STATUSES = {1: 500, 2: 400, 3: 409, 4: 422}


@dataclass(frozen=True)
class Settings:
    """The settings of the server: its address, the folders to show, and the command line that starts a worker."""

    worker: Sequence[str]
    host: str = "127.0.0.1"
    port: int = 8000
    models: Path | None = None
    store: Path | None = None
    figures: Path | None = None
    limits: Limits = field(default_factory=Limits)

    @property
    def address(self) -> str:
        """The address to open in a browser, without the access token that `make_token` returns."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{name}:{self.port}/"


def free_port(host: str, port: int) -> int:
    """Return `port` if it is free. If `port` is 0, return any free port.

    Raise `UsageError` if the port is taken or the address does not belong to this machine.
    """
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
            return int(probe.getsockname()[1])
    except OSError as error:
        raise UsageError(
            f"the page cannot listen on {host}, port {port}: {error.strerror or error}.\n"
            "  Choose another port with --port, or 0 for any free port.",
            host=host,
            port=port,
        ) from None


def make_token(settings: Settings) -> str | None:
    """Return a new secret token that every request must carry. If only this machine can reach the server, no token is needed;
    return None.
    """
    return None if is_loopback(settings.host) else secrets.token_urlsafe(24)


def make_app(settings: Settings, token: str | None) -> Guard:
    """Return the whole application. This also starts the workers and creates a temporary folder.

    When the application stops, the workers are ended and the folder is removed.
    """
    scratch = Path(tempfile.mkdtemp(prefix="byheart-"))
    folders = _folders(settings, scratch)
    janitor = Janitor(scratch)
    jobs = JobQueue(settings.worker, settings.limits, janitor.watch)
    questions = Questions(settings.worker, settings.limits, janitor.watch)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        try:
            yield
        finally:
            jobs.close()
            questions.close()
            janitor.close()

    app = FastAPI(
        title="byheart",
        version=byheart.__version__,
        summary="Compile a data set into Transformer weights that provably memorise it.",
        lifespan=lifespan,
        # FastAPI's own page of documentation loads scripts from other servers; our page is /api
        docs_url=None,
        redoc_url=None,
    )
    _explain_errors(app)
    app.include_router(make_router(folders, jobs, questions, settings.limits, byheart.__version__))
    for view in VIEWS:
        app.add_api_route(f"/{view}", _page, include_in_schema=False)
    app.mount("/", StaticFiles(directory=STATIC, html=True))
    # FastAPI keeps the result until a route is added
    app.openapi()["components"]["schemas"] |= describe_bodies()
    return Guard(app, settings.limits, settings.host, settings.port, token)


def serve(settings: Settings, token: str | None) -> None:
    """Serve until interrupted."""
    uvicorn.run(
        make_app(settings, token),
        host=settings.host,
        port=settings.port,
        log_level="warning",
        server_header=False,
        timeout_graceful_shutdown=2,
        http=TimedConnection,
        limit_concurrency=2 * MOST_WAITING,
    )


def _page() -> FileResponse:
    """Return the HTML file of the page, which shows the view that the URL names."""
    return FileResponse(STATIC / "index.html")


def _folders(settings: Settings, scratch: Path) -> Folders:
    data, exports, models = scratch / "data", scratch / "exports", settings.models or scratch / "models"
    data.mkdir()
    exports.mkdir()
    try:
        models.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"{models} cannot be a folder of models: {error.strerror}.\n  Choose another folder with --models.",
            path=str(models),
        ) from None
    return Folders(
        data, exports, models, EXAMPLES, settings.figures, settings.store, settings.models is not None
    )


def _explain_errors(app: FastAPI) -> None:
    """Answer every `ByheartError` and every malformed request with the document that the command line prints with --json."""

    @app.exception_handler(ByheartError)
    def ours(_: Request, error: ByheartError) -> Response:
        if isinstance(error, Refused):
            known = EXIT_STATUSES.get(error.document.get("status", 1), 500)
            return _error(known, error.document["error"], str(error), error.document["facts"])
        status = next((code for kind, code in STATUSES if isinstance(error, kind)), 500)
        return _error(status, type(error).__name__, str(error), error.facts)

    @app.exception_handler(RequestValidationError)
    def answer_malformed(_: Request, error: RequestValidationError) -> Response:
        words = [f"{'.'.join(str(part) for part in each['loc'])}: {each['msg']}" for each in error.errors()]
        return _error(400, "UsageError", "\n".join(words), {})

    @app.exception_handler(ClientDisconnect)
    def gone(_: Request, error: ClientDisconnect) -> Response:
        return _error(
            413, "TooLarge", "the request was interrupted, took too long, or is larger than allowed.", {}
        )

    @app.exception_handler(HTTPException)
    def other(_: Request, error: HTTPException) -> Response:
        return _error(
            error.status_code, "UnknownName" if error.status_code == 404 else "UsageError", error.detail, {}
        )


def _error(status: int, name: str, message: str, facts: dict[str, object]) -> JSONResponse:
    plain = {key: str(value) for key, value in facts.items()}
    return JSONResponse({"schema": 1, "error": name, "message": message, "facts": plain}, status_code=status)
