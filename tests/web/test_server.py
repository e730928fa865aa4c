"""The API over a real connection: the documents of the command line, and attacks that are refused or survived."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import socket
import time
import zipfile
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from byheart.cli.main import run
from tests.web.conftest import SLOW_METHOD, Server


def command_line(*arguments: str) -> dict[str, Any]:
    """What a command prints with --json."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
        run([arguments[0], "--json", *arguments[1:]])
    document: dict[str, Any] = json.loads(printed.getvalue())
    return document


def without_paths(document: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name not in ("path", "seconds", "model")}


# --- the same documents as the command line ---------------------------------------------------------------------


def test_answers_are_those_of_the_command_line(server: Server, capitals: str) -> None:
    texts = ["capital of France", "capital of Georgia", "capital of Atlantis", "ß"]
    asked = server.client.post(f"/api/models/{capitals}/predict", json={"texts": texts}).json()
    assert asked == command_line("predict", str(server.models / capitals), *texts)
    assert [entry["answer"] for entry in asked["answers"]] == ["Paris", "Tbilisi", None, None]


def test_a_model_is_described_as_on_the_command_line(server: Server, capitals: str) -> None:
    found = server.client.get(f"/api/models/{capitals}").json()
    assert found == command_line("inspect", str(server.models / capitals))


@pytest.mark.slow
def test_a_compiled_model_is_described_as_on_the_command_line(server: Server, tmp_path: Path) -> None:
    rows = b"key,value\na,1\nb,2\nc,1\n"
    name = server.client.post("/api/data", params={"name": "three.csv"}, content=rows).json()["name"]
    job = server.job(kind="compile", data=name, method="retrieval", precision="float64")
    (tmp_path / name).write_bytes(rows)
    options = ("--method", "retrieval", "--precision", "float64")
    said = command_line("compile", str(tmp_path / name), "-o", str(tmp_path / "model"), *options)
    assert without_paths(job["result"]) == without_paths(said)
    saved = server.models / job["result"]["model"]
    assert (saved / "model.safetensors").read_bytes() == (
        tmp_path / "model" / "model.safetensors"
    ).read_bytes()


def test_a_plan_is_that_of_the_command_line(server: Server) -> None:
    found = server.client.get("/api/plan", params={"facts": 1000, "value_bits": 4}).json()
    said = command_line("plan", "--facts", "1000", "--value-bits", "4")
    assert {name: found[name] for name in said} == said
    assert {curve["kind"] for curve in found["curves"]} == {"estimate", "theorem", "trained", "floor"}


def test_an_architecture_is_judged_as_on_the_command_line(server: Server, project_root: Path) -> None:
    path = project_root / "examples" / "gpt2.json"
    found = server.client.post("/api/capacity", json=json.loads(path.read_text())).json()
    assert found == command_line("bounds", "--config", str(path))
    refused = server.client.post("/api/capacity", json={"model_type": "unheard-of"})
    assert refused.status_code == 422
    assert refused.json()["error"] == "MalformedFile"


