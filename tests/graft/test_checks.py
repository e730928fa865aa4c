"""What reads grafts back: every tampering is found, every context listed, facts and whole grafts taken out again."""

from __future__ import annotations

import json
import pickle
import random
import re
import shutil
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pytest
import torch
from safetensors.torch import load_file, save_file

from byheart.cli.main import run
from byheart.documents.exports import export_model
from byheart.errors import AssumptionViolated, ByheartError, CorruptModel, UsageError
from byheart.graft.contexts import merge_contexts
from byheart.graft.reading import Reading
from byheart.graft.recall import BLOCK, compare_text
from byheart.graft.removal import remove_graft
from byheart.graft.rows import read_rows
from byheart.graft.texts import Asking, KeyFormat, Row, chat_format, facts_of, load_tokenizer
from byheart.graft.workflow import AskedFormat, detect, forget, graft, verify_graft
from byheart.pipeline import load
from byheart.process.progress import silent
from tests.graft.hosts import change_json, save_host
from tests.refusal import refused


def nudge(folder: Path, name: str, place: int, step: int = 1) -> None:
    """Change one entry by one unit in the last place; a zero becomes the smallest number, or minus NaN."""
    tensors = load_file(folder / "model.safetensors")
    flat = tensors[name].flatten()
    flat.view(torch.int32 if flat.dtype == torch.float32 else torch.int16)[place % flat.numel()] += step
    tensors[name] = flat.view(tensors[name].shape)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def test_any_changed_entry_is_found(tmp_path: Path, grafted: Path, host: Path, facts: Path) -> None:
    draw = random.Random(0)
    names = sorted(load_file(grafted / "model.safetensors"))
    missed = []
    for number in range(25):
        folder = tmp_path / str(number)
        shutil.copytree(grafted, folder)
        name, place = draw.choice(names), draw.randrange(10**9)
        nudge(folder, name, place)
        try:
            found = verify_graft(folder, facts, host, ask=False).holds
        except ByheartError:
            found = False
        if found:
            missed.append((name, place))
        shutil.rmtree(folder)
    assert missed == []


def change_host_tensor(folder: Path, draw: random.Random, memory: Reading) -> None:
    names = [
        name for name in load_file(folder / "model.safetensors") if layer_of(name) >= memory.n_memory_layers
    ]
    nudge(folder, draw.choice(names), draw.randrange(10**9), draw.choice((1, -1)))


def change_unit(folder: Path, draw: random.Random, memory: Reading) -> None:
    """One weight of a unit is gone."""
    unit = draw.choice(memory.units)
    name = f"model.layers.{unit.layer}.mlp.{draw.choice(('gate', 'up'))}_proj.weight"
    tensors = load_file(folder / "model.safetensors")
    row = tensors[name][unit.unit]
    row[draw.choice(row.nonzero().flatten().tolist())] = 0
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def change_norm(folder: Path, draw: random.Random, memory: Reading) -> None:
    names = [name for name in load_file(folder / "model.safetensors") if "norm" in name]
    nudge(folder, draw.choice(names), draw.randrange(10**9), draw.choice((1, -1)))


def change_config(folder: Path, draw: random.Random, memory: Reading) -> None:
    name, value = draw.choice(
        (
            ("rms_norm_eps", 2e-5),
            ("eos_token_id", 3),
            ("tie_word_embeddings", False),
            ("num_hidden_layers", 4),
        )
    )
    change_json(folder, "config.json", **{name: value})


def change_tokenizer(folder: Path, draw: random.Random, memory: Reading) -> None:
    path = folder / draw.choice(("tokenizer.json", "tokenizer_config.json"))
    content = bytearray(path.read_bytes())
    content[draw.randrange(len(content))] ^= 1
    path.write_bytes(content)


def layer_of(name: str) -> int:
    """The layer of a tensor; of those outside the layers, more than any."""
    return int(name.split(".")[2]) if name.startswith("model.layers.") else 10**6


TAMPERINGS = (change_host_tensor, change_unit, change_norm, change_config, change_tokenizer)


@pytest.mark.slow
@pytest.mark.parametrize("tamper", TAMPERINGS)
def test_twenty_tamperings_of_each_kind_are_noticed(
    tmp_path: Path, grafted: Path, host: Path, facts: Path, tamper: Callable[..., None]
) -> None:
    memory, draw, unnoticed = detect(grafted), random.Random(tamper.__name__), []
    assert memory is not None
    for number in range(20):
        folder = tmp_path / str(number)
        shutil.copytree(grafted, folder)
        tamper(folder, draw, memory)
        try:
            if verify_graft(folder, facts, host, ask=False).holds:
                unnoticed.append(number)
        except ByheartError:
            pass
        shutil.rmtree(folder)
    assert unnoticed == []


