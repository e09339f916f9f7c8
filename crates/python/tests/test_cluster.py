"""`rigel.cluster` on a Ray cluster of several raylets on this machine, with workers on the CPU."""

import io
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import ray
from ray.cluster_utils import Cluster as Raylets

from rigel.cluster import Cluster, ClusterError, JobFailed, Worker, WorkerDied, _frames as frames
from rigel.cluster._job import Job, Kind
from rigel.cluster._pool import Pool
from rigel.cluster._worker import _Open
from rigel.cluster.simulate import Model, measure, simulate

BINARIES = Path(__file__).parents[3] / "target/debug"
SUMS = str(BINARIES / "rigel-sums")
BUILD = "not built; run: cargo build --workspace --features rigel/full --bin rigel --bin rigel-sums"
#: Upstream's proof of work is deterministic with one thread.
ONE_THREAD = {"RAYON_NUM_THREADS": "1"}


def job(*numbers, **more):
    return {"numbers": list(numbers), **more}


@pytest.fixture(scope="module")
def raylets():
    """A head without a place for workers, and two machines with two places each."""
    assert all((BINARIES / name).exists() for name in ("rigel", "rigel-sums")), BUILD
    # A machine that is gone should be noticed in seconds here, not in half a minute.
    health = {"initial_delay_ms": 0, "period_ms": 500, "failure_threshold": 3}
    system = {f"health_check_{name}": value for name, value in health.items()}
    there = Raylets(initialize_head=True, head_node_args={"num_cpus": 0, "_system_config": system})
    there.machines = [there.add_node(num_cpus=2) for _ in range(2)]
    there.wait_for_nodes()
    yield there
    there.shutdown()


@pytest.fixture(scope="module")
def cluster(raylets):
    with Cluster(raylets.address) as cluster:
        yield cluster


def sums(cluster, jobs, **options):
    return cluster.map(SUMS, jobs, gpus=0, **options)


def until(condition, what):
    deadline = time.monotonic() + 120
    while not (seen := condition()):
        assert time.monotonic() < deadline, what
        time.sleep(0.01)
    return seen


def test_a_thousand_jobs(cluster):
    jobs = [job(n, 1) for n in range(1000)]
    results = list(sums(cluster, jobs, ordered=True))
    assert [result.index for result in results] == list(range(1000))
    assert [int(result.output) for result in results] == [n + 1 for n in range(1000)]
    # No job was worked on twice.
    assert {result.tries for result in results} == {1}
    assert all(result.report["numbers"] == 2 for result in results)


def test_results_come_as_they_are_done(cluster, tmp_path):
    end = tmp_path / "end"
    results = sums(cluster, iter([job(1, until=str(end)), job(2), job(3)]), workers=2)
    assert sorted(next(results).index for _ in range(2)) == [1, 2]
    end.touch()
    assert [result.index for result in results] == [0]


def test_large_jobs_travel_as_objects(cluster):
    numbers = list(range(100_000))
    by_reference = ray.put(json.dumps(job(*numbers)).encode())
    for result in sums(cluster, [job(*numbers), by_reference]):
        assert int(result.output) == sum(numbers)
        assert result.report["input_bytes"] > 500_000


def test_failures_are_reported_and_others_go_on(cluster):
    jobs = [job(do="fail"), job(do="panic"), job(do="abort"), b"not JSON", job(4), job(do="print")]
    fail, panic, abort, malformed, fine, printed = sums(cluster, jobs, ordered=True, retries=1)
    assert (fail.error.kind, fail.tries, str(fail.error)) == ("error", 1, "the job asked to fail")
    assert (panic.error.kind, panic.tries) == ("panic", 2)
    assert (abort.error.kind, abort.tries) == ("died", 2)
    assert "ended by signal 6" in str(abort.error) and "about to abort" in str(abort.error)
    assert malformed.error.kind == "error"
    assert (fine.output, printed.output) == (b"4", b"0")
    with pytest.raises(JobFailed, match="asked to fail"):
        fail.output


@pytest.mark.parametrize("do", ["abort", "panic", "elsewhere"])
def test_a_job_is_tried_again_on_another_machine(cluster, tmp_path, do):
    # Workers are on both machines.
    until(
        lambda: len({r.nodes for r in sums(cluster, [job(n, milliseconds=200) for n in range(8)])}) == 2,
        "one machine has no workers",
    )
    (result,) = sums(cluster, [job(7, do=do, once=str(tmp_path / "once"))])
    assert (result.output, result.tries) == (b"7", 2)
    first, second = result.nodes
    assert first != second


