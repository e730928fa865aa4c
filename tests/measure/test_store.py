"""The store keeps what it was given: immutable, versioned, shared, and intact when things go wrong."""

from __future__ import annotations

import math
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from byheart.errors import ExitStatus, UsageError
from byheart.measure import schema
from byheart.measure.families import ModelConfig
from byheart.measure.recipe import PassRule, Training
from byheart.measure.records import Record, Run, canonical, pack_curve
from byheart.measure.specification import MOST_RUNS
from byheart.measure.stack_plan import record_of
from byheart.measure.store import (
    MOST_BYTES,
    MOST_TEXT_BYTES,
    CorruptStore,
    NewerStore,
    Store,
    StoreStopped,
    this_process,
)
from byheart.measure.stored_record import COLUMNS, read_curve
from byheart.measure.trainer import Outcome
from tests.refusal import refused


def run_of(seed: int = 0, **training: object) -> Run:
    return Run(
        ModelConfig("attention-only", {"dim": 2, "head_dim": 2, "n_heads": 1}),
        {"kind": "associations", "n_vocab": 4, "seq_len": 2, "seed": seed},
        Training(steps=10, **training),
        seed,
    )


def record(seed: int = 0, loss: float = 0.5, points: int = 11) -> Record:
    rng = np.random.default_rng(seed)
    outcome = Outcome(
        "done", 10, {"loss": loss, "accuracy": 0.25}, np.arange(points), {"loss": rng.random(points)}, 44, 0.1
    )
    found = record_of(run_of(seed), outcome, torch.device("cpu"))
    return replace(found, device="cpu", created=f"2030-01-01T00:00:{seed:02}")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.sqlite"


def test_a_record_comes_back_as_it_went_in(path: Path) -> None:
    first, second = record(1), record(2, loss=math.nan)
    with Store(path) as store:
        assert store.add(first)
        assert store.add(second)
    with Store(path) as store:
        back, lost = store.records()
        assert back.config == first.config
        assert back.measured == first.measured
        assert back.versions == first.versions
        np.testing.assert_array_equal(back.curve_steps, first.curve_steps)
        np.testing.assert_allclose(back.curve["loss"], first.curve["loss"], rtol=2**-24)
        assert math.isnan(lost.measured["loss"])  # a diverged run is a record too
        assert Run.of(back.config).key == first.key
        assert store.connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"


def test_keys_follow_the_configuration_and_nothing_else() -> None:
    assert run_of().key == run_of().key
    others = [run_of(1), run_of(learning_rate=2e-3), run_of(stop=PassRule("accuracy", 1.0)), run_of(batch=3)]
    assert len({run_of().key, *(run.key for run in others)}) == 5
    spelled_out = Run(
        ModelConfig(
            "attention-only",
            {"n_heads": 1, "dim": 2, "head_dim": 2, "mlp_width": 0},
            {"variant": "as-written"},
        ),
        run_of().data,
        run_of().training,
        0,
    )
    assert spelled_out.key == run_of().key  # defaults count as given
    assert Run.of(run_of(stop=PassRule("loss", 0.5)).config) == run_of(stop=PassRule("loss", 0.5))


def test_the_path_of_a_file_is_not_part_of_the_key() -> None:
    here, there = (
        Run(run_of().model, {"kind": "documents", "path": path, "sha256": "ab"}, run_of().training, 0)
        for path in ("/a/x.jsonl", "/b/y.jsonl")
    )
    assert here.key == there.key


def test_records_are_immutable(path: Path) -> None:
    with Store(path) as store:
        assert store.add(record(1, loss=0.5))
        assert not store.add(record(1, loss=0.1))  # the first stays
        assert store.records()[0].measured["loss"] == 0.5
        for statement in ("UPDATE runs SET status = 'x'", "DELETE FROM runs"):
            with pytest.raises(sqlite3.IntegrityError, match="immutable"):
                store.connection.execute(statement)


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_store_that_was_taken_away_is_noticed(path: Path, is_replaced: bool) -> None:
    with Store(path) as store:
        store.add(record(0))
        path.rename(path.with_suffix(".moved"))
        if is_replaced:
            path.write_bytes(path.with_suffix(".moved").read_bytes())
        with refused(StoreStopped, "path"):
            store.add(record(1))


