"""User kernels."""

import numpy as np
import pytest

import rigel

SOURCE = """
extern "C" __global__ void axpy(const float *x, float *y, float a, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}
"""


def on_cpu(grid, block, args):
    x, y, a, n = args
    assert grid[0] * block[0] >= n
    y += x * a


def test_kernel(device):
    kernel = rigel.Kernel(SOURCE, "axpy", on_cpu=on_cpu)
    x = rigel.arange(300, dtype="float32", device=device)
    y = rigel.ones(300, dtype="float32", device=device)
    kernel(3, (128,), (x, y, 2.0, 300))
    kernel((3, 1, 1), 128, (x, y, np.float32(1), np.uint32(300)))
    np.testing.assert_allclose(y.numpy(), 1 + 3 * np.arange(300))
    assert kernel.name == "axpy" and "axpy" in repr(kernel)


def test_bad_kernel_arguments_raise(device):
    kernel = rigel.Kernel(SOURCE, "axpy")
    x = rigel.zeros(300, dtype="float32", device=device)
    if device == "cpu":
        with pytest.raises(TypeError, match="CPU"):
            kernel(3, 128, (x, x, 2.0, 300))
        with pytest.raises(ValueError):
            kernel(0, 128, (x, x, 2.0, 300))
        with pytest.raises(TypeError):
            rigel.Kernel(SOURCE, "axpy", on_cpu=3)
        return
    with pytest.raises(ValueError, match="contiguous"):
        kernel(1, 128, (x[::2], x, 2.0, 150))
    with pytest.raises(TypeError, match="fit"):
        kernel(3, 128, (x, x, 2.0, 2**40))
    with pytest.raises(TypeError, match="argument 2"):
        kernel(3, 128, (x, x, "a", 300))
    with pytest.raises(rigel.DeviceError):
        kernel(3, 128, (x, rigel.zeros(300, dtype="float32"), 2.0, 300))
    with pytest.raises(rigel.CompileError, match="nonsense"):
        rigel.Kernel('extern "C" __global__ void f(int *x) { nonsense; }', "f").compile(device)


def test_field_headers(device):
    if device == "cpu":
        pytest.skip("kernels are for devices")
    kernel = rigel.Kernel(
        """
        #include "field/koala_bear.cuh"
        extern "C" __global__ void square(KoalaBear *x, unsigned n) {
            unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) x[i] = x[i] * x[i];
        }""",
        "square",
    )
    GF = rigel.field("koalabear")
    x = GF.random(100, seed=1, device=device)
    expected = (x * x).tolist()
    kernel(1, 128, (x, 100))
    assert x.tolist() == expected
