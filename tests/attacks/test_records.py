"""What a model says of how it came about is on no digest: whatever it says, every command ends in words."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from byheart import compile as compile_data
from byheart.cli.main import run
from byheart.errors import ExitStatus
from byheart.web.processes import Refused
from tests.attacks.fuzz.page_requests import Questions
from tests.storage.test_fixtures import FIXTURES

ODD: tuple[Any, ...] = (None, [], {}, "", "<script>", [[]], [0, 0, 0], -1, True, 0.5, 2**40, 2**63, 10**30)
FEW = (None, [[]])


def changed(name: str | Path, tmp_path: Path, path: tuple[str, ...], value: Any) -> Path:
    """A copy of a model folder, or of the fixture `name`, whose record has `value` at `path`."""
    folder = Path(shutil.copytree(FIXTURES / name, tmp_path / "model", dirs_exist_ok=True))
    document = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    part = document["record"]
    for step in path[:-1]:
        part = part[step]
    part[path[-1]] = value
    (folder / "model.json").write_text(json.dumps(document), encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    "path",
    [
        *(
            (name,)
            for name in ("method", "theorem", "notes", "options", "versions", "seed", "dataset", "reading")
        ),
        *(("notes", name) for name in ("layout", "slots", "reject_bits", "planes", "field_bits", "parts")),
        *(
            ("notes", name)
            for name in ("channels", "segments", "rows", "tables", "sum", "rare_fields", "rare_layers")
        ),
        ("versions", "numpy"),
    ],
    ids=".".join,
)
@pytest.mark.parametrize("name", ["retrieval-coded", pytest.param("retrieval-dual", marks=pytest.mark.slow)])
@pytest.mark.parametrize("values", [FEW, pytest.param(ODD, marks=pytest.mark.slow)], ids=["few", "all"])
def test_no_word_of_a_record_crashes_a_command(
    name: str,
    path: tuple[str, ...],
    values: tuple[Any, ...],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    question = {"retrieval-coded": "aaae", "retrieval-dual": "aaaj"}[name]
    for value in values:
        folder = str(changed(name, tmp_path, path, value))
        for arguments in (["inspect", folder], ["inspect", f"--fact={question}", folder]):
            assert run([*arguments, "--debug"]) != ExitStatus.CRASH, (value, capsys.readouterr().err)
        with suppress(Refused):  # anything else is raised as it is
            Questions().ask("trace", {"model": folder, "text": question})
        with suppress(Refused):
            Questions().ask("fact", {"model": folder, "text": question, "data": None})


@pytest.mark.parametrize("part", ["versions", "refused", "notes", "options", "reading"])
def test_a_part_of_the_record_that_is_of_another_kind_is_named(
    part: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = changed("retrieval-float64", tmp_path, (part,), [1])
    assert run(["inspect", str(folder)]) == ExitStatus.FALSE
    assert f"record.{part}" in capsys.readouterr().err


@pytest.fixture(scope="module")
def llama_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("llama") / "model"
    compile_data({"ab": "x", "cd": "y"}, method="llama").save(folder)
    return folder


@pytest.mark.parametrize("layers", [[1, 10], [0, 2**63], [[], []], None, [5, 10, 11]])
def test_a_llama_that_names_other_layers_for_its_tables_has_no_map(
    layers: Any, llama_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = changed(llama_folder, tmp_path, ("notes", "table layers"), layers)
    assert run(["inspect", str(folder), "--fact=ab"]) == ExitStatus.USAGE
    assert capsys.readouterr().err.startswith("UsageError: ")


def test_a_word_of_the_certificate_that_there_is_not(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(FIXTURES / "retrieval-coded", tmp_path / "model"))
    document = json.loads((folder / "certificate.json").read_text(encoding="utf-8"))
    (folder / "certificate.json").write_text(json.dumps({**document, "backend": "guess"}), encoding="utf-8")
    assert run(["inspect", str(folder)]) == ExitStatus.FALSE


def test_texts_cannot_be_recited_without_a_tokenizer(tmp_path: Path) -> None:
    folder = changed("retrieval-tokens", tmp_path, ("reading",), {"recite": True})
    data = FIXTURES / "data" / "tokens.npz"
    assert run(["verify", str(folder), str(data)]) == ExitStatus.FALSE
