"""The page in a real browser: every view, at two widths, in light and dark, with a keyboard, and under attack."""

from __future__ import annotations

import http.server
import io
import json
import os
import signal
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit
from xml.etree import ElementTree

import pytest

from tests.web.conftest import HOSTILE, SLOW_METHOD, OpenPage, Server
from tests.web.test_server import command_line

if TYPE_CHECKING:
    from playwright.sync_api import Page

WIDE, PHONE = (1280, "light"), (390, "dark")
AXE = Path(__file__).with_name("axe.min.js").read_text(encoding="utf-8")


def both_looks(default: tuple[int, str]) -> pytest.MarkDecorator:
    """On a wide page and on a phone; the default run takes one of them."""
    cases = [pytest.param(*look, marks=[] if look == default else pytest.mark.slow) for look in (WIDE, PHONE)]
    return pytest.mark.parametrize(("width", "theme"), cases)


def views(model: str) -> dict[str, tuple[str, str]]:
    """The address of every view, and what is seen once it is drawn."""
    question = "capital+of+France"
    return {
        "compile": ("/compile?data=capitals.csv", "#compile-button"),
        "ask": (f"/ask?model={model}&q={question}", ".answer .known"),
        "inside": (f"/inside?model={model}&q={question}&step=5", ".heat svg"),
        "break": (f"/break?model={model}&q={question}", "button.bit"),
        "fits": ("/fits?facts=1000000", "figure svg"),
        "figures": ("/figures?figure=dana-2024-fig1a", ".panel svg"),
        "api": ("/api", ".operation"),
    }


def seen(page: Page, words: str) -> None:
    page.get_by_text(words, exact=False).first.wait_for()


def use_rows(page: Page, rows: str) -> None:
    page.get_by_label("Paste rows").fill(rows)
    page.get_by_role("button", name="Use these rows").click()


# --- what a person does -----------------------------------------------------------------------------------------


@both_looks(WIDE)
def test_compile_a_paste_ask_it_and_take_it_home(
    server: Server, open_page: OpenPage, project_root: Path, tmp_path: Path, width: int, theme: str
) -> None:
    page = open_page("/", width, theme)
    page.get_by_label("Paste rows").fill(
        (project_root / "examples" / "capitals.csv").read_text(encoding="utf-8")
    )
    page.get_by_role("button", name="Use these rows").click()
    page.locator(".numbers").get_by_text("1,137 bits").wait_for()
    page.get_by_role("radio", name="retrieval").check()
    page.get_by_role("button", name="Compile and check every row").click()
    seen(page, "156 of 156 facts checked and correct")

    with page.expect_download() as download:
        page.get_by_role("link", name="Download").click()
    zipfile.ZipFile(download.value.path()).extractall(tmp_path)
    (folder,) = tmp_path.iterdir()
    said = command_line("predict", str(folder), "capital of Kenya", "capital of Atlantis")
    assert [entry["answer"] for entry in said["answers"]] == ["Nairobi", None]

    page.get_by_role("link", name="Ask it").click()
    for question, answer in (("France", "Paris"), ("Japan", "Tokyo"), ("Peru", "Lima")):
        page.get_by_role("textbox", name="Question", exact=True).fill(f"capital of {question}")
        page.locator(".answer .known", has_text=answer).wait_for()
    page.get_by_role("textbox", name="Question", exact=True).fill("capital of Atlantis")
    page.locator(".answer .unknown", has_text="unknown").wait_for()
    assert "q=capital+of+Atlantis" in page.url


@both_looks(PHONE)
def test_step_through_a_question(open_page: OpenPage, capitals: str, width: int, theme: str) -> None:
    page = open_page(f"/inside?model={capitals}&q=capital+of+France", width, theme)
    page.locator(".heat svg").wait_for()
    titles = []
    while True:
        titles.append(page.locator(".card h2").first.inner_text())
        page.locator(".stage").wait_for()
        if page.locator("#next-step").is_disabled():
            break
        page.locator("#next-step").click()
    assert titles[0] == "1. Codes"
    assert titles[-1].endswith("Read label")
    assert any("Table" in title for title in titles)
    page.locator(".stage .result", has_text="Paris").wait_for()
    page.reload()
    page.locator(".card h2", has_text="Read label").wait_for()