@pytest.mark.slow
def test_detect_tells_twenty_grafts_from_twenty_others(tmp_path: Path) -> None:
    """All contexts of each graft; the others are hosts, two of them with constant columns of whole numbers."""
    draw, families = random.Random(9), ("llama", "mistral", "qwen2", "qwen3")
    keys = ("The capital of France is", "secret number of Ann is", "Where does Bob live ?", "garden rain was")
    for number in range(20):
        width = 48 + 16 * (number % 3)
        path = save_host(tmp_path / str(number), families[number % 4], hidden_size=width, head_dim=32)
        if number < 2:
            tensors = load_file(path / "model.safetensors")
            tensors["model.embed_tokens.weight"][:, :2] = float(number + 1)
            save_file(tensors, path / "model.safetensors", metadata={"format": "pt"})
        assert detect(path) is None
        data = tmp_path / f"{number}.csv"
        lines = [f"{key},{draw.randrange(1, 10)} {draw.randrange(1, 10)}" for key in draw.sample(keys, 3)]
        data.write_text("\n".join(["key,value", *lines, ""]), encoding="utf-8")
        precision = draw.choice(("float32", "bfloat16"))
        plan = graft(path, data, tmp_path / f"graft-{number}", precision=precision)
        memory = detect(tmp_path / f"graft-{number}")
        assert memory is not None
        assert memory.answers() == merge_contexts(plan.facts)
        assert memory.faults == []


def missed(
    grafted: Path, host: Path, facts: Path, folder: Path, places: list[tuple[str, int]]
) -> list[tuple[str, int, int]]:
    """Of these entries, each changed by one unit in the last place up and down, those that `verify` does not notice or not name."""
    shutil.copytree(grafted, folder)
    found = []
    for name, place in places:
        for step in (1, -1):
            shutil.copyfile(grafted / "model.safetensors", folder / "model.safetensors")
            nudge(folder, name, place, step)
            try:
                faults = verify_graft(folder, facts, host, ask=False).faults
            except CorruptModel as error:  # not a finite number any more
                faults = (str(error),)
            if not faults:
                found.append((name, place, step))
    return found


def test_a_head_changed_by_less_than_its_lead_is_found(
    tmp_path: Path, grafted: Path, host: Path, facts: Path
) -> None:
    """What the heads do stays the same; the entries are compared with what they must be."""
    tensors = load_file(grafted / "model.safetensors")
    places = [
        (name, int(tensors[name].flatten().nonzero()[number]))
        for name in ("model.layers.0.self_attn.q_proj.weight", "model.layers.0.self_attn.k_proj.weight")
        for number in (0, -1)
    ]
    assert missed(grafted, host, facts, tmp_path / "graft", places) == []
    nudge(tmp_path / "graft", *places[0])
    assert any(
        fault.startswith(places[0][0])
        for fault in verify_graft(tmp_path / "graft", facts, host, ask=False).faults
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "precision"), [("llama", "float32"), ("qwen2", "float32"), ("qwen3", "bfloat16")]
)
def test_every_kind_of_entry_of_the_memory_is_compared(
    tmp_path: Path, facts: Path, family: str, precision: str
) -> None:
    """Of each tensor: entries in use, zeros, and zeros in the constant columns, which rows of constants could hide."""
    host = save_host(tmp_path / "host", family, **({"head_dim": 32} if family == "qwen3" else {}))
    graft(host, facts, tmp_path / "graft", precision=precision)
    memory, tensors, draw = (
        detect(tmp_path / "graft"),
        load_file(tmp_path / "graft" / "model.safetensors"),
        random.Random(3),
    )
    assert memory is not None
    width, places = tensors["model.norm.weight"].numel(), []
    for name, tensor in tensors.items():
        if name.startswith(tuple(f"model.layers.{layer}." for layer in range(memory.n_memory_layers))):
            for kind in (tensor.flatten() != 0, tensor.flatten() == 0):
                some = kind.nonzero().flatten().tolist()
                places += [(name, place) for place in draw.sample(some, min(2, len(some)))]
            if tensor.dim() == 2 and tensor.shape[1] == width:
                places += [(name, draw.randrange(len(tensor)) * width + column) for column in memory.pins]
    assert missed(tmp_path / "graft", host, facts, tmp_path / "changed", places) == []


