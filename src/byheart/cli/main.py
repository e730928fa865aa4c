"""`byheart`: the group of commands. Exceptions are turned into exit statuses here and nowhere else."""

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

STOPPED = "interrupted. No incomplete output was left behind."
ENDED = "interrupted. A hidden temporary file or folder may be left beside the output."
READER_LEFT = 141  # the exit status of a program that wrote to a closed pipe

COMMANDS = {
    "compile": "Compile a data file into a model folder, and verify every sample.",
    "verify": "Check every sample of a data file on a saved model.",
    "sign": "Sign the certificate of a saved model, so that others can tell who vouches for it.",
    "predict": "Show the answers of a saved model to your inputs.",
    "recite": "Continue a text that a saved model has memorised.",
    "export": "Write a saved model as GGUF or ONNX, or check that TransformerLens opens it.",
    "inspect": "Show the parts of a saved model, and what was verified about it.",
    "forget": "Compile a Llama again without some facts, and show which weights differ.",
    "graft": "Add facts to an existing checkpoint exactly, and leave everything else as it was.",
    "detect": "List the contexts that a grafted checkpoint stores, from its weights alone.",
    "compare": "Build every construction on one data file, and show their sizes side by side.",
    "bounds": "Show lower and upper bounds on the size of a model for a data set.",
    "plan": "Show how large a model for a given number of facts would be.",
    "golden": "Make checkpoints whose correct answers are known, and check inference engines with them.",
    "shatter": "Build networks of one architecture for every labelling of a few inputs, and verify each.",
    "measure": "Train the models of a specification file, and store every run.",
    "runs": "List, filter, export and compare stored training runs.",
    "reproduce": "Reproduce a figure of the papers from new runs, and judge whether it agrees with the paper.",
    "report": "Collect stored figures on one HTML page.",
    "methods": "List the constructions, each with the data that it accepts and the paper that describes it.",
    "serve": "Open a local web page to compile, query and inspect models and to change weights.",
    "theorems": "List every statement of the papers with its functions and tests.",
    "version": "Show the versions of byheart, of Python and of the packages that weights depend on.",
}
EXIT_STATUSES = (
    "Exit status: 0 success; 1 crash; 2 wrong usage; 3 a check failed; 4 data outside the assumptions; "
    "5 stopped early; 130 interrupted by Ctrl-C."
)
# after Ctrl-C, these commands are not ended by force
STOPS_BY_ITSELF = ("measure", "reproduce", "serve")


class LazyGroup(click.Group):
    """A group that imports the module of a command only when the command runs, so that `byheart --help` is fast."""

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
        """Return the command, or raise an error that suggests the most similar one."""
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
    help=f"Maximum memory for reading one input, such as 16G (default: the environment variable {VARIABLE}, or 4G).",
)
@click.version_option(package_name="byheart")
@click.pass_context
def group(ctx: click.Context) -> None:
    """Compile a data set into the weights of a Transformer that provably memorises it.

    Results go to standard output, progress to standard error. Commands accept --json (print one JSON document and
    nothing else), -q (show no progress) and --debug (show where an error was raised).
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def _limit_memory(ctx: click.Context, size: str | None) -> None:
    """Set the memory limit until this command ends."""
    if size is None:
        return
    memory_limit(size)  # raises an error for anything that is not a size
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = size
    ctx.call_on_close(lambda: set_variable(VARIABLE, before))


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit status. Any failure except a closed pipe is explained on standard error."""
    before_texts = list(arguments[: arguments.index("--")]) if "--" in arguments else list(arguments)
    as_json, debug = "--json" in before_texts, "--debug" in before_texts
    try:
        if any("\0" in text for text in arguments):
            raise UsageError(
                "an argument contains the NUL character, which cannot occur in the name of a file, column or option."
            )
        status = group.main(list(arguments), prog_name="byheart", standalone_mode=False)
        sys.stdout.flush()
        return int(status or ExitStatus.HOLDS)
    except (KeyboardInterrupt, click.exceptions.Abort):
        echo_error("Stopped", STOPPED, {}, as_json)
        return ExitStatus.INTERRUPTED
    except (BrokenPipeError, SystemExit):
        # The program that reads our output, such as `head`, has closed the pipe. Outside its standalone
        # mode, click raises SystemExit for this reason only.
        _drop_output(sys.__stdout__, sys.__stderr__)
        return READER_LEFT
    except Exception as error:
        if debug:
            click.echo(printable(traceback.format_exc(), keep="\n\t"), err=True)
        known = explain_error(error)
        if isinstance(error, OSError) and error.errno in UNWRITABLE and error.filename is None:
            as_json = False  # standard output could not be written
            _drop_output(sys.__stdout__ or sys.stdout)
        if known is not None:
            echo_error(type(known).__name__, str(known), known.facts, as_json)
            return int(known.exit_status)
        hint = (
            ""
            if debug
            else "\n  This is a bug in byheart. Run the command again with --debug to see where it happened."
        )
        echo_error(type(error).__name__, f"{error}{hint}", {}, as_json)
        return ExitStatus.CRASH


def _drop_output(*streams: TextIO | None) -> None:
    """Discard output that is still buffered. Otherwise, closing the streams at exit would try to write it, and fail again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in streams:
        if stream is not None and not stream.closed:
            os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def explain_error(error: Exception) -> ByheartError | None:
    """Convert an error that the user can fix, such as an error of the command-line parser, to a `ByheartError`.

    Otherwise return None.
    """
    if isinstance(error, click.ClickException):
        context = getattr(error, "ctx", None)
        command = context.command_path if context is not None else "byheart"
        return UsageError(f"{error.format_message()}\n  See `{command} --help`.", command=command)
    return as_byheart_error(error)


def main() -> None:
    # the caller closed standard output, so nobody can get the result: that is an error
    if sys.stdout is None:
        sys.stdout = _open_stream(1, os.O_RDONLY)
    if sys.stderr is None:  # the caller closed standard error: drop progress and messages
        sys.stderr = _open_stream(2, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal without Unicode shows escapes instead of failing
            stream.reconfigure(errors="backslashreplace")
    arguments = sys.argv[1:]
    command = next(
        (text for text in arguments if text in COMMANDS), None
    )  # --memory-limit may come before it
    if command in STOPS_BY_ITSELF:
        sys.exit(run(arguments))
    with interruptible(_end_now):
        status = run(arguments)
    sys.exit(status)


def _open_stream(number: int, mode: int) -> TextIO:
    """Replace a closed standard stream. Otherwise the next file to be opened would get the file descriptor of the stream.

    With the mode `os.O_WRONLY`, text that is written to the stream is dropped; with `os.O_RDONLY`, writing fails.
    """
    nowhere = os.open(os.devnull, mode)
    if nowhere != number:
        os.dup2(nowhere, number)
        os.close(nowhere)
    return os.fdopen(number, "w", encoding="utf-8")


def _end_now() -> None:
    """End the process at once, without raising an exception. Compiled code may still be running, and exceptions do not end it."""
    os.write(2, f"Stopped: {ENDED}\n".encode())
    os._exit(ExitStatus.INTERRUPTED)