def test_claims_keep_two_writers_apart(path: Path) -> None:
    with Store(path) as one, Store(path) as two:
        one.add(record(0))
        keys = [run_of(seed).key for seed in range(5)]
        assert one.claim([*keys, *keys], "host:1:x", limit=2) == keys[1:3]
        assert two.claim([*keys, *keys], "host:2:x") == keys[3:]
        assert two.claim(keys, "host:2:x") == []
        one.release("host:1:x")
        assert two.claim(keys, "host:2:x") == keys[1:3]


def test_claims_of_the_dead_are_taken_over(path: Path) -> None:
    code = f"from byheart.measure.store import Store; Store({str(path)!r}).claim(['k'])"
    subprocess.run([sys.executable, "-c", code], check=True)
    with Store(path) as store:
        assert store.connection.execute("SELECT count(*) FROM claims").fetchone()[0] == 1
        assert store.claim(["k"]) == ["k"]


def test_claims_elsewhere_lapse_with_their_lease(path: Path) -> None:
    with Store(path) as store:
        store.claim(["k"], "elsewhere:1:x")
        assert store.claim(["k"]) == []
        store.connection.execute("UPDATE claims SET expires = 0")
        store.renew("elsewhere:1:x")
        assert store.claim(["k"]) == []
        store.connection.execute("UPDATE claims SET expires = 0")
        assert store.claim(["k"]) == ["k"]


def test_a_live_process_of_this_machine_keeps_its_claims(path: Path) -> None:
    """A single training step may take longer than the lease, and meanwhile nothing renews it."""
    with Store(path) as store:
        store.claim(["k"])
        store.connection.execute("UPDATE claims SET expires = 0")
        assert store.claim(["k"], "elsewhere:1:x") == []


def test_a_reused_process_id_is_not_taken_for_the_owner(path: Path) -> None:
    with Store(path) as store:
        host, pid, _ = this_process().split(":")
        assert pid == str(os.getpid())
        store.claim(["k"], f"{host}:{pid}:1")  # this process, started at another time
        assert store.claim(["k"]) == ["k"]


def test_a_store_of_version_1_is_brought_forward(path: Path) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    schema.migrate(connection, upto=1)
    assert schema.version_of(connection) == 1
    connection.execute(
        "INSERT INTO runs VALUES (?, ?, 'done', 1, '{}', 1, 1, 1, 'cpu', '{}', 'now', ?)",
        (run_of().key, canonical(run_of().config), pack_curve(np.arange(2), {"loss": np.ones(2)})),
    )
    connection.close()
    with Store(path) as store:
        assert schema.version_of(store.connection) == schema.VERSION
        assert [found.key for found in store.records()] == [run_of().key]
        assert store.claim(["new"]) == ["new"]


def test_a_newer_store_is_refused_and_left_alone(path: Path) -> None:
    with Store(path) as store:
        store.add(record())
        store.connection.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
    before = path.read_bytes()
    with refused(NewerStore, "path", version=3) as caught:
        Store(path)
    assert caught.value.exit_status == ExitStatus.USAGE
    assert path.read_bytes() == before