def test_numbers_can_be_hovered_pinned_and_saved(open_page: OpenPage, capitals: str) -> None:
    page = open_page(f"/inside?model={capitals}&q=capital+of+France")
    cell = page.locator('.heat rect[data-at="20,0"]')
    cell.hover()
    page.locator(".tip", has_text="after layer 19").wait_for()
    cell.click()
    page.locator(".pins li", has_text="after layer 19").wait_for()
    page.locator(".heat").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.locator(".pins li", has_text="after layer 20").wait_for()
    for button in page.get_by_role("button", name="Save as SVG").all():
        with page.expect_download() as download:
            button.click()
        picture = ElementTree.parse(download.value.path()).getroot()
        assert picture.tag.endswith("svg")
        assert len(list(picture.iter())) > 10


def test_the_arrow_keys_step(open_page: OpenPage, capitals: str) -> None:
    page = open_page(f"/inside?model={capitals}&q=capital+of+France&step=2")
    page.locator(".card h2", has_text="2. ").wait_for()
    page.keyboard.press("ArrowRight")
    page.locator(".card h2", has_text="3. ").wait_for()
    page.keyboard.press("ArrowLeft")
    page.locator(".card h2", has_text="2. ").wait_for()


@both_looks(PHONE)
def test_turn_a_bit_over_see_what_broke_and_undo(
    open_page: OpenPage, capitals: str, width: int, theme: str
) -> None:
    page = open_page(f"/break?model={capitals}&q=capital+of+France", width, theme)
    page.locator("button.bit.marked").last.click()
    page.locator(".damage td", has_text="capital of France").wait_for()
    page.locator(".damage td", has_text="Paris").wait_for()
    assert "edits=" in page.url
    page.reload()
    page.locator(".damage td", has_text="capital of France").wait_for()
    page.locator("button.bit.turned").wait_for()
    page.locator("#undo-all").click()
    seen(page, "Nothing is broken")
    assert "edits=" not in page.url


def test_any_weight_can_be_set(open_page: OpenPage, capitals: str) -> None:
    page = open_page(f"/break?model={capitals}&q=capital+of+France")
    page.get_by_text("Any weight").click()
    page.get_by_label("Matrix", exact=True).select_option("w_out")
    page.locator(".picture .heat rect").nth(2).click()
    page.get_by_label("Or set it to").fill("2")
    page.get_by_role("button", name="Set", exact=True).click()
    seen(page, "156 facts broke, 0 still correct")


def test_forget_a_fact(open_page: OpenPage, capitals: str) -> None:
    page = open_page(f"/break?model={capitals}&q=capital+of+France")
    page.get_by_role("button", name="Forget this fact").click()
    seen(page, "The other 155 facts were checked: 0 wrong")


@both_looks(WIDE)
def test_move_the_sliders(open_page: OpenPage, width: int, theme: str) -> None:
    page = open_page("/fits", width, theme)
    page.locator("figure svg circle").first.wait_for()
    facts = page.get_by_label("Facts", exact=True)
    facts.focus()
    before = page.locator("tbody").first.inner_text()
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    seen(page, "3,200,000 facts")
    page.wait_for_function("before => document.querySelector('tbody').innerText !== before", arg=before)
    assert "facts=3200000" in page.url
    page.get_by_label("Bits in an answer").fill("20")
    page.wait_for_url("**bits=20**")
    page.get_by_role("button", name="GPT-2").click()
    seen(page, "124,439,808 parameters")


def test_sizes_for_short_questions_are_shown_unless_there_are_too_few(open_page: OpenPage) -> None:
    page = open_page("/fits?facts=500&tokens=1", allowed=(400,))
    page.locator("figure svg circle").first.wait_for()
    page.get_by_label("Facts", exact=True).press("End")
    page.locator(".problem").wait_for()
    assert page.locator("figure svg").count() == 0  # not the sizes for another number of facts
    for _ in range(3):
        page.get_by_label("Tokens in a question").press("ArrowRight")
    page.locator("figure svg circle").first.wait_for()
    assert page.locator(".problem").count() == 0


@pytest.mark.parametrize("wrong", ["facts=abc", "facts=-5", "facts=1e30", "bits=999", "tokens=0"])
def test_a_wrong_number_in_the_address_is_reported(open_page: OpenPage, wrong: str) -> None:
    page = open_page(f"/fits?{wrong}")
    page.locator("figure svg circle").first.wait_for()
    assert wrong in page.locator(".view > .note").inner_text()
    assert dict(parse_qsl(urlsplit(page.url).query)) == {"facts": "1000000", "bits": "10", "tokens": "8"}


