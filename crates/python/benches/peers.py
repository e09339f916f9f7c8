"""Compares Rigel with NumPy, CuPy, PyTorch and galois, as far as they are installed, in one process.

    python crates/python/benches/peers.py --device cuda:0

Prints a table with each bar and whether it is met; `--json FILE` writes the figures. Every figure is a median of
several runs. `--quick` uses small sizes, for a trial on the CPU or the emulated device, where bars do not apply.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import time
from typing import Any, Callable

import rigel


def optional(name: str) -> Any:
    """The module of this name, or None if it is not installed."""
    try:
        return __import__(name)
    except ImportError:
        return None


class Bench:
    """Measures times and collects rows."""

    def __init__(self, device: str, quick: bool, only: str) -> None:
        self.device, self.quick, self.only = device, quick, only
        self.rows: list[dict[str, Any]] = []
        self.numpy, self.cupy = optional("numpy"), optional("cupy")
        self.torch, self.galois = optional("torch"), optional("galois")
        if self.torch and not self.torch.cuda.is_available():
            self.torch = None
        if self.cupy and self.cupy.cuda.runtime.getDeviceCount() == 0:
            self.cupy = None

    def pick(self, full: Any, quick: Any) -> Any:
        return quick if self.quick else full

    def wants(self, name: str) -> bool:
        return self.only in name

    def sync(self) -> None:
        """Waits for all devices."""
        rigel.synchronize(self.device)
        if self.cupy:
            self.cupy.cuda.Device().synchronize()
        elif self.torch:
            self.torch.cuda.synchronize()

    def seconds(self, work: Callable[[], Any], times: int = 1, rounds: int = 7) -> float:
        """The median time of one `work` in a sequence of `times`."""
        work()
        self.sync()
        taken = []
        for _ in range(rounds if not self.quick else 2):
            self.sync()
            start = time.perf_counter()
            for _ in range(times):
                work()
            self.sync()
            taken.append((time.perf_counter() - start) / times)
        return statistics.median(taken)

    def row(self, name: str, figure: str, bar: str = "", met: bool | None = None, **values: float) -> None:
        if self.quick:
            met = None
        self.rows.append({"name": name, "figure": figure, "bar": bar, "met": met, **values})
        mark = {True: "yes", False: "NO", None: ""}[met]
        print(f"{name:<44}{figure:<58}{bar:<32}{mark}", flush=True)


def bandwidth(bench: Bench) -> float:
    """The bandwidth of a device copy, in bytes read and written per second."""
    n = bench.pick(1 << 28, 1 << 12)
    if bench.torch:
        source = bench.torch.empty(n // 4, dtype=bench.torch.float32, device=bench.device)
        target = bench.torch.empty_like(source)
        work, whose = lambda: target.copy_(source), "PyTorch's copy_"
    else:
        array = rigel.zeros((n // 4,), dtype="float32", device=bench.device)
        work, whose = array.copy, "Rigel's copy"
    rate = 2 * n / bench.seconds(work, times=20)
    bench.row("copy within the device", f"{rate / 1e9:,.0f} GB/s, {whose}", gigabytes_per_second=rate / 1e9)
    return rate


def elementwise(bench: Bench, copy: float) -> None:
    """One operation on two arrays of 2^28 bytes each."""
    bytes_each = bench.pick(1 << 28, 1 << 12)
    for dtype in ["float32", "float64", "complex128", "mersenne31", "babybear", "koalabear", "goldilocks"]:
        n = bytes_each // rigel.zeros((1,), dtype=dtype).nbytes
        a, b = (rigel.random((n,), dtype=dtype, seed=seed, device=bench.device) for seed in (1, 2))
        for sign, work in [("+", lambda: a + b), ("*", lambda: a * b)]:
            rate = 3 * bytes_each / bench.seconds(work, times=20)
            share = rate / copy
            bench.row(
                f"{dtype} {sign} {dtype}",
                f"{rate / 1e9:,.0f} GB/s, {share:.0%} of copy",
                "85% of copy",
                share >= 0.85,
                share=share,
            )


def fused(bench: Bench, copy: float) -> None:
    """a * b + c * d - e in one kernel, compared with four of CuPy."""
    n = bench.pick(1 << 26, 1 << 10)
    expression = rigel.fuse(lambda a, b, c, d, e: a * b + c * d - e)
    for dtype in ["float32", "float64"]:
        arrays = [rigel.random((n,), dtype=dtype, seed=seed, device=bench.device) for seed in range(5)]
        seconds = bench.seconds(lambda: expression(*arrays), times=10)
        rate = 6 * arrays[0].nbytes / seconds
        bench.row(
            f"a * b + c * d - e, {dtype}, fused",
            f"{rate / 1e9:,.0f} GB/s, {rate / copy:.0%} of copy",
            "80% of copy",
            rate >= 0.8 * copy,
            share=rate / copy,
        )
        if bench.cupy:
            a, b, c, d, e = (bench.cupy.from_dlpack(array) for array in arrays)
            unfused = bench.seconds(lambda: a * b + c * d - e, times=10)
            ratio = unfused / seconds
            bench.row(
                f"  beside CuPy, {dtype}",
                f"{seconds * 1e3:.3f} ms, CuPy {unfused * 1e3:.3f} ms: {ratio:.2f}x",
                "2x",
                ratio >= 2,
                ratio=ratio,
            )


def matmul(bench: Bench) -> None:
    """Products of square matrices, compared with PyTorch and NumPy."""
    order = bench.pick(4096, 64)
    print(f"  products by {rigel.matmul_engine(bench.device)}")
    for dtype in ["float32", "float64", "complex128"]:
        a, b = (rigel.random((order, order), dtype=dtype, seed=seed, device=bench.device) for seed in (1, 2))
        seconds = bench.seconds(lambda: a @ b, times=5)
        operations = 2 * order**3 * (4 if dtype == "complex128" else 1)
        bench.row(
            f"matmul {dtype}, {order}",
            f"{seconds * 1e3:.2f} ms, {operations / seconds / 1e12:.1f} TFLOP/s",
            teraflops=operations / seconds / 1e12,
        )
        if bench.torch:
            x, y = bench.torch.from_dlpack(a), bench.torch.from_dlpack(b)
            theirs = bench.seconds(lambda: x @ y, times=5)
            share = theirs / seconds
            bench.row(
                "  beside PyTorch",
                f"{theirs * 1e3:.2f} ms: {share:.1%} of its speed",
                "95%",
                share >= 0.95,
                share=share,
            )
        if bench.numpy:
            x, y = a.cpu().numpy(), b.cpu().numpy()
            theirs = bench.seconds(lambda: x @ y, rounds=3)
            bench.row(
                "  beside NumPy",
                f"{theirs * 1e3:.0f} ms: {theirs / seconds:.0f}x",
                "10x",
                theirs >= 10 * seconds,
                ratio=theirs / seconds,
            )


def upload(bench: Bench) -> None:
    """Upload of a NumPy array of complex numbers, compared with a list."""
    if not bench.numpy:
        return
    n = bench.pick(1 << 26, 1 << 10)
    values = bench.numpy.random.default_rng(1).standard_normal((n, 2)).view(bench.numpy.complex128)[:, 0]
    seconds = bench.seconds(lambda: rigel.asarray(values, device=bench.device), rounds=5)
    rate = values.nbytes / seconds
    bench.row(
        f"complex128 array of {n:,} to the device",
        f"{seconds * 1e3:.1f} ms, {rate / 1e9:.1f} GB/s",
        "20 GB/s",
        rate >= 20e9,
        gigabytes_per_second=rate / 1e9,
    )
    few = n >> 4
    numbers = values[:few].tolist()
    listed = bench.seconds(lambda: rigel.array(numbers, device=bench.device), rounds=3) * (n / few)
    bench.row(
        "  beside a list of complex numbers",
        f"{listed * 1e3:.0f} ms (from {few:,} of them): {listed / seconds:.0f}x",
        "30x",
        listed >= 30 * seconds,
        ratio=listed / seconds,
    )


def transforms(bench: Bench) -> None:
    """Number-theoretic transforms, compared with galois."""
    n = bench.pick(1 << 20, 1 << 6)
    for name, bar in [("koalabear", 100), ("goldilocks", 1000)]:
        field = rigel.field(name)
        x = field.random((n,), seed=1, device=bench.device)
        seconds = bench.seconds(x.ntt, times=50)
        bench.row(f"NTT {name}, {n:,}", f"{seconds * 1e6:.1f} us", microseconds=seconds * 1e6)
        if bench.galois:
            modulus = field.order
            values = [int(value) for value in x.cpu().numpy()]
            start = time.perf_counter()
            theirs = bench.galois.ntt(values, modulus=modulus)
            taken = time.perf_counter() - start
            if name == "koalabear":  # compiled by its first call
                start = time.perf_counter()
                theirs = bench.galois.ntt(values, modulus=modulus)
                taken = time.perf_counter() - start
            # The values are the same up to the choice of the root of unity.
            same = sorted(int(value) for value in theirs) == sorted(int(value) for value in x.ntt().cpu().numpy())
            assert same, "galois disagrees"
            bench.row(
                "  beside galois",
                f"{taken * 1e3:,.0f} ms: {taken / seconds:,.0f}x",
                f"{bar}x",
                taken >= bar * seconds,
                ratio=taken / seconds,
            )


def small(bench: Bench) -> None:
    """The time of one operation on 1,000 elements in a long sequence."""
    for dtype in ["float32", "float64"]:
        a = rigel.random((1000,), dtype=dtype, seed=1, device=bench.device)
        b = rigel.random((1000,), dtype=dtype, seed=2, device=bench.device)
        seconds = bench.seconds(lambda: a + b, times=2000, rounds=9)
        figure = f"{seconds * 1e6:.2f} us"
        if bench.torch:
            x, y = bench.torch.from_dlpack(a), bench.torch.from_dlpack(b)
            figure += f", PyTorch {bench.seconds(lambda: x + y, times=2000, rounds=9) * 1e6:.2f} us"
        if not bench.cupy:
            bench.row(f"a + b, 1,000 {dtype}", figure)
            continue
        x, y = bench.cupy.from_dlpack(a), bench.cupy.from_dlpack(b)
        theirs = bench.seconds(lambda: x + y, times=2000, rounds=9)
        bench.row(
            f"a + b, 1,000 {dtype}",
            f"{figure}, CuPy {theirs * 1e6:.2f} us",
            "no slower than CuPy",
            seconds <= theirs,
            microseconds=seconds * 1e6,
            cupy_microseconds=theirs * 1e6,
        )


def importing(bench: Bench) -> None:
    """The time of `import rigel` in a fresh interpreter."""
    program = "import time; start = time.perf_counter(); import rigel; print(time.perf_counter() - start)"
    taken = [
        float(subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout)
        for _ in range(5)
    ]
    seconds = statistics.median(taken)
    bench.row("import rigel", f"{seconds * 1e3:.0f} ms", "200 ms", seconds <= 0.2, seconds=seconds)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda:0", help="cuda:N, emulated or cpu")
    parser.add_argument("--quick", action="store_true", help="small sizes; bars do not apply")
    parser.add_argument("--only", default="", help="only groups whose name contains this text")
    parser.add_argument("--json", metavar="FILE", help="write the figures there")
    arguments = parser.parse_args()
    bench = Bench(arguments.device, arguments.quick, arguments.only)
    peers = {name: getattr(bench, name) for name in ("numpy", "cupy", "torch", "galois")}
    versions = ", ".join(f"{name} {module.__version__}" for name, module in peers.items() if module)
    print(f"rigel {rigel.__version__} on {arguments.device}; Python {platform.python_version()}; {versions}")
    if bench.wants("import"):
        importing(bench)
    if bench.wants("small"):
        small(bench)
    if bench.wants("elementwise") or bench.wants("fused"):
        copy = bandwidth(bench)
        elementwise(bench, copy)
        fused(bench, copy)
    for name, work in [("matmul", matmul), ("upload", upload), ("transforms", transforms)]:
        if bench.wants(name):
            work(bench)
    judged = [row["met"] for row in bench.rows if row["met"] is not None]
    if judged:
        print(f"{sum(judged)} of {len(judged)} bars met")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump({"device": arguments.device, "versions": versions, "rows": bench.rows}, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
