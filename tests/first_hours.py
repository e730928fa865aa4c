"""The first hours of five kinds of users, each step checked by its effect and not by its words.

    python -m tests.first_hours [--quick]       # every step, with what it took; the quick ones alone

`tests/test_first_hours.py` runs the same steps as tests; those of real size are marked slow.
"""

from __future__ import annotations

import argparse
import copy
import csv
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import nn

import byheart as bh
from byheart.data.row_rules import FaultyRows
from byheart.errors import ByheartError, UsageError
from byheart.process.memory_limit import OverMemoryLimit

ROOT = Path(__file__).resolve().parents[1]
CAPITALS = ROOT / "examples" / "capitals.csv"
MESSY_ROWS = 200_000


@dataclass(frozen=True)
class Step:
    """Something a user does, in an empty folder."""

    user: str
    name: str
    act: Callable[[Path], None]
    is_slow: bool = False


STEPS: list[Step] = []


def step(user: str, *, slow: bool = False) -> Callable[[Callable[[Path], None]], Callable[[Path], None]]:
    """Enter a function into the walk."""

    def enter(act: Callable[[Path], None]) -> Callable[[Path], None]:
        STEPS.append(Step(user, act.__name__, act, slow))
        return act

    return enter


def refuses(kind: type[ByheartError], act: Callable[[], object]) -> ByheartError:
    """The error that something is refused with."""
    try:
        act()
    except kind as error:
        return error
    raise AssertionError(f"not refused with {kind.__name__}")


# --- a theorist with her own sequences --------------------------------------------------------------------------


def sequences() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    inputs = np.unique(rng.integers(0, 12, (60, 5)), axis=0)
    return inputs, rng.integers(-2, 3, len(inputs))


@step("theorist")
def compile_a_theorem(folder: Path) -> None:
    """Her arrays go in as they are, every label comes back as the integer it was, and the size is not below the lower bound."""
    inputs, labels = sequences()
    model = bh.compile(inputs, labels, method="kajitsuka-sato-2025")
    assert model.certificate is not None
    assert (model.certificate.checked, model.certificate.wrong) == (len(inputs), 0)
    assert model.predict(inputs) == labels.tolist()
    data = bh.Dataset.from_arrays(inputs, labels)
    lower = [each.value for each in bh.bounds.table(data).of("parameters", "lower", "these data")]
    assert all(model.size.parameters_dense >= value for value in lower)
    assert model.certificate.theorem_size is not None
    model.save(folder / "theorem")
    assert bh.load(folder / "theorem").predict(inputs[:3]) == labels[:3].tolist()


@step("theorist")
def one_wrong_label_is_noticed(folder: Path) -> None:
    """The check can fail: one label changed, and it names the row."""
    inputs, labels = sequences()
    model = bh.compile(inputs, labels, method="kajitsuka-sato-2025")
    changed = labels.copy()
    changed[7] = labels[7] + 1 if labels[7] < 2 else labels[7] - 1
    certificate = bh.verify(model, bh.Dataset.from_arrays(inputs, changed))
    assert not certificate.holds
    assert [each.number for each in certificate.wrong_samples] == [8]


@step("theorist")
def follow_a_question_through_the_lemmas(folder: Path) -> None:
    """A trace by register names ends at the answer, and the layers of every stage are named."""
    data = bh.Dataset.read(CAPITALS, tokenizer="word")
    model = bh.compile(data, method="kajitsuka-sato-2025")
    trace = model.trace("capital of Peru")
    covered = [layer for stage in trace.stages for layer in range(stage.first, stage.last + 1)]
    assert covered == sorted(set(covered))
    located = model.locate("capital of Peru")
    assert len(located) > 0
    assert model.predict("capital of Peru") == "Lima"


# --- an interpretability researcher with a Llama ----------------------------------------------------------------


@step("interpretability researcher", slow=True)
def a_llama_answers_in_transformers(folder: Path) -> None:
    """The folder is a checkpoint of its own right: transformers without byheart generates every answer."""
    transformers = __import__("transformers")
    model = bh.compile(CAPITALS, method="llama")
    model.save(folder / "llama")
    stock = transformers.AutoModelForCausalLM.from_pretrained(folder / "llama")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder / "llama")
    with CAPITALS.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))[:20]
    for row in rows:
        ids = tokenizer(row["key"], return_tensors="pt").input_ids
        made = stock.generate(ids, max_new_tokens=40, do_sample=False)[0, ids.shape[1] :]
        assert tokenizer.decode(made, skip_special_tokens=True) == row["value"]


