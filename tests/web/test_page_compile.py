"""Compile on the page: pasted rows, files, faults, separators and sizes."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.web.conftest import OpenPage, Server
from tests.web.page import WIDE, both_looks, seen
from tests.web.test_server import command_line

if TYPE_CHECKING:
    from playwright.sync_api import Page


def use_rows(page: Page, rows: str) -> None:
    page.get_by_label("Paste rows").fill(rows)
    page.get_by_role("button", name="Use these rows").click()


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
