"""An open page of a run that goes on: it changes by itself, with a script and without, and does not
take a filter out of somebody's hands.
"""

from __future__ import annotations

import time

from playwright.sync_api import Browser, expect

from browser import visitor
from conftest import Service
from pusher import PushedRun, attempt

PATIENCE_MS = 15_000
CASES = [f"operators/opinfo:{name}#0/float32.eager.forward" for name in ("add", "mul", "sub")]


def test_a_running_run_is_followed_until_its_seal(chromium: Browser, service: Service) -> None:
    run = PushedRun(service, f"browser-live-{time.time_ns()}", "cpu", CASES)
    run.announce()
    with visitor(chromium, service.url) as tab:
        tab.visit(f"/runs/{run.run_key}")
        state = tab.page.locator("main p.where .mark").first
        passed = tab.page.locator("table.suites tbody td").first
        expect(state).to_have_text("running")
        expect(passed).to_have_text("0 of 3")
        run.deliver([attempt(CASES[0], "pass")])
        expect(passed).to_have_text("1 of 3", timeout=PATIENCE_MS)

        tab.page.get_by_label("Text").fill("mul")
        run.deliver([attempt(CASES[1], "crash")])
        tab.page.wait_for_timeout(4_000)
        expect(passed).to_have_text("1 of 3")
        assert tab.page.get_by_label("Text").input_value() == "mul", "it was being filled in"
        tab.page.get_by_label("Text").blur()
        crash = tab.page.locator("[aria-label=Cases]").get_by_text("crash", exact=True)
        expect(crash).to_be_visible(timeout=PATIENCE_MS)

        run.deliver([attempt(CASES[2], "pass")])
        run.seal()
        expect(state).to_have_text("complete", timeout=PATIENCE_MS)
        expect(passed).to_have_text("2 of 3")
        assert tab.page.locator("main[data-events]").count() == 0


def test_a_running_run_reads_itself_again_without_a_script(
    chromium: Browser, service: Service
) -> None:
    run = PushedRun(service, f"browser-plain-{time.time_ns()}", "cpu", CASES[:2])
    run.announce()
    with visitor(chromium, service.url, script=False) as tab:
        tab.visit(f"/runs/{run.run_key}")
        passed = tab.page.locator("table.suites tbody td").first
        expect(passed).to_have_text("0 of 2")
        run.deliver([attempt(CASES[0], "pass")])
        expect(passed).to_have_text("1 of 2", timeout=PATIENCE_MS)
        run.deliver([attempt(CASES[1], "pass")])
        run.seal()
        expect(passed).to_have_text("2 of 2", timeout=PATIENCE_MS)
