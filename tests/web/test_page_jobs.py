"""Jobs on the page: they survive a reload, can be cancelled, and leave the page responsive."""

from __future__ import annotations

import io
import json
import os
import signal

import pytest

from tests.web.conftest import SLOW_METHOD, OpenPage, Server
from tests.web.page import seen


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