@pytest.mark.parametrize("damage", ["text", "page", "cut"])
def test_a_damaged_store_is_named_and_left_alone(path: Path, damage: str) -> None:
    with Store(path) as store:
        for seed in range(50):
            store.add(record(seed, points=500))
        store.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    raw = bytearray(path.read_bytes())
    if damage == "text":
        raw[:] = b"this is no database, only some text that is long enough to look at" * 20
    elif damage == "page":
        raw[4096 * 3 : 4096 * 8] = os.urandom(4096 * 5)
    else:
        del raw[len(raw) // 2 :]
    path.write_bytes(raw)
    with refused(CorruptStore, "path") as caught:
        Store(path)
    assert caught.value.exit_status == ExitStatus.FALSE
    assert path.read_bytes() == bytes(raw)


def test_another_programs_database_is_refused(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    with refused(CorruptStore, "path"):
        Store(path)


@pytest.mark.parametrize(
    "changes",
    [
        ("ALTER TABLE runs ADD COLUMN more TEXT",),
        (
            "DROP TABLE claims",
            "CREATE VIEW claims AS SELECT key, device AS owner, seconds AS expires FROM runs",
        ),
        ("DROP TRIGGER runs_are_never_removed",),
        ("CREATE TRIGGER own AFTER INSERT ON runs BEGIN DELETE FROM claims; END",),
        (
            "DROP TRIGGER runs_are_never_removed",
            "CREATE TRIGGER runs_are_never_removed AFTER INSERT ON runs BEGIN DELETE FROM runs; END",
        ),
        ("DROP INDEX runs_by_family", "CREATE INDEX runs_by_family ON runs (abs(steps))"),
        ("CREATE INDEX own ON runs (abs(steps))",),
    ],
)
def test_tables_that_are_not_ours_are_refused(path: Path, changes: tuple[str, ...]) -> None:
    """A view may never end, a column too many ended in a traceback, and a trigger may remove what was just stored."""
    with Store(path) as store:
        store.add(record(0))
        for change in changes:
            store.connection.execute(change)
    with refused(CorruptStore, "path"):
        Store(path)


def test_a_trigger_with_the_name_of_a_table_is_refused(path: Path) -> None:
    """Listed by name alone, the table of the same name hid it; this one drops every record."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        schema.migrate(connection, upto=1)
        connection.execute("CREATE TRIGGER claims BEFORE INSERT ON runs BEGIN SELECT RAISE(IGNORE); END")
        schema.migrate(connection)
    with refused(CorruptStore, "path"):
        Store(path)


def test_a_million_keys_are_looked_up_at_once(path: Path) -> None:
    with Store(path) as store:
        store.add(record(0))
        keys = [f"{number:064x}" for number in range(MOST_RUNS - 1)]
        assert store.stored_keys([*keys, run_of(0).key]) == {run_of(0).key}


def test_a_full_disk_stops_clearly_and_keeps_the_records(path: Path) -> None:
    with Store(path) as store:
        for seed in range(3):
            store.add(record(seed))
        pages = store.connection.execute("PRAGMA page_count").fetchone()[0]
        store.connection.execute(f"PRAGMA max_page_count = {pages + 1}")  # as full as a disk can be
        with refused(StoreStopped, "path") as caught:
            _ = [store.add(record(seed, points=3000)) for seed in range(3, 50)]
        assert caught.value.exit_status == ExitStatus.STOPPED
        kept = store.count()
    with Store(path) as store:
        assert store.count() == kept >= 3
        assert store.add(record(60))  # and goes on when there is room


def test_missing_places_are_named(tmp_path: Path) -> None:
    with refused(UsageError, "path"):
        Store(tmp_path / "nowhere" / "runs.sqlite")
    with refused(UsageError, "path"):
        Store(tmp_path / "runs.sqlite", create=False)
    for create in (True, False):  # a folder was reported as a full disk
        with refused(UsageError, path=str(tmp_path)):
            Store(tmp_path, create=create)


def test_curves_are_compressed() -> None:
    steps, loss = np.arange(1000), np.linspace(3, 0, 1000)
    packed = pack_curve(steps, {"loss": loss})
    assert len(packed) < steps.nbytes + loss.nbytes
    back_steps, back = read_curve(packed)
    np.testing.assert_array_equal(back_steps, steps)
    np.testing.assert_allclose(back["loss"], loss, atol=3 * 2**-24)


def set_value(path: Path, column: str, value: object) -> None:
    """Store the record of run 0 with another value in one column."""
    with Store(path) as store:
        store.add(record(0))
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        trigger = connection.execute(
            "SELECT sql FROM sqlite_master WHERE name = 'runs_are_never_changed'"
        ).fetchone()[0]
        connection.execute("DROP TRIGGER runs_are_never_changed")
        connection.execute("DROP INDEX runs_by_family")  # it would parse the value
        connection.execute(f"UPDATE runs SET {column} = ?", (value,))
        connection.execute(trigger)


@pytest.mark.parametrize(
    ("column", "value", "name"),
    [
        ("config", "[1]", "config"),
        ("config", '{"family": 3}', "config.family"),
        ("config", "{", "config"),
        ("measured", '{"loss": "high"}', "measured.loss"),
        ("measured", '{"accuracy": 1.5}', "measured.accuracy"),
        ("measured", '{"accuracy_tail": -0.1}', "measured.accuracy_tail"),
        ("versions", "5", "versions"),
        ("status", "finished", "status"),
        ("steps", "many", "steps"),
        ("steps", -5, "steps"),
        ("n_parameters", -1, "n_parameters"),
        ("n_samples", -1.0, "n_samples"),
        ("seconds", math.inf, "seconds"),
    ],
)
def test_a_record_with_odd_fields_is_named(path: Path, column: str, value: object, name: str) -> None:
    set_value(path, column, value)
    with Store(path) as store, refused(CorruptStore, "path", name=name):
        store.records()


@pytest.mark.parametrize("value", [b"PK", "text"])
def test_a_curve_that_cannot_be_read_is_damage(path: Path, value: object) -> None:
    set_value(path, "curve", value)
    with Store(path) as store, refused(CorruptStore, path=str(path)):
        store.records()


def nested(n_levels: int) -> str:
    """Return a config whose data are too deep to be written again, but not to be read."""
    return canonical(run_of(0).config | {"data": 0}).replace(
        '"data":0', f'"data":{{"x":{"[" * n_levels}{"]" * n_levels}}}'
    )


@pytest.mark.parametrize(
    "config", [canonical(run_of(7).config), canonical(run_of(0).config | {"more": 1}), nested(600)]
)
def test_a_config_that_is_not_that_of_its_key_is_refused(path: Path, config: str) -> None:
    """`measure` printed a changed size as a result of the size that it was asked for."""
    set_value(path, "config", config)
    with Store(path) as store, refused(CorruptStore, "path", run=f"run {run_of(0).key[:12]}", name="config"):
        store.records()


def test_a_record_of_a_moved_file_is_read(path: Path) -> None:
    """The path of a file is not part of the key."""
    config = run_of(0).config
    moved = [config | {"data": config["data"] | {"path": place}} for place in ("/a", "/b")]
    with Store(path) as store:
        store.add(replace(record(0), config=moved[0]))
        assert [found.config for found in store.records()] == moved[:1]
    set_value(path, "config", canonical(moved[1]))
    with Store(path) as store:
        assert [found.config for found in store.records()] == moved[1:]


@pytest.fixture
def without_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("byheart.measure.store.read_row", lambda _: pytest.fail("the value was read"))


@pytest.mark.usefixtures("without_reader")
def test_a_value_that_is_too_large_is_not_read(path: Path) -> None:
    set_value(path, "curve", bytes(MOST_BYTES + 1))
    with Store(path) as store, refused(CorruptStore, "path"):
        store.records()


@pytest.mark.usefixtures("without_reader")
@pytest.mark.parametrize("column", COLUMNS)
def test_a_large_text_is_not_read(path: Path, column: str) -> None:
    set_value(path, column, "\0" + "x" * MOST_TEXT_BYTES)  # SQLite's length of a text ends at NUL
    with Store(path) as store, refused(CorruptStore, "path", name=column):
        store.records()


def test_a_large_curve_is_read(path: Path) -> None:
    large = record(0, points=MOST_TEXT_BYTES // 4)
    with Store(path) as store:
        store.add(large)
        assert store.connection.execute("SELECT length(curve) FROM runs").fetchone()[0] > MOST_TEXT_BYTES
        assert len(store.records()[0].curve_steps) == MOST_TEXT_BYTES // 4


def test_a_value_of_the_largest_size_is_read(path: Path) -> None:
    set_value(path, "device", "x" * MOST_TEXT_BYTES)
    with Store(path) as store:
        assert len(store.records()[0].device) == MOST_TEXT_BYTES


def test_a_run_that_could_not_be_read_is_not_stored(path: Path) -> None:
    large = replace(record(0), config=record(0).config | {"data": {"x": "x" * MOST_TEXT_BYTES}})
    with Store(path) as store:
        with refused(UsageError, "name", "n_bytes"):
            store.add(large)
        assert store.count() == 0


@pytest.mark.parametrize("column", ["key", "owner", "expires"])
def test_a_claim_that_is_too_large_is_not_read(path: Path, column: str) -> None:
    with Store(path) as store:
        store.claim(["k"], "elsewhere:1:x")
        store.connection.execute(f"UPDATE claims SET {column} = ?", ("x" * (MOST_TEXT_BYTES + 1),))
        with refused(CorruptStore, "path", name=column):
            store.claim(["other"])


def test_records_come_in_order_of_creation(path: Path) -> None:
    late, *early = sorted((record(seed) for seed in range(4)), key=lambda each: each.key)
    with Store(path) as store:
        for each in (late, *reversed(early)):
            store.add(replace(each, created="2031" if each is late else "2030"))
        assert [each.key for each in store.records()] == [each.key for each in (*early, late)]


def test_a_text_that_is_not_unicode_is_damage(path: Path) -> None:
    with Store(path) as store:
        store.add(record(0))
        store.connection.execute("DROP TRIGGER runs_are_never_changed")
        store.connection.execute("UPDATE runs SET device = CAST(x'fffe' AS TEXT)")
        with refused(CorruptStore, "path"):
            store.records()
