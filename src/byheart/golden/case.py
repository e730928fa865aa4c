"""Read and write the cases of golden checkpoints. Each case is one line of JSON.

A case is a prompt, the answer of a correct engine, and the number types whose rounding cannot change this answer.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_args

from byheart.errors import UsageError
from byheart.golden.reference import BEAM_SEARCH
from byheart.golden.refusals import REMEDY, corrupt
from byheart.golden.shape import BOS, Shape
from byheart.records.fields import Fields, parse_json, read_json
from byheart.records.reader import read_values
from byheart.records.vocabulary import NumberType

CASES = "cases.jsonl"
FAMILY = "family.json"
LARGEST_SIZE = 2**20  # the limit for every size of a checkpoint
N_NEW = 5
"""Number of tokens in an answer."""

N_SUMS = 2
"""The number of signed sums in a case that stores such sums. A signed sum adds up all logits, each multiplied by 1 or -1."""


@dataclass(frozen=True)
class Case:
    """A prompt with its correct answer.

    A decision is the choice of one token. A gap is the logit of the right token minus the logit of a rival token. `gap` is the
    smallest gap in the answer. `margins[t]` is the smallest ratio of a gap to its error bound in number type t. `holds_for(t)`
    tells whether this ratio is at least 1.

    `logits` are the logits of the first decision, if they are known exactly. `sums` are signed sums of the logits of the first
    decision (see `logit_sums`). In float32, the sums of a correct engine may differ from them by up to `sum_bounds`. `beam_answer`
    is the answer of beam search, if it is known; it may differ from the greedy answer. `sensitive_to` lists the kinds of known
    fault that change the answer.
    """

    name: str
    checkpoint: str
    prompt: tuple[int, ...]
    answer: tuple[int, ...]
    text: str
    answer_text: str
    gap: float
    margins: dict[str, float]
    sensitive_to: tuple[str, ...] = ()
    logits: tuple[int, ...] = ()
    beam_answer: tuple[int, ...] = ()
    sums: tuple[float, ...] = ()
    sum_bounds: tuple[float, ...] = ()

    def expected(self, way: str) -> tuple[int, ...]:
        """Return the correct answer if the engine runs in this way. `way` is the name of a way of running, such as `beam search`.

        The result is empty if the answer is not known.
        """
        return self.beam_answer if way == BEAM_SEARCH else self.answer

    def holds_for(self, number_type: NumberType) -> bool:
        return self.margins.get(number_type, 0.0) >= 1.0

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def token_text(shape_vocab: int, token: int) -> str:
    """Return the text of a token. The first two tokens are `<s>` and `</s>`; any other token is one character.

    The character is Chinese if the vocabulary has at most 20,000 tokens. Otherwise, it is in a private-use area of Unicode.
    """
    if token < 2:
        return ("<s>", "</s>")[token]
    if shape_vocab <= 20_000:
        return chr(0x4E00 + token)
    # the last two code points of each Unicode plane are not characters
    return chr(0xF0000 + token + 2 * (token >= 65_534))


def token_of(shape_vocab: int, character: str) -> int:
    """Return the id of the token with this character as its text, or -1 if there is none."""
    number = ord(character)
    token = number - 19968 if shape_vocab <= 20000 else number - 983040 - 2 * (number >= 1048576)
    return token if 2 <= token < shape_vocab else -1


def text_of(shape_vocab: int, tokens: Sequence[int]) -> str:
    """Return the text of an answer, or of a prompt without its beginning-of-text token."""
    return "".join(token_text(shape_vocab, token) for token in tokens if token != BOS)


def cases(folder: str | Path) -> list[Case]:
    """Read the cases of a folder that `byheart golden make` wrote."""
    path = Path(folder) / CASES
    if not path.is_file():
        raise UsageError(
            f"{folder} contains no {CASES}.\n"
            "  Make a family of checkpoints in a new folder: byheart golden make -o NEW_DIR",
            path=str(path),
        )
    return [
        _read_case(line, f"{CASES}, line {at}") for at, line in enumerate(path.read_bytes().splitlines(), 1)
    ]


def _read_case(line: bytes, where: str) -> Case:
    fields = Fields(parse_json(line, where, REMEDY), where, remedy=REMEDY)
    margins = fields.child("margins")
    if not set(get_args(NumberType)) & set(margins.values):
        raise fields.refuse("margins", "an object with a number for at least one number type")
    return Case(
        fields.text("name"),
        fields.text("checkpoint"),
        fields.integers("prompt", 0, 2**31),
        fields.integers("answer", 0, 2**31),
        fields.text("text"),
        fields.text("answer_text"),
        fields.number("gap"),
        {name: margins.number(name) for name in margins.values},
        fields.texts("sensitive_to"),
        fields.integers("logits", -(2**24), 2**24),
        fields.integers("beam_answer", 0, 2**31),
        fields.numbers("sums"),
        fields.numbers("sum_bounds"),
    )


def require_known(found: Sequence[Case], known: Collection[str], folder: Path) -> None:
    """Raise `CorruptModel` for a case of a checkpoint that the family does not have. `known` holds the names of its checkpoints."""
    for case in found:
        if case.checkpoint not in known:
            raise corrupt(
                folder / CASES,
                f"case {case.name!r} is of the checkpoint {case.checkpoint!r}, which {FAMILY} does not name",
            )


def require_fit(found: Sequence[Case], shape: Shape, folder: Path) -> None:
    """Raise `CorruptModel` for a case whose prompt or answer does not fit this checkpoint."""
    for case in found:
        answers = (case.answer, *((case.beam_answer,) if case.beam_answer else ()))
        tokens = {*case.prompt, *(token for answer in answers for token in answer)}
        fits = case.prompt and max(tokens) < shape.vocab and len(case.logits) in (0, shape.vocab)
        fits = fits and len(case.prompt) + N_NEW <= shape.max_positions
        fits = fits and len(case.sums) == len(case.sum_bounds) and len(case.sums) in (0, N_SUMS)
        if not fits or any(len(answer) != N_NEW for answer in answers):
            raise corrupt(folder / CASES, f"case {case.name!r} does not fit the checkpoint {shape.name}")


def shapes(folder: str | Path) -> dict[str, Shape]:
    """Return the shapes of the checkpoints in a folder, by name."""
    path = Path(folder) / FAMILY
    if not path.is_file():
        raise UsageError(
            f"{folder} contains no {FAMILY}.\n"
            "  Make a family of checkpoints in a new folder: byheart golden make -o NEW_DIR",
            path=str(path),
        )
    found = Fields(read_json(path, REMEDY), path, remedy=REMEDY).child("checkpoints")
    return {name: _read_shape(found.child(name), name, path) for name in found.values}


def _read_shape(fields: Fields, name: str, path: Path) -> Shape:
    shape = read_values(fields.values, Shape, f"{path}: {name}", refuse=corrupt)
    sizes = (
        shape.n_layers,
        shape.hidden,
        shape.inner,
        shape.n_heads,
        shape.n_kv_heads,
        shape.head_dim,
        shape.vocab,
    )
    if Path(name).name != name or not all(1 <= size <= LARGEST_SIZE for size in sizes):
        raise corrupt(
            path,
            f"checkpoint {name!r}: its name is not a file name, or a size is not from 1 to {LARGEST_SIZE:,}",
        )
    return shape