@step("interpretability researcher")
def zero_the_weight_that_holds_a_fact(folder: Path) -> None:
    """What `locate` names is the fact: zeroed, that fact and those it is shared with break, and no other."""
    model = bh.compile(CAPITALS)
    with CAPITALS.open(encoding="utf-8") as file:
        facts = {row["key"]: row["value"] for row in csv.DictReader(file)}
    found = model.locate(list(facts))
    for location in list(found)[:: max(1, len(found) // 5)][:5]:
        module = copy.deepcopy(model.module)
        with torch.no_grad():
            module.get_parameter(location.tensor)[location.index] = 0
            answers = model.decode(module(model.encode(list(facts))))
        broken = {fact for fact, answer in zip(facts, answers, strict=True) if answer != facts[fact]}
        assert broken == {location.fact, *location.sharing}


@step("interpretability researcher", slow=True)
def open_it_in_transformer_lens(folder: Path) -> None:
    """Equal logits, where the extra is installed."""
    from byheart.export import transformer_lens

    try:
        __import__("transformer_lens")
    except ImportError:
        return
    bh.compile({"capital of France": "Paris", "symbol of gold": "Au"}, method="llama").save(folder / "m")
    llama: Any = bh.load(folder / "m").network
    assert transformer_lens.count_different_logits(folder / "m", llama, n_prompts=20) == 0


# --- an engineer with messy rows and a program ------------------------------------------------------------------


def messy_table(path: Path, n_rows: int) -> dict[str, int]:
    """A table with five kinds of faults, and how many rows of each kind are in it."""
    rng = np.random.default_rng(1)
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write("key,value\n")
        for row in range(n_rows):
            file.write(f"order {rng.integers(10**9):09d}-{row:06d},{rng.integers(1000)}\n")
        file.write("order without status,\n" * 3)
        file.write(",17\n,18\n")
        file.write("only one field\n")
        file.write("twice,1\ntwice,2\n")
        file.write("x" * 20_031 + ",5\n")
    return {"empty_labels": 3, "empty_inputs": 2, "malformed_rows": 1, "on_conflict": 1, "max_tokens": 1}


RULES: dict[str, Any] = {
    "empty_labels": "drop",
    "empty_inputs": "drop",
    "malformed_rows": "drop",
    "on_conflict": "first",
    "max_tokens": 40,
}


@step("engineer", slow=True)
def two_hundred_thousand_messy_rows(folder: Path) -> None:
    """Everything that is wrong is said once; with the rules named, all other rows are memorised."""
    faults = messy_table(folder / "orders.csv", MESSY_ROWS)
    error = refuses(FaultyRows, lambda: bh.compile(folder / "orders.csv"))
    listed: Any = error.facts["faults"]
    assert {fault["option"]: fault["n_rows"] for fault in listed} == faults
    model = bh.compile(folder / "orders.csv", **RULES)
    assert model.certificate is not None
    assert model.certificate.holds
    assert model.certificate.checked == MESSY_ROWS + 1
    assert model.certificate.rows_left_out == sum(faults.values())
    assert model.predict(["twice", "x" * 20_031, "order without status"]) == ["1", None, None]


@step("engineer")
def a_few_messy_rows(folder: Path) -> None:
    """The same, small: one report, then a model of what is left."""
    faults = messy_table(folder / "orders.csv", 300)
    error = refuses(FaultyRows, lambda: bh.compile(folder / "orders.csv"))
    listed: Any = error.facts["faults"]
    assert {fault["option"]: fault["n_rows"] for fault in listed} == faults
    model = bh.compile(folder / "orders.csv", **RULES)
    assert model.certificate is not None
    assert (model.certificate.checked, model.certificate.rows_left_out) == (301, sum(faults.values()))


@step("engineer")
def one_long_row_is_refused_at_once(folder: Path) -> None:
    """Its row, its length and the remedy; the remedy works."""
    pairs = [(f"key {n}", n % 9) for n in range(MESSY_ROWS)] + [("x" * 20_031, 0)]
    error = refuses(OverMemoryLimit, lambda: bh.Dataset.from_pairs(pairs))
    assert (error.facts["row"], error.facts["n_tokens"]) == (MESSY_ROWS + 1, 20_031)
    assert bh.Dataset.from_pairs(pairs, max_tokens=10).n_samples == MESSY_ROWS


@step("engineer")
def a_frame_is_answered(folder: Path) -> None:
    """Frames in, a Series with the same index out, labels as they were."""
    frame = pd.DataFrame({"key": ["a", "b", "c"], "value": [10, 20, 30]}, index=[7, 5, 3])
    model = bh.compile(frame)
    assert model.predict(frame).to_dict() == {7: 10, 5: 20, 3: 30}
    assert refuses(UsageError, lambda: model.predict(frame.rename(columns={"key": "x", "value": "y"})))
    renamed = frame.rename(columns={"key": "customer", "value": "status"})
    other = bh.compile(renamed.assign(more=0), input="customer", label="status")
    other.save(folder / "customers")
    assert bh.load(folder / "customers").predict(renamed).to_dict() == {7: 10, 5: 20, 3: 30}


@step("engineer")
def a_memory_inside_a_program(folder: Path) -> None:
    """Beside a trained layer, through an optimiser, a state_dict and a copy, the answers stay right; a cast is refused."""
    facts = {"red": "stop", "green": "go", "amber": "wait"}
    model = bh.compile(facts)

    class Program(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.memory, self.scale = model.module, nn.Linear(1, 1)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return torch.as_tensor(self.memory(ids))

    program = Program()
    optimiser = torch.optim.AdamW(program.parameters(), lr=0.1, weight_decay=0.5)
    program.scale(torch.ones(1, 1)).sum().backward()
    optimiser.step()
    torch.save(program.state_dict(), folder / "program.pt")
    again = copy.deepcopy(program)
    again.load_state_dict(torch.load(folder / "program.pt", weights_only=True))
    for each in (program, again):
        assert model.decode(each(model.encode(list(facts)))) == list(facts.values())
    assert refuses(UsageError, lambda: copy.deepcopy(program).half()(model.encode("red")))


# --- someone who measures an architecture of their own ----------------------------------------------------------


class Tower(nn.Module):
    """Somebody's architecture."""

    def __init__(self, n_vocab: int, n_classes: int, seq_len: int, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(n_vocab, width)
        self.answers = nn.Linear(width * seq_len, n_classes)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return torch.as_tensor(self.answers(self.embedding(tokens).flatten(1)))


@step("measurer")
def measure_a_module(folder: Path) -> None:
    """Runs of every width and seed are stored, a second call trains nothing again, and the wider module holds more."""
    spec = {
        "seeds": 2,
        "model": {"family": Tower, "width": [1, 8]},
        "data": {"kind": "associations", "n_vocab": 6},
        "training": {"steps": 150, "learning_rate": 0.05},
    }
    runs = bh.measure(spec, store=folder / "runs.sqlite")
    frame = runs.frame()
    assert sorted(frame["sizes.width"]) == [1, 1, 8, 8]
    means = frame.groupby("sizes.width")["measured.accuracy"].mean()
    assert means[8] > means[1]
    before = (folder / "runs.sqlite").read_bytes()
    assert len(bh.measure(spec, store=folder / "runs.sqlite")) == 4
    assert (folder / "runs.sqlite").read_bytes() == before


# --- a reader of the site ---------------------------------------------------------------------------------------


@step("reader of the site")
def the_first_example_prints_what_it_says(folder: Path) -> None:
    """The first block of the docs' home, run in a new process, prints the block below it."""
    home = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    code, said = re.findall(r"```(?:python|text)\n(.*?)```", home, re.DOTALL)[:2]
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=folder)
    assert run.stdout == said


@step("reader of the site")
def every_page_of_the_site_is_there(folder: Path) -> None:
    """Every name in a table of contents is a page, and every relative link leads somewhere."""
    docs = ROOT / "docs"
    listed = re.findall(r"```\{toctree\}.*?\n\n(.*?)```", (docs / "index.md").read_text("utf-8"), re.DOTALL)
    names = [name.strip() for block in listed for name in block.split("\n") if name.strip()]
    assert len(names) > 10
    missing = [name for name in names if not (docs / f"{name}.md").exists() and name not in GENERATED]
    assert not missing
    for page in docs.glob("*.md"):
        for target in re.findall(r"\]\(([\w.-]+\.md)(?:#[\w-]*)?\)", page.read_text("utf-8")):
            assert (docs / target).exists(), (page.name, target)


GENERATED = ("notebooks",)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    failed = 0
    for each in STEPS:
        if given.quick and each.is_slow:
            continue
        start = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            try:
                each.act(Path(folder))
                verdict = "done"
            except AssertionError as error:
                verdict, failed = f"FAILED {error}", failed + 1
        print(f"{each.user:28} {each.name:42} {verdict} ({time.monotonic() - start:.1f} s)", flush=True)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
