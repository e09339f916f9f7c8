"""Workers on several machines, with Ray: `pip install './crates/python[cluster]'` in Rigel's sources.

    from rigel.cluster import Cluster

    with Cluster() as cluster:                                  # or Cluster("auto"), on a machine of a Ray cluster
        jobs = [{"workload": "keccak", "log_rows": 15}] * 200
        for result in cluster.map(["rigel", "worker"], jobs):   # one worker a GPU
            open(f"{result.index}.proof", "wb").write(result.output)

A worker is any program that calls `rigel_worker::serve`. docs/cluster.md says more.
"""

from ._cluster import Cluster, Results
from ._job import ClusterError, Result
from ._worker import JobFailed, Worker, WorkerDied

__all__ = ["Cluster", "ClusterError", "JobFailed", "Result", "Results", "Worker", "WorkerDied"]
