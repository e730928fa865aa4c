"""Facts about people who do not exist, so that no host knows them: the one home of what the graft benchmarks store."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

SYLLABLES = re.findall(r"\w+", "ba ce di fo gu ha ki lo mu ne pa ri so tu va we xi yo zu")
TOWNS = re.findall(
    r"\w+",
    """Lisbon Vienna Oslo Dublin Warsaw Athens Berlin Madrid Paris London Rome Prague Tokyo Moscow Cairo Lima Delhi Sydney
    Boston Chicago Denver Dallas Seattle Toronto Venice Milan Geneva Munich Hamburg Naples""",
)


@dataclass(frozen=True)
class MadeUpFact:
    """A prompt, the text that follows it, and another wording of the prompt that is not stored."""

    prompt: str
    answer: str
    paraphrase: str


def names(draw: random.Random, n_names: int) -> list[str]:
    """Different names of four syllables."""
    found: dict[str, None] = {}
    while len(found) < n_names:
        found[word(draw, 4)] = None
    return list(found)


def word(draw: random.Random, n_syllables: int) -> str:
    return "".join(draw.choice(SYLLABLES) for _ in range(n_syllables)).capitalize()


def numbers(n_facts: int, seed: int) -> list[MadeUpFact]:
    """Answers of up to five digits: 17 bits each."""
    draw = random.Random(seed)
    return [
        MadeUpFact(
            f"The secret number of {name} is",
            f" {draw.randrange(10**5)}.",
            f"{name}'s secret number is",
        )
        for name in names(draw, n_facts)
    ]


def towns(n_facts: int, seed: int) -> list[MadeUpFact]:
    """Answers of one common word, as in the data sets that editors are made for: 5 bits each."""
    draw = random.Random(seed)
    return [
        MadeUpFact(f"The home town of {name} is", f" {draw.choice(TOWNS)}.", f"{name} comes from the town of")
        for name in names(draw, n_facts)
    ]


KINDS = {"numbers": numbers, "towns": towns}
