"""A real run on the real backend, pushed to a real server; and things killed meanwhile."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections import Counter

from conftest import PROGRAMS, Finished, Runner, Service, descendants

SMOKE = ("--suite", "operators", "--selection", "smoke")
CPU_OPERATORS = (*SMOKE, "--device", "cpu", "--samples", "3")


def assert_each_planned_case_once(service: Service, runner: Runner, run_key: str) -> None:
    """No finished result is missing or doubled, on disk and on the server."""
    finished = runner.finished(run_key)
    assert len(finished) == len(set(finished)), "the journal holds an attempt twice"
    run = service.api(f"/runs/{run_key}")
    cases = service.all_cases(run_key)
    assert run["state"] == "sealed"
    assert run["planned"] == len(cases) == len({case["case"] for case in cases})
    assert {case for case, _ in finished} == {case["case"] for case in cases}
    assert not [case["case"] for case in cases if case["verdict"] == "missing"]
    assert run["attempts"] == len(finished)


def test_the_demo_shows_passes_missing_operators_and_a_crash_that_cost_one_case(
    service: Service, simulated: Finished
) -> None:
    run_key, runner, process = simulated.run_key, simulated.runner, simulated.process
    summary = process.stdout + process.stderr
    assert process.returncode == 1, summary

    cases = service.all_cases(run_key)
    run = service.api(f"/runs/{run_key}")
    assert run["device_profile"] == "tpu-sim" and run["simulated"]
    assert {case["case"].split("/")[0] for case in cases} == {
        "operators",
        "tier1",
        "tier2",
        "dynamism",
    }
    outcomes = Counter(case["outcome"] for case in cases)
    assert outcomes["pass"] > len(cases) / 2, outcomes
    crashed = [case for case in cases if case["outcome"] == "crash"]
    assert crashed, outcomes
    position = {case["case"]: number for number, case in enumerate(cases)}
    for case in crashed:
        assert case["operator"], f"{case['case']} does not name its operator"
        following = cases[position[case["case"]] + 1 :]
        assert any(later["outcome"] == "pass" for later in following), "the crash cost other cases"

    unsupported = {case["operator"] for case in cases if case["outcome"] == "unsupported"}
    assert unsupported and None not in unsupported
    page = service.page(f"/runs/{run_key}")
    for operator in unsupported:
        assert operator in summary, f"the summary does not name {operator}"
        assert operator in page, f"the run's page does not name {operator}"
    assert "simulated" in page
    assert_each_planned_case_once(service, runner, run_key)

    home = re.sub(r"<[^>]+>", " ", service.page("/"))
    for suite in run["suites"]:
        rate = f"{suite['passed']} of {suite['counted']}"
        assert re.search(re.escape(rate), re.sub(r"\s+", " ", home)), f"home does not say {rate}"


def test_a_killed_worker_costs_at_most_the_case_it_had(service: Service, runner: Runner) -> None:
    run_key = "e2e-worker-killed"
    process = runner.start(run_key, *CPU_OPERATORS)
    killed = 0
    for count in (5, 12, 20):
        runner.wait_for_attempts(run_key, count, process)
        workers = descendants(process.pid)[1:]
        if workers:
            os.kill(workers[-1], signal.SIGKILL)
            killed += 1
    output, _ = process.communicate()
    assert killed, "no worker was found to kill"
    assert process.returncode in (0, 1), output
    assert_each_planned_case_once(service, runner, run_key)


def test_a_killed_runner_is_resumed_without_loss_or_repetition(
    service: Service, runner: Runner
) -> None:
    run_key = "e2e-runner-killed"
    process = runner.start(run_key, *CPU_OPERATORS)
    runner.wait_for_attempts(run_key, 10, process)
    below = descendants(process.pid)
    process.kill()
    process.wait()
    before = runner.finished(run_key)
    while any(os.path.exists(f"/proc/{pid}/exe") for pid in below):
        time.sleep(0.05)  # the workers end by themselves; a leak would hang the test here

    resumed = runner.again("resume", run_key)
    assert resumed.returncode in (0, 1), resumed.stdout + resumed.stderr
    assert set(before) <= set(runner.finished(run_key))
    assert_each_planned_case_once(service, runner, run_key)


def test_a_killed_server_is_sent_everything_once_it_is_back(
    service: Service, runner: Runner
) -> None:
    run_key = "e2e-server-killed"
    process = runner.start(run_key, *CPU_OPERATORS)
    runner.wait_for_attempts(run_key, 8, process)
    service.kill(signal.SIGKILL)
    output, _ = process.communicate()
    assert process.returncode in (0, 1, 3), output

    service.start()
    pushed = runner.again("push", run_key)
    assert pushed.returncode == 0, pushed.stdout + pushed.stderr
    assert_each_planned_case_once(service, runner, run_key)
    again = runner.again("push", run_key)
    assert again.returncode == 0, again.stdout + again.stderr
    assert_each_planned_case_once(service, runner, run_key)


def test_the_gate_answers_rule_by_rule_and_by_exit_code(service: Service) -> None:
    command = [str(PROGRAMS / "runner"), "gate", "demo", "--server", service.url]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    answer = service.api("/gates/demo?candidate=latest&device=tpu-sim")
    meaning = {0: "open", 1: "closed", 5: "incomplete"}
    assert meaning[process.returncode] == answer["answer"], process.stdout + process.stderr
    for rule in answer["rules"]:
        assert rule["name"] in process.stdout
