"""Which files and settings of a graft and its host are read: those that transformers reads, and all of them are compared."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from byheart.errors import CorruptModel, UsageError
from byheart.graft.workflow import detect, graft, verify_graft
from tests.graft.hosts import change_json, nudge


def move_the_weights(folder: Path, n_named: int) -> None:
    """Move the weights into two other files, of which an index names `n_named`. Leave a changed copy of all of them behind."""
    tensors = load_file(folder / "model.safetensors")
    names = sorted(tensors)
    parts = {"a.safetensors": names[: len(names) // 2], "b.safetensors": names[len(names) // 2 :]}
    for file, held in parts.items():
        save_file({name: tensors[name] for name in held}, folder / file, metadata={"format": "pt"})
    weight_map = {name: file for file, held in parts.items() for name in held}
    files = sorted(parts)[:n_named]
    weight_map = {name: file for name, file in weight_map.items() if file in files}
    content = json.dumps({"metadata": {}, "weight_map": weight_map})
    (folder / "model.safetensors.index.json").write_text(content, encoding="utf-8")
    nudge(folder, "model.norm.weight", 0, 10**6)


def leave_a_decoy_index(folder: Path) -> None:
    """transformers ignores the index if model.safetensors exists."""
    move_the_weights(folder, 2)


def name_both_in_the_index(folder: Path) -> None:
    move_the_weights(folder, 2)
    index = folder / "model.safetensors.index.json"
    document = json.loads(index.read_text(encoding="utf-8"))
    document["weight_map"]["model.norm.weight"] = "model.safetensors"
    index.write_text(json.dumps(document), encoding="utf-8")


def leave_a_file_unnamed(folder: Path) -> None:
    shutil.copyfile(folder / "model.safetensors", folder / "more.safetensors")


def store_a_tensor_twice(folder: Path) -> None:
    move_the_weights(folder, 2)
    (folder / "model.safetensors").unlink()
    tensors = load_file(folder / "b.safetensors")
    name, tensor = next(iter(load_file(folder / "a.safetensors").items()))
    save_file({**tensors, name: tensor * 2}, folder / "b.safetensors", metadata={"format": "pt"})


def change_the_copy_of_tied_weights(folder: Path) -> None:
    """transformers ties only equal weights."""
    copy_tied_weights(folder)
    nudge(folder, "lm_head.weight", 0, 10**6)


def copy_tied_weights(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].clone()
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def have_an_adapter(folder: Path) -> None:
    content = json.dumps({"peft_type": "LORA", "base_model_name_or_path": "elsewhere"})
    (folder / "adapter_config.json").write_text(content, encoding="utf-8")


def name_another_file(folder: Path) -> None:
    change_json(folder, "config.json", transformers_weights="host/other.safetensors")


def attend_otherwise(folder: Path) -> None:
    layers = json.loads((folder / "config.json").read_text(encoding="utf-8"))["num_hidden_layers"]
    change_json(folder, "config.json", layer_types=["chunked_attention"] * layers)


AMBIGUOUS = [
    leave_a_decoy_index,
    name_both_in_the_index,
    leave_a_file_unnamed,
    store_a_tensor_twice,
    change_the_copy_of_tied_weights,
    have_an_adapter,
    name_another_file,
    attend_otherwise,
]


@pytest.mark.parametrize("spoil", AMBIGUOUS)
def test_a_folder_in_which_transformers_reads_something_else_is_refused(
    tmp_path: Path, grafted: Path, host: Path, facts: Path, spoil: Callable[[Path], None]
) -> None:
    """A graft, whose verdict was "holds" for some of them, and a host."""
    for name, source in (("graft", grafted), ("host", host)):
        shutil.copytree(source, tmp_path / name)
        spoil(tmp_path / name)
    for act in (
        lambda: verify_graft(tmp_path / "graft", facts, host, ask=False),
        lambda: detect(tmp_path / "graft"),
        lambda: graft(tmp_path / "host", facts, tmp_path / "new"),
    ):
        with pytest.raises((UsageError, CorruptModel)):
            act()


def index_the_only_file(folder: Path) -> None:
    names = load_file(folder / "model.safetensors")
    content = json.dumps({"metadata": {}, "weight_map": dict.fromkeys(names, "model.safetensors")})
    (folder / "model.safetensors.index.json").write_text(content, encoding="utf-8")


@pytest.mark.parametrize("store", [copy_tied_weights, index_the_only_file])
def test_weights_stored_in_a_redundant_way_are_read(
    tmp_path: Path, grafted: Path, host: Path, facts: Path, store: Callable[[Path], None]
) -> None:
    shutil.copytree(grafted, tmp_path / "graft")
    store(tmp_path / "graft")
    assert verify_graft(tmp_path / "graft", facts, host, ask=False).holds


@pytest.mark.parametrize(
    "values",
    [
        {"dtype": "bfloat16"},
        {"dtype": None},
        {"torch_dtype": "bfloat16"},
        {"transformers_version": "4.0.0"},
        {"no_such_setting": None},
    ],
)
def test_settings_that_were_not_compared_are_found(
    tmp_path: Path, grafted: Path, host: Path, facts: Path, values: dict[str, object]
) -> None:
    """transformers converts the weights to `dtype`; a setting that is null is not one with its default."""
    shutil.copytree(grafted, tmp_path / "graft")
    change_json(tmp_path / "graft", "config.json", **values)
    (fault,) = verify_graft(tmp_path / "graft", facts, host, ask=False).faults
    assert fault.startswith(f"config.json: {next(iter(values))} ")


def test_a_graft_without_a_number_type_is_found(
    tmp_path: Path, grafted: Path, host: Path, facts: Path
) -> None:
    """transformers would take it from the index, or from the first tensor."""
    shutil.copytree(grafted, tmp_path / "graft")
    document = json.loads((grafted / "config.json").read_text(encoding="utf-8"))
    del document["dtype"]
    (tmp_path / "graft" / "config.json").write_text(json.dumps(document), encoding="utf-8")
    (fault,) = verify_graft(tmp_path / "graft", facts, host, ask=False).faults
    assert fault.startswith("config.json: dtype ")


def test_a_tensor_in_another_number_type_is_found(
    tmp_path: Path, grafted: Path, host: Path, facts: Path
) -> None:
    """In bfloat16, the host's numbers are rounded."""
    shutil.copytree(grafted, tmp_path / "graft")
    tensors, name = load_file(grafted / "model.safetensors"), "model.layers.4.mlp.up_proj.weight"
    tensors[name] = tensors[name].bfloat16()
    save_file(tensors, tmp_path / "graft" / "model.safetensors", metadata={"format": "pt"})
    (fault,) = verify_graft(tmp_path / "graft", facts, host, ask=False).faults
    assert fault.startswith(f"{name}: ")


