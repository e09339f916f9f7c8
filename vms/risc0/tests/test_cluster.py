"""A real program over a Ray cluster on this machine, with upstream's CPU prover: `scripts/test` runs it."""

import os
import subprocess
import threading
import time
from pathlib import Path

from rigel.cluster import Cluster, risc0

HERE = Path(__file__).parent.parent
BINARY = HERE / "target/debug/rigel-risc0"
GUEST = HERE / "guests/built/fibonacci.elf"
RUN = ["--number", "1000", "--segment-po2", "14"]


def kill_a_worker(pool):
    """Kills a worker's process in the middle of a segment."""
    import ray

    pool.watch()
    deadline = time.monotonic() + 600
    begun = lambda member: any(attempt.progress for attempt in list(member.jobs.values()))
    while not (busy := [member for member in list(pool._members) if begun(member)]):
        assert time.monotonic() < deadline, "no worker says that it works on a segment"
        time.sleep(0.02)
    os.kill(ray.get(busy[0].actor.ready.remote())["pid"], 9)


def test_a_receipt_of_several_workers_is_that_of_one_process(tmp_path):
    alone = tmp_path / "alone"
    subprocess.run([BINARY, "prove", GUEST, *RUN, "--cpu", "-o", alone], check=True, stdout=subprocess.DEVNULL)
    command = [str(BINARY), "worker"]
    with Cluster(num_cpus=2, include_dashboard=False) as cluster:
        place = {"gpus": 0, "environment": {"RIGEL_DEVICE": "none"}}
        pool = cluster.pool(command, **place)
        killer = threading.Thread(target=kill_a_worker, args=(pool,), daemon=True)
        killer.start()
        stdin = (1000).to_bytes(4, "little")
        proven = risc0.prove(cluster, GUEST, stdin, segment_po2=14, binary=BINARY, **place)
        killer.join()
    assert proven.receipt == alone.read_bytes()
    assert sorted(segment.tries for segment in proven.segments) == [1, 1, 2]
    assert proven.journal[:4] == stdin
    together = tmp_path / "together"
    together.write_bytes(proven.receipt)
    verify = [BINARY, "verify", together, "--image-id", proven.image_id]
    subprocess.run(verify, check=True, stdout=subprocess.DEVNULL)
