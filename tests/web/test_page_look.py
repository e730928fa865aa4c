"""Every view at two widths, in light and dark, printed, and with a keyboard."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.web.conftest import OpenPage
from tests.web.page import WIDE, both_looks

AXE = Path(__file__).with_name("axe.min.js").read_text(encoding="utf-8")


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
