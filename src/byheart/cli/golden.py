"""`byheart golden`: make checkpoints whose correct answers are known, and check inference engines with them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click
from click.core import ParameterSource

from byheart.cli.options import PATH, WholeNumber, output_option, output_options
from byheart.cli.output import count, echo_json, printable, say, show_table
from byheart.cli.progress import watch
from byheart.errors import CorruptModel, ExitStatus, MalformedFile, UsageError, amount
from byheart.records.vocabulary import NumberType

if TYPE_CHECKING:
    from byheart.golden.engines.engine import Engine
    from byheart.golden.report import Report

MOST_SHOWN = 3
OPTIONS_OF = {
    "transformers": ("device", "attention"),
    "llama.cpp": ("flash",),
    "onnxruntime": (),
    "server": ("model", "timeout"),
}
"""For each engine, the options of `golden check` that belong to this engine alone."""


@click.group()
def command() -> None:
    """Make checkpoints whose correct answers are known, and check inference engines with them."""


@command.command("make")
@output_option("DIR", "Folder to write.", required=True)
@click.option("--only", multiple=True, metavar="NAME", help="Make only this checkpoint; may be repeated.")
@click.option("--workers", type=WholeNumber(), help="Number of processes (default: one per core).")
@output_options
def make_family(output: Path, only: tuple[str, ...], workers: int | None, as_json: bool) -> None:
    """Write a family of small checkpoints and their cases: prompts with the answers that a correct engine gives."""
    from byheart.golden.family import make

    with watch() as report:
        cases = make(output, only, n_processes=workers or os.cpu_count() or 1, progress=report)
    n_bytes = sum(path.stat().st_size for path in output.rglob("*") if path.is_file())
    names = sorted({case.checkpoint for case in cases})
    if as_json:
        echo_json({"path": str(output), "checkpoints": names, "cases": len(cases), "bytes": n_bytes})
    else:
        say(
            f"{output}: {amount(len(names), 'checkpoint')}, {amount(len(cases), 'case')}, {count(n_bytes)} bytes"
        )


@command.command("check")
@click.argument("folder", metavar="DIR", type=PATH)
@click.option(
    "--engine",
    "name",
    required=True,
    metavar="ENGINE",
    help="Engine to check: transformers, llama.cpp, onnxruntime, or the address of a server, such as http://127.0.0.1:8000.",
)
@click.option(
    "--number-type",
    type=click.Choice(get_args(NumberType)),
    help="Number type of the engine (default: float32, or float16 for llama.cpp; required for a server).",
)
@click.option("--device", default="cpu", help="For transformers: the device, cpu, cuda or auto.")
@click.option(
    "--attention",
    default="sdpa",
    type=click.Choice(("sdpa", "eager")),
    help="For transformers: the attention implementation.",
)
@click.option("--flash/--no-flash", default=True, help="For llama.cpp: whether to use flash attention.")
@click.option(
    "--model",
    metavar="ID",
    help="For a server: the name under which it serves the checkpoint given with --only.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=120.0,
    metavar="SECONDS",
    help="For a server: the maximum time for one answer.",
)
@click.option("--only", multiple=True, metavar="NAME", help="Check only this checkpoint; may be repeated.")
@click.option("--long", "long_texts", is_flag=True, help="Also run the cases of 4,000 and 32,000 tokens.")
@click.option("--junit", metavar="FILE", type=PATH, help="Also write the results as JUnit XML.")
@output_options
@click.pass_context
def check_engine(
    ctx: click.Context,
    /,
    folder: Path,
    name: str,
    number_type: NumberType | None,
    only: tuple[str, ...],
    long_texts: bool,
    junit: Path | None,
    as_json: bool,
    **options: Any,
) -> int:
    """Run an inference engine on the cases of DIR, and name the likely fault if an answer is wrong.

    A case is skipped if the rounding of the engine's number type might change its answer.
    """
    import torch

    from byheart.golden.case import shapes
    from byheart.golden.engine_check import check
    from byheart.golden.refusals import require_checkpoints

    known = shapes(folder)
    require_checkpoints(only, known, str(folder))
    own = {option: options[option] for option in _own_options(ctx, name)}
    if "://" in name:
        engine, only = _reach_server(name, number_type, only, list(known), **own)
    else:
        engine = ENGINES[name](number_type, **own)
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the models are too small to gain from a second thread
    try:
        with watch() as report:
            found = check(engine, folder, only=only, long_texts=long_texts, progress=report)
    except CorruptModel as error:
        # damaged checkpoints say nothing about the engine, so the command must not end as for a wrong one
        raise MalformedFile(str(error), **error.facts) from error
    finally:
        torch.set_num_threads(n_threads)
    if junit is not None:
        from byheart.files.whole_file import write_whole
        from byheart.golden.junit import junit_xml

        write_whole(junit, lambda file: file.write(junit_xml(found).encode()))
    if as_json:
        echo_json({"path": str(folder), **found.to_json()})
    else:
        _show(found, folder)
    return ExitStatus.HOLDS if found.holds else ExitStatus.FALSE


def _make_transformers(number_type: NumberType | None, device: str, attention: str) -> Engine:
    from byheart.golden.engines.transformers import TransformersEngine

    return TransformersEngine(number_type or "float32", device, attention)


def _make_llama_cpp(number_type: NumberType | None, flash: bool) -> Engine:
    from byheart.golden.engines.llama_cpp import LlamaCppEngine

    engine = LlamaCppEngine(number_type or "float16", flash)
    if engine.note:
        click.echo(f"Note: {engine.note}", err=True)
    return engine


def _make_onnxruntime(number_type: NumberType | None) -> Engine:
    from byheart.golden.engines.onnxruntime import OnnxRuntimeEngine

    return OnnxRuntimeEngine(number_type or "float32")


ENGINES: dict[str, Callable[..., Engine]] = {
    "transformers": _make_transformers,
    "llama.cpp": _make_llama_cpp,
    "onnxruntime": _make_onnxruntime,
}
"""The engines that run on this machine, each with the function that makes it from a number type and the options of the engine."""


def _reach_server(
    url: str,
    number_type: NumberType | None,
    only: tuple[str, ...],
    known: list[str],
    model: str | None,
    timeout: float,
) -> tuple[Engine, tuple[str, ...]]:
    """Return the engine for the server at `url`, and the names of the checkpoints to check.

    These are the names in `only` or, if it is empty, the checkpoints that the server serves.
    """
    from byheart.golden.engines.server import ServerEngine

    if number_type is None:
        raise UsageError(
            "the number type of the server is unknown.\n  Give it with --number-type: float32, float16 or bfloat16."
        )
    if model is not None and len(only) != 1:
        raise UsageError(
            f"--model {model} names one checkpoint, but --only is given {len(only)} times.\n"
            f"  Give --only once, with the name of the checkpoint that {url} serves as {model}.",
            model=model,
            only=list(only),
        )
    server = ServerEngine(url, number_type, model, timeout)
    if not server.served and model is None:
        raise UsageError(
            f"{url} serves no model.\n  Load a checkpoint of the folder into the server.", url=url
        )
    if only:
        models = {each: server.require_model(each) for each in only}
    else:
        models = {each: model for each in known if (model := server.model_of(each)) is not None}
    if not models:
        raise UsageError(
            f"{url} serves {server.shown}; no checkpoint in the folder has that name.\n"
            "  Give the checkpoint with --only NAME, and its name on the server with --model ID.",
            served=server.served,
        )
    for each, asked in models.items():
        click.echo(
            printable(f"Prompts for the checkpoint {each} go to the server's model {asked}."), err=True
        )
    return server, tuple(models)


def _own_options(ctx: click.Context, name: str) -> tuple[str, ...]:
    """Return the names of the options that belong to this engine.

    Raise `UsageError` if the engine is unknown, or if an option of another engine was given.
    """
    owner = "server" if "://" in name else name
    if owner not in OPTIONS_OF:
        raise UsageError(
            f"there is no engine {name!r}.\n  Use transformers, llama.cpp, onnxruntime or an address such as http://127.0.0.1:8000.",
            name=name,
        )
    for engine, options in OPTIONS_OF.items():
        given = [each for each in options if ctx.get_parameter_source(each) is ParameterSource.COMMANDLINE]
        if given and engine != owner:
            raise UsageError(
                f"--{given[0]} is an option of {'a server' if engine == 'server' else engine}, but the engine is {name}.\n"
                "  Leave it out.",
                option=given[0],
                engine=name,
            )
    return OPTIONS_OF[owner]


def _show(report: Report, folder: Path) -> None:
    rows = [
        (checkpoint, way, count(n), count(wrong) if wrong else "-")
        for checkpoint, way, n, wrong in report.rows()
    ]
    show_table(("checkpoint", "way of running", "cases", "wrong"), rows, numbers=(2, 3))
    for reason, n in report.left_out.items():
        say(f"  left out: {amount(n, 'case')}, {reason}")
    engine = f"{report.engine}, {report.number_type}"
    if report.holds:
        say(f"\n{engine}: all {count(len(report.outcomes))} answers agree with the cases in {folder}.")
        return
    say(f"\n{engine}: {count(len(report.wrong))} of {amount(len(report.outcomes), 'answer')} wrong.")
    _show_suspicions(report)
    for outcome in report.wrong[:MOST_SHOWN]:
        expected, answer = list(outcome.case.expected(outcome.way)), list(outcome.answer)
        what = f"expected {expected}, got {answer}"
        if outcome.wrong_logits:
            what = f"{count(len(outcome.wrong_logits))} wrong"
        say(f"  {outcome.case.name}, {outcome.way}: {what}")


def _show_suspicions(report: Report) -> None:
    """Print the likely faults. If no known fault explains the wrong answers, say so and name the most similar known faults."""
    from byheart.golden.diagnosis import headline

    first, *others = headline(report.suspicions)
    say(first)
    for other in others:
        say(f"  {other}")
    if report.suspicions[0].basis in ("known fault", "nearest"):
        say("  Likeness 1 means that the wrong answers are exactly those that this fault gives.")
