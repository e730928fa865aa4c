"""Look into a model on the page, break it, ask it, and see sizes, figures and runs."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit
from xml.etree import ElementTree

import pytest

from byheart.reproduce.plots import LINES, LOOKS
from tests.web.conftest import OpenPage, Server
from tests.web.page import PHONE, WIDE, both_looks, seen

RESULTS = Path(__file__).resolve().parents[2] / "results"


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


LOOKS_OF_A_PANEL = """panel => {
    const lookOf = (shape) => {
        const { fill, stroke, strokeDasharray } = getComputedStyle(shape);
        return shape.matches(".circle, .square") ? fill : `${stroke} ${strokeDasharray}`;
    };
    const looks = (root) => ["curve", "circle", "square", "times"].flatMap(
        (name) => [...root.querySelectorAll(`.${name}`)].map((shape) => `${name} ${lookOf(shape)}`));
    return {drawn: looks(panel.querySelector(".chart")), listed: [...panel.querySelectorAll(".legend li")].map(looks)};
}"""


@pytest.mark.parametrize(
    ("name", "n_series"),
    [("dana-2024-fig1a", [8]), ("dana-2024-fig2a", [10]), ("dana-2024-fig3", [9, 8, 6, 6, 6, 6])],
)
def test_curves_of_a_figure_differ_and_look_as_in_the_legend(
    open_page: OpenPage, name: str, n_series: list[int]
) -> None:
    """In colour, dashes or symbols; points that `reproduce/plots.py` does not join have no line."""
    page = open_page(f"/figures?figure={name}")
    page.locator(".panel").last.locator(".chart .curve").first.wait_for()
    for number, panel in enumerate(json.loads((RESULTS / f"{name}.json").read_text())["panels"]):
        looks = page.locator(".panel").nth(number).evaluate(LOOKS_OF_A_PANEL)
        listed = [tuple(look) for look in looks["listed"]]
        assert len(listed) == len(set(listed)) == n_series[number]
        assert sorted(looks["drawn"]) == sorted(part for look in listed for part in look)
        for series, look in zip(panel["series"], listed, strict=True):
            is_joined = LINES.get(series["line"], LOOKS[series["style"]][1]) != "x"
            assert any(part.startswith("curve") for part in look) == is_joined


@pytest.mark.parametrize("name", ["dana-2024-fig1a", "dana-2024-fig2a"])
def test_bounds_of_a_figure_differ_in_colour_and_dashes(open_page: OpenPage, name: str) -> None:
    page = open_page(f"/figures?figure={name}")
    page.locator(".panel .legend li").first.wait_for()
    look = (
        "lines => lines.map(getComputedStyle).map(({ stroke, strokeDasharray }) => [stroke, strokeDasharray])"
    )
    first, second = page.locator(".panel .legend .curve").evaluate_all(look)[-2:]
    assert first[0] != second[0]
    assert first[1] != second[1]


def test_runs_are_seen_while_they_are_stored(server: Server, open_page: OpenPage) -> None:
    from dataclasses import replace

    from byheart.measure.records import key_of
    from byheart.measure.store import Store

    page = open_page("/figures")
    seen(page, "12 of 12 runs")
    with Store(server.models.parent / "runs.sqlite") as store:
        record = store.records()[0]
        config = record.config | {"seed": 9}
        store.add(replace(record, key=key_of(config), config=config, created="2026-02-01T00:00:00Z"))
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
