"""Find the hidden units of a grafted checkpoint that hold facts, and return a `Location` for each.

A unit is identified by its only non-zero weight in `up_proj`. If this weight is set to zero, the unit adds nothing. A unit is
active after every text that ends in its context, so facts with longer keys that end in the same words use it too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from byheart.errors import UsageError
from byheart.graft.host import FolderHost
from byheart.graft.reading import StoredUnit, Tokens
from byheart.graft.symbolic_run import read_memory
from byheart.graft.texts import Asking, KeyFormat, encode, load_tokenizer, prompts_of
from byheart.graft.workflow import asking_of
from byheart.inspect.location import Location
from byheart.process.progress import Progress, silent


@dataclass(frozen=True)
class Step:
    """One token of an answer.

    After `tokens`, the graft answers `token`, because `units` are active. The units are ordered by the length of their contexts.
    Units that add nothing, because a shorter context has the same answer, are left out.
    `users` holds, for each of `units`, the keys of the stored facts that use it: the unit is active after the key or within the
    answer. A key that is another key with the first tokens of its answer is listed only if it was asked for (see `locate`).
    """

    fact: str
    position: int
    tokens: Tokens
    token: int
    units: tuple[StoredUnit, ...]
    users: tuple[tuple[str, ...], ...] = ()


def steps_of(folder: Path, facts: Sequence[str], progress: Progress = silent) -> list[Step]:
    """Return the steps (one for each token of an answer) that the graft in `folder` stores for each fact. A fact is given by its
    key.

    Every prompt format that the record of the graft names is tried. Raise `UsageError` if nothing is stored for a fact.
    """
    tokenizer, asking = load_tokenizer(folder, progress), asking_of(folder)
    kinds = (False, True) if asking.chat_column else (asking.chat,)
    formats = [
        Asking(asking.chat, None, asking.template, asking.end).format_of(tokenizer, chat) for chat in kinds
    ]
    memory = read_memory(FolderHost(folder), progress)
    answers = {} if memory is None else memory.answers()
    units = {} if memory is None else {unit.tokens: unit for unit in memory.units if any(unit.change)}
    steps: list[Step] = []
    names: dict[Tokens, str] = {}
    for fact in facts:
        before = len(steps)
        prompts = {tuple(encode(tokenizer, p)) for keys in formats for p in prompts_of(fact, keys)}
        names |= dict.fromkeys(prompts, fact)
        for prompt in sorted(prompts, key=len):
            steps += _chain(answers, units, fact, prompt)
        if len(steps) == before:
            raise UsageError(
                f"{folder} stores no answer for {fact!r}.\n  Use `byheart detect` to list what it stores.",
                facts=[fact],
            )
    users = _users(answers, units, {unit for step in steps for unit in step.units}, names)

    def key_of(prompt: Tokens) -> str:
        return names.get(prompt) or _key_in(tokenizer.decode(list(prompt)), formats)

    keys = {place: tuple(dict.fromkeys(map(key_of, prompts))) for place, prompts in users.items()}
    return [replace(step, users=tuple(keys[unit.layer, unit.unit] for unit in step.units)) for step in steps]


def _users(
    answers: Mapping[Tokens, int],
    units: Mapping[Tokens, StoredUnit],
    asked: Collection[StoredUnit],
    known: Collection[Tokens],
) -> dict[tuple[int, int], dict[Tokens, None]]:
    """For each place (layer, number of a hidden unit) of the units `asked`, return the prompts of the facts that use it. `known`
    holds the prompts that the caller knows.

    A hidden unit matches one or more contexts. A stored context uses the unit if it ends in one of these contexts.
    """
    places = {(unit.layer, unit.unit) for unit in asked}
    ends = {
        tokens: (unit.layer, unit.unit) for tokens, unit in units.items() if (unit.layer, unit.unit) in places
    }
    lengths = sorted({len(tokens) for tokens in ends})
    users: dict[tuple[int, int], dict[Tokens, None]] = {place: {} for place in places}
    for context in answers:
        for place in {ends[context[-n:]] for n in lengths if context[-n:] in ends}:
            users[place] |= dict.fromkeys(_prompts_in(context, answers, known))
    return users


def _prompts_in(
    context: Tokens, answers: Mapping[Tokens, int], known: Collection[Tokens]
) -> Iterator[Tokens]:
    """Yield the prompts of the facts to which a context belongs. A context is a prompt, possibly with the first tokens of the
    answer.

    The shortest possible prompt is always a prompt. The weights do not tell whether a longer one is, so these are yielded only if
    they are `known`.
    """
    while answers.get(context[:-1]) == context[-1]:
        if context in known:
            yield context
        context = context[:-1]
    yield context


def _key_in(prompt: str, formats: Sequence[KeyFormat]) -> str:
    """Return the key in the text of a prompt, without the text that a prompt format puts around it."""
    for keys in sorted(formats, key=lambda each: len(each.before) + len(each.after), reverse=True):
        text = prompt.removeprefix(" ") if keys.spaced else prompt
        if text.startswith(keys.before) and text.endswith(keys.after):
            return text[len(keys.before) : len(text) - len(keys.after)]
    return prompt


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
    """For each token of each answer, return the weights that hold it, and the keys of other stored facts that share these weights.
    A fact is given by its key.

    Setting such a weight to zero can change the answers to the facts named in `Location.fact` and `Location.sharing`, and to facts
    whose key is one of these keys with the first tokens of its answer. The answers to all other stored facts stay the same.

    For example, "The cat" may be stored with the answer "sat down", and "The cat sat" with the answer "down". Both store "down"
    after "The cat sat" in the same weight. The weights do not tell that "The cat sat" is a key, so `sharing` names it only if it is
    one of `facts`.

    If one stored context is a suffix of another, the units of both are active, and both are listed. Each unit adds to a code (an
    integer vector) that identifies the next token. The unit of the longer context adds the code of its own next token minus the
    code of the shorter context's next token.
    """
    folder, asked = Path(folder), [facts] if isinstance(facts, str) else list(facts)
    checkpoint, tokenizer = FolderHost(folder), load_tokenizer(folder)
    steps = steps_of(folder, asked, progress)
    layers = sorted({unit.layer for step in steps for unit in step.units})
    weights = {layer: checkpoint.tensor(_up(layer)) for layer in layers}
    found = []
    for step in steps:
        for unit, users in zip(step.units, step.users, strict=True):
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
                    sharing=tuple(name for name in users if name != step.fact),
                    n_compared=None,
                )
            )
    return found


def _up(layer: int) -> str:
    return f"model.layers.{layer}.mlp.up_proj.weight"
