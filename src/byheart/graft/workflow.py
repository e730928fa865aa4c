"""The functions behind the commands graft, verify, detect and forget, which work on hosts, data files and folders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isinf
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch

from byheart.data.textfile import refuse_spreadsheet
from byheart.errors import CorruptModel, UsageError
from byheart.files.atomic_folder import replaced_folder
from byheart.graft.contents import file_faults
from byheart.graft.contexts import merge_contexts
from byheart.graft.folder import (
    PRECISIONS,
    check_target,
    default_precision,
    read_record,
    update_counts,
    write_graft,
)
from byheart.graft.forgetting import Forgotten, copy_folder, forget_facts
from byheart.graft.grafting import GraftPlan, plan_graft
from byheart.graft.host import MOST, FolderHost, Host, open_host
from byheart.graft.reading import Reading, has_memory_columns, has_untouched_constants
from byheart.graft.recall import (
    TextComparison,
    WrongAnswer,
    compare_text,
    host_network,
    load_network,
    wrong_answers,
)
from byheart.graft.rows import read_rows
from byheart.graft.structure import ContextFault, comparable, context_faults, structural_faults
from byheart.graft.symbolic_run import read_memory
from byheart.graft.texts import FIELD, Asking, Row, encode, facts_of, load_tokenizer
from byheart.process.devices import choose_device
from byheart.process.progress import Progress, silent
from byheart.storage.target import refuse_same_folder

OTHER_TEXT = "It rained all day, and nobody had seen the old bridge for years."
SHOWN = 20
PLAIN = Asking()


def graft(
    host: str | Path,
    data: str | Path,
    output: str | Path | None,
    asking: Asking = PLAIN,
    *,
    precision: str | None = None,
    bit_identical: bool = False,
    progress: Progress = silent,
    **reading: str | None,
) -> GraftPlan:
    """Add the rows of `data` to the checkpoint `host` and write the result to `output`. If `output` is None, write nothing.

    `reading` holds options for reading the data: `input`, `label`, `delimiter` and `encoding`. Raise an error if a row cannot be
    stored exactly; `docs/graft.md` says which rows can.
    """
    if output is not None:
        check_target(Path(output))
    progress(0, 1, "read")
    opened = open_host(host)
    _refuse_graft(opened)
    tokenizer = load_tokenizer(opened.path, progress)
    rows = read_rows(Path(data), tokenizer, asking, **reading)
    progress(0, 1, "plan")
    plan = plan_graft(opened, tokenizer, rows, bit_identical=bit_identical)
    if output is not None:
        chosen = precision or default_precision(opened)
        if chosen not in PRECISIONS:
            raise UsageError(f"a graft must be float32 or bfloat16, not {chosen}.", precision=chosen)
        write_graft(plan, opened, tokenizer, asking, Path(output), chosen, progress)
    return plan


def _refuse_graft(host: Host) -> None:
    """Refuse a host that already stores facts, or that has constant columns like a compiled Llama. Its weights decide, because a
    GGUF file has no record of the graft.
    """
    if has_untouched_constants(host):
        raise UsageError(
            f"{host.path} has constant columns that no layer changes, as in a Llama that byheart compiled. "
            "A graft cannot add facts to it.\n"
            "  Compile it again with all facts, or give a checkpoint that was trained.",
            path=str(host.path),
        )
    if has_memory_columns(host):
        raise UsageError(
            f"{host.path} is a graft already, and a graft cannot be grafted again.\n"
            "  Graft the original host with all facts at once. `byheart graft DIR --remove -o HOST` restores the host.",
            path=str(host.path),
        )


@dataclass(frozen=True)
class AskedFormat:
    """A prompt format, and the number of facts that were asked in it.

    `template` is the text around a key, with {input} for the key. `end` is the token after the answer, or None.
    """

    template: str
    end: str | None
    rows: int


@dataclass(frozen=True)
class GraftCheck:
    """The result of checking a graft, first tensor by tensor against its host, then by running it on the facts.

    contexts               number of contexts that the graft stores
    faults                 differences from what the graft should be, each described by a text
    context_faults         those of the faults that are about stored contexts, as token ids
    wrong_rows             rows of the data that are answered wrongly if nothing comes before the key
    wrong_rows_after_text  rows that are answered wrongly after other text
    wrong_answers          what was answered to these rows
    asked                  the prompt formats of the rows
    asked_by_caller        whether the caller gave these formats; otherwise they come from the record of the graft
    precision              number type of the graft's weights
    host_precision         number type of the host's weights
    compared               whether the tensors were compared with the host's; False if sizes do not fit or no layer stores facts
    least_nats             the smallest lead of a head in the added layers: how much its highest attention score exceeds all its
                           other scores, in nats. Infinite (null in JSON) if no head was added, and 0 if no layer stores facts
    text                   the comparison with the host on ordinary text, if one was asked for
    """

    rows: int
    contexts: int
    faults: tuple[str, ...]
    context_faults: tuple[ContextFault, ...]
    wrong_rows: tuple[int, ...]
    wrong_rows_after_text: tuple[int, ...]
    wrong_answers: tuple[WrongAnswer, ...]
    asked: tuple[AskedFormat, ...]
    asked_by_caller: bool
    precision: str
    host_precision: str
    compared: bool
    least_nats: float
    text: TextComparison | None

    @property
    def holds(self) -> bool:
        beyond = self.text.beyond_noise if self.text is not None else 0
        return not (self.faults or self.wrong_rows or self.wrong_rows_after_text or beyond)

    def to_json(self) -> dict[str, Any]:
        wrong = sorted({*self.wrong_rows, *self.wrong_rows_after_text})
        return {
            "holds": self.holds,
            "checked": self.rows,
            "wrong": len(wrong),
            "n_faults": len(self.faults),
            **asdict(self),
            "least_nats": None if isinf(self.least_nats) else self.least_nats,
            "faults": list(self.faults[:SHOWN]),
            "context_faults": [asdict(fault) for fault in self.context_faults[:SHOWN]],
            "wrong_answers": [asdict(answer) for answer in self.wrong_answers[:SHOWN]],
        }


def verify_graft(
    folder: Path,
    data: Path,
    host: Path,
    columns: Mapping[str, str | None] = MappingProxyType({}),
    *,
    asking: Asking | None = None,
    text: Path | None = None,
    ask: bool = True,
    device: str = "cpu",
    progress: Progress = silent,
) -> GraftCheck:
    """Check that `folder` is `host` with the rows of `data` added and nothing else.

    With `ask`, also run the graft on every fact and, if `text` is given, compare its logits with the host's on this file. If
    `asking` is None, the prompt formats are read from the record of the graft, which is not checked. `columns` holds options for
    reading the data, such as `input` and `label`.
    """
    progress(0, 1, "read")
    choose_device(device)  # refuses a device that is not there, before anything is read
    grafted, opened = FolderHost(folder), open_host(host)
    tokenizer = load_tokenizer(opened.path, progress)
    tokens: list[int] = []
    if ask and text is not None:
        refuse_spreadsheet(text)
        tokens = encode(tokenizer, text.read_text(encoding="utf-8", errors="replace"))
        if len(tokens) < 2:
            raise UsageError(
                f"{text} has fewer than two tokens, so there is nothing to compare.\n  Give a longer text.",
                path=str(text),
            )
    rows = read_rows(data, tokenizer, asking or asking_of(folder), **columns)
    facts = facts_of(tokenizer, rows)
    wanted = merge_contexts(facts)
    memory = read_memory(grafted, progress)
    faults = (
        ["no layer stores facts"] if memory is None else structural_faults(grafted, opened, memory, progress)
    )
    contexts = [] if memory is None else list(context_faults(memory, wanted))
    faults += [fault.in_words(tokenizer.decode) for fault in contexts]
    faults += file_faults(grafted, opened.path, tokenizer)
    wrong: list[WrongAnswer] = []
    wrong_after: list[WrongAnswer] = []
    compared = None
    if ask:
        network = load_network(folder, device)
        wrong = wrong_answers(network, tokenizer, facts, "", progress)
        wrong_after = wrong_answers(network, tokenizer, facts, OTHER_TEXT, progress)
        if text is not None:
            beside = host_network(opened, network.dtype, device)
            wide = beside if network.dtype == torch.float32 else host_network(opened, torch.float32, device)
            compared = compare_text(network, beside, wide, tokens, progress)
    return GraftCheck(
        len({fact.row for fact in facts}),
        0 if memory is None else len(memory.units),
        tuple(faults),
        tuple(contexts),
        tuple(sorted({each.row for each in wrong})),
        tuple(sorted({each.row for each in wrong_after})),
        tuple(sorted((*wrong, *wrong_after), key=lambda each: each.row)),
        asked_formats(tokenizer, rows),
        asking is not None,
        _name_of(grafted.dtype),
        _name_of(opened.dtype),
        memory is not None and comparable(grafted, opened, memory),
        0.0 if memory is None else memory.least_nats,
        compared,
    )


def _name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def asked_formats(tokenizer: Any, rows: Sequence[Row]) -> tuple[AskedFormat, ...]:
    """Return the prompt formats of the rows, in the order in which they occur."""
    return tuple(
        AskedFormat(
            keys.prompt(FIELD), None if keys.end is None else tokenizer.convert_ids_to_tokens(keys.end), n
        )
        for keys, n in Counter(row.keys for row in rows).items()
    )


def asking_of(folder: Path) -> Asking:
    """Return the prompt format of the rows, from the record of a graft."""
    return read_record(folder).child("asking").record(Asking)


def detect(folder: Path, progress: Progress = silent) -> Reading | None:
    """Read the memory (the layers that hold facts) from the weights of a checkpoint, without the record of the graft. Return None
    if the checkpoint is not a graft: it has no memory, or it is built like a compiled Llama (see `is_compiled`).
    """
    opened = FolderHost(folder)
    return read_memory(opened, progress)


def is_compiled(folder: Path) -> bool:
    """Return whether the checkpoint is built like a Llama that byheart compiled: the embedding has constant columns, and no layer
    changes them. Only the weights are examined, so the checkpoint may also come from another program.
    """
    return has_untouched_constants(FolderHost(folder))


def forget(
    folder: Path,
    data: Path,
    keys: Sequence[str],
    output: Path,
    *,
    progress: Progress = silent,
    **columns: str | None,
) -> Forgotten:
    """Copy the graft in `folder` to `output` without the rows of `data` that have these keys."""
    refuse_same_folder(output, folder)
    check_target(output)
    record = read_record(folder)
    checkpoint, tokenizer = FolderHost(folder), load_tokenizer(folder, progress)
    rows = read_rows(data, tokenizer, asking_of(folder), **columns)
    missing = sorted(set(keys) - {row.key for row in rows})
    if missing:
        raise UsageError(
            f"{data} has no key {missing[0]!r}.\n  Write the key exactly as in this file.", keys=missing
        )
    facts = facts_of(tokenizer, rows)
    memory = read_memory(checkpoint, progress)
    if memory is None or memory.faults:
        problem = "no layer stores facts" if memory is None else memory.faults[0]
        raise CorruptModel(
            f"{folder}: facts cannot be removed from this graft: {problem}.\n"
            "  Graft the host again, without these facts.",
            file=str(folder),
            problem=problem,
        )

    going = [fact for fact in facts if rows[fact.row].key in keys]
    kept = [fact for fact in facts if rows[fact.row].key not in keys]
    answers = memory.answers()
    stored = [fact for fact in going if fact.tokens[: fact.n_key] in answers]
    absent = sorted(set(keys) - {rows[fact.row].key for fact in stored})
    if absent:
        raise UsageError(
            f"{folder} stores nothing under the key {absent[0]!r}.\n"
            "  Leave this key out. `byheart detect` lists what is stored.",
            keys=absent,
        )
    n_rows = record.integer("rows", 0, MOST) - len({fact.row for fact in stored})
    n_prompts = record.integer("prompts", 0, MOST) - len(stored)
    with replaced_folder(output, check_target) as fresh:
        copy_folder(folder, fresh)
        done = forget_facts(checkpoint, memory, going, kept, fresh)
        update_counts(fresh, max(n_rows, 0), max(n_prompts, 0), done.n_contexts, done.longest_context)
    return done
