"""The HTTP API that the page uses.

Some endpoints return the document that a command prints with --json; their descriptions say so.
"""

from __future__ import annotations

import json
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import FileResponse, StreamingResponse

from byheart.errors import DoesNotHold, UsageError
from byheart.storage.target import LEFT_BY_SYSTEMS
from byheart.web.folders import DATA_MARK, Folders
from byheart.web.jobs import ENDED, JobQueue
from byheart.web.limits import Limits
from byheart.web.processes import Questions
from byheart.web.requests import (
    JOBS,
    AskFile,
    Break,
    Compile,
    Examine,
    Export,
    Forget,
    JobRequest,
    Question,
    TraceRequest,
    asked,
    body_schema,
    json_body,
    read_body,
    read_job,
)

Document = dict[str, Any]
JsonBody = Annotated[Any, Depends(json_body)]
MOST_RUNS = 500
MOST_CURVES = 24
CERTIFICATE_BYTES = 1 << 22
SHOWN_LIMITS = ("upload_bytes", "n_running", "n_waiting", "job_seconds")


def make_router(
    folders: Folders, jobs: JobQueue, questions: Questions, limits: Limits, version: str
) -> APIRouter:
    """Return the router with every endpoint under /api."""
    api = APIRouter(prefix="/api")
    api.include_router(_server_router(folders, limits, version))
    api.include_router(_data_router(folders, limits))
    api.include_router(_jobs_router(folders, jobs, limits))
    api.include_router(_models_router(folders, questions))
    api.include_router(_bounds_router(questions))
    api.include_router(_figures_router(folders))
    api.include_router(_runs_router(folders, questions))
    return api


def _server_router(folders: Folders, limits: Limits, version: str) -> APIRouter:
    router = APIRouter(tags=["server"])

    @router.get("/state")
    def state() -> Document:
        """Return the version, the limits, whether models are kept when the server ends, whether there is a store of training
        runs, and the number of figures.
        """
        return {
            "schema": 1,
            "version": version,
            "keeps_models": folders.keeps_models,
            "has_store": folders.store is not None,
            "n_figures": len(folders.list_figures()),
            "limits": {name: getattr(limits, name) for name in SHOWN_LIMITS},
        }

    return router


def _data_router(folders: Folders, limits: Limits) -> APIRouter:
    router = APIRouter(tags=["data"])

    @router.get("/data")
    def list_data() -> Document:
        """List the data files that can be compiled: bundled examples and uploads."""
        return {"schema": 1, "data": folders.list_data()}

    @router.post("/data", status_code=201)
    async def upload(request: Request, name: Annotated[str, Query(max_length=110)]) -> Document:
        """Store the body of the request as a data file. The suffix of its name selects the reader."""
        return await folders.keep_upload(name, request.stream(), limits)

    return router


def _jobs_router(folders: Folders, jobs: JobQueue, limits: Limits) -> APIRouter:
    router = APIRouter(tags=["jobs"])

    @router.post("/jobs", status_code=201, openapi_extra=body_schema(*JOBS.values()))
    def start_job(body: JsonBody) -> Document:
        """Queue a job, which runs in a worker process. To see its progress, request the job by its id."""
        request = read_job(body)
        task, title, arguments = _task_of(request, folders, jobs, limits)
        return jobs.add(task, title, arguments, asked(request)).to_json()

    @router.get("/jobs")
    def list_jobs() -> Document:
        """List all stored jobs, the newest first, without their results."""
        return {"schema": 1, "jobs": [job.to_json(with_result=False) for job in jobs.all()]}

    @router.get("/jobs/{job_id}")
    def get_job(job_id: str) -> Document:
        """Return one job: its state, its progress, and its result or error."""
        return jobs.get(job_id).to_json()

    @router.delete("/jobs/{job_id}")
    def cancel_job(job_id: str) -> Document:
        """Cancel a job. A waiting job leaves the queue; if the job is running, its worker process is ended at once."""
        return jobs.cancel(job_id).to_json()

    return router


def _task_of(
    request: JobRequest, folders: Folders, jobs: JobQueue, limits: Limits
) -> tuple[str, str, Document]:
    """Return the task that does a job, the title of the job, and the arguments of the task."""
    if isinstance(request, Examine):
        path = folders.data_path(request.data)
        return "examine", f"Examine {path.name}", {"path": str(path), "reading": request.reading()}
    if isinstance(request, Compile):
        path = folders.data_path(request.data)
        return "compile", f"Compile {path.name}", _compile_arguments(request, path, folders, jobs, limits)
    if isinstance(request, AskFile):
        path = folders.data_path(request.data)
        arguments = {"model": str(folders.model_path(request.model)), "path": str(path)}
        return "predict_file", f"Ask {path.name}", arguments
    if isinstance(request, Export):
        target = folders.new_export(request.model, request.format)
        arguments = {"model": str(folders.model_path(request.model)), "output": str(target)}
        return "export", f"Export {request.model} to {request.format}", {**arguments, "to": request.format}
    arguments = {"model": str(folders.model_path(request.model)), "data": _data_for(request, folders)}
    if isinstance(request, Break):
        changes = [asdict(edit) for edit in request.edits]
        return "break", f"Break {request.model}", {**arguments, "changes": changes}
    return "forget", f"Forget a fact of {request.model}", {**arguments, "text": request.text}


