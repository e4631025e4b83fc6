"""The three questions that the pages are for, asked with a mouse, on real runs: what happened last
night, how do I see this operator fail, may this build ship. Each is answered within three clicks.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from browser import visitor
from conftest import Finished, Service, make_runner

MOST_CLICKS = 3
HEALTHY = ("add", "mul", "exp", "sqrt", "neg")
BROKEN_LAST_NIGHT = {"mul": "wrong-value", "neg": "abort"}


@pytest.fixture(scope="module")
def nights(service: Service, python: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two nights on the device that is broken on purpose; in the second, two operators are."""
    folder = tmp_path_factory.mktemp("nights")
    selection = folder / "selection.txt"
    selection.write_text("\n".join(HEALTHY))
    runner = make_runner(service, python, folder)
    faults = [f"--fault={entry}={rule}" for entry, rule in BROKEN_LAST_NIGHT.items()]
    for run_key, broken, code in [("browser-night-1", [], 0), ("browser-night-2", faults, 1)]:
        command = runner.command(
            run_key,
            *("--suite", "operators", "--selection", str(selection), "--samples", "1"),
            *("--device", "faulty", "--dtype", "float32", "--retries", "0"),
            *broken,
        )
        process = subprocess.run(command, capture_output=True, text=True, check=False)
        assert process.returncode == code, process.stdout + process.stderr
    return run_key


def test_morning_triage(chromium: Browser, service: Service, nights: str) -> None:
    of_api = [case for case in service.all_cases(nights) if case["verdict"] == "regressed"]
    assert {case["case"].split(":")[1].split("#")[0] for case in of_api} == set(BROKEN_LAST_NIGHT)
    with visitor(chromium, service.url) as tab:
        tab.visit("/")
        device = tab.page.locator("section.device", has=tab.page.locator("h2", has_text="faulty"))
        tab.click(device.get_by_role("link", name=f"{len(of_api)} regressed"))
        assert tab.path == f"/runs/{nights}?verdict=regressed#cases".split("#")[0]
        cases = tab.page.locator("[aria-label=Cases] tbody tr")
        expect(cases).to_have_count(len(of_api))
        crash = next(case for case in of_api if case["outcome"] == "crash")
        tab.click(tab.page.get_by_role("link", name=re.compile("opinfo:neg#")).first)
        assert tab.clicks <= MOST_CLICKS
        text = tab.text()
        for shown in ("regressed", "crash", "SIGABRT", crash["operator"] or "neg"):
            assert shown in text, f"{shown} is not on {tab.path}"
        history = tab.page.locator("ol.strip li").all_inner_texts()
        assert [word.strip() for word in history] == ["passed", "regressed"]
        assert tab.page.locator("#repro-command").inner_text().startswith("runner repro ")


def test_from_an_operator_to_a_script_that_shows_it(
    chromium: Browser, service: Service, simulated: Finished, tmp_path: Path
) -> None:
    with visitor(chromium, service.url) as tab:
        tab.visit("/")
        device = tab.page.locator("section.device", has=tab.page.locator("h2", has_text="tpu-sim"))
        blocker = device.get_by_role("region", name="Blockers").get_by_role("link").first
        operator = blocker.inner_text()
        tab.click(blocker)
        expect(tab.page.get_by_role("heading", level=1)).to_have_text(operator)
        case = tab.page.locator("[aria-label=Cases] tbody th a").first
        tab.click(case)
        tab.click(tab.page.locator("button[data-copy='repro-script']"))
        assert tab.clicks <= MOST_CLICKS
        copied = tab.page.evaluate("navigator.clipboard.readText()")
        key = tab.path.split("/cases/")[1]
        [attempt, *_] = service.api(
            f"/runs/{simulated.run_key}/attempts?case={tab.page.url.split('/cases/')[1]}"
        )["attempts"]
        assert copied.strip() == attempt["evidence"]["repro"].strip(), key
        assert 5 < len(copied.splitlines()) < 200
        compile(copied, "repro.py", "exec")


def test_the_gate_before_a_release(chromium: Browser, service: Service, nights: str) -> None:
    answer = service.api("/gates/broken")
    assert answer["answer"] == "closed"
    with visitor(chromium, service.url) as tab:
        tab.visit("/")
        gates = tab.page.locator("p.gates")
        for gate in service.api("/gates")["gates"]:
            word = service.api(f"/gates/{gate['name']}")["answer"]
            assert f"{gate['name']} {word}" in " ".join(gates.inner_text().split())
        tab.click(gates.get_by_role("link", name="broken"))
        expect(tab.page.get_by_role("heading", level=1)).to_have_text("broken: closed")
        blocking = []
        for rule in answer["rules"]:
            table = tab.page.get_by_role("region", name=f"Checks of {rule['name']}", exact=True)
            lines = [line.split("\t") for line in table.locator("tbody").inner_text().split("\n")]
            assert [line[:4] for line in lines] == [
                [check["check"], check["answer"], check["reason"], check["text"]]
                for check in rule["checks"]
            ]
            blocking += [case["case"] for check in rule["checks"] for case in check["blocking"]]
        assert len(blocking) == len(BROKEN_LAST_NIGHT)
        tab.click(tab.page.locator("summary").first)
        tab.click(tab.page.locator("details[open] a", has_text=blocking[0]))
        assert tab.clicks <= MOST_CLICKS
        assert tab.path == f"/runs/{nights}/cases/{blocking[0]}"
        assert "regressed" in tab.text()
