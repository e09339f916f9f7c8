"""A discrete-event model of `Cluster.map`: what a cluster would do, from measured times.

    python -m rigel.cluster simulate --machines 10 --gpus 8 --jobs 20000 --seconds 0.5 --output-bytes 300000

The model has four resources: the client's thread, which gives a job and takes a result in `client_seconds` each; the
client's link, which inputs cross one after another, and results in the other direction; the machines' links; the
workers. A job holds a worker while its input travels, while it is worked on, and until its answer is there. Machines
fail at a constant rate: their jobs begin again elsewhere after `notice_seconds`, and the machine is back after
`repair_seconds`.

A worker that works on several jobs at once counts as several workers, with the seconds that a job takes beside the
others. It is given short jobs in advance, which the model does not know: it states too little there.

Not modelled: Ray's scheduler and object store beyond these times, machines of different kinds, correlated failures.
"""

import argparse
import heapq
import itertools
import json
import random
import statistics
from collections import deque
from dataclasses import asdict, dataclass, fields


@dataclass
class Model:
    """A cluster and its work. Times are in seconds, speeds in bytes a second."""

    machines: int = 1
    gpus: int = 8
    jobs: int = 1000
    #: Jobs that arrive in a second, at random; 0: all are there at the beginning.
    rate: float = 0.0
    seconds: float = 1.0
    #: Measured times to draw from, instead of `seconds`.
    times: tuple = ()
    input_bytes: float = 1e3
    output_bytes: float = 300e3
    client_seconds: float = 0.0005
    call_seconds: float = 0.001
    client_link: float = 1.25e9
    machine_link: float = 1.25e9
    start_seconds: float = 2.0
    failures_per_hour: float = 0.0
    notice_seconds: float = 10.0
    repair_seconds: float = 300.0
    seed: int = 1


@dataclass
class Outcome:
    """The results of the model. `latency` is from a job's arrival to its result."""

    seconds: float
    jobs_per_second: float
    latency_p50: float
    latency_p99: float
    #: The part of the workers' time in which they work on jobs whose results count.
    use: float
    failures: int
    #: Seconds of workers that were lost with failed machines.
    lost_seconds: float


class _Link:
    """A link that serves one transfer after another."""

    def __init__(self):
        self.free = 0.0

    def take(self, now, seconds):
        self.free = max(self.free, now) + seconds
        return self.free


def simulate(model):
    """Runs the model until all jobs are done."""
    _check(model)
    draw = random.Random(model.seed)
    duration = (lambda: draw.choice(model.times)) if model.times else (lambda: model.seconds)
    order = itertools.count()
    events = []

    def at(time, action, *arguments):
        heapq.heappush(events, (time, next(order), action, arguments))

    # Links carry both directions at once.
    client, out, back = _Link(), _Link(), _Link()
    inputs = [_Link() for _ in range(model.machines)]
    results = [_Link() for _ in range(model.machines)]
    idle, waiting = deque(), deque()
    #: The number of lives of a machine: an event of an earlier one is void.
    life = [0] * model.machines
    running = [dict() for _ in range(model.machines)]
    arrived, latencies = {}, []
    state = {"now": 0.0, "done": 0, "failures": 0, "lost": 0.0, "useful": 0.0}

    def dispatch(now):
        while waiting and idle:
            machine, slot, lived = idle.popleft()
            if lived != life[machine]:
                continue
            job = waiting.popleft()
            given = client.take(now, model.client_seconds)
            sent = out.take(given, model.input_bytes / model.client_link)
            there = inputs[machine].take(sent, model.input_bytes / model.machine_link) + model.call_seconds / 2
            seconds = duration()
            running[machine][slot] = (job, given)
            at(there + seconds, finish, machine, life[machine], slot, job, seconds)

    def finish(now, machine, lived, slot, job, seconds):
        if lived != life[machine]:
            return
        left = results[machine].take(now, model.output_bytes / model.machine_link)
        here = back.take(left, model.output_bytes / model.client_link) + model.call_seconds / 2
        at(here, take, machine, lived, slot, job, seconds)

    def take(now, machine, lived, slot, job, seconds):
        if lived != life[machine]:
            return
        taken = client.take(now, model.client_seconds)
        del running[machine][slot]
        idle.append((machine, slot, lived))
        latencies.append(taken - arrived[job])
        state["done"] += 1
        state["useful"] += seconds
        at(taken, dispatch)

    def arrive(now, job):
        arrived[job] = now
        waiting.append(job)
        dispatch(now)

    def start(now, machine):
        for slot in range(model.gpus):
            at(now + model.start_seconds, join, machine, life[machine], slot)
        if model.failures_per_hour:
            at(now + draw.expovariate(model.failures_per_hour / 3600), fail, machine)

    def join(now, machine, lived, slot):
        if lived == life[machine]:
            idle.append((machine, slot, lived))
            dispatch(now)

    def fail(now, machine):
        life[machine] += 1
        state["failures"] += 1
        for job, began in running[machine].values():
            state["lost"] += now - began
            at(now + model.notice_seconds, again, job)
        running[machine].clear()
        at(now + model.repair_seconds, start, machine)

    def again(now, job):
        waiting.appendleft(job)
        dispatch(now)

    for machine in range(model.machines):
        start(0.0, machine)
    time = 0.0
    for job in range(model.jobs):
        if model.rate:
            time += draw.expovariate(model.rate)
        at(time, arrive, job)
    while state["done"] < model.jobs:
        now, _, action, arguments = heapq.heappop(events)
        state["now"] = now
        action(now, *arguments)

    total = max(client.free, state["now"])
    latencies.sort()
    workers = model.machines * model.gpus
    return Outcome(
        seconds=total,
        jobs_per_second=model.jobs / total,
        latency_p50=statistics.median(latencies),
        latency_p99=latencies[min(len(latencies) - 1, int(0.99 * len(latencies)))],
        use=state["useful"] / (workers * total),
        failures=state["failures"],
        lost_seconds=state["lost"],
    )