def test_a_worker_that_hangs_is_ended(cluster, tmp_path):
    jobs = [job(8, do="hang", once=str(tmp_path / "once")), job(9)]
    hung, fine = sums(cluster, jobs, timeout=4.0, ordered=True)
    assert (hung.output, hung.tries, fine.output) == (b"8", 2, b"9")
    (always,) = sums(cluster, [job(do="hang")], timeout=0.5, retries=0)
    assert always.error.kind == "timeout" and "did not finish" in str(always.error)


def test_a_straggler_is_hedged_if_asked_for(cluster, tmp_path):
    jobs = [*(job(n, milliseconds=20) for n in range(6)), job(6, do="hang", once=str(tmp_path / "once"))]
    results = list(sums(cluster, jobs, hedge=3.0, ordered=True))
    assert [int(result.output) for result in results] == list(range(7))
    assert [result.tries for result in results[-1:]] == [2]


def test_cancelling(cluster):
    jobs = [job(n, milliseconds=60_000) for n in range(3)]
    results = sums(cluster, jobs, workers=1)
    pool = results._pool
    pool.watch()
    running = results._open[0]
    until(lambda: running.progress, "the job does not begin")
    results.cancel(2)
    waiting = next(results)
    assert (waiting.index, waiting.tries, waiting.error.kind) == (2, 0, "stopped")
    results.cancel()
    ended = {result.index: (result.tries, result.error.kind) for result in results}
    assert ended[0] == (1, "stopped") and ended[1] == (0, "stopped")
    # The worker is there for others.
    (result,) = sums(cluster, [job(5)], workers=1)
    assert result.output == b"5"


def test_a_cancelled_job_that_does_not_stop_is_ended(cluster):
    results = sums(cluster, [job(do="hang")], workers=1)
    results._pool.watch()
    until(lambda: results._open[0].progress, "the job does not begin")
    results.cancel()
    assert next(results).error.kind == "stopped"


def test_dropping_the_results_cancels_the_jobs(cluster):
    results = sums(cluster, [job(n, milliseconds=60_000) for n in range(20)])
    pool = results._pool
    until(lambda: pool.state()["busy"], "no worker is busy")
    del results
    until(lambda: not pool._jobs, "the jobs go on")
    (result,) = sums(cluster, [job(5)])
    assert result.output == b"5"


def test_jobs_of_another_type_are_refused(cluster):
    with pytest.raises(TypeError, match="job 1 is of the type int"):
        sums(cluster, [job(1), 1])
    (result,) = sums(cluster, [ray.put(1)])
    assert result.error.kind == "error" and "int" in str(result.error)
    (result,) = sums(cluster, [job(6)])
    assert result.output == b"6"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_fault_of_the_pool_fails_its_jobs(cluster):
    results = sums(cluster, [job(n, milliseconds=60_000) for n in range(2)], workers=1, memory=1 << 20)

    def fault():
        raise RuntimeError("not foreseen")

    results._pool._events.put((fault,))
    assert {(result.error.kind, "RuntimeError: not foreseen" in str(result.error)) for result in results} == {
        ("cluster", True)
    }
    # Another map gets workers of its own.
    (result,) = sums(cluster, [job(7)], workers=1, memory=1 << 20)
    assert result.output == b"7"


def test_a_closed_pool_fails_jobs_at_once(cluster):
    results = sums(cluster, [job(1), job(2)], workers=1, memory=2 << 20)
    pool = results._pool
    assert next(results).error is None
    pool.close()
    late = Job(0, b"{}", retries=0, hedge=None, timeout=None)
    assert pool.submit(late).future.result(timeout=60).error.kind == "stopped"
    assert all(result.error is None or result.error.kind == "stopped" for result in results)


def test_a_worker_is_killed_in_the_middle(cluster, tmp_path):
    go_on = tmp_path / "go on"
    results = sums(cluster, [job(n, until=str(go_on)) for n in range(8)])
    pool = results._pool
    pool.watch()

    def begun():
        attempts = [attempt for member in list(pool._members) for attempt in list(member.jobs.values())]
        return [attempt for attempt in attempts if attempt.progress]

    # It has begun, and does not end before its worker is killed.
    killed = until(begun, "no job begins")[0]
    os.kill(ray.get(killed.member.actor.ready.remote())["pid"], 9)
    until(lambda: killed.job.faults, "nobody notices that the worker is gone")
    go_on.touch()
    rest = list(results)
    assert sorted(int(result.output) for result in rest) == list(range(8))
    assert {result.index: result.tries for result in rest} == {n: 2 if n == killed.job.index else 1 for n in range(8)}


