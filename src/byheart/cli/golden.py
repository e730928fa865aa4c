"""`byheart golden`: make checkpoints whose correct answers are known, and check inference engines with them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from byheart.cli.options import PATH, WholeNumber, output_option, output_options
from byheart.cli.output import count, echo_json, printable, say, show_table
from byheart.cli.progress import watch
from byheart.errors import CorruptModel, ExitStatus, MalformedFile, UsageError, amount

if TYPE_CHECKING:
    from byheart.golden.diagnosis import Suspicion
    from byheart.golden.engines.engine import Engine
    from byheart.golden.report import Report
    from byheart.golden.rounding import NumberType

NUMBER_TYPES = ("float32", "float16", "bfloat16")
MOST_SHOWN = 3
OPTIONS_OF = {
    "device": "transformers",
    "attention": "transformers",
    "flash": "llama.cpp",
    "model": "server",
    "timeout": "server",
}
"""The engine to which an option of `golden check` belongs."""


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
    type=click.Choice(NUMBER_TYPES),
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
    folder: Path,
    name: str,
    number_type: str | None,
    device: str,
    attention: str,
    flash: bool,
    model: str | None,
    timeout: float,
    only: tuple[str, ...],
    long_texts: bool,
    junit: Path | None,
    as_json: bool,
) -> int:
    """Run an inference engine on the cases of DIR, and name the likely fault if an answer is wrong.

    A case is skipped if the rounding of the engine's number type might change its answer.
    """
    import torch

    from byheart.golden.case import shapes
    from byheart.golden.report import check

    kind = cast("NumberType | None", number_type)
    known = shapes(folder)
    for each in only:
        if each not in known:
            raise UsageError(
                f"{folder} holds no checkpoint {each!r}.\n  It holds {', '.join(known)}.", name=each
            )
    _refuse_options_of_others(ctx, name)
    engine, only = _engine(name, kind, device, attention, flash, model, timeout, only, list(known))
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
    if kind not in (None, found.number_type):
        # the engine judges itself by a coarser type only with flash attention (see `LlamaCppEngine`)
        click.echo(
            f"Note: llama.cpp with flash attention is checked as {found.number_type}."
            f" Add --no-flash to check it as {kind}.",
            err=True,
        )
    return ExitStatus.HOLDS if found.holds else ExitStatus.FALSE


def _engine(
    name: str,
    number_type: NumberType | None,
    device: str,
    attention: str,
    flash: bool,
    model: str | None,
    timeout: float,
    only: tuple[str, ...],
    known: list[str],
) -> tuple[Engine, tuple[str, ...]]:
    """Return the engine, and the names of the checkpoints to check it on."""
    if name == "transformers":
        from byheart.golden.engines.transformers import TransformersEngine

        return TransformersEngine(number_type or "float32", device, attention), only
    if name == "llama.cpp":
        from byheart.golden.engines.llama_cpp import LlamaCppEngine

        return LlamaCppEngine(number_type or "float16", flash), only
    if name == "onnxruntime":
        from byheart.golden.engines.onnxruntime import OnnxRuntimeEngine

        return OnnxRuntimeEngine(number_type or "float32"), only
    if "://" not in name:
        raise UsageError(
            f"there is no engine {name!r}.\n  Use transformers, llama.cpp, onnxruntime or an address such as http://127.0.0.1:8000.",
            name=name,
        )
    from byheart.golden.engines.server import ServerEngine

    if number_type is None:
        raise UsageError(
            "the number type of the server is unknown.\n  Give it with --number-type: float32, float16 or bfloat16."
        )
    if model is not None and len(only) != 1:
        raise UsageError(
            f"--model {model} names one checkpoint, but --only is given {len(only)} times.\n"
            f"  Give --only once, with the name of the checkpoint that {name} serves as {model}.",
            model=model,
            only=list(only),
        )
    server = ServerEngine(name, number_type, model, timeout)
    if not server.served and model is None:
        raise UsageError(
            f"{name} serves no model.\n  Load a checkpoint of the folder into the server.", url=name
        )
    models = {each: server.model_of(each) for each in only or known}
    served = only or tuple(each for each in known if models[each] is not None)
    if not served:
        raise UsageError(
            f"{name} serves {server.shown}; no checkpoint in the folder has that name.\n"
            "  Give the checkpoint with --only NAME, and its name on the server with --model ID.",
            served=server.served,
        )
    for each in served:
        click.echo(printable(f"The checkpoint {each} is asked as the model {models[each]}."), err=True)
    return server, served


def _refuse_options_of_others(ctx: click.Context, name: str) -> None:
    """Raise `UsageError` for an option that has no effect on this engine."""
    owner = "server" if "://" in name else name
    for option, engine in OPTIONS_OF.items():
        if engine != owner and ctx.get_parameter_source(option) is click.core.ParameterSource.COMMANDLINE:
            what = f"a {engine}" if engine == "server" else engine
            raise UsageError(
                f"--{option} is an option of {what}, but the engine is {name}.\n  Leave it out.",
                option=option,
                engine=name,
            )


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
        say(f"\n{engine}: all {count(len(report.outcomes))} answers are those of the cases in {folder}.")
        return
    say(f"\n{engine}: {count(len(report.wrong))} of {amount(len(report.outcomes), 'answer')} wrong.")
    _show_suspicions(report.suspicions[:MOST_SHOWN])
    for outcome in report.wrong[:MOST_SHOWN]:
        expected, answer = list(outcome.case.expected(outcome.way)), list(outcome.answer)
        what = f"expected {expected}, got {answer}"
        if outcome.wrong_logits:
            what = f"{count(len(outcome.wrong_logits))} wrong"
        say(f"  {outcome.case.name}, {outcome.way}: {what}")


def _show_suspicions(suspicions: Sequence[Suspicion]) -> None:
    """Print the likely faults, or that no known fault gives the answers of the engine, and which is the nearest."""
    from byheart.golden.diagnosis import FORM

    first = suspicions[0]
    if first.kind == FORM:
        say(f"Likely fault: {FORM} ({first.detail}), in {first.likeness:.0%} of the wrong answers")
        return
    if first.likeness == 0:
        say(f"Likely fault: {first.kind} ({first.detail})")
        return
    start = "Likely fault:" if first.is_clear else "No known fault gives these answers. The nearest is"
    for place, suspicion in enumerate(suspicions):
        word = start if place == 0 else "  or"
        say(f"{word} {suspicion.kind} ({suspicion.detail}), likeness {suspicion.likeness:.2f}")
    say("  Likeness 1 means that the wrong answers are exactly those that this fault gives.")
