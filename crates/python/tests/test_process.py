"""Behaviour that needs a separate process: import time, Ctrl-C, threads."""

import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import rigel


def run(code, **options):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, **options)


def test_import_is_quick_and_needs_no_numpy():
    # The time of the process, not that in which a busy machine does something else.
    code = (
        "import sys, time; start = time.process_time(); import rigel; took = time.process_time() - start\n"
        "assert 'numpy' not in sys.modules and 'torch' not in sys.modules\n"
        "rigel.arange(3) + 1\n"
        "assert 'numpy' not in sys.modules\n"
        "print(took)"
    )
    times = [run(code) for _ in range(3)]
    assert all(done.returncode == 0 for done in times), times[0].stderr
    assert min(float(done.stdout) for done in times) < 0.2


INTERRUPTED = {
    "matmul": "a = rigel.random((6000, 6000), dtype='int64', seed=1); print('ready', flush=True); a @ a",
    "solve": "a = rigel.field('koalabear').random((1200, 1200), seed=1); print('ready', flush=True); a.solve(a)",
    "inv on a device": (
        "a = rigel.field('koalabear').random((400, 400), seed=1, device='emulated'); "
        "print('ready', flush=True); a.inv()"
    ),
    "poly_multiply": (
        "a = rigel.field('goldilocks').random(1 << 22, seed=1); print('ready', flush=True); a.poly_multiply(a)"
    ),
    "proof": "print('ready', flush=True); rigel.proofs.prove('keccak', log_rows=17, device='cpu')",
}


@pytest.mark.parametrize("work", INTERRUPTED)
def test_ctrl_c_is_heard(work):
    # Background jobs of a shell, and their children, ignore SIGINT unless they install a handler.
    code = f"""
import os, signal, sys, time, rigel
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    {INTERRUPTED[work].replace("; ", chr(10) + "    ")}
except KeyboardInterrupt:
    print("interrupted", time.time(), flush=True)
    os._exit(7)
print("not interrupted")
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline().strip() == "ready"
        time.sleep(0.3)
        sent = time.time()
        process.send_signal(signal.SIGINT)
        word, when = process.stdout.readline().split()[:2]
        # The work takes far longer than that.
        assert word == "interrupted" and float(when) - sent < 10
        assert process.wait(30) == 7
    finally:
        process.kill()
        process.wait()


def test_threads_work_at_once():
    """Large operations release Python's lock, and threads can share arrays."""
    shared = rigel.ones(1 << 18)
    results = []

    def work(k):
        total = shared * k
        for _ in range(20):
            total += shared
        results.append((k, total.sum().item()))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [(k, (k + 20) * float(1 << 18)) for k in range(4)]


def test_errors_are_pythons():
    with pytest.raises(ValueError):
        rigel.zeros((1 << 40, 1 << 40))
    with pytest.raises(ValueError):
        rigel.zeros(-1)
    with pytest.raises(TypeError):
        rigel.zeros("a")
    assert isinstance(np.float64(2) * rigel.ones(2), rigel.Array)
