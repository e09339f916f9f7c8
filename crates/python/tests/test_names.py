"""NumPy's and galois' names: functions of the module, NumPy's own functions on arrays, and methods."""

import numpy as np
import pytest

import rigel
from conftest import has_cuda
from test_arrays import sample

ODD = [0.0, 1.0, 1 + 1e-6, -2.0, np.inf, -np.inf, np.nan]


def same(ours, theirs):
    ours, theirs = ours.numpy(), np.asarray(theirs)
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    np.testing.assert_allclose(ours, theirs, rtol=1e-14)


@pytest.mark.parametrize("dtype", ["bool", "int16", "float32", "complex128"])
def test_functions_are_numpys(rng, dtype):
    x, y = sample(rng, dtype, (2, 3, 1)), sample(rng, dtype, (3,))
    a, b = rigel.array(x), rigel.array(y)
    for axis in [None, 1, (0, 2)]:
        for keepdims in [False, True]:
            same(rigel.all(a, axis, keepdims), np.all(x, axis, keepdims=keepdims))
            same(rigel.any(a, axis, keepdims), np.any(x, axis, keepdims=keepdims))
            same(rigel.count_nonzero(a, axis, keepdims), np.count_nonzero(x, axis, keepdims=keepdims))
    same(rigel.copy(a), np.copy(x))
    same(rigel.reshape(a, (3, -1)), np.reshape(x, (3, -1)))
    same(rigel.ravel(a), np.ravel(x))
    same(rigel.transpose(a), np.transpose(x))
    same(rigel.transpose(a, (1, 0, 2)), np.transpose(x, (1, 0, 2)))
    same(rigel.swapaxes(a, 0, 2), np.swapaxes(x, 0, 2))
    same(rigel.squeeze(a), np.squeeze(x))
    same(rigel.squeeze(a, 2), np.squeeze(x, 2))
    same(rigel.expand_dims(a, 1), np.expand_dims(x, 1))
    same(rigel.broadcast_to(b, (2, 3)), np.broadcast_to(y, (2, 3)))
    same(rigel.vstack([b, b]), np.vstack([y, y]))
    same(rigel.vstack([a, a]), np.vstack([x, x]))
    same(rigel.hstack([b, y.tolist()]).astype(dtype), np.hstack([y, y]))
    same(rigel.hstack([a, a]), np.hstack([x, x]))
    same(rigel.outer(a, b), np.outer(x, y))
    same(rigel.square(a), np.square(x) if dtype != "bool" else x * x)
    assert rigel.array_equal(a, x) and not rigel.array_equal(a, x[:1]) and not rigel.array_equal([1, 2], [1, 3])


def test_close_numbers_are_numpys(rng):
    x, y = (part.ravel() for part in np.meshgrid(ODD, ODD))
    for a, b in [(x, y), (x + 0j, y + 0j)]:
        for equal_nan in [False, True]:
            with np.errstate(invalid="ignore"):
                expected = np.isclose(a, b, equal_nan=equal_nan)
                assert rigel.isclose(a, b, equal_nan=equal_nan).tolist() == expected.tolist()
    same(rigel.isinf(ODD), np.isinf(ODD))
    # Differences of integers would wrap, and truth values have none.
    close = [("uint8", [1], [2], 1), ("int8", [100], [-100], 60), ("bool", [True, False], [False, False], 0.5)]
    close += [("uint64", [1, 2**63], [2, 0], 1), ("int32", [2**31 - 1], [-(2**31)], 2)]
    for dtype, x, y, atol in close:
        for a, b in [(np.array(x, dtype), np.array(y, dtype)), (np.array(y, dtype), np.array(x, dtype))]:
            assert rigel.isclose(a, b, atol=atol).tolist() == np.isclose(a, b, atol=atol).tolist(), (a, b)
            assert rigel.allclose(a, b, atol=atol) == np.allclose(a, b, atol=atol)
    for dtype in ["uint8", "int8", "int64"]:
        a, b = (rng.integers(0, 128, 50).astype(dtype) for _ in range(2))
        for one, other in [(a, b), (a, b + 0.25), (a + 0.25, b), (a > 60, b)]:
            assert rigel.isclose(one, other, atol=30).tolist() == np.isclose(one, other, atol=30).tolist()
    assert rigel.isclose([100.0], [101.0], rtol=0.01).item() and not rigel.isclose([100.0], [101.0], rtol=0.009).item()
    assert rigel.allclose([1.0, np.nan], [1.0, np.nan], equal_nan=True) and not rigel.allclose([1.0, np.nan], 1.0)
    assert (rigel.pi, rigel.e, rigel.inf) == (np.pi, np.e, np.inf) and np.isnan(rigel.nan)
    assert rigel.ones(3)[:, rigel.newaxis].shape == (3, 1)