def _check(model):
    for name in ("machines", "gpus", "jobs"):
        if getattr(model, name) < 1:
            raise ValueError(f"{name} is {getattr(model, name)}; it should be at least 1")
    for field in fields(model):
        if isinstance(field.default, float) and not getattr(model, field.name) >= 0:
            raise ValueError(f"{field.name} is {getattr(model, field.name)}; it should not be negative")
    if not all(seconds >= 0 for seconds in model.times):
        raise ValueError("times has negative numbers; they should be seconds of jobs")
    for name in ("client_link", "machine_link"):
        if getattr(model, name) <= 0:
            raise ValueError(f"{name} is {getattr(model, name)}; it should be a speed in bytes a second")
    if model.failures_per_hour * (model.seconds + model.start_seconds) > 3600:
        raise ValueError("a machine would fail before it has finished a job; lower failures_per_hour")


def measure(cluster, command, job, *, client_seconds=0.0, **options):
    """Times for a `Model`, from a few jobs on one worker of a cluster.

    What a call takes beyond its job includes what the client's thread takes to give and to take it, which the model
    counts by itself: so `client_seconds` comes off twice.
    """
    # One by one: a worker of several at once would have others waiting.
    results = [next(cluster.map(command, [job], workers=1, **options)) for _ in range(50)][10:]
    beyond = statistics.median(result.seconds - result.report["seconds"] for result in results)
    return {
        "seconds": statistics.median(result.report["seconds"] for result in results),
        "call_seconds": max(0.0, beyond - 2 * client_seconds),
        "output_bytes": statistics.median(len(result.output) for result in results),
    }


def main(arguments):
    parser = argparse.ArgumentParser(
        prog="rigel cluster simulate", description="What a cluster would do, from measured times of jobs and links."
    )
    helps = {
        "rate": "jobs that arrive in a second (0: all at once)",
        "seconds": "seconds of a job in its worker",
        "client_seconds": "seconds of the client's thread to give a job, and to take a result",
        "call_seconds": "seconds of a call beyond the job's own",
        "client_link": "bytes a second of the client's link",
        "machine_link": "bytes a second of a machine's link",
        "start_seconds": "seconds until a worker is ready",
        "failures_per_hour": "failures of one machine in an hour",
    }
    for field in fields(Model):
        if field.name != "times":
            option = "--" + field.name.replace("_", "-")
            parser.add_argument(
                option, type=type(field.default), default=field.default, metavar="N", help=helps.get(field.name)
            )
    parser.add_argument("--times", metavar="FILE", help="JSON list of measured seconds of jobs, to draw from")
    parser.add_argument("--json", action="store_true", help="print the model and its outcome as JSON")
    asked = vars(parser.parse_args(arguments))
    as_json, times = asked.pop("json"), asked.pop("times")
    try:
        if times:
            with open(times) as file:
                asked["times"] = tuple(map(float, json.load(file)))
        model = Model(**asked)
        outcome = simulate(model)
    except (OSError, TypeError, ValueError) as error:
        parser.error(str(error))
    if as_json:
        print(json.dumps({"model": asdict(model), "outcome": asdict(outcome)}, indent=2))
        return 0
    print(f"{model.machines} machines with {model.gpus} GPUs each, {model.jobs} jobs")
    print(f"  time             {outcome.seconds:.4g} s")
    print(f"  throughput       {outcome.jobs_per_second:.4g} jobs a second")
    print(f"  latency          {outcome.latency_p50:.4g} s at p50, {outcome.latency_p99:.4g} s at p99")
    print(f"  use of the GPUs  {100 * outcome.use:.1f} %")
    print(f"  failures         {outcome.failures}, {outcome.lost_seconds:.4g} s of GPUs lost")
    return 0