def _compile_arguments(
    request: Compile, path: Path, folders: Folders, jobs: JobQueue, limits: Limits
) -> Document:
    compiling = (job for job in jobs.all() if job.task == "compile" and job.state not in ENDED)
    under_way = [job.arguments["model"] for job in compiling]
    model = folders.new_model(request.name or path.stem, limits, under_way)
    kept = model.with_name(f"{model.name}{DATA_MARK}{path.suffix}")
    return {
        "path": str(path),
        "model": str(model),
        "keep_data": str(kept),
        "reading": request.reading(),
        "options": request.options(),
    }


def _data_for(request: Break | Forget, folders: Folders) -> str:
    if request.data is not None:
        return str(folders.data_path(request.data))
    kept = folders.data_of(request.model)
    if kept is None:
        raise UsageError(
            f"the data file of the model {request.model!r} is missing.\n"
            "  Upload the file that the model was compiled from, and choose it.",
            model=request.model,
        )
    return str(kept)


def _models_router(folders: Folders, questions: Questions) -> APIRouter:
    router = APIRouter(tags=["models"])

    @router.get("/models")
    def list_models() -> Document:
        """List the models in the folder, the newest first, with a summary of their certificates."""
        found = [{"name": name, **_summary(folders.models / name)} for name in folders.list_models()]
        return {"schema": 1, "models": found}

    def ask(task: str, name: str, **arguments: Any) -> Document:
        return questions.ask(task, {"model": str(folders.model_path(name)), **arguments})

    @router.get("/models/{name}")
    def inspect(name: str) -> Document:
        """Return the document of `byheart inspect --json`."""
        return ask("inspect", name)

    @router.get("/models/{name}/download")
    def download(name: str) -> StreamingResponse:
        """Return the model folder as a zip file."""
        path = folders.model_path(name)
        headers = {"content-disposition": f'attachment; filename="{name}.zip"'}
        return StreamingResponse(
            _zip(path, _plain_files(path)), media_type="application/zip", headers=headers
        )

    @router.get("/exports/{name}")
    def download_export(name: str) -> FileResponse:
        """Return a file that an export job wrote: a model in another format."""
        return FileResponse(folders.export_path(name), media_type="application/octet-stream", filename=name)

    @router.post("/models/{name}/predict", openapi_extra=body_schema(Question))
    def predict(name: str, body: JsonBody) -> Document:
        """Return the document of `byheart predict --json`, in which `null` means "unknown"."""
        return ask("predict", name, texts=read_body(body, Question).texts)

    @router.get("/models/{name}/examples")
    def examples(name: str) -> Document:
        """Return the first few questions in the data file of the model; none if the file was not kept or is not a text
        file.
        """
        return ask("examples", name, data=kept_data(name))

    @router.post("/models/{name}/trace", openapi_extra=body_schema(TraceRequest))
    def trace(name: str, body: JsonBody) -> Document:
        """Return what the network computes on a question: tokens, stages, and the residual stream after every layer."""
        return ask("trace", name, text=read_body(body, TraceRequest).text)

    @router.post("/models/{name}/fact", openapi_extra=body_schema(TraceRequest))
    def fact(name: str, body: JsonBody) -> Document:
        """Return the document of `byheart inspect --fact --json`, and the bits of every weight that it lists."""
        return ask("fact", name, text=read_body(body, TraceRequest).text, data=kept_data(name))

    @router.get("/models/{name}/weights")
    def weights(name: str) -> Document:
        """List every weight matrix with its name and shape."""
        return ask("weights", name)

    @router.get("/models/{name}/weights/{matrix}")
    def matrix(name: str, matrix: str, row: int = 0, column: int = 0) -> Document:
        """Return the block of a matrix that contains the entry at `row` and `column`: at most 64 rows and 64 columns."""
        return ask("matrix", name, matrix=matrix, row=row, column=column)

    @router.get("/models/{name}/weights/{matrix}/{row}/{column}")
    def weight(name: str, matrix: str, row: int, column: int) -> Document:
        """Return one weight with its bits."""
        return ask("weight", name, matrix=matrix, row=row, column=column)

    def kept_data(name: str) -> str | None:
        kept = folders.data_of(name)
        return None if kept is None else str(kept)

    return router


