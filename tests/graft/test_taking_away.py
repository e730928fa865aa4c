"""Facts are forgotten, and whole grafts removed, without a trace and without harm to what stays."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from byheart.errors import CorruptModel, UsageError
from byheart.graft.removal import remove_graft
from byheart.graft.workflow import forget, graft, verify_graft
from tests.graft.hosts import nudge, save_host
from tests.refusal import refused


def test_forgetting_zeroes_the_units_of_a_fact_alone(
    tmp_path: Path, grafted: Path, host: Path, facts: Path
) -> None:
    done = forget(grafted, facts, ["secret number of Ann is"], tmp_path / "less")
    before, after = (
        load_file(grafted / "model.safetensors"),
        load_file(tmp_path / "less" / "model.safetensors"),
    )
    changed = {
        (int(name.split(".")[2]), int(unit))
        for name in before
        for unit in (before[name] != after[name]).nonzero()[:, 1 if "down_proj" in name else 0]
    }
    assert changed == set(done.zeroed) | set(done.rewritten)
    rest = tmp_path / "rest.csv"
    lines = facts.read_text(encoding="utf-8").splitlines(keepends=True)
    rest.write_text("".join(line for line in lines if "Ann" not in line), encoding="utf-8")
    assert verify_graft(tmp_path / "less", rest, host).holds
    assert not verify_graft(tmp_path / "less", facts, host, ask=False).holds


def test_forgetting_updates_what_the_graft_says_of_itself(
    tmp_path: Path, grafted: Path, host: Path, facts: Path
) -> None:
    """All three said what was stored before."""
    noted = Path(shutil.copytree(grafted, tmp_path / "noted"))
    with (noted / "README.md").open("ab") as card:
        card.write(b"\xdano UTF-8")
    forget(noted, facts, ["secret number of Ann is"], tmp_path / "less")
    rest = tmp_path / "rest.csv"
    lines = facts.read_text(encoding="utf-8").splitlines(keepends=True)
    rest.write_text("".join(line for line in lines if "Ann" not in line), encoding="utf-8")
    plan = graft(host, rest, tmp_path / "fresh").summary()
    record = json.loads((tmp_path / "less" / "graft.json").read_text())
    names = ("rows", "prompts", "contexts", "longest_context")
    assert {name: record[name] for name in names} == {name: plan[name] for name in names}
    config = json.loads((tmp_path / "less" / "config.json").read_text())
    assert config["byheart_graft"]["contexts"] == plan["contexts"]
    card = (tmp_path / "less" / "README.md").read_text(encoding="latin-1")
    assert card.endswith("\xdano UTF-8")
    assert f"(rows of data: {plan['rows']})" in card
    assert f"| 0 | {plan['contexts']} |" in card
    assert verify_graft(tmp_path / "less", rest, host, ask=False).holds


def test_what_is_not_stored_cannot_be_forgotten(tmp_path: Path, grafted: Path, facts: Path) -> None:
    """Nothing was set to zero, without an error."""
    key = "secret number of Ann is"
    forget(grafted, facts, [key], tmp_path / "less")
    with refused(UsageError, keys=[key]):
        forget(tmp_path / "less", facts, [key, "The capital of is"], tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_forgetting_does_not_replace_its_source(tmp_path: Path, grafted: Path, facts: Path) -> None:
    shutil.copytree(grafted, tmp_path / "graft")
    with refused(UsageError, path=str(tmp_path / "graft")):
        forget(tmp_path / "graft", facts, ["secret number of Ann is"], tmp_path / "graft")
    assert (tmp_path / "graft" / "graft.json").read_bytes() == (grafted / "graft.json").read_bytes()


def test_facts_of_a_checkpoint_without_added_layers_cannot_be_forgotten(
    tmp_path: Path, grafted: Path, host: Path, facts: Path
) -> None:
    """The problem was "it holds no memory"."""
    shutil.copytree(host, tmp_path / "host")
    shutil.copyfile(grafted / "graft.json", tmp_path / "host" / "graft.json")
    with refused(CorruptModel, problem="no layer stores facts"):
        forget(tmp_path / "host", facts, ["secret number of Ann is"], tmp_path / "less")


def test_a_longer_key_survives_the_shorter_one(tmp_path: Path, host: Path) -> None:
    """`is` alone is the end of a longer key: forgetting it rewrites the longer one's unit."""
    data = tmp_path / "data.csv"
    data.write_text("key,value\ncapital of Italy,Rome\nThe capital of Italy,Paris\n", encoding="utf-8")
    graft(host, data, tmp_path / "graft")
    done = forget(tmp_path / "graft", data, ["capital of Italy"], tmp_path / "less")
    assert done.rewritten
    data.write_text("key,value\nThe capital of Italy,Paris\n", encoding="utf-8")
    assert verify_graft(tmp_path / "less", data, host).holds


@pytest.mark.parametrize(
    ("dtype", "precision", "shard"),
    [
        (torch.float32, "float32", "40KB"),
        (torch.bfloat16, "bfloat16", "1GB"),
        (torch.float16, "float32", "1GB"),
        (torch.float32, "bfloat16", "1GB"),
    ],
)
def test_removing_gives_back_the_hosts_files(
    tmp_path: Path, facts: Path, dtype: torch.dtype, precision: str, shard: str
) -> None:
    host = save_host(tmp_path / "host", dtype=dtype, shard=shard)
    graft(host, facts, tmp_path / "graft", precision=precision)
    remove_graft(tmp_path / "graft", tmp_path / "back")
    files = {path.name: path.read_bytes() for path in host.iterdir()}
    assert {path.name: path.read_bytes() for path in (tmp_path / "back").iterdir()} == files


def test_a_changed_graft_is_not_passed_off_as_the_host(tmp_path: Path, grafted: Path) -> None:
    shutil.copytree(grafted, tmp_path / "graft")
    nudge(tmp_path / "graft", "model.layers.4.mlp.up_proj.weight", 0)
    with pytest.raises(CorruptModel):
        remove_graft(tmp_path / "graft", tmp_path / "back")
    assert not (tmp_path / "back").exists()


@pytest.mark.parametrize("content", ["[", "[]", "{}", '{"host": {"../x": ""}, "layers": [2]}'])
def test_the_remedy_for_a_damaged_record_is_to_graft_again(
    tmp_path: Path, grafted: Path, content: str
) -> None:
    """The remedy was to compile the data again, as for a saved model."""
    shutil.copytree(grafted, tmp_path / "graft")
    (tmp_path / "graft" / "graft.json").write_text(content)
    with pytest.raises(CorruptModel, match="graft the host again"):
        remove_graft(tmp_path / "graft", tmp_path / "back")


def test_a_record_that_leaves_out_a_file_of_the_host_is_refused(tmp_path: Path, grafted: Path) -> None:
    """What was taken out lacked this file."""
    folder = Path(shutil.copytree(grafted, tmp_path / "graft"))
    record = json.loads((folder / "graft.json").read_text())
    del record["host"]["config.json"]
    (folder / "graft.json").write_text(json.dumps(record))
    with pytest.raises(CorruptModel):
        remove_graft(folder, tmp_path / "back")
    assert not (tmp_path / "back").exists()


def test_the_remedy_for_a_missing_copy_is_the_users_own_host(tmp_path: Path, grafted: Path) -> None:
    shutil.copytree(grafted, tmp_path / "graft")
    (tmp_path / "graft" / "host" / "model.safetensors.header").unlink()
    with pytest.raises(CorruptModel, match="use your own copy of the host"):
        remove_graft(tmp_path / "graft", tmp_path / "back")
