"""Every page in a real browser: nothing on the console, nothing from another host, light enough, as
wide as a phone, readable without a script and by a screen reader; and the same with hostile names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser

from browser import PHONE, Visitor, visitor
from conftest import Finished, Service
from pusher import PushedRun

HOSTILE_RUN = "hostile"
BIDI = "\u202e\u05d0\u05d1"
HOSTILE_TEXT = (
    f"<img src=x onerror=alert(1)>\"'&%2F%00/../{BIDI}</code></pre><script>alert(2)</script>"
)
LONG = "x" * 4096


def segment(text: str) -> str:
    return quote(text, safe="")


def pages_of(service: Service, run_key: str) -> dict[str, str]:
    """Name and address of a page of every kind, with the most that this run has to show."""
    cases = service.all_cases(run_key)
    run = f"/runs/{segment(run_key)}"

    def case_with(outcome: str, suite: str = "") -> str:
        found = [c for c in cases if c["outcome"] == outcome and c["case"].startswith(suite)]
        assert found, f"{run_key} has no {outcome} of {suite or 'any suite'}"
        return f"{run}/cases/{segment(found[0]['case'])}"

    models = service.api(f"/models?run={segment(run_key)}&limit=1000")["models"]
    operators = service.api(f"/operators?run={segment(run_key)}&limit=1000")["operators"]
    blamed = [row["overload"] for row in operators if row["blamed"]]
    device = service.api(f"/runs/{segment(run_key)}")["device_profile"]
    pages = {
        "home": "/",
        "trend": f"/trend?suite=operators&device={device}",
        "runs": "/runs",
        "run": run,
        "run-filtered": f"{run}?outcome=unsupported&text=a&order=manifest",
        "run-query": f"{run}?q={segment('outcome:!pass suite:operators')}",
        "timeline": f"{run}/timeline",
        "operators": f"/operators?device={device}",
        "operators-form": f"/operators?device={device}&form=forward&class=native",
        "operators-family": f"/operators?device={device}&family=general",
        "operators-by": f"/operators?device={device}&definition=computing-strict&show=failing",
        "entries": f"/operators?view=entries&device={device}",
        "entries-form": f"/operators?view=entries&device={device}&form=forward&class=native",
        "overloads": f"/operators?view=overloads&device={device}",
        "overloads-by": f"/operators?view=overloads&device={device}&definition=computing-strict",
        "operator": f"/operators/{segment(blamed[0])}?run={segment(run_key)}",
        "coverage": f"/coverage?device={device}",
        "models": f"/models?device={device}",
        "models-popular": f"/models?device={device}&sort=popularity",
        "model": f"/models/{segment(models[0]['model'])}?run={segment(run_key)}",
        "gates": "/gates",
        "gate": "/gates/demo",
        "waivers": "/waivers",
        "claims": f"/claims?device={device}",
        "devices": "/devices",
        "blockers": "/blockers",
        "compare": f"/compare?a={segment(run_key)}&b={segment(run_key)}",
        "search": "/search?q=a",
        "search-empty": "/search",
        "compare-empty": "/compare",
        "session": "/session",
    }
    outcomes = {case["outcome"] for case in cases} - {None}
    pages |= {f"case-{outcome}": case_with(outcome) for outcome in sorted(outcomes)}
    if any(case["case"].startswith("dynamism/") for case in cases):
        sweep = next(c for c in cases if c["case"].startswith("dynamism/"))
        pages["case-sweep"] = f"{run}/cases/{segment(sweep['case'])}"
    return pages


@pytest.fixture(scope="module")
def real_pages(service: Service, simulated: Finished) -> dict[str, str]:
    pages = pages_of(service, simulated.run_key)
    assert {"case-pass", "case-unsupported", "case-crash", "case-sweep"} <= set(pages)
    entry = next(
        c for c in service.all_cases(simulated.run_key) if c["case"].startswith("operators/")
    )
    name = entry["case"].split("opinfo:")[1].split("#")[0]
    return pages | {"operator-entry": f"/operators/{segment(name)}?device=tpu-sim"}


def hostile_attempt(case: str, outcome: str) -> dict[str, Any]:
    noise = "\u001b[31m" + HOSTILE_TEXT + "\u001b[0m\n" + "y" * 4096 + "\n"
    return {
        "case": case,
        "attempt": 1,
        "outcome": outcome,
        "stage": "execute",
        "error_class": HOSTILE_TEXT[:100],
        "message": (HOSTILE_TEXT + "z" * 1024)[:900],
        "operator": f"aten::{HOSTILE_TEXT}",
        "started_at": "2026-11-30T05:12:00Z",
        "seconds": 0.25,
        "evidence": {
            "device_used": HOSTILE_TEXT,
            "operators": {f"aten::{HOSTILE_TEXT}": 1, "aten::" + "w" * 200: 2},
            "fallback_operators": [],
            "stage_seconds": {"execute": 0.1},
            "comparisons": [],
            "reference": HOSTILE_TEXT,
            "graph_signature": HOSTILE_TEXT,
            "seed": 7,
            "substitutions": [HOSTILE_TEXT],
            "notes": [HOSTILE_TEXT, LONG],
            "traceback": noise,
            "log": {"head": noise, "tail": noise, "dropped_bytes": 9},
            "repro": f"import torch  # {HOSTILE_TEXT}\n",
        },
    }


@pytest.fixture(scope="module")
def hostile_pages(service: Service, simulated: Finished) -> dict[str, str]:
    """After the honest run, so that home has both."""
    tail = "/float32.eager.forward"
    outcomes = {
        f"operators/opinfo:{HOSTILE_TEXT}#0{tail}": "unsupported",
        f"tier1/hub:{HOSTILE_TEXT}@%2e%2e#tiny{tail}": "crash",
        f"tier1/hub:{'a' * 460}#tiny{tail}": "error",
    }
    run = PushedRun(service, HOSTILE_RUN, "cuda", list(outcomes))
    run.announce(
        device_kind=HOSTILE_TEXT,
        host=HOSTILE_TEXT,
        started_at="2026-11-30T05:11:45Z",
        versions={"torch": HOSTILE_TEXT, HOSTILE_TEXT[:60]: LONG[:200]},
        labels={HOSTILE_TEXT[:60]: HOSTILE_TEXT},
    )
    run.deliver([hostile_attempt(case, outcome) for case, outcome in outcomes.items()])
    run.seal()
    return pages_of(service, HOSTILE_RUN) | {
        "search-hostile": f"/search?q={segment(HOSTILE_TEXT)}",
        "run-text": f"/runs/{HOSTILE_RUN}?text={segment(HOSTILE_TEXT)}",
    }


def check(tab: Visitor, name: str, path: str) -> Iterator[str]:
    """What is wrong with a page, in words."""
    tab.visit(path)
    yield from (f"{name}: {trouble}" for trouble in tab.troubles())


def without_age(text: str) -> str:
    """Between two visits everything has become older."""
    return re.sub(r"\d+ (d|h|min|s)\b", "…", text)


def findings(tab: Visitor, pages: dict[str, str]) -> list[str]:
    return [problem for name, path in pages.items() for problem in check(tab, name, path)]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_no_page_keeps_anybody_out(
    chromium: Browser, service: Service, real_pages: dict[str, str], dark: bool
) -> None:
    with visitor(chromium, service.url, dark=dark) as tab:
        problems = findings(tab, real_pages)
    assert not problems, "\n".join(problems)


def test_every_page_is_as_narrow_as_a_phone(
    chromium: Browser, service: Service, real_pages: dict[str, str], hostile_pages: dict[str, str]
) -> None:
    problems = []
    with visitor(chromium, service.url, size=PHONE) as tab:
        for pages in (real_pages, hostile_pages):
            for name, path in pages.items():
                tab.visit(path)
                problems += [f"{name}: {words}" for words in tab.sideways()]
    assert not problems, "\n".join(problems)


def test_every_page_says_the_same_without_a_script(
    chromium: Browser, service: Service, real_pages: dict[str, str]
) -> None:
    with (
        visitor(chromium, service.url) as tab,
        visitor(chromium, service.url, script=False) as plain,
    ):
        for name, path in real_pages.items():
            tab.visit(path)
            plain.visit(path)
            tab.page.evaluate(
                "document.querySelectorAll('[data-copy]').forEach((button) => button.remove())"
            )
            assert without_age(plain.text()) == without_age(tab.text()), name
        plain.visit("/runs")
        plain.click(plain.page.locator("table tbody th a").first)
        plain.page.select_option("select[name=outcome]", "pass")
        plain.page.get_by_role("button", name="Filter").click()
        assert "outcome=pass" in plain.path, "a form works without a script"


def test_hostile_names_are_only_text(
    chromium: Browser, service: Service, hostile_pages: dict[str, str]
) -> None:
    with visitor(chromium, service.url) as tab:
        problems = findings(tab, hostile_pages)
        for name, path in hostile_pages.items():
            tab.visit(path)
            if BIDI[0] in tab.page.title() + tab.page.locator("body").inner_text():
                problems.append(f"{name}: a character that turns the line round")
            if tab.page.locator("main script, main img").count():
                problems.append(f"{name}: a name became an element")
            if name.startswith("case-") and "<img src=x onerror=alert(1)>" not in tab.text():
                problems.append(f"{name}: the message is not shown")
    assert not problems, "\n".join(problems)


def test_a_wrong_address_helps(
    chromium: Browser, service: Service, hostile_pages: dict[str, str]
) -> None:
    paths = [
        "/nowhere",
        f"/runs/{LONG}",
        f"/runs/{segment(HOSTILE_TEXT.replace('%00', ''))}",
        f"/runs/{HOSTILE_RUN}/cases/{LONG}",
        f"/operators/{segment('../' * 1300)}",
        f"/models/{LONG}",
        "/runs?page=none",
    ]
    with visitor(chromium, service.url, size=PHONE, expected_statuses=(400, 404)) as tab:
        for path in paths:
            tab.visit(path)
            assert tab.barriers() == [], path
            assert tab.sideways() == [], path
            assert tab.page.locator("main a, nav a").count() > 3, path
            assert len(tab.text()) > 30, path
        tab.visit(f"/search?q={LONG}")
        assert tab.sideways() == []


def test_a_keyboard_reaches_the_contents_and_is_seen(
    chromium: Browser, service: Service, real_pages: dict[str, str]
) -> None:
    with visitor(chromium, service.url) as tab:
        tab.visit("/")
        tab.page.keyboard.press("Tab")
        skip = tab.page.evaluate("document.activeElement.className")
        assert skip == "skip"
        tab.page.keyboard.press("Enter")
        tab.page.keyboard.press("Tab")
        inside = tab.page.evaluate("document.activeElement.closest('main') !== null")
        assert inside, "the first stop after the skip link is in the contents"
        outline = tab.page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none", "focus is not seen"