def several(cluster, at_once, jobs, **options):
    return cluster.map([SUMS, "--at-once", str(at_once)], jobs, gpus=0, **options)


def test_a_worker_has_as_many_jobs_as_it_works_on(cluster):
    results = several(cluster, 3, [job(n, milliseconds=60_000) for n in range(5)], workers=1)
    until(lambda: results._pool.state()["running"] == 3, "not all places are taken")
    state = results._pool.state()
    assert (state["busy"], state["waiting"]) == (1, 2)
    results.cancel()
    tries = {result.index: result.tries for result in results if result.error.kind == "stopped"}
    assert tries == {0: 1, 1: 1, 2: 1, 3: 0, 4: 0}
    # Short jobs are given to it before it asks for them, and none twice.
    rest = list(several(cluster, 3, [job(n, 1) for n in range(200)], workers=1, ordered=True))
    assert [int(result.output) for result in rest] == list(range(1, 201))
    assert {result.tries for result in rest} == {1}


def test_a_worker_with_several_jobs_is_killed_in_the_middle(cluster, tmp_path):
    go_on = tmp_path / "go on"
    results = several(cluster, 2, [job(n, until=str(go_on)) for n in range(10)], workers=2)
    pool = results._pool
    pool.watch()
    # All four have begun, not only been given, and none of them ends before the worker is killed.
    until(lambda: all(results._open[n].progress for n in range(4)), "not all places are taken")
    member = pool._members[0]
    killed = [attempt.job for attempt in list(member.jobs.values())]
    os.kill(ray.get(member.actor.ready.remote())["pid"], 9)
    # Short jobs are given in advance, and would be to a worker that is not yet known to be gone.
    until(lambda: all(one.alone for one in killed), "nobody notices that the worker is gone")
    go_on.touch()
    rest = list(results)
    assert sorted(int(result.output) for result in rest) == list(range(10))
    lost = {one.index for one in killed}
    assert len(lost) == 2
    assert {result.index: result.tries for result in rest} == {n: 2 if n in lost else 1 for n in range(10)}


def test_a_job_that_ends_its_worker_does_not_fail_those_beside_it(cluster, tmp_path):
    go_on, end = tmp_path / "go on", tmp_path / "end"
    jobs = [job(n, until=str(end)) for n in range(8)]
    jobs[3] = job(3, do="abort", until=str(go_on))
    results = several(cluster, 4, jobs, workers=1, retries=0, ordered=True)
    results._pool.watch()
    given = [results._open[n] for n in range(4)]
    until(lambda: all(one.progress for one in given), "not all begin")
    go_on.touch()
    until(lambda: all(one.alone for one in given), "not all failures are unclear")
    end.touch()
    results = list(results)
    assert [result.index for result in results if result.error] == [3]
    assert results[3].error.kind == "died" and "about to abort" in str(results[3].error)
    assert [int(result.output) for result in results if not result.error] == [0, 1, 2, 4, 5, 6, 7]
    # One attempt beside the others, and one that shows whose fault it was.
    assert results[3].tries == 2 and max(result.tries for result in results) == 2


def test_a_job_that_spoils_its_worker_does_not_fail_those_beside_it(cluster, tmp_path):
    go_on, end = tmp_path / "go on", tmp_path / "end"
    jobs = [job(n, until=str(end)) for n in range(3)] + [job(3, do="poison", until=str(go_on))]
    results = several(cluster, 4, jobs, workers=1, retries=0, ordered=True)
    results._pool.watch()
    given = [results._open[n] for n in range(4)]
    until(lambda: all(one.progress for one in given), "not all begin")
    go_on.touch()
    until(lambda: all(one.alone for one in given), "not all failures are unclear")
    end.touch()
    *fine, spoilt = results
    assert [(result.output, result.tries) for result in fine] == [(b"0", 2), (b"1", 2), (b"2", 2)]
    assert (spoilt.error.kind, spoilt.tries) == ("elsewhere", 2)


