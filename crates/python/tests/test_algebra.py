"""Matrices and polynomials over fields, against galois and plain Python."""

import galois
import numpy as np
import pytest

import rigel

SMALL = ["mersenne31", "koalabear", "goldilocks"]


def fields(device):
    """Each field compiles kernels of its own on a device, so one is enough there."""
    return SMALL if device == "cpu" else ["koalabear"]


@pytest.fixture(scope="module")
def theirs():
    return {name: galois.GF(rigel.field(name).order) for name in SMALL}


def test_matrices_are_galois(device, theirs):
    for name in fields(device):
        GF, other = rigel.field(name), theirs[name]
        a = GF.random((3, 4, 4), seed=5, device=device)
        a[1, 0] = a[1, 2]  # singular
        a[2, 0, 0] = 0  # needs a swap
        plain = [other(matrix) for matrix in a.tolist()]
        assert a.det().tolist() == [int(np.linalg.det(matrix)) for matrix in plain]
        assert a.matrix_rank().tolist() == [int(np.linalg.matrix_rank(matrix)) for matrix in plain] == [4, 3, 4]
        assert a.row_reduce().tolist() == [matrix.row_reduce().tolist() for matrix in plain]
        good = a[[0, 2]]
        assert good.inv().tolist() == [np.linalg.inv(plain[i]).tolist() for i in [0, 2]]
        b = GF.random((2, 4, 2), seed=6, device=device)
        assert ((good @ good.solve(b)) == b).all()
        assert (a[0] @ a[0].solve([1, 2, 3, 4])).tolist() == [1, 2, 3, 4]
        assert good.solve([1, 0, 0, 1]).shape == (2, 4)
        wide = GF.random((2, 5), seed=1, device=device)
        assert wide.row_reduce().tolist() == other(wide.tolist()).row_reduce().tolist()
        assert wide.T.matrix_rank().item() == 2
        with pytest.raises(ValueError, match="1 of 3 matrices are singular"):
            a.inv()


def test_invalid_matrices_raise(device):
    GF = rigel.field("koalabear")
    assert GF.zeros((0, 2, 2), device=device).det().shape == (0,)
    with pytest.raises(ValueError, match="square"):
        GF.zeros((2, 3), device=device).det()
    with pytest.raises(ValueError, match="matrices"):
        GF.zeros(3, device=device).matrix_rank()
    with pytest.raises(TypeError, match="field"):
        rigel.zeros((2, 2), device=device).inv()
    with pytest.raises(ValueError, match="on the right"):
        GF.ones((2, 2), device=device).solve(GF.zeros((3, 1), device=device))
    with pytest.raises(ValueError, match="supported|elements"):
        rigel.field("no field")
    with pytest.raises(ValueError, match="unsupported field of"):
        rigel.field(7)


def convolved(a, b, p):
    out = [0] * (len(a) + len(b) - 1)
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            out[i + j] = (out[i + j] + x * y) % p
    return out


def test_polynomials(device):
    for name in fields(device):
        GF = rigel.field(name)
        p = GF.order
        f = GF.random((2, 11), seed=1, device=device)
        g = GF.random(4, seed=2, device=device)
        points = GF([0, 1, 5, p - 1, 77, 78, 79, 80, 81, 82, 83], device=device)
        values = f.poly_evaluate(points)
        expected = [[sum(c * x**i for i, c in enumerate(row)) % p for x in points.tolist()] for row in f.tolist()]
        assert values.tolist() == expected
        assert values.poly_interpolate(points).tolist() == f.tolist()
        product = f.poly_multiply(g)
        assert product.tolist() == [convolved(row, g.tolist(), p) for row in f.tolist()]
        rest = GF([3, 1, 4], device=device)
        shifted = product.copy()
        shifted[:, :3] += rest
        quotient, remainder = shifted.poly_divide(g)
        assert quotient.tolist() == f.tolist() and remainder.tolist() == [rest.tolist()] * 2
        quotient, remainder = g.poly_divide(f[0])
        assert quotient.size == 0 and remainder.tolist() == g.tolist() + [0] * 6


def test_products_over_mersenne31(device):
    """Products over Mersenne-31 take another path than those over other fields."""
    GF = rigel.field("mersenne31")
    f, g = GF.random((2, 5), seed=1, device=device), GF([GF.order - 1] * 3, device=device)
    assert f.poly_multiply(g).tolist() == [convolved(row, g.tolist(), GF.order) for row in f.tolist()]


def test_polynomials_of_extensions():
    GF = rigel.field("goldilocks2")
    f, g = GF.random(6, seed=1), GF.random(3, seed=2)
    points = GF.random(6, seed=3)
    assert (f.poly_evaluate(points).poly_interpolate(points) == f).all()
    quotient, remainder = f.poly_multiply(g).poly_divide(g)
    assert (quotient == f).all() and (remainder == 0).all()


def test_interpolations_are_galois(device, theirs):
    """At powers of two, below and above them."""
    GF, other = rigel.field("mersenne31"), theirs["mersenne31"]
    for n in [2, 3, 8, 9] if device == "cpu" else [3]:
        values, points = GF.random((2, n), seed=n, device=device), GF.random(n, seed=100 + n, device=device)
        powers = other([[pow(point, i, GF.order) for i in range(n)] for point in points.tolist()])
        expected = [np.linalg.solve(powers, other(row)).tolist() for row in values.tolist()]
        assert values.poly_interpolate(points).tolist() == expected
    one = GF([4], device=device)
    assert one.poly_interpolate([9]).tolist() == [4] and one.poly_evaluate([]).shape == (0,)


def test_invalid_polynomials_raise(device):
    GF = rigel.field("koalabear")
    f = GF([1, 2, 3], device=device)
    with pytest.raises(ValueError, match="equal"):
        f.poly_interpolate([1, 2, 1])
    with pytest.raises(ValueError, match="for 3 values"):
        f.poly_interpolate([1, 2])
    with pytest.raises(ZeroDivisionError):
        f.poly_divide([1, 0])
    with pytest.raises(ValueError, match="no coefficients"):
        f.poly_divide([])
    with pytest.raises(TypeError):
        rigel.zeros(3, device=device).poly_multiply([1.0])
    with pytest.raises(ValueError, match="axis"):
        f[0].poly_evaluate([1])


def test_transforms_of_any_axis(device):
    x = rigel.field("koalabear").random((8, 4), seed=1, device=device)
    assert x.ntt(axis=0).tolist() == x.T.ntt().T.tolist()
    assert x.ntt(0).intt(axis=0).tolist() == x.tolist()
    with pytest.raises(IndexError):
        x.ntt(2)
    with pytest.raises(ValueError, match="power of two"):
        x[0, 0].ntt()


def test_fields_by_their_order():
    for name in ["mersenne31", "babybear4", "goldilocks3", "qm31"]:
        field = rigel.field(name)
        assert rigel.field(field.order) is field and str(field.order) in field.properties
