"""The result of checking an engine, and its form as a JSON document."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from byheart.golden.diagnosis import Outcome, Suspicion
from byheart.records.vocabulary import NumberType


@dataclass(frozen=True)
class Report:
    """The result of checking an engine: its answers (`outcomes`) and its likely faults (`suspicions`), the likeliest first.

    `left_out` maps each reason for leaving out cases to the number of cases that it concerns. A case counts once, even if it was
    left out in several ways of running.
    """

    engine: str
    number_type: NumberType
    outcomes: tuple[Outcome, ...]
    left_out: dict[str, int]
    suspicions: tuple[Suspicion, ...]

    @property
    def wrong(self) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if not outcome.is_right]

    @property
    def holds(self) -> bool:
        return bool(self.outcomes) and not self.wrong

    def rows(self) -> list[tuple[str, str, int, int]]:
        """Return rows of (checkpoint, way of running, number of cases, number of wrong cases)."""
        counts: dict[tuple[str, str], list[int]] = {}
        for outcome in self.outcomes:
            count = counts.setdefault((outcome.case.checkpoint, outcome.way), [0, 0])
            count[0] += 1
            count[1] += not outcome.is_right
        return [(*key, *count) for key, count in counts.items()]  # type: ignore[misc] # two and two

    def to_json(self) -> dict[str, Any]:
        return {
            "engine": self.engine,
            "number_type": self.number_type,
            "checked": len(self.outcomes),
            "wrong": len(self.wrong),
            "holds": self.holds,
            "likely_faults": [
                {
                    "kind": s.kind,
                    "detail": s.detail,
                    "basis": s.basis,
                    "likeness": round(s.likeness, 3),
                    "is_clear": s.is_clear,
                }
                for s in self.suspicions[:5]
            ],
            "left_out": self.left_out,
            "rows": [
                {"checkpoint": checkpoint, "way": way, "checked": n, "wrong": wrong}
                for checkpoint, way, n, wrong in self.rows()
            ],
            "failures": [
                {
                    "case": o.case.name,
                    "way": o.way,
                    "expected": list(o.case.expected(o.way)),
                    "answer": list(o.answer),
                    "wrong_logits": len(o.wrong_logits),
                    "sensitive_to": list(o.case.sensitive_to),
                }
                for o in self.wrong
            ],
        }
