"""`rigel.cluster` when the head is lost, with a stand-in for Ray whose calls fail or wait when they are told to.
Its workers never start, so every job stays open."""

import threading
import time
from concurrent.futures import Future

import pytest

from rigel.cluster import Cluster, ClusterError, JobFailed, _cluster, _pool
from rigel.cluster._head import GONE, THERE
from rigel.cluster._job import Job, Kind

LARGE = bytes(100_000)


class Reference:
    def __init__(self):
        self.made = Future()

    def future(self):
        return self.made


class Ray:
    """A stand-in for the part of Ray that a pool uses. `before_put` is called with the input of each `put`."""

    ObjectRef = Reference

    def __init__(self):
        self.actors = 0
        self.initialized = False
        #: Actors after the end, for which Ray would start a cluster of its own.
        self.unasked = 0
        self.shutdowns = 0
        self.before_put = lambda data: None

    def is_initialized(self):
        return self.initialized

    def init(self, **_):
        self.initialized = True

    def shutdown(self):
        self.initialized = False
        self.shutdowns += 1

    def put(self, data):
        self.before_put(data)
        return Reference()

    def remote(self, _):
        return ActorClass(self)

    def nodes(self):
        return [{"Alive": True, "Resources": {"CPU": 2}}]

    def kill(self, actor):
        pass


class ActorClass:
    def __init__(self, ray):
        self._ray = ray

    def options(self, **_):
        return self

    def remote(self, *_):
        self._ray.actors += 1
        self._ray.unasked += not self._ray.initialized
        return Actor()


class Actor:
    def __init__(self):
        self.ready = self

    def remote(self):
        return Reference()


@pytest.fixture
def ray(monkeypatch):
    class Gauges:
        def set(self, state):
            pass

    monkeypatch.setattr(_pool, "_Gauges", Gauges)
    there = Ray()
    there.init()
    return there


@pytest.fixture
def pool(ray):
    pool = _pool.Pool(ray, Kind(("worker",), 0, 1, None, 3, (), 1.0))
    yield pool
    pool.close()


def jobs(pool, number):
    return [pool.submit(Job(index, LARGE, 2, None, None)) for index in range(number)]


def until(condition, what):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def test_a_head_that_is_lost_again_while_the_pool_resumes(ray, pool):
    open_jobs = jobs(pool, 3)
    until(lambda: ray.actors == 3, "no workers are asked for")
    assert pool.leave().wait(60)
    reached, go_on = threading.Event(), threading.Event()

    def hold(_):
        reached.set()
        assert go_on.wait(60)

    ray.before_put = hold
    pool.resume()
    assert reached.wait(60)
    left = pool.leave()
    go_on.set()
    assert left.wait(60)
    ray.shutdown()
    # Another round of the pool's thread, which would start actors if it believed to be back.
    pool.give_way()
    assert not pool.submit(Job(3, b"small", 2, None, None)).future.done()
    time.sleep(0.1)
    assert pool._away and ray.actors == 3 and not ray.unasked

    ray.init()
    pool.resume()
    until(lambda: ray.actors == 6, "the pool does not come back")
    assert len(pool._waiting) == 4 and not any(job.future.done() for job in open_jobs)


def test_a_job_that_can_not_be_sent_again_fails_alone(ray, pool):
    first, second = jobs(pool, 2)
    for _ in range(2):
        assert pool.leave().wait(60)
        full = iter([OSError("the object store is full")])

        def fail_once(_):
            for error in full:
                raise error

        ray.before_put = fail_once if not first.future.done() else lambda _: None
        pool.resume()
        until(lambda: not pool._away, "the pool does not come back")
        assert "the object store is full" in str(first.future.result(60).error)
    assert list(pool._waiting) == [second] and not second.future.done() and not pool.closed


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_pool_that_can_not_resume_fails_its_jobs(ray, pool, monkeypatch):
    open_jobs = jobs(pool, 2)
    assert pool.leave().wait(60)

    def fail():
        raise RuntimeError("no cluster")

    monkeypatch.setattr(pool, "_join", fail)
    pool.resume()
    late = pool.submit(Job(2, b"", 2, None, None))
    for job in [*open_jobs, late]:
        error = job.future.result(60).error
        assert isinstance(error, JobFailed) and error.kind == "cluster" and "RuntimeError: no cluster" in str(error)
    assert pool.closed


def test_a_pool_is_not_refused_because_the_head_is_silent_for_a_moment(ray):
    pool = _pool.Pool(ray, Kind(("worker",), 0, 1, None, None, (), 1.0), head_answers=lambda: False)
    assert pool.room() == 2
    pool.close()


class Head:
    """A head that is gone when `state` says so."""

    state = THERE
    address = "127.0.0.1:1"

    def __init__(self, ray):
        pass

    def look(self):
        return self.state

    def answers(self):
        return self.state == THERE

    def close(self):
        pass


@pytest.mark.parametrize("own", [True, False])
def test_a_client_leaves_the_ray_that_it_has_joined(ray, monkeypatch, own):
    """Ray ends a process that stays."""
    ray.initialized = not own
    monkeypatch.setattr(_cluster, "_ray", lambda: ray)
    monkeypatch.setattr(_cluster, "Head", Head)
    with Cluster() as cluster:
        results = cluster.map("worker", [LARGE] * 5, gpus=0, workers=2)
        until(lambda: ray.actors == 2, "no workers are asked for")
        monkeypatch.setattr(Head, "state", GONE)
        failed = list(results)
        assert sorted(result.index for result in failed) == list(range(5))
        assert ray.shutdowns == int(own) and not ray.unasked
        for result in failed:
            assert result.error.kind == "cluster" and "127.0.0.1:1 is gone" in str(result.error)
            assert ("ray.shutdown()" in str(result.error)) == (not own)
        with pytest.raises(ClusterError, match="make another when the head is back"):
            cluster.map("worker", [b""], gpus=0, workers=1)