def test_a_panic_leaves_the_jobs_beside_it_alone(cluster, tmp_path):
    jobs = [job(1, milliseconds=600), job(2, do="panic", once=str(tmp_path / "once")), job(3)]
    long, panicked, other = several(cluster, 2, jobs, workers=1, ordered=True)
    assert (long.output, long.tries) == (b"1", 1)
    assert (panicked.output, panicked.tries, other.output) == (b"2", 2, b"3")


def test_what_the_cluster_does_not_have_is_named(cluster):
    with pytest.raises(ClusterError, match="no machine of the cluster has 1 GPUs and 1 CPUs.* 2 CPUs"):
        cluster.map(SUMS, [job(1)])
    with pytest.raises(ClusterError, match="bytes of memory"):
        sums(cluster, [job(1)], memory=1 << 60)
    (result,) = cluster.map("/no/such/worker", [job(1)], gpus=0, workers=1)
    assert result.error.kind == "cluster" and "/no/such/worker does not start" in str(result.error)
    (result,) = cluster.map([SUMS, "--garbage"], [job(1)], gpus=0, workers=1)
    assert "is not the beginning of a frame" in str(result.error)


def test_two_clients_at_once(cluster, raylets):
    text = f"""
import sys
from rigel.cluster import Cluster
with Cluster({raylets.address!r}) as cluster:
    jobs = [{{"numbers": [n], "milliseconds": 10}} for n in range(50)]
    results = cluster.map({SUMS!r}, jobs, gpus=0, workers=1, ordered=True)
    assert [int(result.output) for result in results] == list(range(50))
"""
    other = subprocess.Popen([sys.executable, "-c", text], stderr=subprocess.PIPE)
    results = sums(cluster, [job(n, milliseconds=10) for n in range(200)], workers=2, ordered=True)
    assert [int(result.output) for result in results] == list(range(200))
    _, words = other.communicate(timeout=180)
    assert other.returncode == 0, words.decode()


def test_proofs_are_those_of_one_process(cluster, tmp_path):
    small = {"queries": 3, "pow_bits": 2}
    jobs = [
        {"workload": "fibonacci", "log_rows": 6, **small},
        {"workload": "plonk", "log_rows": 6, **small},
        {"workload": "fibonacci", "log_rows": 6, "batch_pow_bits": 3, **small},
        {"workload": "fibonacci", "log_rows": 99},
        {"machine": "none"},
    ]
    worker = [str(BINARIES / "rigel"), "worker", "--cpu"]
    *proofs, too_large, unknown = cluster.map(worker, jobs, gpus=0, workers=2, environment=ONE_THREAD, ordered=True)
    for result, request in zip(proofs, jobs):
        path = tmp_path / f"{result.index}.proof"
        options = [f"--{name.replace('_', '-')}={value}" for name, value in request.items() if name != "workload"]
        command = [worker[0], "prove", request["workload"], *options, "--cpu", "-o", str(path)]
        subprocess.run(command, env={**os.environ, **ONE_THREAD}, check=True, capture_output=True)
        assert result.output == path.read_bytes()
        assert subprocess.run([worker[0], "verify", str(path)], capture_output=True).returncode == 0
        assert result.report["proof"]["device"] == "cpu"
    assert "2^99" in str(too_large.error) and "is not a machine" in str(unknown.error)


@pytest.mark.skipif("RIGEL_TEST_LONG" not in os.environ, reason="about time; scripts/cluster runs it")
def test_the_model_agrees_with_real_runs(cluster):
    """Within 15 %, with what a call and the client's thread take measured in runs of their own."""

    def seconds(jobs):
        began = time.monotonic()
        assert all(result.error is None for result in sums(cluster, jobs))
        return time.monotonic() - began

    mixed = [0.02, 0.05, 0.1, 0.2]
    cases = [
        ([job(1, milliseconds=200)] * 40, {"seconds": 0.2}),
        ([job(1, milliseconds=30)] * 200, {"seconds": 0.03}),
        ([job(1, milliseconds=int(1000 * duration)) for duration in mixed * 20], {"times": mixed}),
        ([job(1)] * 2000, {"seconds": 0.0}),
    ]
    beyond = measure(cluster, SUMS, job(1), gpus=0)["call_seconds"]
    seconds([job(1, milliseconds=200)] * 20)
    print(f"\na call takes {1e3 * beyond:.2f} ms beyond its job")
    for jobs, work in cases:
        ratios = []
        # A machine that others use, too, is not the same from one second to the next.
        for _ in range(3):
            client = seconds([job(1)] * 1000) / 2000
            real = seconds(jobs)
            call = max(0.0, beyond - 2 * client)
            there = {"machines": 2, "gpus": 2, "start_seconds": 0.0, "client_seconds": client, "call_seconds": call}
            models = [Model(jobs=len(jobs), output_bytes=1, seed=seed, **there, **work) for seed in range(10)]
            expected = statistics.mean(simulate(model).seconds for model in models)
            ratios.append(expected / real)
            print(f"{work}: {real:.3f} s, model {expected:.3f} s, {1e3 * client:.2f} ms of the client")
        assert statistics.median(ratios) == pytest.approx(1, rel=0.15)