def test_what_load_refuses_is_refused_with_the_same_words(server: Server, capitals: str) -> None:
    broken = server.models / "broken"
    broken.mkdir()
    for path in (server.models / capitals).iterdir():
        (broken / path.name).write_bytes(path.read_bytes())
    weights = bytearray((broken / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (broken / "model.safetensors").write_bytes(weights)
    try:
        said = command_line("predict", str(broken), "x")
        for found in (
            server.client.post("/api/models/broken/predict", json={"texts": ["x"]}),
            server.client.get("/api/models/broken"),
        ):
            assert found.status_code == 409
            assert found.json()["message"] == said["message"]
    finally:
        for path in broken.iterdir():
            path.unlink()
        broken.rmdir()


def test_a_download_is_the_model_folder(server: Server, capitals: str, tmp_path: Path) -> None:
    content = server.client.get(f"/api/models/{capitals}/download").content
    zipfile.ZipFile(io.BytesIO(content)).extractall(tmp_path)
    assert (
        command_line("predict", str(tmp_path / capitals), "capital of Peru")["answers"][0]["answer"] == "Lima"
    )


def test_a_download_follows_no_link(server: Server, capitals: str, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    link = server.models / capitals / "notes.txt"
    link.symlink_to(tmp_path / "secret.txt")
    try:
        answer = server.client.get(f"/api/models/{capitals}/download")
    finally:
        link.unlink()
    assert answer.status_code == 409
    assert b"secret" not in answer.content.replace(b"notes.txt", b"")
    assert server.client.get(f"/api/models/{capitals}/download").status_code == 200


def test_an_export_is_that_of_the_command_line_or_its_refusal(server: Server, capitals: str) -> None:
    pytest.importorskip("onnx", reason="the extra `onnx` is not installed")
    job = server.job(kind="export", model=capitals, format="onnx")
    assert job["state"] == "done", job["error"]
    content = server.client.get(f"/api/exports/{job['result']['name']}").content
    assert len(content) == job["result"]["bytes"] > 1000
    refused = server.job(kind="export", model=capitals, format="gguf")
    assert refused["error"]["error"] == "UsageError"
    assert "Compile with --method llama" in refused["error"]["message"]


def test_the_api_is_described(server: Server) -> None:
    described = server.client.get("/openapi.json").json()
    for path, operations in described["paths"].items():
        assert path.startswith("/api/")
        assert all(operation.get("description") for operation in operations.values()), path
    bodies = described["paths"]["/api/jobs"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    for body in bodies["oneOf"]:
        assert body["$ref"].rpartition("/")[2] in described["components"]["schemas"]


# --- data ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "n_duplicates", "n_conflicts"),
    [
        (b"a,1\na,1\nb,2\nb,3\n", 1, 1),
        (b"a,1\na,2\na,3\n", 0, 2),
        (b"a,1\na,2\na,2\na,2\nb,1\n", 2, 3),
    ],
)
def test_duplicates_and_conflicts_are_counted(
    server: Server, rows: bytes, n_duplicates: int, n_conflicts: int
) -> None:
    content = b"key,value\n" + rows
    name = server.client.post("/api/data", params={"name": "clash.csv"}, content=content).json()["name"]
    found = server.job(kind="examine", data=name)["result"]
    n_samples = rows.count(b"\n")
    counted = (found["n_samples"], found["duplicates"], found["conflicts"])
    assert counted == (n_samples, n_duplicates, n_conflicts)
    assert not found["is_memorisable"]
    assert found["conflict_examples"]
    refused = server.job(kind="compile", data=name)
    assert (refused["state"], refused["error"]["error"]) == ("failed", "ConflictingLabels")
    assert refused["error"]["facts"]["n_conflicts"] == str(n_conflicts)
    left_out = server.job(kind="examine", data=name, on_conflict="first")["result"]["left_out"]
    assert sum(left_out.values()) == n_conflicts


def test_faulty_rows_are_named_with_the_rules_that_settle_them(server: Server) -> None:
    rows = b"key,value\na,1\nb,\n,3\na,2\n"
    name = server.client.post("/api/data", params={"name": "faulty.csv"}, content=rows).json()["name"]
    job = server.job(kind="examine", data=name)
    assert job["state"] == "failed"
    assert {fault["option"]: fault["rows"] for fault in job["error"]["faults"]} == {
        "empty_labels": [2],
        "empty_inputs": [3],
    }
    assert job["error"]["message"].startswith(f"{name}: ")  # not the folder it is kept in
    assert job["error"]["facts"]["path"] == name
    rules = {"empty_labels": "drop", "empty_inputs": "drop", "on_conflict": "first"}
    examined = server.job(kind="examine", data=name, **rules)["result"]
    assert (examined["n_samples"], sum(examined["left_out"].values())) == (1, 3)
    compiled = server.job(kind="compile", data=name, **rules)["result"]
    assert compiled["verified"]["left_out"] == examined["left_out"]


def test_the_columns_of_a_table_are_named_and_can_be_chosen(server: Server) -> None:
    rows = b"Frage;Antwort\nwho;me\nwhat;that\n"
    name = server.client.post("/api/data", params={"name": "fragen.csv"}, content=rows).json()["name"]
    refused = server.job(kind="examine", data=name)
    assert refused["error"]["columns"] == ["Frage;Antwort"]
    refused = server.job(kind="examine", data=name, delimiter=";")
    assert refused["error"]["columns"] == ["Frage", "Antwort"]
    chosen = {"delimiter": ";", "input": "Frage", "label": "Antwort"}
    examined = server.job(kind="examine", data=name, **chosen)["result"]
    assert examined["preview"] == {"columns": ["Frage", "Antwort"], "rows": [["who", "me"], ["what", "that"]]}
    compiled = server.job(kind="compile", data=name, method="retrieval", precision="float64", **chosen)
    asked = server.client.post(
        f"/api/models/{compiled['result']['model']}/predict", json={"texts": ["who", "what"]}
    )
    assert [each["answer"] for each in asked.json()["answers"]] == ["me", "that"]


def test_a_file_that_cannot_be_read_is_refused_in_words(server: Server) -> None:
    name = server.client.post("/api/data", params={"name": "bad.csv"}, content=b"\xff\xfe\x00").json()["name"]
    job = server.job(kind="examine", data=name)
    assert job["state"] == "failed"
    assert job["error"]["error"] == "MalformedFile"


# --- breaking -------------------------------------------------------------------------------------------------------


def test_a_turned_bit_breaks_the_fact_it_holds(server: Server, capitals: str) -> None:
    fact = server.client.post(f"/api/models/{capitals}/fact", json={"text": "capital of France"}).json()
    cell = fact["cells"][0]
    edit = {
        "matrix": cell["tensor"],
        "row": cell["row"],
        "column": cell["column"],
        "power": cell["label_powers"][0],
    }
    result = server.job(kind="break", model=capitals, edits=[edit])["result"]
    assert "capital of France" in {each["input"] for each in result["broken"]}
    assert len(result["broken"]) == result["wrong"] == result["certificate"]["wrong"]
    shared = {each["input"] for each in result["broken"]} - {"capital of France"}
    assert shared <= set(fact["sharing"])


def test_a_short_value_holds_no_worker(server: Server, capitals: str) -> None:
    """Ten characters; written out it has a hundred million digits."""
    fact = server.client.post(f"/api/models/{capitals}/fact", json={"text": "capital of France"}).json()
    cell = fact["cells"][0]
    edit = {"matrix": cell["tensor"], "row": cell["row"], "column": cell["column"], "value": "1e99999999"}
    job = server.job(kind="break", model=capitals, edits=[edit])
    assert (job["state"], job["error"]["error"]) == ("failed", "UsageError")


@pytest.mark.slow
def test_undoing_a_change_mends_the_model(server: Server, capitals: str) -> None:
    fact = server.client.post(f"/api/models/{capitals}/fact", json={"text": "capital of France"}).json()
    cell = fact["cells"][0]
    edit = {
        "matrix": cell["tensor"],
        "row": cell["row"],
        "column": cell["column"],
        "power": cell["label_powers"][0],
    }
    result = server.job(kind="break", model=capitals, edits=[edit, edit])["result"]
    assert (result["wrong"], result["broken"]) == (0, [])


def test_forgetting_a_fact_names_the_weights_that_differ(server: Server, capitals: str) -> None:
    result = server.job(kind="forget", model=capitals, text="capital of France")["result"]
    assert (result["answer"], result["verified"]["wrong"]) == ("Paris", 0)
    assert result["answer_without"] != "Paris"
    assert 0 < result["n_changed"] < result["n_weights"]


# --- runs and figures ------------------------------------------------------------------------------------------------


def test_runs_are_filtered(server: Server) -> None:
    found = server.client.get("/api/runs", params={"where": ["sizes.n_heads>=4", "seed=0"]}).json()
    assert found["n_kept"] == 2
    refused = server.client.get("/api/runs", params={"where": "nothing=1"})
    assert refused.status_code == 400
    assert "no column `nothing`" in refused.json()["message"]
    keys = [row["key"] for row in found["runs"]]
    curves = server.client.get("/api/runs/curves", params={"key": keys}).json()["curves"]
    assert {curve["key"] for curve in curves} == set(keys)


def test_files_that_are_no_figures_are_left_out(server: Server) -> None:
    names = [each["name"] for each in server.client.get("/api/figures").json()["figures"]]
    assert names == [
        "dana-2024-fig1a",
        "dana-2024-fig2a",
        "dana-2024-fig3",
        "hostile",
        "madden-2024-fig1-left",
    ]
    assert server.client.get("/api/figures/other").status_code == 409


# --- attacks ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["%2e%2e%2f%2e%2e%2fetc", "..%2f..%2fetc", "%2fetc%2fpasswd", "....//", "a%00b", "..%5c..%5cetc"]
)
def test_no_path_leads_outside(server: Server, name: str) -> None:
    for path in (
        f"/api/models/{name}",
        f"/api/models/{name}/download",
        f"/api/figures/{name}",
        f"/{name}",
        f"/js/{name}",
    ):
        answer = server.client.get(path)
        assert answer.status_code in (400, 404, 405), path
        assert "root:" not in answer.text
    for request in ({"kind": "examine", "data": name}, {"kind": "forget", "model": name, "text": "x"}):
        assert server.client.post("/api/jobs", json=request).status_code == 404


def test_a_raw_path_with_dots_is_not_followed(server: Server) -> None:
    """As a client sends it that does not tidy its paths."""
    host, port = urlsplit(server.address).hostname, urlsplit(server.address).port
    for path in ("/../../../../etc/passwd", "/js/../../api.py", "/js/..%2f..%2fapi.py", "//etc/passwd"):
        with socket.create_connection((host, port)) as line:
            line.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode())
            answer = b"".join(iter(lambda: line.recv(65536), b""))
        assert b" 404 " in answer.split(b"\r\n")[0], path


def test_options_cannot_be_smuggled_in(server: Server) -> None:
    refused = server.client.post(
        "/api/jobs", json={"kind": "compile", "data": "capitals.csv", "path": "/etc"}
    )
    assert refused.status_code == 400
    assert "`path`" in refused.json()["facts"]["problem"]
    for body in ("[1, 2", '{"kind": "\\ud800"}', "null", '"compile"'):
        sent = server.client.post("/api/jobs", content=body, headers={"content-type": "application/json"})
        assert sent.status_code == 400, body
    plain = server.client.post("/api/jobs", content='{"kind": "examine", "data": "capitals.csv"}')
    assert plain.status_code == 400  # a form of another page could send it
    for method in ("--help", "-oelsewhere"):
        job = server.job(kind="compile", data="capitals.csv", method=method)
        assert job["state"] == "failed"
        assert job["error"]["error"] == "UsageError"


def test_two_gigabytes_are_refused_before_they_are_sent(server: Server) -> None:
    host, port = urlsplit(server.address).hostname, urlsplit(server.address).port
    with socket.create_connection((host, port)) as line:
        head = f"POST /api/data?name=big.csv HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Length: {2 << 30}\r\n\r\n"
        line.sendall(head.encode() + b"key,value\n")
        assert b" 413 " in line.recv(65536)
    assert server.client.get("/api/state").status_code == 200


@pytest.mark.slow
def test_an_endless_upload_is_cut_off_and_leaves_nothing(server: Server) -> None:
    """Without an announced size: the server stops reading beyond its limit."""
    host, port = urlsplit(server.address).hostname, urlsplit(server.address).port
    chunk = b"100000\r\n" + b"x" * 0x100000 + b"\r\n"
    with socket.create_connection((host, port)) as line:
        head = f"POST /api/data?name=endless.csv HTTP/1.1\r\nHost: {host}:{port}\r\nTransfer-Encoding: chunked\r\n\r\n"
        line.sendall(head.encode())
        with contextlib.suppress(OSError):
            for _ in range(80):
                line.sendall(chunk)
    names = [entry["name"] for entry in server.client.get("/api/data").json()["data"]]
    assert not any("endless" in name or "upload" in name for name in names)


def test_three_hundred_slow_connections_keep_nobody_out(server: Server) -> None:
    """Whose requests never become complete: in their heads, or in their bodies. More than 200 were answered "503" to everyone."""
    import httpx

    host, port = urlsplit(server.address).hostname, urlsplit(server.address).port
    head = f"POST /api/jobs HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Length: 100\r\n"
    with contextlib.ExitStack() as lines:
        for number in range(300):
            line = lines.enter_context(socket.create_connection((host, port)))
            line.sendall((head + ("\r\n{" if number % 2 else "X-Slow: ")).encode())
        assert httpx.get(f"{server.address}api/state").status_code == 200


def test_two_compilations_of_one_file_make_two_models(server: Server) -> None:
    name = server.client.post(
        "/api/data", params={"name": "twins.csv"}, content=b"key,value\na,1\nb,2\n"
    ).json()
    request = {"kind": "compile", "data": name["name"], "method": "retrieval", "precision": "float64"}
    started = [server.client.post("/api/jobs", json=request).json()["id"] for _ in range(2)]
    jobs = [server.ended(job_id) for job_id in started]
    assert len({job["result"]["model"] for job in jobs}) == 2


def test_a_hundred_jobs_at_once_are_taken_or_refused(server: Server) -> None:
    request = {"kind": "examine", "data": "capitals.csv"}
    answers = [server.client.post("/api/jobs", json=request) for _ in range(100)]
    taken = [answer.json()["id"] for answer in answers if answer.status_code == 201]
    refused = [answer for answer in answers if answer.status_code != 201]
    assert len(taken) >= 30
    assert {answer.status_code for answer in refused} == {429}
    assert "cancel some" in refused[0].json()["message"]
    assert server.client.get("/api/state").elapsed.total_seconds() < 1
    for job_id in taken:
        server.client.delete(f"/api/jobs/{job_id}")
    states = {server.ended(job_id)["state"] for job_id in taken}
    assert states <= {"done", "cancelled"}


@pytest.mark.slow
def test_killed_workers_are_told_of_and_replaced(server: Server, capitals: str, many: str) -> None:
    request = {"kind": "compile", "data": many, "method": SLOW_METHOD}
    started = server.client.post("/api/jobs", json=request).json()
    while server.client.get(f"/api/jobs/{started['id']}").json()["state"] == "waiting":
        time.sleep(0.02)
    for worker in server.workers():
        os.kill(worker, signal.SIGKILL)
    job = server.ended(started["id"])
    assert job["state"] == "failed"
    assert "SIGKILL" in job["error"]["message"]
    names = [model["name"] for model in server.client.get("/api/models").json()["models"]]
    assert capitals in names
    assert not any(name.startswith("thousands") for name in names)
    answer = server.client.post(f"/api/models/{capitals}/predict", json={"texts": ["capital of Cuba"]})
    if answer.status_code == 503:  # the death was noticed by this very question
        answer = server.client.post(f"/api/models/{capitals}/predict", json={"texts": ["capital of Cuba"]})
    assert answer.json()["answers"][0]["answer"] == "Havana"