@both_looks(PHONE)
def test_filter_runs_and_read_figures(server: Server, open_page: OpenPage, width: int, theme: str) -> None:
    page = open_page("/figures", width, theme, allowed=(400,))
    seen(page, "12 of 12 runs")
    page.get_by_label("Filter").fill("sizes.n_heads>=4, seed=0")
    seen(page, "2 of 12 runs")
    page.get_by_label("Filter").fill("nothing=1")
    page.locator(".problem").wait_for()
    page.get_by_label("Filter").fill("")
    page.get_by_role("button", name="MFT24 Figure 1, left").click()
    page.locator(".panel svg").first.wait_for()
    assert "figure=madden-2024-fig1-left" in page.url


def test_runs_are_seen_while_they_are_stored(server: Server, open_page: OpenPage) -> None:
    from dataclasses import replace

    from byheart.measure.store import Store

    page = open_page("/figures")
    seen(page, "12 of 12 runs")
    with Store(server.models.parent / "runs.sqlite") as store:
        record = replace(store.records()[0], key="f" * 64, created="2026-02-01T00:00:00Z")
        store.add(record)
    seen(page, "13 of 13 runs")


def test_ask_a_whole_file(open_page: OpenPage, capitals: str, tmp_path: Path) -> None:
    (tmp_path / "questions.txt").write_text("capital of France\n\ncapital of Atlantis\n")
    page = open_page(f"/ask?model={capitals}")
    page.get_by_label("File", exact=True).set_input_files(tmp_path / "questions.txt")
    seen(page, "2 questions: 1 answered, 1 unknown")
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as CSV").click()
    assert (
        Path(download.value.path()).read_text()
        == 'key,value\n"capital of France","Paris"\n"capital of Atlantis","unknown"\n'
    )


def test_faulty_rows_are_listed_with_a_choice_for_each(open_page: OpenPage) -> None:
    page = open_page("/", 1280, "light")
    page.get_by_label("Paste rows").fill("only one cell\na,1\na,2\nb,\n,3\nc,4\nd,5")
    page.get_by_role("button", name="Use these rows").click()
    page.locator("#settle-button").wait_for()
    said = page.locator(".faults").inner_text()
    assert "row 1)" in said  # the first pasted line is the first, though a line of column names was added
    listed = [each.get_attribute("data-rule") for each in page.locator(".faults select").all()]
    assert listed == ["malformed_rows", "empty_labels", "empty_inputs"]
    assert not any(
        word in page.locator("main").inner_text() for word in ("/tmp", "--empty-labels", "empty_labels")
    )
    page.locator("#settle-button").click()
    page.locator('[data-conflict="first"]').click()  # then the rows that are left conflict
    page.locator("#compile-button").click()
    seen(page, "3 of 3 facts checked and correct")
    seen(page, "4 rows left out")


@pytest.mark.parametrize("rows", ["a,yes\nb,yes\nc,yes", "only,one"])
def test_a_table_with_one_answer_can_be_compiled(open_page: OpenPage, rows: str) -> None:
    page = open_page("/")
    use_rows(page, rows)
    page.locator("#compile-button").click()
    n_rows = rows.count("\n") + 1
    seen(page, f"{n_rows} of {n_rows} facts checked and correct")


@pytest.mark.parametrize(
    ("rows", "is_header", "n_facts"),
    [
        ("key,value\na,1\nb,2", True, 2),
        ('"key","value"\na,1\nb,2', True, 2),
        ("key\tvalue\na\t1\nb\t2", True, 2),
        ("key,value,source\na,1,x\nb,2,y", True, 2),
        ("question,answer\nwho,me\nwhat,that", False, 3),
        ("key,a small metal thing\nlock,wood\ndoor,steel", False, 3),
        ("key;value\na;1,5\nb;2", True, 2),
        ("Frage;Antwort\nFluss;Rhein, Main", False, 2),
        ('"a; b",1\n"c; d",2', False, 2),
        ("a;x,1\nb;y,2", False, 2),  # either separator gives two cells in each row: a comma is assumed
        ("\n\na,1\n\nb,2\n  \n", False, 2),
    ],
)
def test_the_header_and_the_separator_of_pasted_rows_are_recognised(
    open_page: OpenPage, rows: str, is_header: bool, n_facts: int
) -> None:
    page = open_page("/")
    page.get_by_label("Paste rows").fill(rows)
    assert page.get_by_role("checkbox", name="header").is_checked() == is_header
    page.get_by_role("button", name="Use these rows").click()
    page.locator("#compile-button").wait_for()
    assert page.locator(".numbers dd").first.inner_text() == str(n_facts)


