"""`byheart`: the group of commands, and the one place where an exception becomes an exit status."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from typing import TextIO

import click

from byheart.cli.options import set_variable
from byheart.cli.output import echo_error, printable
from byheart.errors import UNWRITABLE, ByheartError, ExitStatus, UsageError, as_byheart_error, did_you_mean
from byheart.process.interrupt import interruptible
from byheart.process.memory_limit import VARIABLE, memory_limit

INTERRUPTED = 130  # what shells call a program that ended by Ctrl-C
STOPPED = "interrupted; nothing half-written was left behind."
READER_LEFT = 141  # and one that wrote to a closed pipe

COMMANDS = {
    "compile": "Compile a data file into a model folder, and verify every sample.",
    "verify": "Check every sample of a data file on a saved model.",
    "sign": "Sign the certificate of a saved model, so that others can tell who vouches for it.",
    "predict": "Ask a saved model.",
    "recite": "Continue a text that a saved model has by heart.",
    "export": "Write a saved model in other formats (GGUF, ONNX, TransformerLens).",
    "inspect": "Show what a saved model is made of and what was checked.",
    "forget": "Compile a Llama again without some facts, and show which weights differ.",
    "graft": "Put facts into an existing checkpoint, exactly, and leave everything else as it was.",
    "detect": "List the contexts that a grafted checkpoint stores, from its weights alone.",
    "compare": "Build every construction on one data file, and show their sizes side by side.",
    "bounds": "Show what theory says a data set needs and what suffices.",
    "plan": "Show how large a model for a given number of facts would be.",
    "golden": "Make checkpoints whose right answers are known, and check inference engines with them.",
    "shatter": "Realise every labelling of a few inputs by one architecture, and verify each.",
    "measure": "Train the models of a specification, and keep every run.",
    "runs": "List, filter, export and compare the runs of a store.",
    "reproduce": "Make a figure of the papers from fresh runs, with a verdict.",
    "report": "Gather stored figures into one page.",
    "methods": "List the constructions: what each takes and where it comes from.",
    "serve": "Open a local page to compile, ask, look inside and break models.",
    "theorems": "List every statement of the papers with its functions and tests.",
    "version": "Show the versions of byheart, Python and the packages it uses.",
}
EXIT_STATUSES = (
    "Exit status: 0 it holds; 1 crash; 2 wrong usage; 3 checked and false; 4 data outside the assumptions; "
    "5 stopped early; 130 interrupted by Ctrl-C."
)
STOPS_BY_ITSELF = ("measure", "reproduce", "serve")  # they end what is at hand first


class LazyGroup(click.Group):
    """Commands whose modules are imported when they run, so that `byheart --help` is quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = import_module(f"byheart.cli.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command, or an error that suggests the most similar one."""
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            ctx.fail(f"there is no command {args[0]!r}.{did_you_mean(args[0], COMMANDS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    cls=LazyGroup, invoke_without_command=True, context_settings={"show_default": True}, epilog=EXIT_STATUSES
)
@click.option(
    "--memory-limit",
    metavar="SIZE",
    expose_value=False,
    callback=lambda ctx, _, size: _limit_memory(ctx, size),
    help=f"Memory that reading one input may take, such as 16G (otherwise {VARIABLE}, or 4G).",
)
@click.version_option(package_name="byheart")
@click.pass_context
def group(ctx: click.Context) -> None:
    """Compile a data set into the weights of a Transformer that provably memorises it.

    Results go to standard output, progress to standard error. With --json a command prints one document and
    nothing else, with -q no progress is shown, and with --debug a failure shows where it happened.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def _limit_memory(ctx: click.Context, size: str | None) -> None:
    """Set the limit for this command line."""
    if size is None:
        return
    memory_limit(size)  # refuses anything that is not a size
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = size
    ctx.call_on_close(lambda: set_variable(VARIABLE, before))


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit status. Any failure is explained on standard error."""
    before_texts = list(arguments[: arguments.index("--")]) if "--" in arguments else list(arguments)
    as_json, debug = "--json" in before_texts, "--debug" in before_texts
    try:
        if any("\0" in text for text in arguments):
            raise UsageError(
                "an argument contains the character NUL, which no file, column or option name can have."
            )
        status = group.main(list(arguments), prog_name="byheart", standalone_mode=False)
        sys.stdout.flush()
        return int(status or ExitStatus.HOLDS)
    except (KeyboardInterrupt, click.exceptions.Abort):
        echo_error("Stopped", STOPPED, {}, as_json)
        return INTERRUPTED
    except (BrokenPipeError, SystemExit):
        # The reader of our output, such as `head`, has seen enough. Click makes SystemExit of that, and of nothing else
        # outside its standalone mode.
        _drop_output(sys.__stdout__, sys.__stderr__)
        return READER_LEFT
    except Exception as error:
        if debug:
            click.echo(printable(traceback.format_exc(), keep="\n\t"), err=True)
        known = explain_error(error)
        if isinstance(error, OSError) and error.errno in UNWRITABLE and error.filename is None:
            as_json = False  # it was the output that could not be written
            _drop_output(sys.__stdout__ or sys.stdout)
        if known is not None:
            echo_error(type(known).__name__, str(known), known.facts, as_json)
            return int(known.exit_status)
        hint = (
            "" if debug else "\n  This is a mistake in byheart: rerun with --debug to see where it happened."
        )
        echo_error(type(error).__name__, f"{error}{hint}", {}, as_json)
        return ExitStatus.CRASH


def _drop_output(*streams: TextIO | None) -> None:
    """Discard output that is still buffered, so that closing the streams at the end does not fail again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in streams:
        if stream is not None and not stream.closed:
            os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def explain_error(error: Exception) -> ByheartError | None:
    """The byheart error for an error that the user can fix, including errors of the command-line parser; otherwise None."""
    if isinstance(error, click.ClickException):
        context = getattr(error, "ctx", None)
        command = context.command_path if context is not None else "byheart"
        return UsageError(f"{error.format_message()}\n  See `{command} --help`.")
    return as_byheart_error(error)


def main() -> None:
    if sys.stdout is None:  # closed by the caller: a result that nobody can get is an error
        sys.stdout = _open_stream(1, os.O_RDONLY)
    if sys.stderr is None:  # progress and messages that nobody wants to see
        sys.stderr = _open_stream(2, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal without Unicode shows escapes instead of failing
            stream.reconfigure(errors="backslashreplace")
    arguments = sys.argv[1:]
    if arguments and arguments[0] in STOPS_BY_ITSELF:
        sys.exit(run(arguments))
    with interruptible(_end_now):
        status = run(arguments)
    sys.exit(status)


def _open_stream(number: int, mode: int) -> TextIO:
    """Replace a closed standard stream; otherwise the next opened file would get its file number."""
    nowhere = os.open(os.devnull, mode)
    if nowhere != number:
        os.dup2(nowhere, number)
        os.close(nowhere)
    return os.fdopen(number, "w", encoding="utf-8")


def _end_now() -> None:
    """End the process while compiled code still runs: no exception can be raised there."""
    os.write(2, f"Stopped: {STOPPED}\n".encode())
    os._exit(INTERRUPTED)
