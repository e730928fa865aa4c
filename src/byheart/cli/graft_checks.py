"""The parts of `verify`, `sign`, `forget` and `inspect` that handle grafted checkpoints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isinf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from byheart.cli.fact import MOST_SHARING
from byheart.cli.output import count, echo_json, say, show_pairs
from byheart.cli.progress import watch
from byheart.errors import ExitStatus, UsageError, amount
from byheart.records.reader import LARGEST

if TYPE_CHECKING:
    from byheart.graft.recall import TextComparison
    from byheart.graft.workflow import GraftCheck
    from byheart.records.fields import Fields

COLUMNS = ("input", "label", "delimiter", "encoding")
SHOWN = 20
GROWN = ("layers", "width", "inner", "heads")
"""The names of the sizes of a model that a graft can increase. In the record of the graft, each has two values: the host's, and
the grafted model's.
"""


def verify_graft_folder(
    folder: Path,
    data: Path,
    host: Path | None,
    text: Path | None,
    device: str,
    as_json: bool,
    prompts: Mapping[str, Any],
    reading: Mapping[str, Any],
) -> int:
    """Check that `folder` is `host` with the facts of `data` added and nothing else, and run the model on every fact. Print the
    result and return the exit status.

    `prompts` holds the fields of `Asking`. If none of them is set, the prompt format is read from the record of the graft.
    """
    from byheart.graft.texts import FIELD, Asking
    from byheart.graft.workflow import verify_graft

    if host is None:
        raise UsageError(
            "--text, --chat, --chat-column, --template and --end are options of checking a graft, so they need --host HOST."
        )
    if text is not None and not text.is_file():
        raise UsageError(f"{text} is not a file.", path=str(text))
    columns = {name: reading.get(name) for name in COLUMNS}
    with watch() as progress:
        asking = Asking(**prompts)
        given = None if asking == Asking() else asking
        found = verify_graft(
            folder, data, host, columns, asking=given, text=text, device=device, progress=progress
        )
    if as_json:
        echo_json({"path": str(folder), "host": str(host), **found.to_json()})
        return ExitStatus.HOLDS if found.holds else ExitStatus.FALSE
    verdict = "holds" if found.holds else "does NOT hold"
    unusual = [repr(each.template) for each in found.asked if each.template != FIELD]
    if unusual and not found.asked_by_caller:
        say(
            f"the facts were asked in the prompt format that the graft's own record names: {' and '.join(unusual)}"
        )
    say(f"{folder} is {host} with the {amount(found.rows, 'fact')} of {data} and nothing else: {verdict}\n")
    show_pairs([*_lines_on_weights(found), *_lines_on_text(found.text), *_lines_on_faults(found)])
    return ExitStatus.HOLDS if found.holds else ExitStatus.FALSE


def _lines_on_weights(found: GraftCheck) -> Iterator[tuple[str, str]]:
    """Yield (name, text) lines that say which weights were read and how many facts were asked."""
    read = "every tensor read" if found.compared else "the tensors were not compared with the host's"
    yield (
        "structure",
        f"{amount(found.contexts, 'context')}, {read}; {amount(len(found.faults), 'fault')}",
    )
    if found.compared and isinf(found.least_nats):
        yield "heads", "no head was added: every context is a single token"
    elif found.compared:
        yield (
            "heads",
            f"the token that a head must read has the highest attention score, by at least about {found.least_nats:,.0f} nats",
        )
    yield (
        "asked",
        f"{amount(found.rows, 'fact')}, alone and after other text; {count(len(_wrong_rows(found)))} wrong",
    )
    for line in _formats_in_words(found):
        yield "", line
    yield (
        "not checked",
        "README.md, graft.json, host/, hidden files and files of operating systems; transformers reads none of these",
    )
    if found.precision != found.host_precision:
        yield "number type", f"{found.precision}; the host's is {found.host_precision}"


def _lines_on_text(found: TextComparison | None) -> Iterator[tuple[str, str]]:
    """Yield (name, text) lines that compare the graft with its host on ordinary text, or nothing if they were not compared."""
    if found is None:
        return
    yield (
        "other text",
        f"{count(found.positions)} positions; at {count(found.equal_bits)} of them, all logits equal the host's",
    )
    yield (
        "",
        (
            f"at {count(found.other_argmax)} positions, the most likely token differs from the host's; "
            f"at {count(found.beyond_noise)} of these, the host's own noise does not explain the difference"
        ),
    )
    yield (
        "",
        (
            f"logits differ by up to {found.largest_difference:.2g}; the host's own noise is {found.host_noise:.2g} "
            "(how much its logits change without a cache or in float32)"
        ),
    )


def _lines_on_faults(found: GraftCheck) -> Iterator[tuple[str, str]]:
    """Yield (name, text) lines with the first faults and the first rows that are answered wrongly."""
    for fault in found.faults[:SHOWN]:
        yield "fault", fault
    first_of_row = {each.row: each for each in reversed(found.wrong_answers)}
    for row in _wrong_rows(found)[:SHOWN]:
        wrong = first_of_row[row]
        after = " (after other text)" if wrong.before else ""
        yield (
            "wrong",
            f"row {row + 1:,}: {wrong.prompt!r}{after}: expected {wrong.expected!r}, the graft answers {wrong.said!r}",
        )


def _wrong_rows(found: GraftCheck) -> list[int]:
    return sorted({*found.wrong_rows, *found.wrong_rows_after_text})


def _formats_in_words(found: GraftCheck) -> Iterator[str]:
    """Yield a line for each prompt format: how many facts were asked in it, and who named it."""
    named_by = "named by the caller" if found.asked_by_caller else "named by the graft"
    for each in found.asked:
        end = "" if each.end is None else f", each answer followed by {each.end!r}"
        yield f"{amount(each.rows, 'fact')} as {each.template!r}{end} ({named_by})"


def forget_of_graft(folder: Path, data: Path, keys: Sequence[str], output: Path, as_json: bool) -> None:
    """Copy the grafted checkpoint `folder` to `output`, and set the hidden units that hold the facts with these keys to zero in the
    copy.
    """
    from byheart.graft.workflow import forget

    with watch() as progress:
        done = forget(folder, data, keys, output, progress=progress)
    if as_json:
        document = {"zeroed_units": list(done.zeroed), "rewritten_units": list(done.rewritten)}
        echo_json({"forgotten": list(keys), "path": str(output), **document})
        return
    say(f"{output}: {folder} without {', '.join(keys)}\n")
    show_pairs(
        [
            ("zeroed", f"{amount(len(done.zeroed), 'hidden unit')} (entries of gate, up and down)"),
            (
                "rewritten",
                f"{amount(len(done.rewritten), 'hidden unit')} whose output weights depended on a unit that was set to zero",
            ),
            ("all else", "equal to the last bit"),
        ]
    )


def inspect_graft(folder: Path, facts: Sequence[str], as_json: bool) -> None:
    """Show the hidden units that hold some facts. Without facts, show the record of the graft."""
    from byheart.graft.folder import read_record
    from byheart.graft.locations import steps_of
    from byheart.graft.texts import load_tokenizer

    if not facts:
        record = read_record(folder)
        if as_json:
            echo_json({"path": str(folder), "record": record.values})
        else:
            lines = list(_lines_of_record(record))
            say(
                f"{folder}: a graft, according to its record (`byheart detect` and `byheart verify --host` read the weights)\n"
            )
            show_pairs(lines)
        return
    tokenizer = load_tokenizer(folder)
    with watch() as progress:
        steps = steps_of(folder, facts, progress)
    rows = [
        {
            "layer": step.units[-1].layer,
            "unit": step.units[-1].unit,
            "after": tokenizer.decode(list(step.tokens)),
            "next": tokenizer.decode([step.token]),
            "sharing": [key for key in step.users[-1] if key != step.fact],
            "weights": [
                f"model.layers.{step.units[-1].layer}.mlp.{part}_proj.weight"
                for part in ("gate", "up", "down")
            ],
        }
        for step in sorted(steps, key=lambda step: len(step.tokens))
    ]
    if as_json:
        echo_json({"path": str(folder), "facts": list(facts), "units": rows})
        return
    n_units = len({(row["layer"], row["unit"]) for row in rows})
    say(f"{folder}: {amount(n_units, 'hidden unit')} for {', '.join(map(repr, facts))}\n")
    show_pairs(
        [
            (f"layer {row['layer']}, unit {row['unit']}", f"{row['next']!r} after {row['after']!r}")
            for row in rows
        ]
    )
    sharing = list(dict.fromkeys(key for row in rows for key in row["sharing"]))
    more = f", and {count(len(sharing) - MOST_SHARING)} more" if len(sharing) > MOST_SHARING else ""
    named = ", ".join(map(repr, sharing[:MOST_SHARING]))
    say()
    show_pairs(
        [
            ("shared with", f"{named}{more}" if sharing else "no other fact"),
            ("", "not shown: keys that consist of such a key and the first tokens of its answer"),
        ]
    )


def _lines_of_record(record: Fields) -> Iterator[tuple[str, str]]:
    """Yield (name, text) lines about the record of a graft. Some numbers are only in the document that --json prints."""
    rows, prompts, contexts, longest, host, grafted = (
        record.integer(name)
        for name in (
            "rows",
            "prompts",
            "contexts",
            "longest_context",
            "host_parameters",
            "grafted_parameters",
        )
    )
    yield "number type", record.text("precision")
    yield "facts", f"{count(rows)}, stored after {amount(prompts, 'prompt')}"
    yield "stored", f"{amount(contexts, 'context')} of up to {amount(longest, 'token')}"
    yield "parameters", f"{count(grafted)}, {grafted / max(host, 1):.3f} times the host's {count(host)}"
    for name in GROWN:
        sizes = record.integers(name, 0, LARGEST)
        if len(sizes) != 2:
            raise record.refuse(name, "a list of two whole numbers")
        yield name, f"{count(sizes[0])} in the host, {count(sizes[1])} in the graft"


def refuse_graft(folder: Path) -> None:
    """Raise an error for a graft, which has no certificate. Without this check, the error would say that the graft is not a model
    folder.
    """
    from byheart.storage.target import is_graft

    if is_graft(folder):
        raise UsageError(
            f"{folder} is a graft. Grafts have no certificate, and therefore no signature.\n"
            "  `byheart verify DIR DATA --host HOST` checks its weights instead.",
            path=str(folder),
        )