def test_the_number_types_of_graft_and_host_are_told_apart(tmp_path: Path, host: Path, facts: Path) -> None:
    graft(host, facts, tmp_path / "graft", precision="bfloat16")
    found = verify_graft(tmp_path / "graft", facts, host, ask=False)
    assert (found.holds, found.precision, found.host_precision) == (True, "bfloat16", "float32")


FOREIGN = (
    "pytorch_model.bin",
    "additional_chat_templates/default.jinja",
    "chat_template.json",
    "tokenizer.4.0.0.json",
    "modeling.py",
    "more/config.json",
)


@pytest.mark.parametrize("name", FOREIGN)
def test_a_file_that_the_host_lacks_is_found(
    tmp_path: Path, grafted: Path, host: Path, facts: Path, name: str
) -> None:
    """The same file in the host makes the graft right, unless it differs."""
    for folder, source in (("graft", grafted), ("host", host)):
        shutil.copytree(source, tmp_path / folder)
    for content, n_faults in (("one", 1), ("other", 1), ("one", 0)):
        for folder in ("graft", "host") if content == "other" else ("graft",):
            (tmp_path / folder / name).parent.mkdir(exist_ok=True)
            (tmp_path / folder / name).write_text("one" if folder == "host" else content, encoding="utf-8")
        faults = verify_graft(tmp_path / "graft", facts, tmp_path / "host", ask=False).faults
        assert [fault.partition(": ")[0] for fault in faults] == [name] * n_faults


def test_links_to_folders_are_found_and_hidden_files_are_not_read(
    tmp_path: Path, grafted: Path, host: Path, facts: Path
) -> None:
    shutil.copytree(grafted, tmp_path / "graft")
    for name in (".gitattributes", "Thumbs.db", "desktop.ini"):
        (tmp_path / "graft" / name).write_text("", encoding="utf-8")
    (tmp_path / "graft" / "empty").mkdir()
    assert verify_graft(tmp_path / "graft", facts, host, ask=False).holds
    (tmp_path / "graft" / "more").symlink_to(tmp_path)
    faults = verify_graft(tmp_path / "graft", facts, host, ask=False).faults
    assert [fault.partition(": ")[0] for fault in faults] == ["more"]


def test_all_tokenizer_files_of_the_host_are_copied(tmp_path: Path, host: Path, facts: Path) -> None:
    shutil.copytree(host, tmp_path / "host")
    names = ("additional_chat_templates/short.jinja", "tiktoken.model")
    for name in names:
        (tmp_path / "host" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "host" / name).write_text("one", encoding="utf-8")
    graft(tmp_path / "host", facts, tmp_path / "graft")
    assert all((tmp_path / "graft" / name).is_file() for name in names)
    assert verify_graft(tmp_path / "graft", facts, tmp_path / "host", ask=False).holds
