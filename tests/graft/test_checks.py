"""What reads grafts back: every tampering is found, and every context is listed."""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from byheart.cli.main import run
from byheart.errors import ByheartError, CorruptModel
from byheart.graft.contexts import merge_contexts
from byheart.graft.reading import Reading
from byheart.graft.structure import ContextFault
from byheart.graft.texts import Asking, encode, load_tokenizer
from byheart.graft.workflow import OTHER_TEXT, AskedFormat, detect, graft, verify_graft
from tests.graft.hosts import change_json, nudge, save_host


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
    assert (
        "config.json: num_attention_heads / num_key_value_heads is 2, but must be 1 in a graft of this host"
        in faults
    )


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


def test_a_host_that_outweighs_the_constant_columns_is_a_fault(
    tmp_path: Path, host: Path, facts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its numbers change what the norms of the added layers divide by. `verify` said that everything holds."""
    shutil.copytree(host, tmp_path / "host")
    tensors = load_file(tmp_path / "host" / "model.safetensors")
    tensors["model.embed_tokens.weight"][5:60, 3] = 2.0**33
    save_file(tensors, tmp_path / "host" / "model.safetensors", metadata={"format": "pt"})
    monkeypatch.setattr("byheart.graft.grafting.check_embedding", lambda host: None)
    graft(tmp_path / "host", facts, tmp_path / "graft")
    found = verify_graft(tmp_path / "graft", facts, tmp_path / "host", ask=False)
    assert [fault.split(":")[0] for fault in found.faults] == ["model.embed_tokens.weight"]


def test_a_graft_without_heads_has_no_lead(
    tmp_path: Path, host: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The document was not JSON: it held Infinity."""
    data = tmp_path / "facts.csv"
    data.write_text("key,value\n9,2\n", encoding="utf-8")
    graft(host, data, tmp_path / "graft")
    command = ["verify", str(tmp_path / "graft"), str(data), "--host", str(host)]
    capsys.readouterr()
    assert run([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["least_nats"] is None
    assert run(command) == 0
    assert "inf" not in capsys.readouterr().out


def test_detect_lists_what_is_stored_and_nothing_elsewhere(grafted: Path, host: Path) -> None:
    memory = detect(grafted)
    assert memory is not None
    assert memory.faults == []
    assert len(memory.answers()) == len(memory.units) > 0
    assert detect(host) is None


def test_contexts_and_answers_that_differ_are_named_as_text_and_as_tokens(
    tmp_path: Path, grafted: Path, host: Path, facts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Faults named token ids only, and wrong rows only their number."""
    other = tmp_path / "other.csv"
    other.write_text(facts.read_text(encoding="utf-8").replace("Rome", "Oslo"), encoding="utf-8")
    key, row = "The capital of Italy is", 1
    found = verify_graft(grafted, other, host)
    assert {each.row for each in found.wrong_answers} == set(found.wrong_rows) == {row}
    assert {each.before for each in found.wrong_answers} == {"", OTHER_TEXT}
    first = found.wrong_answers[0]
    assert (first.prompt.strip(), first.expected, first.said) == (key, " Oslo.", " Rome.")
    tokenizer = load_tokenizer(host)
    rome, oslo = (tokenizer.convert_tokens_to_ids(name) for name in ("Rome", "Oslo"))
    asked = tuple(encode(tokenizer, f"{key} "))
    assert ContextFault(asked, rome, oslo) in found.context_faults
    assert ContextFault((*asked, rome), tokenizer.convert_tokens_to_ids("."), None) in found.context_faults
    assert ContextFault((*asked, oslo), None, tokenizer.convert_tokens_to_ids(".")) in found.context_faults
    assert not any(str(rome) in fault for fault in found.faults)
    assert any(f"{key} " in fault for fault in found.faults)

    check = ["verify", str(grafted), str(other), "--host", str(host)]
    assert run([*check, "--json"]) == 3
    said = json.loads(capsys.readouterr().out)
    assert said["context_faults"][0]["tokens"]
    assert (said["wrong_answers"][0]["row"], said["wrong_answers"][0]["said"]) == (row, " Rome.")
    assert run(check) == 3
    captured = capsys.readouterr()
    assert {key, "Oslo", "Rome"} <= set(re.findall(f"{key}|Oslo|Rome", " ".join(captured.out.split())))


def test_loading_has_a_stage_of_its_own_and_transformers_shows_no_bars(
    grafted: Path, host: Path, facts: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """`read: 0%` stood for the seconds in which transformers is imported."""
    stages: list[str] = []

    def progress(done: int, total: int, stage: str = "", /) -> None:
        stages.append(stage)

    verify_graft(grafted, facts, host, progress=progress)
    assert "Loading weights" not in capfd.readouterr().err
    assert "load transformers" in stages
    stages.clear()
    detect(grafted, progress)
    assert stages[0] == "load transformers"
    stages.clear()
    graft(host, facts, None, progress=progress)
    assert "load transformers" in stages
