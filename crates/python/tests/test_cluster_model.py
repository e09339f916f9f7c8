"""The model of a cluster: against arithmetic where that is easy, and against runs of the real thing."""

import subprocess
import sys

import pytest

from rigel.cluster.simulate import Model, simulate

FREE = {"input_bytes": 0, "output_bytes": 0, "client_seconds": 0.0, "call_seconds": 0.0, "start_seconds": 0.0}


def test_workers_are_the_limit():
    outcome = simulate(Model(machines=2, gpus=5, jobs=100, seconds=3.0, **FREE))
    assert outcome.seconds == pytest.approx(30.0)
    assert outcome.use == pytest.approx(1.0)
    assert outcome.latency_p50 == pytest.approx(16.5) and outcome.latency_p99 == pytest.approx(30.0)


def test_the_client_is_the_limit():
    outcome = simulate(Model(machines=100, gpus=8, jobs=5000, seconds=0.1, **{**FREE, "client_seconds": 0.001}))
    assert outcome.jobs_per_second == pytest.approx(500, rel=0.01)


def test_the_link_is_the_limit():
    link = {"output_bytes": 1e6, "client_link": 1e8, "machine_link": 1e12}
    outcome = simulate(Model(machines=10, gpus=8, jobs=2000, seconds=0.01, **{**FREE, **link}))
    assert outcome.jobs_per_second == pytest.approx(100, rel=0.01)


def test_failures_cost_what_was_under_way():
    sure = Model(machines=20, gpus=8, jobs=20_000, seconds=1.0, **FREE)
    risky = Model(**{**vars(sure), "failures_per_hour": 30.0, "repair_seconds": 60.0})
    whole, broken = simulate(sure), simulate(risky)
    assert whole.failures == 0 and whole.lost_seconds == 0
    assert broken.failures > 5 and broken.seconds > whole.seconds
    # A failure takes at most a job's second of each of the machine's workers.
    assert 0 < broken.lost_seconds <= broken.failures * 8 * 1.0 + 1e-6
    # As many machines less as are away: 30 failures an hour, a minute each.
    assert broken.use == pytest.approx(1 / 1.5, rel=0.15)


def test_arrivals_that_workers_keep_up_with_hardly_wait():
    outcome = simulate(Model(machines=1, gpus=8, jobs=5000, rate=40, seconds=0.1, **FREE))
    assert outcome.use == pytest.approx(0.5, rel=0.05)
    assert outcome.latency_p50 == pytest.approx(0.1, rel=0.01) and outcome.latency_p99 < 0.3


def test_what_makes_no_sense_is_refused():
    for wrong in ({"jobs": 0}, {"machines": -1}, {"client_link": 0}, {"failures_per_hour": 1e9}):
        with pytest.raises(ValueError):
            simulate(Model(**wrong))
    command = [sys.executable, "-m", "rigel.cluster", "simulate", "--times", "/no/such/file"]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 2 and "No such file" in ended.stderr
