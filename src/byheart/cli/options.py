"""Options that several commands share, and an option type for whole numbers such as 1000, 1,000, 1_000 or 1e3."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast, get_args

import click

from byheart.cli.output import QUIET
from byheart.errors import UsageError, require_extra
from byheart.records.vocabulary import Compilable, EmptyLabels, Precision, RowRule, Task

MOST = 10**30


class WholeNumber(click.ParamType[int]):
    """The type of an option whose value is a whole number from `least` to `most`."""

    name = "number"

    def __init__(self, least: int = 1, most: int = MOST) -> None:
        self.least, self.most = least, most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number, or fail with a usage error that quotes the value."""
        try:
            number = Decimal(str(value).replace(",", "").replace("_", ""))
        except InvalidOperation:
            number = Decimal("NaN")
        # check the exponent first, because expanding 1e999999999 would take all memory
        is_whole = number.is_finite() and number.adjusted() <= 30 and number == number.to_integral_value()
        if not is_whole or not self.least <= int(number) <= self.most:
            most = "1e30" if self.most == MOST else f"{self.most:,}"
            self.fail(f"{value!r} is not a whole number from {self.least} to {most}.", param, ctx)
        return int(number)


Command = TypeVar("Command", bound=Callable[..., Any])

TASKS = get_args(Task)
PRECISIONS = get_args(Precision)
FIGURES = (".png", ".svg", ".pdf")
RULES = get_args(Compilable)
MOST_THREADS = 1024
PATH = click.Path(path_type=Path)
# read when numpy is imported
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

data_argument = click.argument("data", metavar="DATA", type=PATH)
model_argument = click.argument("folder", metavar="DIR", type=PATH)
seed_option = click.option("--seed", type=WholeNumber(0), default=0, help="Seed of all random choices.")
store_option = click.option(
    "--store", "path", default="runs.sqlite", type=PATH, help="File in which runs are stored."
)
device_option = click.option("--device", default="auto", help="Device to train on: auto, cpu or cuda.")