def _bounds_router(questions: Questions) -> APIRouter:
    router = APIRouter(tags=["bounds"])

    @router.get("/plan")
    def plan(
        facts: Annotated[int, Query(ge=1, le=10**15)] = 10**6,
        value_bits: Annotated[int, Query(ge=1, le=64)] = 10,
        vocab: Annotated[int, Query(ge=1, le=10**9)] = 1000,
        seq_len: Annotated[int, Query(ge=1, le=10**4)] = 8,
    ) -> Document:
        """Return the document of `byheart plan --json`, with the curves that the page draws: sizes by number of facts."""
        return questions.ask(
            "plan", {"facts": facts, "value_bits": value_bits, "vocab": vocab, "seq_len": seq_len}
        )

    @router.post("/capacity", openapi_extra=body_schema())
    def capacity(config: JsonBody) -> Document:
        """Return the document of `byheart bounds --config --json` for the `config.json` in the body."""
        return questions.ask("capacity", {"config": config})

    return router


def _figures_router(folders: Folders) -> APIRouter:
    router = APIRouter(tags=["figures"])

    @router.get("/figures")
    def list_figures() -> Document:
        """List every stored reproduction of a paper's figure, with its verdict."""
        wanted = ("figure", "paper", "title", "claim", "scale")
        found = []
        for name in folders.list_figures():
            record = _figure(folders, name)
            if record is not None:
                summary = {key: record.get(key) for key in wanted}
                found.append({"name": name, **summary, "outcome": record["verdict"]["outcome"]})
        return {"schema": 1, "figures": found}

    @router.get("/figures/{name}")
    def figure(name: str) -> Document:
        """Return the record of one reproduced figure: all its numbers, and the verdict on the paper's claim."""
        record = _figure(folders, name)
        if record is None:
            raise DoesNotHold(f"{name}.json is not a record of a figure.", name=name)
        return record

    return router


def _runs_router(folders: Folders, questions: Questions) -> APIRouter:
    router = APIRouter(tags=["figures"])

    @router.get("/runs")
    def runs(where: Annotated[list[str] | None, Query(max_length=20)] = None) -> Document:
        """List the training runs that meet all conditions, such as `sizes.n_heads>=4`: the newest 500, the newest first."""
        return questions.ask("runs", {"store": store(), "where": where or [], "most": MOST_RUNS})

    @router.get("/runs/curves")
    def curves(key: Annotated[list[str], Query(max_length=MOST_CURVES)]) -> Document:
        """Return the training curves of the runs with these keys."""
        return questions.ask("curves", {"store": store(), "keys": key})

    def store() -> str:
        if folders.store is None:
            raise UsageError(
                "this page has no store of runs.\n  Start `byheart serve` with --store runs.sqlite."
            )
        return str(folders.store)

    return router


def _summary(model: Path) -> Document:
    """Summarise the certificate of a model without loading the model. The result is empty if the certificate cannot be read."""
    path = model / "certificate.json"
    names = (
        "holds",
        "fitted",
        "columns",
        "rows_left_out",
        "checked",
        "wrong",
        "method",
        "size",
        "dataset",
    )
    try:
        if path.stat().st_size > CERTIFICATE_BYTES:
            return {}
        document = json.loads(path.read_bytes())
        found = {name: document.get(name) for name in names}
        # certificates of older versions say "holds" even if the model only met the limit on the total loss
        return {**found, "holds": bool(found["holds"]) and not found["wrong"]}
    except (OSError, ValueError, AttributeError, RecursionError):
        return {}


def _figure(folders: Folders, name: str) -> Document | None:
    """Return the record of a figure, or None if the file does not hold one."""
    try:
        record = json.loads(folders.figure_path(name).read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    is_record = isinstance(record, dict) and "panels" in record and isinstance(record.get("verdict"), dict)
    return record if is_record and "outcome" in record["verdict"] else None


def _plain_files(folder: Path) -> list[Path]:
    """Return the files of a model. A link is refused, because it could point to any file of this machine."""
    found = sorted(path for path in folder.iterdir() if path.name not in LEFT_BY_SYSTEMS)
    others = [path.name for path in found if path.is_symlink() or not path.is_file()]
    if others:
        raise DoesNotHold(
            f"the folder of this model holds {others[0]!r}, which is not a plain file.\n  Remove it and download again.",
            name=others[0],
        )
    return found


def _zip(folder: Path, files: list[Path]) -> Iterator[bytes]:
    with tempfile.TemporaryFile() as stream:
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
            for path in files:
                archive.write(path, f"{folder.name}/{path.name}")
        stream.seek(0)
        while chunk := stream.read(1 << 16):
            yield chunk