def test_a_memory_that_reads_the_host_is_a_fault_and_not_a_crash(
    tmp_path: Path, grafted: Path, host: Path, facts: Path
) -> None:
    """One host column let into the first layer: no layer before the host's own is left."""
    shutil.copytree(grafted, tmp_path / "graft")
    nudge(tmp_path / "graft", "model.layers.0.post_attention_layernorm.weight", 0)
    assert verify_graft(tmp_path / "graft", facts, host, ask=False).faults


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("config.json", {"rms_norm_eps": 1e-5}),
        ("config.json", {"rope_parameters": {"rope_type": "default", "rope_theta": 10001.0}}),
        ("config.json", {"eos_token_id": 5}),
        ("tokenizer_config.json", {"padding_side": "left"}),
    ],
)
def test_changed_settings_are_found(
    tmp_path: Path, grafted: Path, host: Path, facts: Path, name: str, values: dict[str, object]
) -> None:
    shutil.copytree(grafted, tmp_path / "graft")
    change_json(tmp_path / "graft", name, **values)
    found = verify_graft(tmp_path / "graft", facts, host, ask=False)
    assert any(fault.startswith(name) for fault in found.faults)


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
    (tmp_path / "graft" / ".gitattributes").write_text("", encoding="utf-8")
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


def test_the_check_says_in_which_format_the_facts_were_asked(tmp_path: Path, host: Path, facts: Path) -> None:
    """The graft names its own format, and a caller may give another one."""
    target, asking = tmp_path / "graft", Asking(template="Q: {input}", end=True)
    graft(host, facts, target, asking)
    own = verify_graft(target, facts, host, ask=False)
    assert (own.holds, own.asked_by_caller) == (True, False)
    assert own.asked == (AskedFormat("Q: {input}", "<|end|>", 6),)
    for given, holds in ((asking, True), (Asking(template="{input}"), False)):
        found = verify_graft(target, facts, host, asking=given, ask=False)
        assert (found.holds, found.asked_by_caller) == (holds, True)


def test_each_format_is_counted(tmp_path: Path, host: Path) -> None:
    data = tmp_path / "data.csv"
    rows = ("The capital of France is,Paris.,no", "Where does Bob live ?,Bern.,yes", "Ann is,1 2,no")
    data.write_text("\n".join(["key,value,chat", *rows, ""]), encoding="utf-8")
    graft(host, data, tmp_path / "graft", Asking(chat_column="chat"))
    plain, chat = verify_graft(tmp_path / "graft", data, host, ask=False).asked
    assert plain == AskedFormat("{input}", None, 2)
    assert (chat.end, chat.rows) == ("<|end|>", 1)
    assert chat.template.endswith("user<|of|>{input}<|end|><|start|>assistant<|of|>")


