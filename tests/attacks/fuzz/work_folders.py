"""Folders of unfinished compilations with a file spoilt, exchanged or missing."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random
from unittest.mock import patch

from byheart.construct.retrieval import out_of_core
from byheart.data import distinct_contexts, piece_reader
from byheart.model import Model
from byheart.pipeline import compile_in_shards
from tests.attacks.fuzz.mutation import mutate_bytes
from tests.attacks.fuzz.target import Target, Wrong

FACTS = {f"the key of {number * 7919 % 1009}": f"value {number % 5}" for number in range(40)}
RESULTS = ("merged.json", "counted.json", "partition-*", "shard-*", "piece-*", "keys-*")


class WorkFolders(Target):
    """Folders of unfinished compilations with a file spoilt: gone on from, refused, or done anew, and never wrong."""

    name, share = "work", 5

    def prepare(self, folder: Path) -> None:
        self.data, self.work = folder / "data.csv", folder / "work"
        rows = [f"{key},{value}" for key, value in FACTS.items()]
        self.data.write_text("\n".join(["key,value", *rows]) + "\n")
        with (
            patch.object(out_of_core, "remove_parts"),
            patch.object(distinct_contexts, "remove_parts"),
            patch.object(piece_reader, "PIECE_ROWS", 15),
        ):
            self._compile(self.work)

    def _compile(self, work: Path) -> Model:
        return compile_in_shards(self.data, n_shards=2, work=work)

    def attack(self, random: Random, folder: Path) -> str:
        work = folder / "work"
        shutil.copytree(self.work, work)
        for pattern in RESULTS:  # as if it had been ended before that
            if random.random() < 0.3:
                for path in work.rglob(pattern):
                    if random.random() < 0.7:
                        path.unlink()
        files = sorted(path for path in work.rglob("*") if path.is_file())
        path, other = random.choice(files), random.choice(files)
        if random.random() < 0.8:
            path.write_bytes(mutate_bytes(path.read_bytes(), random))
        elif random.random() < 0.5:
            path.write_bytes(other.read_bytes())
        else:
            path.unlink()
        with patch.object(piece_reader, "PIECE_ROWS", 15):
            model = self._compile(work)
        if model.predict(list(FACTS)) != list(FACTS.values()):
            raise Wrong(f"{path.relative_to(work)} changed, and the model is wrong")
        return "taken"