def test_the_first_pasted_row_is_a_header_if_the_reader_says_so(open_page: OpenPage) -> None:
    page = open_page("/")
    page.get_by_label("Paste rows").fill("answer,question\nme,who\nthat,what")
    page.get_by_role("checkbox", name="header").check()
    page.get_by_role("button", name="Use these rows").click()
    page.locator("#settle-button").wait_for()
    assert page.locator("#settle-button").is_enabled()
    page.get_by_label("Questions", exact=True).select_option("question")
    assert page.locator("#settle-button").is_disabled()
    page.get_by_label("Answers", exact=True).select_option("answer")
    page.locator("#settle-button").click()
    page.locator("#compile-button").wait_for()
    page.reload()  # the address holds the choice
    page.locator("#compile-button").click()
    page.locator("#main").get_by_role("link", name="Ask it").click()
    page.get_by_role("textbox", name="Question", exact=True).fill("who")
    page.locator(".answer .known", has_text="me").wait_for()


def test_two_of_three_pasted_columns_can_be_chosen(open_page: OpenPage) -> None:
    page = open_page("/")
    use_rows(page, "a,1,x\nb,2,y\nc,3,z")
    page.get_by_label("Answers", exact=True).select_option("column 3")
    page.locator("#settle-button").click()
    page.locator("#compile-button").click()
    seen(page, "3 of 3 facts checked and correct")


def test_a_file_with_semicolons_and_other_names_can_be_compiled(open_page: OpenPage, tmp_path: Path) -> None:
    (tmp_path / "質問.csv").write_text("Frage;Antwort\nwho;me\nwhat;that\n", encoding="utf-8")
    page = open_page("/")
    page.locator("#data-file").set_input_files(tmp_path / "質問.csv")
    page.locator(".card h2", has_text="質問.csv").wait_for()
    page.locator("#settle-button", has_text=";").click()
    page.locator("select").first.wait_for()
    page.locator("#settle-button").click()
    page.locator("#compile-button").click()
    seen(page, "2 of 2 facts checked and correct")


def test_the_first_pasted_line_is_line_1(open_page: OpenPage) -> None:
    page = open_page("/", 1280, "light")
    page.get_by_label("Paste rows").fill('"never closed,1\nb,2')
    page.get_by_role("button", name="Use these rows").click()
    assert "line 1:" in page.locator(".problem").inner_text()
    assert page.locator("#compile-button").count() == 0


def test_the_size_shown_is_that_of_the_options_beside_it(open_page: OpenPage) -> None:
    page = open_page("/compile?data=capitals.csv", 1280, "light")
    page.locator("#compile-button").wait_for()
    shown = page.get_by_role("radio", name="retrieval").locator("xpath=..").locator(".number")
    usual = shown.inner_text()
    page.get_by_label("Answer “unknown”", exact=False).uncheck()
    assert shown.inner_text() != usual
    page.locator("#compile-button").click()
    built = page.locator(".result .numbers dd").first
    built.wait_for()
    assert _short(built.inner_text()) == shown.inner_text()


def _short(number: str) -> str:
    """The parameters of a result as the list of sizes shows them."""
    value = int(number.split()[0].replace(",", ""))
    return f"{value:,}" if value < 10_000 else f"{value / 1000:.3g}k"


def test_conflicts_are_shown_before_anything_is_built(open_page: OpenPage) -> None:
    page = open_page("/")
    page.get_by_label("Paste rows").fill("a,1\nb,2\na,3\n")
    page.get_by_role("button", name="Use these rows").click()
    seen(page, "Equal questions with different answers")
    assert page.locator("#compile-button").count() == 0


# --- jobs -----------------------------------------------------------------------------------------------------------


def test_a_job_survives_a_reload_and_can_be_cancelled(open_page: OpenPage, many: str) -> None:
    page = open_page(f"/compile?data={many}")
    page.get_by_role("radio", name=SLOW_METHOD, exact=False).first.check()
    page.locator("#compile-button").click()
    page.wait_for_url("**job=**")
    page.reload()
    page.locator("#running progress").wait_for()
    page.locator("#running").get_by_role("button", name="Cancel").click()
    seen(page, "Cancelled. Nothing was written.")
    page.get_by_role("button", name="Jobs").click()
    page.locator("dialog").get_by_text(f"Compile {many}").first.wait_for()


