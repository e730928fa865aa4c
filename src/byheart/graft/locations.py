"""Find the hidden units of a grafted checkpoint that hold facts, and return a `Location` for each.

A unit is identified by its only non-zero weight in `up_proj`. If this weight is set to zero, the unit adds nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from byheart.errors import UsageError
from byheart.graft.host import FolderHost
from byheart.graft.reading import StoredUnit, Tokens, read_memory
from byheart.graft.texts import Asking, encode, load_tokenizer, prompts_of
from byheart.graft.workflow import asking_of
from byheart.inspect.location import Location
from byheart.process.progress import Progress, silent


@dataclass(frozen=True)
class Step:
    """One token of an answer.

    After `tokens`, the graft answers `token`, because `units` are active. The last of `units` is the unit of the longest context.
    """

    fact: str
    position: int
    tokens: Tokens
    token: int
    units: tuple[StoredUnit, ...]


def steps_of(folder: Path, facts: Sequence[str], progress: Progress = silent) -> list[Step]:
    """Return the steps (one for each token of an answer) that the graft in `folder` stores for each fact. A fact is given by its
    key.

    Every prompt format that the record of the graft names is tried. Raise `UsageError` if nothing is stored for a fact.
    """
    tokenizer, asking = load_tokenizer(folder), asking_of(folder)
    kinds = (False, True) if asking.chat_column else (asking.chat,)
    formats = [
        Asking(asking.chat, None, asking.template, asking.end).format_of(tokenizer, chat) for chat in kinds
    ]
    memory = read_memory(FolderHost(folder), progress)
    answers = {} if memory is None else memory.answers()
    units = {} if memory is None else {unit.tokens: unit for unit in memory.units}
    steps: list[Step] = []
    for fact in facts:
        before = len(steps)
        prompts = {tuple(encode(tokenizer, p)) for keys in formats for p in prompts_of(fact, keys)}
        for prompt in sorted(prompts, key=len):
            steps += _chain(answers, units, fact, prompt)
        if len(steps) == before:
            raise UsageError(
                f"{folder} stores no answer for {fact!r}.\n  Use `byheart detect` to list what it stores.",
                facts=[fact],
            )
    return steps


def _chain(
    answers: Mapping[Tokens, int], units: Mapping[Tokens, StoredUnit], fact: str, prompt: Tokens
) -> list[Step]:
    """Return the steps (one for each token) in which the graft continues a prompt."""
    lengths = sorted({len(tokens) for tokens in units})
    steps, said = [], prompt
    while said in answers:
        firing = (said[-n:] for n in lengths if n <= len(said) and said[-n:] in units)
        token = answers[said]
        steps.append(Step(fact, len(said) - len(prompt), said, token, tuple(units[each] for each in firing)))
        said = (*said, token)
    return steps


def locate(folder: str | Path, facts: str | Sequence[str], progress: Progress = silent) -> list[Location]:
    """For each token of each answer, return the weights that hold it, and the other given facts that share these weights. A fact is
    given by its key.

    If one stored context is a suffix of another, the units of both are active, and both are listed. Each unit adds to a code (an
    integer vector) that identifies the next token. The unit of the longer context adds the code of its own next token minus the
    code of the shorter context's next token.
    """
    folder, asked = Path(folder), [facts] if isinstance(facts, str) else list(facts)
    checkpoint, tokenizer = FolderHost(folder), load_tokenizer(folder)
    steps = steps_of(folder, asked, progress)
    users: dict[tuple[int, int], dict[str, None]] = {}
    for step in steps:
        for unit in step.units:
            users.setdefault((unit.layer, unit.unit), {})[step.fact] = None
    weights = {layer: checkpoint.tensor(_up(layer)) for layer in sorted({layer for layer, _ in users})}
    found = []
    for step in steps:
        for unit in step.units:
            row = weights[unit.layer][unit.unit]
            column = int(row.abs().argmax())
            found.append(
                Location(
                    fact=step.fact,
                    answer=tokenizer.decode([step.token]),
                    position=step.position,
                    layer=unit.layer,
                    last_layer=unit.layer,
                    tensor=_up(unit.layer),
                    index=(unit.unit, column),
                    value=row[column].item(),
                    powers=(),
                    lemma=None,
                    zeros=None,
                    sharing=tuple(name for name in users[unit.layer, unit.unit] if name != step.fact),
                )
            )
    return found


def _up(layer: int) -> str:
    return f"model.layers.{layer}.mlp.up_proj.weight"