def test_a_machine_is_lost_in_the_middle(cluster, raylets, tmp_path):
    """Last, because one machine less is left."""
    go_on = tmp_path / "go on"
    results = several(cluster, 2, [job(n, until=str(go_on)) for n in range(24)])
    pool = results._pool
    until(lambda: pool.state()["running"] == 8, "not all places of both machines are taken")
    lost = raylets.machines[0]

    def gone():
        return all(member.place is None or member.place["node"] != lost.node_id for member in list(pool._members))

    assert not gone()
    raylets.remove_node(lost, allow_graceful=False)
    until(gone, "nobody notices that the machine is gone")
    go_on.touch()
    rest = list(results)
    assert sorted(int(result.output) for result in rest) == list(range(24))
    # What was there is tried again elsewhere; nothing is tried more than twice, whoever was beside it.
    again = [result for result in rest if result.tries > 1]
    assert [result.tries for result in again] == [2] * 4
    assert all(result.nodes[0] == lost.node_id != result.nodes[1] for result in again)


def test_a_worker_without_ray():
    worker = Worker([SUMS])
    assert worker.run(1, b'{"numbers": [1, 2]}')[1] == b"3"
    with pytest.raises(WorkerDied, match="about to abort"):
        worker.run(2, b'{"do": "abort"}')


def outcomes(worker, jobs):
    """The outcomes of jobs that are given together, by number."""
    given, outcomes = [], {}
    for number, (what, timeout) in enumerate(jobs):
        try:
            given.append(worker.give(number, json.dumps(what).encode(), timeout))
        except WorkerDied as error:
            # An earlier one has ended the worker already.
            outcomes[number] = error

    def wait(job):
        try:
            outcomes[job.number] = worker.outcome(job)[1]
        except (JobFailed, WorkerDied) as error:
            outcomes[job.number] = error

    threads = [threading.Thread(target=wait, args=(job,)) for job in given]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    return [outcomes[number] for number in range(len(jobs))]


def test_a_worker_with_several_jobs_at_once():
    worker = Worker([SUMS, "--at-once", "2"])
    assert worker.at_once == 2
    # The time of those that wait begins when they do: 12 jobs of 500 ms, two at once, take longer than one may.
    jobs = [(job(n, milliseconds=500), 2.9) for n in range(12)]
    assert outcomes(worker, jobs) == [str(n).encode() for n in range(12)]
    fine, failed, panicked = outcomes(worker, [(job(1), None), (job(do="fail"), None), (job(do="panic"), None)])
    assert fine == b"1" and failed.kind == "error" and panicked.kind == "panic"
    # One that hangs takes the others with it, and only it is to blame.
    hung, beside = outcomes(worker, [(job(do="hang"), 0.5), (job(milliseconds=60_000), None)])
    assert (hung.kind, beside.kind, beside.beside) == ("timeout", "died", True)
    assert "did not finish job 0 within 0.5 s" in str(beside)
    with pytest.raises(WorkerDied):
        worker.run(9, b"{}")

    worker = Worker([SUMS, "--at-once", "2"])
    jobs = [(job(milliseconds=60_000), None), (job(do="abort", milliseconds=1), None), (job(3), None)]
    ended = outcomes(worker, jobs)
    assert [(error.kind, error.beside) for error in ended] == [("died", True)] * 3
    assert all("about to abort" in str(error) for error in ended)


