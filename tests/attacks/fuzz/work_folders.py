"""Folders of unfinished compilations with a file spoilt, exchanged or missing."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from pathlib import Path
from random import Random
from unittest.mock import patch

import numpy as np

from byheart.construct.retrieval import out_of_core
from byheart.data import distinct_contexts, piece_reader
from byheart.files.work_folder import read_arrays, write_arrays, write_json
from byheart.model import Model
from byheart.pipeline import compile_in_shards
from tests.attacks.fuzz.mutation import mutate_bytes, mutate_document
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
        is_forged = random.random() < 0.4
        if is_forged:
            forge(path, random)
        elif random.random() < 0.7:
            path.write_bytes(mutate_bytes(path.read_bytes(), random))
        elif random.random() < 0.5:
            path.write_bytes(other.read_bytes())
        else:
            path.unlink()
        with patch.object(piece_reader, "PIECE_ROWS", 15):
            model = self._compile(work)
        # checksums are against accidents, not against someone who writes new ones: SECURITY.md
        if not is_forged and model.predict(list(FACTS)) != list(FACTS.values()):
            raise Wrong(f"{path.relative_to(work)} changed, and the model is wrong")
        return "taken"


def forge(path: Path, random: Random) -> None:
    """Another value in a file, under a checksum that fits it."""
    if path.suffix == ".json":
        document = json.loads(path.read_text(encoding="ascii").rpartition("\n")[0].rpartition("\n")[0])
        with suppress(ValueError, RecursionError):
            write_json(path, json.loads(mutate_document(document, random)))
    elif path.suffix in (".npz", ".bounds"):
        arrays = read_arrays(path)
        name = random.choice(list(arrays))
        array = arrays[name].copy()
        kind = random.randrange(4)
        if kind == 0 and array.size:
            array.reshape(-1)[random.randrange(array.size)] += 1
        elif kind == 1:
            array = np.resize(array, random.choice((0, 1, array.size + 1)))
        elif kind == 2:
            array = array.astype(random.choice((np.int8, np.float64, np.uint64)))
        else:
            array = np.zeros_like(array)
        write_arrays(path, {**arrays, name: array})
    elif path.suffix == ".npy":
        rows = np.load(path)
        if rows.size:
            rows.reshape(-1)[random.randrange(rows.size)] ^= 1 << random.randrange(63)
        np.save(path, rows)
