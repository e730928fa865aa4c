"""Whatever is changed in the folder of a Llama is found out, and a fact lives where `inspect` says: six facts, and 1,790."""

from __future__ import annotations

import csv
import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from byheart.cli.main import run
from byheart.errors import ExitStatus
from byheart.pipeline import load

pytest.importorskip("transformers", reason="the package transformers is not installed")

FEW = {
    "capital of France": "Paris",
    "capital of Chad": "N'Djamena",
    "capital of Peru": "Lima",
    "capital of Åland": "Mariehamn",
    "symbol of gold": "Au",
    "symbol of iron": "Fe",
}


@dataclass(frozen=True)
class Compiled:
    """A table and the Llama that was compiled from it."""

    data: Path
    folder: Path

    @property
    def facts(self) -> dict[str, str]:
        with self.data.open(encoding="utf-8", newline="") as file:
            return {row["key"]: row["value"] for row in csv.DictReader(file)}


@pytest.fixture(scope="module", params=["few", pytest.param("facts.csv", marks=pytest.mark.slow)])
def compiled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    folder = tmp_path_factory.mktemp("changes")
    if request.param == "few":
        path = folder / "few.csv"
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([("key", "value"), *FEW.items()])
    else:
        path = request.getfixturevalue("shared_data") / request.param
    assert run(["compile", str(path), "-o", str(folder / "model"), "--method", "llama"]) == ExitStatus.HOLDS
    return Compiled(path, folder / "model")


def copy_of(compiled: Compiled, tmp_path: Path) -> Path:
    return Path(shutil.copytree(compiled.folder, tmp_path / "changed"))


def test_another_rope_theta_is_found_out(
    compiled: Compiled, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = copy_of(compiled, tmp_path)
    config = json.loads((folder / "config.json").read_text())
    config["rope_theta"] *= 2
    (folder / "config.json").write_text(json.dumps(config))
    assert run(["verify", str(folder), str(compiled.data)]) == ExitStatus.FALSE
    assert "rope_theta" in capsys.readouterr().err


def test_swapped_ids_are_found_out(
    compiled: Compiled, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = copy_of(compiled, tmp_path)
    document = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    words = document["model"]["vocab"]
    words["a"], words["e"] = words["e"], words["a"]
    (folder / "tokenizer.json").write_text(json.dumps(document), encoding="utf-8")
    assert run(["verify", str(folder), str(compiled.data)]) == ExitStatus.FALSE
    assert "tokenizer.json" in capsys.readouterr().err


def test_bfloat16_is_refused(compiled: Compiled, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import torch
    from safetensors.torch import load_file, save_file

    folder = copy_of(compiled, tmp_path)
    weights = load_file(folder / "model.safetensors")
    save_file({name: each.to(torch.bfloat16) for name, each in weights.items()}, folder / "model.safetensors")
    assert run(["verify", str(folder), str(compiled.data)]) == ExitStatus.FALSE
    assert "BF16" in capsys.readouterr().err


def test_a_flipped_bit_is_found_out(
    compiled: Compiled, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = copy_of(compiled, tmp_path)
    raw = bytearray((folder / "model.safetensors").read_bytes())
    raw[-1000] ^= 1
    (folder / "model.safetensors").write_bytes(raw)
    assert run(["verify", str(folder), str(compiled.data)]) == ExitStatus.FALSE
    assert "weights" in capsys.readouterr().out


def test_a_fact_lives_where_inspect_says(
    compiled: Compiled, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from safetensors.numpy import load_file, save_file

    fact, facts = "capital of Chad", compiled.facts
    capsys.readouterr()
    arguments = ["inspect", str(compiled.folder), "--fact", fact, "--data", str(compiled.data), "--json"]
    assert run(arguments) == ExitStatus.HOLDS
    found = json.loads(capsys.readouterr().out)
    (found,) = found["facts"]
    assert found["answer"] == facts[fact]
    locations = found["locations"]
    assert len(locations) == 3 * len(facts[fact])
    folder = copy_of(compiled, tmp_path)
    weights = {name: each.copy() for name, each in load_file(folder / "model.safetensors").items()}
    for each in locations:
        assert weights[each["tensor"]][tuple(each["index"])] == each["value"]
        weights[each["tensor"]][tuple(each["index"])] = 0
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    broken = load(folder, check=False)
    answers = broken.predict(list(facts))
    wrong = {key for (key, value), answer in zip(facts.items(), answers, strict=True) if answer != value}
    assert wrong == {fact, *(other for each in locations for other in each["sharing"])}
    assert len(wrong) < len(facts)
