"""The first steps of the package galois, as on its front page, with `rigel.field` in place of `galois.GF`.

    python galois_front_page.py --device cpu

The field is KoalaBear, a prime field that both packages have. Square roots and discrete logarithms are galois' own.
"""

import argparse

import numpy as np

import rigel


def main(device):
    GF = rigel.field(2**31 - 2**24 + 1)
    print(GF.properties)

    x = GF([236, 87, 38, 112], device=device)
    assert isinstance(x, GF)
    y = GF(np.array([109, 17, 108, 224]), device=device)
    print(x + y)
    print(x - y)
    print(x * y)
    print(x / y)
    print(x**-1)
    print(np.multiply(x, y), np.reciprocal(x))

    A = GF.Random((3, 3), seed=1, device=device)
    b = GF([1, 2, 3], device=device)
    print(np.linalg.solve(A, b), np.linalg.det(A), np.linalg.matrix_rank(A))
    assert np.array_equal(A @ np.linalg.solve(A, b), b)
    assert np.array_equal(A @ np.linalg.inv(A), GF.Identity(3, device=device))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    main(parser.parse_args().device)
