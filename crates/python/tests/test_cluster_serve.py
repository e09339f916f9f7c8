"""`rigel.cluster.serve`: HTTP from outside, with workers on the CPU."""

import json
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from rigel.cluster import Cluster, ClusterError, serve
from rigel.cluster._desk import Refused

pytest.importorskip("starlette", reason="Ray Serve is not installed; scripts/cluster installs it")

BINARIES = Path(__file__).parents[3] / "target/debug"
SUMS = str(BINARIES / "rigel-sums")
BUILD = "not built; run: cargo build --workspace --features rigel/full --bin rigel --bin rigel-sums"
TOKEN = "for the tests"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(scope="module")
def port():
    assert Path(SUMS).exists(), BUILD
    port = free_port()
    application = serve.application(
        [SUMS], gpus=0, workers=2, token=TOKEN, most_bytes=10_000, most_waiting=250, body_seconds=5.0
    )
    with Cluster(num_cpus=3, include_dashboard=False):
        serve.start(application, port=port)
        yield port
        serve.stop()


def ask(port, path, method="GET", body=None, token=TOKEN):
    """The code and the body of the answer."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", body, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def submit(port, **job):
    code, body = ask(port, "/jobs", "POST", json.dumps({"numbers": [], **job}).encode())
    assert code == 202, body
    return json.loads(body)["id"]


def wait(port, name, *states):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        code, body = ask(port, f"/jobs/{name}")
        described = json.loads(body)
        if code != 200 or described["state"] in states:
            return described
        time.sleep(0.02)
    raise AssertionError(f"job {name} is still {described}")


def test_a_job_is_submitted_followed_and_fetched(port, tmp_path):
    end = tmp_path / "end"
    name = submit(port, numbers=[1, 2, 3], until=str(end))
    running = wait(port, name, "running")
    assert ask(port, f"/jobs/{name}/proof")[0] == 409
    while running["state"] == "running" and not running["progress"]:
        running = wait(port, name, "running")
    assert running["progress"]["phase"] == "waiting for a file"
    end.touch()
    done = wait(port, name, "done", "failed")
    assert done["state"] == "done" and done["report"]["numbers"] == 3
    assert ask(port, f"/jobs/{name}/proof") == (200, b"6")


def test_failed_jobs_say_why(port):
    name = submit(port, do="fail")
    assert "asked to fail" in wait(port, name, "failed")["error"]
    code, body = ask(port, f"/jobs/{name}/proof")
    assert code == 410 and b"asked to fail" in body


def test_what_is_cancelled_before_it_began_is_never_proven(port, tmp_path):
    long = [submit(port, until=str(tmp_path / "never")) for _ in range(2)]
    for name in long:
        wait(port, name, "running")
    mark = tmp_path / "mark"
    waiting = submit(port, do="fail", once=str(mark))
    for name in [waiting, *long]:
        assert ask(port, f"/jobs/{name}", "DELETE")[0] == 202
        assert wait(port, name, "cancelled")["state"] == "cancelled"
    # The workers are free again, and the job that waited was never given to one.
    assert wait(port, submit(port, numbers=[1]), "done")["state"] == "done"
    assert wait(port, waiting, "cancelled")["tries"] == 0 and not mark.exists()


def test_bad_requests_are_refused(port):
    assert ask(port, "/status", token=None)[0] == 401
    assert ask(port, "/status", token="wrong")[0] == 401
    assert ask(port, "/jobs", "POST", b"{}", token=TOKEN + "x")[0] == 401
    assert ask(port, "/jobs", "POST", b"x" * 10_001)[0] == 413
    assert ask(port, "/jobs", "POST", b"")[0] == 400
    assert ask(port, "/jobs/none")[0] == 404
    assert ask(port, "/jobs/none", "DELETE")[0] == 404
    assert ask(port, "/elsewhere")[0] == 404
    assert ask(port, "/jobs", "PUT", b"{}")[0] == 404
    code, body = ask(port, "/", token=None)
    assert code == 200 and b"<title>Rigel</title>" in body


def test_without_a_token_only_this_machine_is_served():
    with pytest.raises(ClusterError, match="0.0.0.0 can be reached from other machines"):
        serve.start(serve.application([SUMS], gpus=0), host="0.0.0.0")

    def admit(**headers):
        serve.Front._admit_from_here(SimpleNamespace(headers=headers))

    for host in ("127.0.0.1:8000", "localhost:8000", "[::1]:8000", "localhost"):
        admit(host=host)
        admit(host=host, origin=f"http://{host}")
        with pytest.raises(Refused, match="may not use this server"):
            admit(host=host, origin="http://elsewhere.example")
    for host in ("elsewhere.example:8000", "10.0.0.1:8000", ""):
        with pytest.raises(Refused, match="is not this machine's"):
            admit(host=host)


@pytest.mark.skipif(shutil.which("chromium") is None, reason="Chromium is not installed")
def test_the_page_shows_jobs_in_a_browser(port):
    done, failed = submit(port, numbers=[1]), submit(port, do="fail")
    wait(port, done, "done")
    wait(port, failed, "failed")
    browser = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=3000", "--dump-dom"]

    def page(address):
        return subprocess.run([*browser, address], capture_output=True, text=True, timeout=60, check=True).stdout

    text = page(f"http://127.0.0.1:{port}/#token={urllib.parse.quote(TOKEN)}")
    assert f">{done}</td>" in text and f">{failed}</td>" in text
    assert 'class="done"' in text and 'title="the job asked to fail"' in text
    assert "rigel-sums: 0 workers busy" in text
    # Without a token there is nothing to see.
    text = page(f"http://127.0.0.1:{port}/")
    assert "a token is needed" in text and done not in text


def test_a_client_that_is_slow_is_sent_away(port):
    with socket.create_connection(("127.0.0.1", port), timeout=30) as slow:
        head = f"POST /jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 100\r\n\r\n"
        slow.sendall(head.encode() + b"{")
        assert b" 408 " in slow.recv(4096).split(b"\r\n")[0]
    assert ask(port, "/status")[0] == 200


def test_two_hundred_requests_at_once(port):
    with ThreadPoolExecutor(200) as clients:
        names = list(clients.map(lambda n: submit(port, numbers=[n, 1]), range(200)))
        assert len(set(names)) == 200
        states = list(clients.map(lambda name: wait(port, name, "done", "failed")["state"], names))
    assert set(states) == {"done"}
    assert [int(ask(port, f"/jobs/{name}/proof")[1]) for name in names] == [n + 1 for n in range(200)]


def test_a_full_queue_refuses(port, tmp_path):
    long = [submit(port, until=str(tmp_path / "never")) for _ in range(2)]
    for name in long:
        wait(port, name, "running")
    codes, names = set(), []
    for _ in range(252):
        code, body = ask(port, "/jobs", "POST", b'{"numbers": []}')
        codes.add(code)
        if code == 202:
            names.append(json.loads(body)["id"])
    assert codes == {202, 429}
    for name in [*names, *long]:
        ask(port, f"/jobs/{name}", "DELETE")
    assert wait(port, names[-1], "cancelled")["state"] == "cancelled"