@pytest.mark.slow  # three workers start anew; `test_jobs` kills one at once
def test_a_killed_worker_is_told_of_on_the_page(server: Server, open_page: OpenPage, many: str) -> None:
    page = open_page(f"/compile?data={many}")
    page.get_by_role("radio", name=SLOW_METHOD, exact=False).first.check()
    page.locator("#compile-button").click()
    page.locator("#running", has_text="working").or_(page.locator("#running", has_text="%")).wait_for()
    for worker in server.workers():
        os.kill(worker, signal.SIGKILL)
    seen(page, "SIGKILL")
    page.get_by_role("button", name="Try again").click()
    page.locator("#running").wait_for()
    page.locator("#running").get_by_role("button", name="Cancel").click()
    seen(page, "Cancelled")


# --- how it is made -------------------------------------------------------------------------------------------------


@pytest.mark.slow
@both_looks(WIDE)
def test_axe_finds_nothing_serious_in_any_view(
    open_page: OpenPage, capitals: str, width: int, theme: str
) -> None:
    found: dict[str, list[str]] = {}
    page = open_page("/", width, theme)
    for name, (address, sign) in views(capitals).items():
        page.goto(page.url.split("/", 3)[0] + "//" + page.url.split("/", 3)[2] + address)
        page.locator(sign).first.wait_for()
        page.wait_for_timeout(250)  # until it stands still
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, f"{name} is too wide"
        page.evaluate(AXE)
        report: dict[str, Any] = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
        serious = [each for each in report["violations"] if each["impact"] in ("serious", "critical")]
        if serious:
            found[name] = [f"{each['id']}: {each['nodes'][0]['html'][:200]}" for each in serious]
    assert found == {}


@pytest.mark.slow
@pytest.mark.parametrize(("width", "theme"), [(1280, "dark"), (390, "light")])
def test_every_view_opens_in_the_other_looks_too(
    open_page: OpenPage, capitals: str, width: int, theme: str
) -> None:
    page = open_page("/", width, theme)
    origin = page.url.rstrip("/")
    for name, (address, sign) in views(capitals).items():
        page.goto(origin + address)
        page.locator(sign).first.wait_for()
        assert page.evaluate("document.documentElement.dataset.theme") == theme
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, f"{name} is too wide"


def test_a_phone_shows_every_link(open_page: OpenPage) -> None:
    page = open_page("/", width=360)
    page.locator("#nav a").last.wait_for()
    for link in page.locator("#nav a").all():
        box = link.bounding_box()
        assert box is not None
        assert 0 <= box["x"] <= 360 - box["width"]


def test_colours_can_be_chosen_and_stay(open_page: OpenPage) -> None:
    page = open_page("/", theme="light")
    page.get_by_role("button", name="Use dark colours").click()
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_the_first_view_is_small_and_fast(open_page: OpenPage) -> None:
    page = open_page("/")
    page.get_by_role("button", name="Use these rows").wait_for()
    page.wait_for_load_state("networkidle")
    script = """() => {
        const entries = [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")];
        const painted = performance.getEntriesByName("first-contentful-paint")[0].startTime;
        return [entries.reduce((sum, entry) => sum + entry.transferSize, 0), painted];
    }"""
    loads = []
    for _ in range(3):
        page.context.new_cdp_session(page).send("Network.clearBrowserCache")
        page.reload()
        page.get_by_role("button", name="Use these rows").wait_for()
        page.wait_for_load_state("networkidle")
        loads.append(page.evaluate(script))
    assert max(size for size, _ in loads) < 500_000
    assert min(painted for _, painted in loads) < 1000, loads


def test_a_printed_page_has_its_content(open_page: OpenPage, capitals: str) -> None:
    page = open_page(f"/inside?model={capitals}&q=capital+of+France")
    page.locator(".heat svg").wait_for()
    page.emulate_media(media="print")
    assert page.locator(".heat svg").is_visible()
    assert not page.locator("header.top").is_visible()
    assert page.pdf(format="A4").startswith(b"%PDF")


def test_the_keyboard_reaches_the_content_first(open_page: OpenPage) -> None:
    page = open_page("/")
    page.get_by_role("button", name="Use these rows").wait_for()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


# --- attacks ----------------------------------------------------------------------------------------------------------