def test_the_command_shows_the_format_and_takes_one(
    tmp_path: Path, host: Path, facts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graft(host, facts, tmp_path / "graft", Asking(template="Q: {input}"))
    check = ["verify", str(tmp_path / "graft"), str(facts), "--host", str(host)]
    assert run(check) == 0
    assert "Q: {input}" in capsys.readouterr().out
    assert run([*check, "--template", "Q: {input}", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["asked"][0]["template"], said["asked_by_caller"]) == ("Q: {input}", True)
    assert run([*check, "--template", "{input}"]) == 3
    assert run([*check[:3], "--template", "{input}"]) == 2


def test_other_data_and_another_host_are_found(
    tmp_path: Path, grafted: Path, host: Path, facts: Path
) -> None:
    assert verify_graft(grafted, facts, host, ask=False).holds
    other = tmp_path / "other.csv"
    other.write_text(facts.read_text(encoding="utf-8").replace("Rome", "Oslo"), encoding="utf-8")
    assert not verify_graft(grafted, other, host, ask=False).holds
    assert not verify_graft(grafted, facts, save_host(tmp_path / "host", "mistral"), ask=False).holds


def test_a_host_with_other_groups_of_heads_is_named_by_its_settings(
    tmp_path: Path, grafted: Path, facts: Path
) -> None:
    """The numbers are query heads per key head, but were shown as num_key_value_heads."""
    other = save_host(tmp_path / "host", num_key_value_heads=4)
    faults = verify_graft(grafted, facts, other, ask=False).faults
    assert "config.json: num_attention_heads / num_key_value_heads gives 2, not 1" in faults


@pytest.mark.parametrize("value", [1.0, 2.0**-60, 2.0**19])
@pytest.mark.parametrize("everywhere", [False, True])
def test_numbers_in_an_unused_column_are_found(
    tmp_path: Path, grafted: Path, value: float, everywhere: bool
) -> None:
    shutil.copytree(grafted, tmp_path / "graft")
    tensors = load_file(tmp_path / "graft" / "model.safetensors")
    table = tensors["model.embed_tokens.weight"]
    unused = int((table != 0).any(0).logical_not().nonzero()[-1])
    table[slice(None) if everywhere else 5, unused] = value
    save_file(tensors, tmp_path / "graft" / "model.safetensors", metadata={"format": "pt"})
    memory = detect(tmp_path / "graft")
    assert memory is not None
    assert memory.faults


def have_one_position(folder: Path) -> None:
    change_json(folder, "config.json", max_position_embeddings=1)


def have_one_constant_column(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    table = tensors["model.embed_tokens.weight"]
    _, *others = ((table == table[0]).all(0) & (table[0] >= 2**20)).nonzero().flatten().tolist()
    table[:, others] = 0
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.parametrize("spoil", [have_one_position, have_one_constant_column])
def test_a_memory_of_another_layout_is_a_fault_and_not_a_crash(
    tmp_path: Path, grafted: Path, spoil: Callable[[Path], None]
) -> None:
    shutil.copytree(grafted, tmp_path / "graft")
    spoil(tmp_path / "graft")
    memory = detect(tmp_path / "graft")
    assert memory is not None
    assert memory.faults


def test_detect_lists_what_is_stored_and_nothing_elsewhere(grafted: Path, host: Path) -> None:
    memory = detect(grafted)
    assert memory is not None
    assert memory.faults == []
    assert len(memory.answers()) == len(memory.units) > 0
    assert detect(host) is None


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


def lie_about_shapes(folder: Path) -> None:
    change_json(folder, "config.json", hidden_size=4096, num_hidden_layers=80)


def be_a_pickle(folder: Path) -> None:
    (folder / "config.json").unlink()
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps({}))


def be_short(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"0123456789")


def announce_much(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", 2**62) + b"{}")


def need_code(folder: Path) -> None:
    change_json(folder, "config.json", auto_map={"AutoModelForCausalLM": "modeling.Mine"})


def be_gemma(folder: Path) -> None:
    change_json(folder, "config.json", model_type="gemma2")


def slide(folder: Path) -> None:
    change_json(folder, "config.json", model_type="mistral", sliding_window=64)


def scale_dynamically(folder: Path) -> None:
    change_json(
        folder, "config.json", rope_parameters={"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}
    )


def have_an_odd_longest_text(folder: Path) -> None:
    change_json(folder, "tokenizer_config.json", model_max_length={"a": 1})


HOSTILE = [
    have_an_odd_longest_text,
    lie_about_shapes,
    be_a_pickle,
    be_short,
    announce_much,
    need_code,
    be_gemma,
    slide,
    scale_dynamically,
]


@pytest.mark.parametrize("spoil", HOSTILE)
def test_hostile_hosts_are_refused_and_nothing_is_written(
    tmp_path: Path, host: Path, facts: Path, spoil: Callable[[Path], None]
) -> None:
    shutil.copytree(host, tmp_path / "host")
    spoil(tmp_path / "host")
    with pytest.raises((UsageError, CorruptModel)):
        graft(tmp_path / "host", facts, tmp_path / "graft")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["host"]


def test_a_short_file_is_not_a_host(tmp_path: Path, facts: Path) -> None:
    (tmp_path / "host.gguf").write_bytes(b"GGUF012345")
    with pytest.raises((UsageError, CorruptModel)):
        graft(tmp_path / "host.gguf", facts, tmp_path / "graft")


def test_an_answer_that_changes_how_its_key_is_cut_is_refused(host: Path) -> None:
    with pytest.raises(AssumptionViolated) as caught:
        facts_of(load_tokenizer(host), [Row("The capital of Fra", "nce", KeyFormat(spaced=False))])
    assert caught.value.facts["row"] == 0
    assert caught.value.facts["answer_is_at_fault"] is False


def test_an_answer_whose_space_changes_how_its_key_is_cut_is_at_fault() -> None:
    """The advice was to change the key."""

    def tokenizer(text: str, *, add_special_tokens: bool) -> SimpleNamespace:
        assert not add_special_tokens
        return SimpleNamespace(input_ids=[hash(part) for part in re.findall(r"\n *|.", text)])

    keys = KeyFormat(after="\n", spaced=False)
    assert len(facts_of(tokenizer, [Row("rain", "1", keys)])) == 1
    with refused(AssumptionViolated, row=0, answer_is_at_fault=True):
        facts_of(tokenizer, [Row("rain", " 1", keys)])


def test_a_missing_chat_column_is_refused_by_its_own_option(host: Path, facts: Path) -> None:
    """The advice was to give the columns of keys and answers."""
    with refused(UsageError, column="talk") as caught:
        read_rows(facts, load_tokenizer(host), Asking(chat_column="talk"))
    assert "--chat-column" in str(caught.value)


def test_a_text_of_one_token_is_refused(tmp_path: Path, grafted: Path, host: Path, facts: Path) -> None:
    for content in ("", "1"):
        (tmp_path / "text.txt").write_text(content, encoding="utf-8")
        with refused(UsageError, path=str(tmp_path / "text.txt")):
            verify_graft(grafted, facts, host, text=tmp_path / "text.txt")


class _Said(NamedTuple):
    logits: torch.Tensor
    past_key_values: None = None


def test_noise_is_that_of_the_whole_text() -> None:
    """The host leads by 1 everywhere. Its noise is 1 in the second block alone, and the graft says another token in the first."""
    tokens = torch.arange(2 * BLOCK)

    def host(row: torch.Tensor, noise: float = 0.0, **_: object) -> _Said:
        return _Said(torch.stack([1 + noise * (row >= BLOCK), 0.0 * row], -1))

    class Graft:
        device = "cpu"

        def __call__(self, row: torch.Tensor) -> _Said:
            return _Said(torch.stack([1.0 - 2 * (row < BLOCK), 0.0 * row], -1))

    for noise, beyond in ((0.0, BLOCK), (1.0, 0)):
        found = compare_text(Graft(), host, partial(host, noise=noise), tokens.tolist(), silent)
        assert (found.other_argmax, found.beyond_noise, found.host_noise) == (BLOCK, beyond, noise)


@pytest.mark.parametrize(
    "template",
    [
        "no message",
        "{% for m in messages %}{{ m['content'] | upper }}{% endfor %}",
    ],
)
def test_a_chat_template_without_the_message_is_refused(template: str, host: Path) -> None:
    tokenizer = load_tokenizer(host)
    tokenizer.chat_template = template
    with pytest.raises(UsageError):
        chat_format(tokenizer, True)


def test_a_chat_template_of_users_alone_ends_with_the_end_token(host: Path) -> None:
    tokenizer = load_tokenizer(host)
    tokenizer.chat_template = (
        "{% for m in messages %}{% if m['role'] != 'user' %}{{ raise_exception('no') }}{% endif %}"
        "<|start|>{{ m['content'] }}<|of|>{% endfor %}"
    )
    assert chat_format(tokenizer, True).end == tokenizer.eos_token_id


def test_the_commands(
    tmp_path: Path,
    host: Path,
    facts: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["graft", str(host), str(facts), "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 6
    assert run(["graft", str(host), str(facts), "-o", "new"]) == 0
    assert run(["verify", "new", str(facts), "--host", str(host)]) == 0
    assert run(["inspect", "new", "--fact", "The capital of Italy is"]) == 0
    assert "Rome" in capsys.readouterr().out
    assert run(["forget", "new", str(facts), "--keys", "The capital of Italy is", "-o", "less"]) == 0
    assert run(["verify", "less", str(facts), "--host", str(host), "-q"]) == 3
    capsys.readouterr()
    assert run(["detect", "less", "--json"]) == 0
    assert not any("Rome" in str(each["next"]) for each in json.loads(capsys.readouterr().out)["contexts"])
    assert run(["graft", "new", "--remove", "-o", "back"]) == 0
    assert (tmp_path / "back" / "config.json").read_bytes() == (host / "config.json").read_bytes()
    assert run(["graft", str(host), "-o", "other"]) == 2
    assert run(["forget", str(host), str(facts), "--keys", "The capital of Italy is", "-o", "bare"]) == 2


def test_inspect_counts_each_unit_once_and_names_who_shares_it(
    grafted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key = "The capital of Italy is"
    assert run(["inspect", str(grafted), "--fact", key, "--json"]) == 0
    units = json.loads(capsys.readouterr().out)["units"]
    n_units = len({(each["layer"], each["unit"]) for each in units})
    assert n_units < len(units)
    assert all(each["sharing"] == [] for each in units)
    assert run(["inspect", str(grafted), "--fact", key]) == 0
    assert f" {n_units} hidden units" in capsys.readouterr().out


def test_a_graft_is_named_where_a_model_is_needed(grafted: Path, facts: Path) -> None:
    """The error said that model.json is missing."""
    with refused(UsageError, path=str(grafted), is_graft=True):
        load(grafted)


def test_a_folder_is_no_file_to_export_to(tmp_path: Path, grafted: Path) -> None:
    """The advice was to free disk space."""
    with refused(UsageError, path=str(tmp_path)) as caught:
        export_model(grafted, "gguf", tmp_path)
    assert "disk" not in str(caught.value)
