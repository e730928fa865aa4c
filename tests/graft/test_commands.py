"""What the commands say of rows, templates and folders that do not fit."""

from __future__ import annotations

import json
import re
import shutil
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pytest
import torch

from byheart.cli.main import run
from byheart.documents.exports import export_model
from byheart.errors import AssumptionViolated, MalformedFile, UsageError
from byheart.graft.recall import BLOCK, compare_text
from byheart.graft.rows import read_rows
from byheart.graft.texts import Asking, KeyFormat, Row, chat_format, facts_of, load_tokenizer
from byheart.graft.workflow import verify_graft
from byheart.pipeline import load
from byheart.process.progress import silent
from tests.graft.hosts import change_json
from tests.refusal import refused


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


def test_one_column_cannot_hold_keys_and_answers(host: Path, facts: Path) -> None:
    for columns in ({"input": "value"}, {"label": "key"}):
        with refused(UsageError, "column"):
            read_rows(facts, load_tokenizer(host), Asking(), **columns)


def test_a_missing_chat_column_is_refused_by_its_own_option(host: Path, facts: Path) -> None:
    """The advice was to give the columns of keys and answers."""
    with refused(UsageError, column="talk") as caught:
        read_rows(facts, load_tokenizer(host), Asking(chat_column="talk"))
    assert "--chat-column" in str(caught.value)


@pytest.mark.skipif(torch.cuda.is_available(), reason="the device is there")
def test_a_device_that_is_not_there_is_refused(grafted: Path, host: Path, facts: Path) -> None:
    """PyTorch ended the check with a traceback after every tensor was read."""
    with refused(UsageError, device="cuda"):
        verify_graft(grafted, facts, host, device="cuda")


def test_a_spreadsheet_is_no_text(tmp_path: Path, grafted: Path, host: Path, facts: Path) -> None:
    """Its bytes were compared as if they were text."""
    (tmp_path / "text.xlsx").write_bytes(b"PK\x03\x04" + bytes(range(256)))
    with refused(MalformedFile, path=str(tmp_path / "text.xlsx")):
        verify_graft(grafted, facts, host, text=tmp_path / "text.xlsx")


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


def test_remove_is_refused_with_options_that_it_does_not_have(
    tmp_path: Path, grafted: Path, facts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without -o, the advice was --dry-run, which was refused. With both, --dry-run was ignored."""
    new = str(tmp_path / "new")
    for arguments in ([], ["--dry-run"], ["--dry-run", "-o", new], [str(facts), "-o", new]):
        assert run(["graft", str(grafted), "--remove", *arguments]) == 2
        assert "to write nothing" not in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_inspect_of_a_graft_refuses_data(grafted: Path, facts: Path) -> None:
    """They were ignored."""
    for choice in ([], ["--fact", "The capital of Italy is"]):
        assert run(["inspect", str(grafted), "--data", str(facts), *choice]) == 2


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


def test_inspect_of_a_graft_shows_its_record_in_words(
    tmp_path: Path, grafted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It printed the names of fields and numbers such as 4.214167092488503."""
    assert run(["inspect", str(grafted), "--json"]) == 0
    record = json.loads(capsys.readouterr().out)["record"]
    assert run(["inspect", str(grafted)]) == 0
    shown = capsys.readouterr().out
    assert not any(name in shown for name in ("_", "code", "schema", str(record["ratio"])))
    assert f"{record['grafted_parameters']:,}" in shown
    shutil.copytree(grafted, tmp_path / "graft")
    for width in ([48], [48, 1, 2], "48"):
        change_json(tmp_path / "graft", "graft.json", width=width)
        assert run(["inspect", str(tmp_path / "graft")]) == 3


def test_a_graft_is_named_where_a_model_is_needed(grafted: Path, facts: Path) -> None:
    """The error said that model.json is missing."""
    with refused(UsageError, path=str(grafted), is_graft=True):
        load(grafted)


def test_a_folder_is_no_file_to_export_to(tmp_path: Path, grafted: Path) -> None:
    """The advice was to free disk space."""
    with refused(UsageError, path=str(tmp_path)) as caught:
        export_model(grafted, "gguf", tmp_path)
    assert "disk" not in str(caught.value)
