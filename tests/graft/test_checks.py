"""What reads grafts back: every tampering is found, every context listed, facts and whole grafts taken out again."""

from __future__ import annotations

import json
import pickle
import random
import shutil
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from safetensors.torch import load_file, save_file

from byheart.cli.main import run
from byheart.errors import AssumptionViolated, ByheartError, CorruptModel, UsageError
from byheart.graft.contexts import merge_contexts
from byheart.graft.reading import Reading
from byheart.graft.recall import BLOCK, compare_text
from byheart.graft.removal import remove_graft
from byheart.graft.texts import KeyFormat, Row, chat_format, facts_of, load_tokenizer
from byheart.graft.workflow import detect, forget, graft, verify_graft
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
