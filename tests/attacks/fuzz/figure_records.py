"""Stored records of figures with odd fields, and the passes noted beside them: `byheart report`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from random import Random
from typing import Any

from byheart.reproduce.figure_files import to_json
from tests.attacks.fuzz.mutation import mutate_bytes, mutate_document
from tests.attacks.fuzz.target import Target, run_command
from tests.report.test_page import RECORD

RESULTS = Path(__file__).resolve().parents[3] / "results"
QUICK = ("beyond-capacity", "kajitsuka-sato-2025-length", "dana-2024-fig4")  # to compute again
FEW = 12  # observations kept of each
PASSES = "passes.jsonl"


class FigureRecords(Target):
    """Stored records with odd fields: computed again, and now and then drawn."""

    name, share = "figures", 4

    def prepare(self, folder: Path) -> None:
        self.drawn = json.loads(to_json(RECORD))
        self.stored: list[dict[str, Any]] = []
        for name in QUICK:
            record = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
            self.stored.append(record | {"observations": record["observations"][:FEW]})
        self.passes = (RESULTS / PASSES).read_bytes()
        shutil.copytree(
            RESULTS, folder / "results", ignore=lambda _, names: set(names) - {f"{QUICK[2]}.json"}
        )
        run_command("report", "--results", str(folder / "results"), "-o", str(folder / "page"), "--recompute")

    def attack(self, random: Random, folder: Path) -> str:
        is_drawn = random.random() < 0.15
        record = self.drawn if is_drawn else random.choice(self.stored)
        passes = self.passes
        if random.random() < 0.1:
            lines = [json.loads(line) for line in passes.splitlines()]
            passes = b"\n".join(mutate_document(line, random) for line in lines)
            content = json.dumps(record).encode()
        elif random.random() < 0.1:
            content = mutate_bytes(json.dumps(record).encode(), random)
        else:
            content = mutate_document(record, random)
        (folder / f"{record['figure']}.json").write_bytes(content)
        (folder / PASSES).write_bytes(passes)
        how = ["-o", str(folder / "page")] if is_drawn else ["--recompute"]
        run_command("report", "--results", str(folder), *how, *random.choice(([], ["--json"])))
        return "drawn" if is_drawn else "taken"
