"""The nearest E8 lattice points to many points, which a golden-ratio recurrence spreads over a cube.

    python e8_lattice.py --device cuda:0 --points 1000000

Points: x_{n+1} = frac(x_n + a) in each of 8 coordinates, with a_j = 1 / phi^j, where phi > 1 is the root of
phi^9 = phi + 1. In one dimension (phi^2 = phi + 1), that is the golden ratio. Such a sequence fills the cube
evenly.

E8 is the union of D8 (integer points with an even sum) and D8 + (1/2, ..., 1/2). The nearest point of D8 is x
rounded; if its sum is odd, the coordinate with the largest rounding error is rounded the other way. The nearest
point of E8 is the nearer of the two candidates.
"""

import argparse
import itertools

import rigel

SOURCE = r"""
extern "C" __global__ void spread(double *x, const double *step, double scale, unsigned long long count) {
    unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
    if (i >= 8 * count) return;
    double value = 0.5 + (double)(i / 8 + 1) * step[i % 8];
    x[i] = scale * (value - floor(value) - 0.5);
}

__device__ double nearest_d8(const double *x, double shift, double *point) {
    double far = -1, distance = 0;
    int parity = 0, at = 0;
    for (int j = 0; j < 8; ++j) {
        double moved = x[j] - shift, whole = floor(moved + 0.5), off = moved - whole;
        point[j] = whole + shift;
        parity ^= (int)((long long)whole & 1);
        distance += off * off;
        if (fabs(off) > far) { far = fabs(off); at = j; }
    }
    if (parity) {
        double off = x[at] - point[at];
        point[at] += off >= 0 ? 1 : -1;
        distance += 1 - 2 * far;
    }
    return distance;
}

extern "C" __global__ void nearest_e8(const double *x, double *points, double *distances, unsigned long long count) {
    unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
    if (i >= count) return;
    double whole[8], half[8];
    double a = nearest_d8(x + 8 * i, 0.0, whole), b = nearest_d8(x + 8 * i, 0.5, half);
    for (int j = 0; j < 8; ++j) points[8 * i + j] = a <= b ? whole[j] : half[j];
    distances[i] = a <= b ? a : b;
}
"""


def phi():
    """The root phi > 1 of phi^9 = phi + 1."""
    root = 1.1
    for _ in range(100):
        root = (1 + root) ** (1 / 9)
    return root


def spread_on_cpu(grid, block, args):
    x, step, scale, count = args
    value = rigel.arange(1, count + 1).reshape(-1, 1) * step + 0.5
    x[...] = (value - rigel.floor(value) - 0.5) * scale


def nearest_d8(x, shift):
    """The nearest points of D8 + shift, and the squared distances."""
    moved = x - shift
    whole = rigel.floor(moved + 0.5)
    off = moved - whole
    far = rigel.abs(off).max(axis=1, keepdims=True)
    odd = whole.sum(axis=1, keepdims=True) % 2.0 == 1.0
    # The first coordinate with the largest rounding error.
    places = rigel.arange(8, dtype="float64", device=x.device)
    at = rigel.where(rigel.abs(off) == far, places, 8.0).min(axis=1, keepdims=True)
    other_way = rigel.where(off >= 0, 1.0, -1.0)
    whole = rigel.where((places == at) & odd, whole + other_way, whole)
    point = whole + shift
    return point, ((x - point) ** 2).sum(axis=1)


def nearest_on_cpu(grid, block, args):
    x, points, distances, _ = args
    (whole, a), (half, b) = nearest_d8(x, 0.0), nearest_d8(x, 0.5)
    points[...] = rigel.where((a <= b).reshape(-1, 1), whole, half)
    distances[...] = rigel.minimum(a, b)


def brute_force(x):
    """The squared distance to the nearest point, by exhaustive search within 1 of x in each coordinate."""
    best = float("inf")
    for shift in (0.0, 0.5):
        choices = []
        for value in x:
            low = (value - shift) // 1 + shift
            choices.append((low, low + 1))
        for point in itertools.product(*choices):
            if sum(point) % 2 == 0:
                best = min(best, sum((a - b) ** 2 for a, b in zip(x, point)))
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--points", type=int, default=10_000)
    arguments = parser.parse_args()
    count, device = arguments.points, arguments.device

    spread = rigel.Kernel(SOURCE, "spread", on_cpu=spread_on_cpu)
    nearest_e8 = rigel.Kernel(SOURCE, "nearest_e8", on_cpu=nearest_on_cpu)
    step = rigel.array([phi() ** -(j + 1) for j in range(8)], device=device)
    x = rigel.empty((count, 8), device=device)
    spread(-(-8 * count // 256), 256, (x, step, 6.0, count))
    points, distances = rigel.empty((count, 8), device=device), rigel.empty(count, device=device)
    nearest_e8(-(-count // 256), 256, (x, points, distances, count))

    for i in range(0, count, max(count // 20, 1)):
        expected = brute_force(x[i].tolist())
        assert abs(distances[i].item() - expected) < 1e-9, f"point {i}"
        assert sum(points[i].tolist()) % 2 == 0
    assert distances.max().item() <= 1 + 1e-9, "the covering radius of E8 is 1"
    # The mean squared distance per dimension, about 0.0717, is the normalized second moment of E8.
    print(f"{count} points on {device}: mean square distance / 8 = {distances.mean().item() / 8:.5f}")


if __name__ == "__main__":
    main()
