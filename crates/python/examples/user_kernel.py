"""A user kernel: the Mandelbrot set, with a version for the CPU.

    python user_kernel.py --device cuda:0
"""

import argparse

import rigel

SOURCE = r"""
extern "C" __global__ void mandelbrot(int *steps, double left, double top, double step, int width, int height,
                                      int most) {
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (column >= width || row >= height) return;
    double re = left + column * step, im = top - row * step, x = 0, y = 0;
    int n = 0;
    while (n < most && x * x + y * y <= 4) {
        double next = x * x - y * y + re;
        y = 2 * x * y + im;
        x = next;
        ++n;
    }
    steps[row * width + column] = n;
}
"""


def on_cpu(grid, block, args):
    """The kernel's steps on the CPU, one at a time for all points."""
    steps, left, top, step, width, height, most = args
    columns = rigel.arange(width).reshape(1, -1) * step + left
    rows = top - rigel.arange(height).reshape(-1, 1) * step
    c = columns + rows * 1j
    z = c * 0
    steps[...] = 0
    for _ in range(most):
        inside = rigel.real(z) * rigel.real(z) + rigel.imag(z) * rigel.imag(z) <= 4
        steps += inside.astype("int32")
        z = rigel.where(inside, z * z + c, z)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()
    width, height, most = 72, 48, 50
    kernel = rigel.Kernel(SOURCE, "mandelbrot", on_cpu=on_cpu)
    steps = rigel.empty((height, width), dtype="int32", device=arguments.device)
    blocks = (-(-width // 16), -(-height // 16))
    kernel(blocks, (16, 16), (steps, -2.2, 1.1, 0.1 / 2.2, width, height, most))
    # A character is twice as high as it is wide.
    for row in steps[::2].tolist():
        print("".join(" .:-=+*#%@"[min(n, most - 1) * 10 // most] for n in row))
    assert steps[height // 2, width // 2].item() == most, "the middle is inside"


if __name__ == "__main__":
    main()
