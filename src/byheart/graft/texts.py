"""Convert rows of text to tokens with the host's own tokenizer: how a key becomes a prompt, and where its answer begins."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

from byheart.errors import AssumptionViolated, UsageError, import_extra
from byheart.graft.contexts import Fact
from byheart.network.llama.foreign_checkpoint import FILES_ALONE, opened_by_transformers
from byheart.network.llama.stock import load_transformers
from byheart.process.progress import Progress, in_stage, silent

FIELD = "{input}"
CONTENT = "qZ7contentZq7"  # stands for the message while the format of a chat template is found
HISTORIES: tuple[list[dict[str, str]], ...] = (
    [],
    [{"role": "system", "content": "alpha"}],
    [{"role": "system", "content": "Beta gamma."}],
    [{"role": "user", "content": "delta"}, {"role": "assistant", "content": "epsilon"}],
)


@dataclass(frozen=True)
class KeyFormat:
    """How a key becomes a prompt, and which token `end`, if any, follows the answer.

    `before` and `after` are the texts around the key. With `spaced`, a space is put between the prompt and the answer, and the
    fact is stored a second time with a space before the prompt, unless there is white space already. That is how a prompt begins in
    the middle of a text, where a tokenizer may split it differently.
    """

    before: str = ""
    after: str = ""
    spaced: bool = True
    end: int | None = None

    def prompt(self, key: str) -> str:
        return f"{self.before}{key}{self.after}"


@dataclass(frozen=True)
class Asking:
    """The user's choice of prompt format: plain text, a template, or chat turns.

    `chat_column` is the name of a column that says which rows are chat turns. `end` says whether an end token follows
    the answer; by default, only for chat turns.
    """

    chat: bool = False
    chat_column: str | None = None
    template: str | None = None
    end: bool | None = None

    def format_of(self, tokenizer: Any, is_chat: bool) -> KeyFormat:
        if is_chat:
            return chat_format(tokenizer, self.end is not False)
        return plain_format(tokenizer, self.template, self.end is True)


def load_packages(progress: Progress) -> None:
    """Import the packages that read tokenizers and run checkpoints, and report this as a stage of the progress. The first import
    takes seconds.
    """
    stage = "load transformers"
    load_transformers(in_stage(progress, stage))
    progress(1, 1, stage)


def load_tokenizer(path: Path, progress: Progress = silent) -> Any:
    """Load the tokenizer of a host, without running code of the checkpoint."""
    load_packages(progress)
    transformers = import_extra("transformers", "huggingface", "grafting")
    with opened_by_transformers(path):
        folder, file = (path, {}) if path.is_dir() else (path.parent, {"gguf_file": path.name})
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **file, **FILES_ALONE)
        encode(tokenizer, "a")  # some wrong settings are noticed only when a text is split
    return tokenizer


def plain_format(tokenizer: Any, template: str | None, end: bool) -> KeyFormat:
    """Return the format for keys (questions) that are asked as plain text. If `template` is given, it must hold {input} once, and
    the key is put there.
    """
    if end and tokenizer.eos_token_id is None:
        raise UsageError(
            "this host's tokenizer has no end token, so end=True (--end) cannot be used.\n  Leave it out."
        )
    before, found, after = (template if template is not None else FIELD).partition(FIELD)
    if not found or FIELD in after:
        raise UsageError(f"the template {template!r} must hold {FIELD} once.", template=template)
    return KeyFormat(before, after, True, tokenizer.eos_token_id if end else None)


def chat_format(tokenizer: Any, end: bool) -> KeyFormat:
    """Return the format in which a key is a user's turn in the host's own chat template: the texts directly before and after the
    key. They do not depend on earlier turns.

    To find them, the template renders the turn after several histories (lists of earlier turns). Histories that the template
    refuses are skipped. The text before the key is the longest one that precedes the key in all renderings. If this text begins
    with the end of the previous turn, it is shortened, so that it begins with the special token that opens the user's turn. The
    text after the key must be the same in all renderings.
    """
    if not getattr(tokenizer, "chat_template", None):
        raise UsageError(
            "this host's tokenizer has no chat template.\n  Leave out chat (--chat), or use template=... (--template)."
        )
    question = {"role": "user", "content": CONTENT}
    rendered = [_around(tokenizer, [*history, question], True) for history in HISTORIES]
    if rendered[0] is None:
        raise UsageError(
            "the chat template of this host cannot render a user's message; use template=... (--template) instead."
        )
    befores, afters = zip(*(each for each in rendered if each is not None), strict=True)
    after = afters[0]
    if set(afters) != {after}:
        raise UsageError(
            "in this host's chat template, the text after a user's message depends on earlier turns; use template=... (--template) "
            "instead."
        )
    before = reduce(_common_start, [text[::-1] for text in befores])[::-1]
    shared = _common_start(before, after)
    opening = max((shared.rfind(special) for special in tokenizer.all_special_tokens), default=-1)
    if opening > 0:
        before = before[opening:]
    return KeyFormat(before, after, False, _end_of_turn(tokenizer) if end else None)


def _common_start(first: str, second: str) -> str:
    n_equal = next(
        (i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b),
        min(len(first), len(second)),
    )
    return first[:n_equal]


def _end_of_turn(tokenizer: Any) -> int:
    """Return the first token that the chat template puts after an assistant's message. If there is none, return the tokenizer's end
    token.
    """
    said = [{"role": "user", "content": "alpha"}, {"role": "assistant", "content": CONTENT}]
    around = _around(tokenizer, said, False)
    tokens = encode(tokenizer, around[1]) if around else []
    if tokens:
        return tokens[0]
    if tokenizer.eos_token_id is None:
        raise UsageError(
            "neither the chat template nor the tokenizer of this host has a token that ends an answer; "
            "use end=False (--no-end)."
        )
    return int(tokenizer.eos_token_id)


def _around(tokenizer: Any, messages: list[dict[str, str]], ask: bool) -> tuple[str, str] | None:
    """Return the rendered text before and after the last message, or None if the chat template cannot render this message."""
    try:
        text = str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=ask))
    except Exception:  # templates raise many types of exceptions for unknown roles
        return None
    before, found, after = text.rpartition(CONTENT)
    return (before, after) if found else None


def encode(tokenizer: Any, text: str) -> list[int]:
    """Return the tokens of a text, without special tokens at the beginning or end."""
    return list(tokenizer(text, add_special_tokens=False).input_ids)


@dataclass(frozen=True)
class Row:
    """A key of the data with its answer and its prompt format."""

    key: str
    answer: str
    keys: KeyFormat


def facts_of(tokenizer: Any, rows: Sequence[Row]) -> list[Fact]:
    """Convert each row to tokens. If the format of a row has `spaced`, also convert the row with a space before its prompt."""
    return [
        fact
        for number, row in enumerate(rows)
        for fact in _facts(tokenizer, number, row.key, row.answer, row.keys)
    ]


def prompts_of(key: str, keys: KeyFormat) -> Iterable[str]:
    """Return the prompts after which the answer to `key` is stored."""
    prompt = keys.prompt(key)
    return (prompt, f" {prompt}") if keys.spaced and not prompt[:1].isspace() else (prompt,)


def joined(prompt: str, answer: str, keys: KeyFormat) -> str:
    """Join a prompt and its answer. In plain text, a space is put between them if there is none; in a chat, nothing is added."""
    plain = keys.spaced and not prompt[-1:].isspace() and not answer[:1].isspace()
    return f"{prompt}{' ' if plain else ''}{answer}"


def _facts(tokenizer: Any, number: int, key: str, answer: str, keys: KeyFormat) -> Iterator[Fact]:
    if not key.strip() or not answer.strip():
        raise AssumptionViolated(
            f"row {number + 1:,} has an empty {'answer' if key.strip() else 'key'}.\n  Fill it in, or remove the row.",
            row=number,
        )
    seen = set()
    for prompt in prompts_of(key, keys):
        asked, whole = encode(tokenizer, prompt), encode(tokenizer, joined(prompt, answer, keys))
        if whole[: len(asked)] != asked or not asked:
            unspaced = encode(tokenizer, joined(prompt, answer.lstrip(), keys))
            answer_is_at_fault = bool(asked) and unspaced[: len(asked)] == asked
            raise AssumptionViolated(
                f"row {number + 1:,}: the host's tokenizer splits the prompt {prompt!r} differently if the "
                f"answer {answer!r} follows, so the prompt alone could not lead to the answer.\n"
                + (
                    "  Remove the space at the beginning of the answer."
                    if answer_is_at_fault
                    else "  End the key before a space or a punctuation mark, or use template=... (--template)."
                ),
                row=number,
                answer_is_at_fault=answer_is_at_fault,
            )
        tokens = (*whole, *(() if keys.end is None else (keys.end,)))
        if tokens not in seen and len(tokens) > len(asked):
            seen.add(tokens)
            yield Fact(tokens, len(asked), number)
