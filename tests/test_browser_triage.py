"""A person signs in, waives a failure, sees it listed, ends it and signs out; every page on the way
is as accessible, light, narrow and still as the others.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from browser import PHONE, WIDE, Visitor, visitor
from conftest import Finished, Service

REASON = "the kernel is being written"


def check(tab: Visitor, name: str) -> Iterator[str]:
    for trouble in [*tab.troubles(), *tab.sideways()]:
        yield f"{name}: {trouble}"


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_failure_is_waived_by_a_person(
    chromium: Browser, service: Service, simulated: Finished, dark: bool, size: tuple[int, int]
) -> None:
    token = service.token(f"person-{time.time_ns()}", "triage")
    until = (datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=5)).date()
    problems: list[str] = []
    with visitor(chromium, service.url, dark=dark, size=size) as tab:
        page = tab.page
        tab.visit(f"/runs/{simulated.run_key}?q=outcome:unsupported")
        page.locator("[aria-label=Cases] tbody th a").first.click()
        page.get_by_role("link", name="Waive this failure").click()
        assert "/session" in tab.path, "whoever is not signed in is asked to"
        problems += check(tab, "sign in")

        page.get_by_label("Token").fill("not a token")
        page.get_by_role("button", name="Sign in").click()
        assert page.get_by_role("alert").inner_text().startswith("Not signed in")
        problems += check(tab, "refused")
        page.get_by_label("Token").fill(token)
        page.get_by_role("button", name="Sign in").click()
        assert tab.path.startswith("/waivers/new"), "the way goes on where it began"
        problems += check(tab, "new waiver")

        page.get_by_label("Why it may pass").fill("short")
        page.get_by_label("Who gets it repaired").fill("kernels")
        page.get_by_label("Address of the issue").fill("https://example.org/issues/1")
        page.get_by_label("First day").fill(until.isoformat())
        page.get_by_role("button", name="Make it").click()
        assert "Not made" in page.get_by_role("alert").inner_text()
        assert page.get_by_label("Who gets it repaired").input_value() == "kernels"
        problems += check(tab, "refused waiver")
        page.get_by_label("Why it may pass").fill(REASON)
        page.get_by_role("button", name="Make it").click()
        assert tab.path == "/waivers"
        assert REASON in tab.text()
        problems += check(tab, "waivers, signed in")

        tab.visit("/session")
        problems += check(tab, "signed in")
        tab.visit("/waivers")
        page.get_by_role("button", name="End waiver").first.click()
        assert "Withdrawn" in tab.text()
        tab.visit("/session")
        page.get_by_role("button", name="Sign out").click()
        page.get_by_label("Token").wait_for()
        assert page.context.cookies() == [], "nothing is left of the session"
    assert not problems, "\n".join(problems)