def test_what_a_worker_has_started_ends_with_it(tmp_path):
    """A stand-in for `rigel-cairo` that does not end."""
    machine = tmp_path / "rigel-cairo"
    machine.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 3600\n")
    machine.chmod(0o755)
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}

    def gone(pid):
        deadline = time.monotonic() + 60
        while Path(f"/proc/{pid}").exists():
            assert time.monotonic() < deadline, f"process {pid} is still there"
            time.sleep(0.01)

    command = [str(BINARIES / "rigel"), "worker", "--cpu"]
    with pytest.raises(WorkerDied, match="did not finish"):
        Worker(command, environment=path).run(1, b'{"machine": "cairo"}\nprogram', timeout=3.0)
    gone((tmp_path / "pid").read_text().strip())
    # The same if only the worker itself is killed.
    worker = Worker(command, environment=path)
    (tmp_path / "pid").unlink()

    def kill():
        until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(), "the machine does not start")
        os.kill(worker.pid, 9)

    threading.Thread(target=kill).start()
    with pytest.raises(WorkerDied, match="signal 9"):
        worker.run(2, b'{"machine": "cairo"}\nprogram')
    gone((tmp_path / "pid").read_text().strip())


def test_a_worker_is_closed_while_others_hold_its_streams():
    worker = Worker(["sh", "-c", f"setsid sleep 90 & exec {SUMS}"])
    assert worker.run(1, b'{"numbers": [1, 2]}')[1] == b"3"
    closing = threading.Thread(target=worker.close, daemon=True)
    closing.start()
    closing.join(60)
    assert not closing.is_alive()


def test_the_room_for_shares_of_a_machine():
    pool = Pool.__new__(Pool)
    for gpus, there, room in [(0.1, 1, 10), (0.5, 8, 16), (0.3, 2, 6), (0.7, 2, 2), (1, 8, 8), (2, 7, 3)]:
        pool._kind = Kind((SUMS,), gpus=gpus, cpus=0)
        assert pool._fitting({"GPU": there}) == room
    pool._kind = Kind((SUMS,), gpus=0, cpus=0.1)
    assert pool._fitting({"CPU": 1.0}) == 10


def test_the_environment_of_a_worker():
    whole, half = Kind((SUMS,)).variables, Kind((SUMS,), gpus=0.5).variables
    assert whole == {"RIGEL_DEVICE": "cuda:0"}
    assert half == {"RIGEL_DEVICE": "cuda:0", "RIGEL_WORKER_AT_ONCE": "1"}
    assert Kind((SUMS,), gpus=0).variables == {"CUDA_VISIBLE_DEVICES": ""}
    given = {"RIGEL_DEVICE": "auto", "RIGEL_WORKER_AT_ONCE": "2"}
    assert Kind((SUMS,), gpus=0.5, environment=tuple(given.items())).variables == given


def test_the_time_of_a_job_begins_after_its_wait():
    job = _Open(1, 2.0)
    assert job.deadline() is None
    job.began = time.monotonic() - 60
    assert job.deadline() == job.began + 2
    job.say({"fraction": 0.0, "phase": "wait for other jobs", "waits": True})
    assert job.deadline() is None
    then = time.monotonic()
    job.say({"fraction": 0.0, "phase": "begin"})
    seen = job.deadline()
    assert then + 2 <= seen <= time.monotonic() + 2
    job.say({"fraction": 0.5, "phase": "prove"})
    assert job.deadline() == seen


def test_altered_frames_are_found():
    stream = io.BytesIO()
    frames.write(stream, frames.JOB, 7, b"payload")
    whole = stream.getvalue()
    assert frames.read(io.BytesIO(whole), 7) == (frames.JOB, 7, b"payload")
    for at in range(len(whole)):
        for damaged in (whole[:at], whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]):
            if damaged:
                with pytest.raises(frames.FrameError):
                    frames.read(io.BytesIO(damaged), 7)
    with pytest.raises(frames.FrameError, match="at most 6"):
        frames.read(io.BytesIO(whole), 6)
    # One of several pieces, with and without a rest.
    for length in (2 * frames._PIECE, 2 * frames._PIECE + 5):
        stream, payload = io.BytesIO(), os.urandom(length)
        frames.write(stream, frames.DONE, 1, frames.join_done(b"{}", payload))
        whole = stream.getvalue()
        for kept in (None, bytearray(), bytearray(2 * length)):
            assert frames.read(io.BytesIO(whole), length + 6, kept) == (frames.DONE, 1, (b"{}", payload))
        for at in (24, length // 2, length, len(whole) - 1):
            for damaged in (whole[:at], whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]):
                with pytest.raises(frames.FrameError):
                    frames.read(io.BytesIO(damaged), length + 6)


def test_rigel_does_not_import_ray():
    text = "import rigel, rigel.cluster, sys; assert 'ray' not in sys.modules"
    subprocess.run([sys.executable, "-c", text], check=True)
