"""The commands: up, status, prove, risc0, serve, down, simulate."""

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from . import simulate
from ._cluster import Cluster, _ray
from ._job import ClusterError
from ._worker import JobFailed, WorkerDied


def main(arguments):
    if arguments[:1] == ["simulate"]:
        return simulate.main(arguments[1:])
    parser = argparse.ArgumentParser(
        prog="rigel cluster",
        description="Proofs on several machines, with Ray.",
        epilog="`rigel cluster simulate --help` describes the model of a cluster. docs/cluster.md says more.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    up = commands.add_parser("up", help="start Ray on this machine: the head, or a machine that joins one")
    up.add_argument("--join", metavar="HOST:PORT", help="the head's address; without it this machine is the head")
    up.add_argument("--port", type=int, default=6379, metavar="N", help="the head's port [6379]")
    commands.add_parser("down", help="stop Ray on this machine, all of it")
    status = commands.add_parser("status", help="machines and what they have")
    status.add_argument("--json", action="store_true", help="as JSON")
    prove = commands.add_parser("prove", help="prove the jobs of a file, one line of JSON each")
    prove.add_argument("jobs", metavar="FILE", help='lines such as {"workload": "keccak"}; - is standard input')
    prove.add_argument("-o", "--output", metavar="FOLDER", required=True, help="where N.proof and N.json are written")
    prove.add_argument("--hedge", type=float, metavar="X", help="also give a job of X medians to an idle worker")
    program = commands.add_parser("risc0", help="run a RISC Zero program here, prove its segments on all machines")
    program.add_argument("program", metavar="PROGRAM", help="an ELF file, or a file of RISC Zero's own format")
    program.add_argument("-o", "--output", metavar="FILE", required=True, help="where upstream's receipt is written")
    program.add_argument("--journal", metavar="FILE", help="where the journal is written")
    program.add_argument("--stdin", metavar="FILE", help="what the program reads as its standard input")
    program.add_argument("--number", type=int, metavar="N", help="a number in four bytes as its standard input")
    program.add_argument("--segment-po2", type=int, metavar="N", help="largest segments, a power of two of rows [20]")
    program.add_argument("--max-cycles", type=int, metavar="N", help="the most cycles of the run")
    program.add_argument("--binary", default="rigel-risc0", metavar="FILE", help="rigel-risc0, on all machines")
    program.add_argument("--hedge", type=float, metavar="X", help="also give a segment of X medians to an idle worker")
    serve = commands.add_parser("serve", help="take jobs over HTTP", epilog="RIGEL_CLUSTER_TOKEN is the token, if set.")
    serve.add_argument("--host", default="127.0.0.1", help="the address to listen on [127.0.0.1]")
    serve.add_argument("--port", type=int, default=8000, metavar="N", help="the port to listen on [8000]")
    serve.add_argument("--most-bytes", type=int, default=64 << 20, metavar="N", help="the most bytes of a job [64 MiB]")
    serve.add_argument("--most-waiting", type=int, default=1000, metavar="N", help="the most jobs that wait [1000]")
    serve.set_defaults(timeout=3600.0)
    for command in (prove, program, serve):
        command.add_argument("--gpus", type=float, default=1, metavar="N", help="GPUs of a worker; 0: on the CPU [1]")
        command.add_argument("--cpus", type=float, default=1, metavar="N", help="CPUs of a worker [1]")
        command.add_argument("--workers", type=int, metavar="N", help="workers [as many as there is room for]")
        command.add_argument("--retries", type=int, default=2, metavar="N", help="attempts after a worker died [2]")
        command.add_argument("--timeout", type=float, metavar="S", help="seconds of a job at most [serve: 3600]")
    for command in (status, prove, program, serve):
        command.add_argument("--address", metavar="ADDRESS", help="the cluster; auto: the one of this machine")
    for command in (prove, serve):
        command.add_argument("--worker", nargs=argparse.REMAINDER, help="the worker's command [rigel worker]; last")
    asked = parser.parse_args(arguments)
    if asked.command in ("up", "status") or getattr(asked, "address", None):
        # Before Ray is imported, which reads it then. All machines and clients of a cluster use its token, or none.
        os.environ.setdefault("RAY_AUTH_MODE", "token")
    try:
        commands = {"up": _up, "down": _down, "status": _status, "prove": _prove, "risc0": _risc0, "serve": _serve}
        return commands[asked.command](asked)
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        # Ray's errors have their own classes, which are not known before it is imported.
        known = (ClusterError, JobFailed, WorkerDied, OSError, ValueError)
        if not isinstance(error, known) and not type(error).__module__.startswith("ray."):
            raise
        print(f"error: {error}", file=sys.stderr)
        return 1


def _script(*arguments, output=True):
    """Ray's own command, of this Python."""
    _ray()
    command = [sys.executable, "-m", "ray.scripts.scripts", *arguments]
    # A token is for this user's eyes only, and Ray writes it with what the mask leaves.
    hidden = {} if output else {"stdout": subprocess.DEVNULL, "umask": 0o077}
    return subprocess.run(command, **hidden).returncode


def _up(asked):
    if asked.join:
        return _script("start", f"--address={asked.join}")
    if os.environ["RAY_AUTH_MODE"] == "token" and (code := _script("get-auth-token", "--generate", output=False)):
        return code
    return _script("start", "--head", f"--port={asked.port}")


def _down(_):
    return _script("stop")


def _status(asked):
    with Cluster(asked.address or "auto") as cluster:
        nodes = cluster.status()["nodes"]
    if asked.json:
        print(json.dumps(nodes, indent=2))
        return 0
    for node in nodes:
        has = node["resources"]
        memory = has.get("memory", 0) / 2**30
        state = "" if node["alive"] else ", gone"
        print(f"{node['host']}: {has.get('GPU', 0):g} GPUs, {has.get('CPU', 0):g} CPUs, {memory:.1f} GiB{state}")
    return 0


def _prove(asked):
    file = sys.stdin if asked.jobs == "-" else open(asked.jobs)
    with file:
        jobs = [line.strip() for line in file if line.strip()]
    folder = Path(asked.output)
    folder.mkdir(parents=True, exist_ok=True)
    failed = 0
    began = time.monotonic()
    with Cluster(asked.address) as cluster:
        results = cluster.map(
            asked.worker or ["rigel", "worker"],
            jobs,
            gpus=asked.gpus,
            cpus=asked.cpus,
            workers=asked.workers,
            retries=asked.retries,
            hedge=asked.hedge,
            timeout=asked.timeout,
        )
        for result in results:
            report = {"tries": result.tries, "host": result.host, **result.report}
            if result.error is None:
                (folder / f"{result.index}.proof").write_bytes(result.output)
            else:
                failed += 1
                report["error"] = str(result.error)
                print(f"job {result.index} failed: {result.error}", file=sys.stderr)
            (folder / f"{result.index}.json").write_text(json.dumps(report, indent=2))
    seconds = time.monotonic() - began
    print(f"{len(jobs) - failed} of {len(jobs)} jobs proven in {seconds:.3g} s; proofs are in {folder}")
    return 1 if failed else 0


def _risc0(asked):
    from . import risc0

    if asked.stdin is not None and asked.number is not None:
        raise ValueError("--stdin and --number are both given; the program has one standard input")
    stdin = Path(asked.stdin).read_bytes() if asked.stdin is not None else b""
    if asked.number is not None:
        if not 0 <= asked.number < 1 << 32:
            raise ValueError(f"--number {asked.number} does not fit into four bytes")
        stdin = asked.number.to_bytes(4, "little")
    for path in filter(None, [asked.output, asked.journal]):
        # A receipt that can't be written is found before hours of a cluster, not after.
        if not os.access(Path(path).parent, os.W_OK) or Path(path).is_dir():
            raise ValueError(f"{path} can't be written; its folder must exist and be writable")
    began = time.monotonic()
    with Cluster(asked.address) as cluster:
        proven = risc0.prove(
            cluster,
            asked.program,
            stdin,
            segment_po2=asked.segment_po2,
            max_cycles=asked.max_cycles,
            binary=asked.binary,
            retries=asked.retries,
            hedge=asked.hedge,
            timeout=asked.timeout,
            gpus=asked.gpus,
            cpus=asked.cpus,
            workers=asked.workers,
        )
    Path(asked.output).write_bytes(proven.receipt)
    if asked.journal is not None:
        Path(asked.journal).write_bytes(proven.journal)
    seconds, hosts = time.monotonic() - began, {segment.host for segment in proven.segments}
    print(
        f"{len(proven.segments)} segments proven on {len(hosts)} machines in {seconds:.3g} s; the receipt is in "
        f"{asked.output}\ncheck it with: rigel risc0 verify {asked.output} --image-id {proven.image_id}"
    )
    return 0


def _serve(asked):
    from . import serve

    with Cluster(asked.address):
        application = serve.application(
            asked.worker or ["rigel", "worker"],
            gpus=asked.gpus,
            cpus=asked.cpus,
            workers=asked.workers,
            retries=asked.retries,
            timeout=asked.timeout,
            token=os.environ.get("RIGEL_CLUSTER_TOKEN") or None,
            most_bytes=asked.most_bytes,
            most_waiting=asked.most_waiting,
        )
        serve.start(application, host=asked.host, port=asked.port)
        print(f"serving on http://{asked.host}:{asked.port}; end with Ctrl-C", flush=True)
        ended = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: ended.set())
        ended.wait()
        serve.stop()
    return 0