def test_numpys_functions_of_elements_are_rigels(device):
    x = np.array([[1.0, 4.0], [9.0, 16.0]])
    a = rigel.array(x, device=device)
    for found, expected in [(np.sqrt(a), np.sqrt(x)), (np.multiply(a, 2), 2 * x), (np.float64(3) - a, 3 - x)]:
        assert isinstance(found, rigel.Array) and found.device == a.device
        np.testing.assert_allclose(found.numpy(), expected)
    if device != "cpu":
        with pytest.raises(TypeError, match="NumPy arrays are on the CPU"):
            np.cbrt(a)
        return
    assert (x - a).tolist() == (0 * x).tolist() and np.matmul(x, a).tolist() == (x @ x).tolist()
    same(x[0] == a, [[True, True], [False, False]])
    # Rigel has no such function: NumPy's, on NumPy arrays.
    np.testing.assert_allclose(np.cbrt(a), np.cbrt(x))
    assert np.add.reduce(a).tolist() == [10, 20]
    theirs = x.copy()
    theirs += a
    assert isinstance(theirs, np.ndarray) and theirs.tolist() == (2 * x).tolist()
    with pytest.raises(TypeError, match="can't write into a Rigel array"):
        np.add(x, x, out=a)


def test_numpys_functions_of_fields_are_rigels():
    """Functions of a script for galois. `test_fields.py` and `test_algebra.py` compare Rigel's with galois'."""
    GF = rigel.field(2**31 - 1)
    x, y = GF([236, 87, 38, 112]), GF([109, 17, 108, 224])
    A = GF([[1, 2, 3], [4, 5, 6], [7, 8, 10]])
    for found, expected in [
        (np.add(x, y), x + y), (np.subtract(x, y), x - y), (np.multiply(x, y), x * y), (np.divide(x, y), x / y),
        (np.power(x, 3), x * x * x), (np.negative(x), -x), (np.reciprocal(x), 1 / x), (np.square(x), x * x),
        (np.positive(x), x), (np.sum(A, axis=1), A.sum(1)), (np.prod(x), x.prod()), (np.cumsum(x), x.cumsum()),
        (np.dot(x, y), (x * y).sum()), (np.outer(x, y), x[:, None] * y), (np.matmul(A, A), A @ A),
        (np.linalg.solve(A, x[:3]), A.solve(x[:3])), (np.linalg.inv(A), A.inv()), (np.linalg.det(A), A.det()),
        (np.linalg.matrix_rank(A), A.matrix_rank()), (np.convolve(x, y), x.poly_multiply(y)),
        (np.concatenate([x, y]), GF(x.tolist() + y.tolist())), (np.vstack([x, y]), GF([x.tolist(), y.tolist()])),
        (np.where(x == y, x, 0), 0 * x), (np.reshape(x, (2, 2)), x.reshape(2, 2)), (np.transpose(A), A.T),
        (np.roll(x, 1), GF([112, 236, 87, 38])), (np.zeros_like(x), 0 * x), (np.copy(x), x), (GF.Zeros(2), GF([0, 0])),
        (GF.Ones((1, 2)), GF([[1, 1]])), (GF.Identity(2), GF([[1, 0], [0, 1]])), (GF.Range(1, 9, 3), GF([1, 4, 7])),
        (GF.Random((2, 3), seed=1), GF.random((2, 3), seed=1)), (np.array([1, 2]) + GF([1, 2]), GF([2, 4])),
    ]:  # fmt: skip
        assert found.dtype == expected.dtype and found.tolist() == expected.tolist()
    assert np.array_equal(x, x) and not np.array_equal(x, y)
    for refused in [lambda: np.median(x), lambda: np.sin(x), lambda: np.add.reduce(x), lambda: np.block([[x, x]])]:
        with pytest.raises(TypeError):
            refused()
    for unknown in [7, "bn254", "float64"]:
        with pytest.raises(ValueError, match=f"unsupported field .*{unknown}.*koalabear .2130706433 elements"):
            rigel.field(unknown)


def test_methods_are_numpys(rng):
    x = sample(rng, "complex128", (3, 3))
    a = rigel.array(x)
    np.testing.assert_allclose(a.dot(a).numpy(), x.dot(x))
    np.testing.assert_allclose(a.conj().numpy(), x.conj())
    np.testing.assert_allclose(a.abs().numpy(), np.abs(x))
    np.testing.assert_allclose(a.exp().numpy(), np.exp(x))
    np.testing.assert_allclose(a.log().numpy(), np.log(x))
    y = x.real
    half = rigel.lazy(rigel.array(y)) / 2
    same(half.astype("float32").eval(), (y / 2).astype("float32"))
    for name in ["prod", "min", "max", "mean"]:
        np.testing.assert_allclose(getattr(half, name)(axis=1).numpy(), getattr(y / 2, name)(axis=1))
    same(half.min(), np.min(y / 2))
    same(half.max(0), np.max(y / 2, 0))
    np.testing.assert_allclose([half.prod().item(), half.mean().item()], [np.prod(y / 2), np.mean(y / 2)])


@pytest.mark.skipif(has_cuda(), reason="there is a GPU")
def test_a_missing_gpu_is_an_error_that_says_what_to_do():
    for use in [lambda: rigel.ones(3).cuda(), lambda: rigel.ones(3, device="cuda:0")]:
        with pytest.raises(rigel.DeviceError, match='driver.*device="cpu" needs no GPU'):
            use()