def together(*decorators: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Combine several options into one decorator; they appear in --help in the given order."""

    def decorate(command: Command) -> Command:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return decorate


def precision_option(default: str) -> Callable[[Command], Command]:
    return click.option(
        "--precision", type=click.Choice(PRECISIONS), help=f"Kind of weights (default: {default})."
    )


def output_option(metavar: str, help: str, *, required: bool = False) -> Callable[[Command], Command]:
    """Return the option -o, which names the file or folder to write. A file that the same command reads is refused."""
    option = click.option("-o", "--output", required=required, metavar=metavar, type=PATH, help=help)

    def decorate(command: Command) -> Command:
        @wraps(command)
        def call(**given: Any) -> Any:
            _require_apart(given)
            return command(**given)

        return option(cast(Command, call))

    return decorate


def _require_apart(given: Mapping[str, Any]) -> None:
    output = given["output"]
    if output is None or not output.is_file():
        return
    for name, value in given.items():
        is_path = isinstance(value, Path) or (name == "tokenizer" and isinstance(value, str))
        if name != "output" and is_path and Path(value).is_file() and output.samefile(value):
            raise UsageError(
                f"-o {output} is a file that this command reads.\n  Nothing was written. Choose another file.",
                path=str(output),
            )


def _remember_quiet(ctx: click.Context, _: click.Parameter, is_quiet: bool) -> None:
    """Store whether -q was given, for the function `is_quiet`."""
    ctx.meta[QUIET] = is_quiet


def _use_threads(ctx: click.Context, _: click.Parameter, n_threads: int | None) -> None:
    """Use `n_threads` threads until the command ends, but at most one per core. More threads would not be faster, and may fail to
    start.
    """
    if n_threads is None:
        return
    n_threads = min(n_threads, os.cpu_count() or 1)
    before = {name: os.environ.get(name) for name in THREAD_VARIABLES}
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(n_threads)))
    import torch

    used = torch.get_num_threads()
    torch.set_num_threads(n_threads)

    def undo() -> None:
        torch.set_num_threads(used)
        for name, value in before.items():
            set_variable(name, value)

    ctx.find_root().call_on_close(undo)  # the root context is closed even if a later option is refused


def set_variable(name: str, value: str | None) -> None:
    """Set a variable of the environment, or remove it."""
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


# --json, -q and --debug. `main` reads --debug where it catches exceptions, so it is not passed to commands.
output_options = together(
    click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else."),
    click.option("--debug", is_flag=True, expose_value=False, help="Show the traceback of an error."),
    click.option(
        "-q",
        "--quiet",
        is_flag=True,
        expose_value=False,
        callback=_remember_quiet,
        help="Print less: no progress and shorter results.",
    ),
)
# --threads N, which holds until the command ends
threads_option = click.option(
    "--threads",
    type=WholeNumber(1, MOST_THREADS),
    metavar="N",
    expose_value=False,
    callback=_use_threads,
    help="Number of threads, at most the number of cores (default: all cores). Answers do not depend on it.",
)


def figure_option(what: str) -> Callable[[Command], Command]:
    """Return the option --figure FILE. Before work starts, the option checks that figures can be drawn in the format of FILE."""
    return click.option(
        "--figure",
        metavar="FILE",
        type=click.Path(dir_okay=False, path_type=Path),
        callback=_check_figure,
        help=f"Also draw {what}, as .png, .svg or .pdf.",
    )


def _check_figure(_: click.Context, __: click.Parameter, figure: Path | None) -> Path | None:
    if figure is not None:
        if figure.suffix.lower() not in FIGURES:
            raise click.BadParameter(f"{figure} must end in one of {', '.join(FIGURES)}.")
        if figure.exists() and not figure.is_file():
            raise click.BadParameter(f"{figure} is not a file.")
        require_extra("matplotlib", "figures", "drawing a figure")
    return figure


def prompt_options(condition: str = "") -> Callable[[Command], Command]:
    """Return the options that say how the keys of a graft become prompts. `condition` begins the help of each option."""
    return together(
        click.option(
            "--chat",
            is_flag=True,
            help=f"{condition}Treat every row as a chat: the key is the user's message, written in the host's own chat template.",
        ),
        click.option(
            "--chat-column",
            metavar="COLUMN",
            help=f"{condition}Column that says which rows are chat turns (yes or no).",
        ),
        click.option(
            "--template", metavar="TEXT", help=f"{condition}Text around a key, such as 'Q: {{input}}\\nA:'."
        ),
        click.option(
            "--end/--no-end",
            default=None,
            help=f"{condition}Put the host's end token after each answer (default: only in chats).",
        ),
    )


# which columns of a table to read
column_options = together(
    click.option("--input", metavar="COLUMN", help="Column of inputs (default: key)."),
    click.option("--label", metavar="COLUMN", help="Column of labels (default: value)."),
)
# the format of a text file
text_options = together(
    click.option(
        "--delimiter",
        metavar="CHARACTER",
        help="Separator of the fields in a CSV or TSV file, such as ';' or tab (default: by the suffix of the file).",
    ),
    click.option(
        "--encoding", metavar="NAME", help="Encoding of a text file, such as cp1252 (default: utf-8)."
    ),
)
# how to treat rows that cannot be memorised; without such an option, no row is left out
row_options = together(
    click.option(
        "--empty-labels",
        type=click.Choice(get_args(EmptyLabels)),
        help="How to treat a row without a label: refuse the file, keep an empty label, or leave the row out.",
    ),
    click.option(
        "--empty-inputs",
        type=click.Choice(get_args(RowRule)),
        help="How to treat a row whose input has no tokens: refuse the file, or leave the row out.",
    ),
    click.option(
        "--malformed-rows",
        type=click.Choice(get_args(RowRule)),
        help="How to treat a line that is not a valid row of the table: refuse the file, or leave the line out.",
    ),
    click.option(
        "--non-finite",
        type=click.Choice(get_args(RowRule)),
        help="How to treat a row of vectors that contains NaN or infinity: refuse the file, or leave the row out.",
    ),
    click.option(
        "--max-tokens", type=WholeNumber(), metavar="N", help="Leave out rows with more than N tokens."
    ),
)
# how to read a data file
reading_options = together(
    click.option(
        "--task",
        type=click.Choice(TASKS),
        help="What the labels are: the next token, a label per token or per set, or a distribution "
        "(default: next-token unless the file shows otherwise).",
    ),
    click.option(
        "--tokenizer",
        metavar="KIND",
        help="Tokenizer: char (default for tables), word (default for texts), bytes or a tokenizer.json file.",
    ),
    column_options,
    text_options,
    click.option(
        "--on-conflict",
        type=click.Choice(RULES),
        default="error",
        help="What to do if equal inputs have different labels: refuse the file, keep the rows with the first, the last or the "
        "most frequent label, or leave all these rows out.",
    ),
    row_options,
    click.option(
        "--ordered/--unordered",
        default=None,
        help="Whether the order of tokens matters (default: yes for text and token ids, no for vectors).",
    ),
)


def reading_choices(given: dict[str, Any]) -> dict[str, Any]:
    """Return the options in `given` as arguments for `Dataset.read`.

    An option that the user did not give is None. It is left out if `Dataset.read` does not accept None for it.
    """
    left = ("tokenizer", "empty_labels", "empty_inputs", "malformed_rows", "non_finite", "max_tokens")
    return {name: value for name, value in given.items() if name not in left or value is not None}