def test_a_label_that_looks_like_markup_is_text_in_every_view(
    server: Server, open_page: OpenPage, hostile: str
) -> None:
    page = open_page("/", allowed=(400, 404, 409))
    origin = page.url.rstrip("/")
    visits = {
        "/compile?data=hostile.csv": "#compile-button",
        f"/ask?model={hostile}&q=who+are+you": ".answer .known",
        f"/inside?model={hostile}&q=who+are+you": ".heat svg",
        f"/break?model={hostile}&q=who+are+you": "button.bit",
        "/figures?figure=hostile": ".panel svg",
        f"/compile?data={HOSTILE}": ".problem",
        f"/ask?model={HOSTILE}&q={HOSTILE}": ".problem",
        f"/break?model={hostile}&edits={HOSTILE}": "button.bit",
        f"/figures?figure={HOSTILE}&where={HOSTILE}": ".problem",
    }
    for address, sign in visits.items():
        page.goto(origin + address)
        page.locator(sign).first.wait_for()
        if "q=who" in address or "figure=hostile" in address:
            page.get_by_text(HOSTILE).first.wait_for()
        for details in page.locator("details > summary").all():
            details.click()
        if address.startswith("/break"):
            page.locator("button.bit.marked").first.click()
            page.locator(".damage .stamp").wait_for()
        assert page.evaluate("document.querySelectorAll('img[src=x]').length") == 0, address
        assert page.evaluate("window.hacked") is None, address


@pytest.fixture
def other_site(tmp_path: Path) -> Iterator[str]:
    """Another origin on this machine."""
    (tmp_path / "index.html").write_text("<!doctype html><title>other</title>")
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as site:
        threading.Thread(target=site.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{site.server_port}/"
        site.shutdown()


def test_another_site_can_neither_ask_nor_read(server: Server, browser: Any, other_site: str) -> None:
    n_before = len(server.client.get("/api/jobs").json()["jobs"])
    page = browser.new_page()
    page.goto(other_site)
    script = """async (address) => {
        const body = '{"kind":"examine","data":"capitals.csv"}';
        const tries = [
            () => fetch(address + "api/jobs", { method: "POST", body }),
            () => fetch(address + "api/jobs", { method: "POST", mode: "no-cors", body }),
            () => fetch(address + "api/models"),
        ];
        const read = [];
        for (const one of tries) { try { read.push(await (await one()).text()); } catch { read.push(null); } }
        return read;
    }"""
    assert page.evaluate(script, server.address) in ([None, None, None], [None, "", None])
    page.close()
    assert len(server.client.get("/api/jobs").json()["jobs"]) == n_before


def test_a_file_that_is_too_large_is_refused_before_it_is_sent(open_page: OpenPage, tmp_path: Path) -> None:
    page = open_page("/")
    big = tmp_path / "big.csv"
    with big.open("wb") as stream:
        stream.truncate(2 << 30)
    page.locator("#data-file").set_input_files(big)
    seen(page, "byheart compile FILE -o DIR")


# --- much data ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_fifty_thousand_facts_leave_the_page_responsive(server: Server, open_page: OpenPage) -> None:
    rows = io.StringIO()
    rows.write("key,value\n")
    for number in range(50_000):
        rows.write(f"item {number * 7919 % 1_000_003},{number * 31 % 97}\n")
    sent = server.client.post("/api/data", params={"name": "many.csv"}, content=rows.getvalue().encode())
    page = open_page(f"/compile?data={sent.json()['name']}")
    page.locator("#compile-button").click()
    page.locator("#running progress").wait_for()
    page.evaluate(
        """() => {
            window.delays = [];
            const heard = (event) => delays.push(performance.now() - event.timeStamp);
            document.querySelector("textarea").addEventListener("keydown", heard);
        }"""
    )
    text = page.get_by_label("Paste rows")
    progress = set()
    for _ in range(600):
        text.press("a")
        page.wait_for_timeout(50)
        if len(progress) >= 5 or not page.locator("#running").count():
            break
        if page.locator("#running progress").count():
            progress.add(page.locator("#running progress").evaluate("bar => bar.value"))
    delays = page.evaluate("delays")
    print(
        json.dumps(
            {
                "largest input delay (ms)": round(max(delays), 1),
                "keys": len(delays),
                "progress seen": sorted(progress),
            }
        )
    )
    assert len(delays) == text.input_value().count("a")  # every key arrived while the job ran
    if page.locator("#running").count():
        page.locator("#running").get_by_role("button", name="Cancel").click()
        seen(page, "Cancelled. Nothing was written.")
    assert len(progress) >= 3
