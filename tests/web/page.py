"""Help for the tests of the page in a browser: its two looks, and words that are seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Page

WIDE, PHONE = (1280, "light"), (390, "dark")


def both_looks(default: tuple[int, str]) -> pytest.MarkDecorator:
    """On a wide page and on a phone; the default run takes one of them."""
    cases = [pytest.param(*look, marks=[] if look == default else pytest.mark.slow) for look in (WIDE, PHONE)]
    return pytest.mark.parametrize(("width", "theme"), cases)


def seen(page: Page, words: str) -> None:
    page.get_by_text(words, exact=False).first.wait_for()
