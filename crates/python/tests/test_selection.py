"""Selecting, ordering and accumulating elements, against NumPy, on every device."""

import numpy as np
import pytest

import rigel
from test_arrays import NARROW, sample

INDICES = [
    "[2, 0, -1]", "[[0, 1], [-1, 2]]", "[]", "np.array([1, 1, 2], dtype=np.uint32)", "([0, 2], [1, -1])",
    "(slice(None), [3, 0])", "([0, 1], slice(1, 4))", "(slice(None, None, -1), [[3], [0]], None)",
    "(0, slice(None), [1, 2])", "(Ellipsis, [4, 0])", "([[0], [1]], [0, 3], slice(None, None, 2))",
    "(None, [1, 0])", "(slice(0, 0), [1])", "x > 0.2", "x[:, :, 0] > 0", "(slice(None), x[0] < 0)",
    "(x[:, 0, 0] < 9, [1])", "x > 99", "np.zeros((3, 4, 5), dtype=bool)", "(slice(None), np.array([[1, 2]]), 1)",
    "(slice(None), [0], Ellipsis, [1])", "([2], Ellipsis, slice(None), [1])",
]  # fmt: skip


def ours(index, device):
    """An index, with its NumPy arrays as Rigel arrays of the device."""
    if isinstance(index, tuple):
        return tuple(ours(entry, device) for entry in index)
    return rigel.array(index, device=device) if isinstance(index, np.ndarray) else index


def check(found, expected):
    expected = np.asarray(expected)
    assert found.shape == expected.shape and found.numpy().dtype == expected.dtype
    np.testing.assert_array_equal(found.numpy(), expected)


@pytest.mark.parametrize("index", INDICES)
def test_index_arrays_and_masks(rng, device, index):
    x = rng.normal(size=(3, 4, 5))
    index = eval(index, {"np": np, "x": x})
    a = rigel.array(x, device=device)
    where = ours(index, device)
    key = np.array(index, dtype=int) if isinstance(index, list) and not index else index
    check(a[where], x[key])
    check(a.transpose(2, 0, 1).transpose(1, 2, 0)[where], x[key])
    a[where] = 7
    x[key] = 7
    check(a, x)
    values = rng.normal(size=x[key].shape)
    a[where] = rigel.array(values, device=device)
    # An index that occurs twice keeps either value on a device.
    unique = len(np.unique(np.arange(60).reshape(3, 4, 5)[key])) == values.size
    if unique:
        x[key] = values
        check(a, x)


@pytest.mark.parametrize(
    "dtype",
    ["bool", "int32", "float16", "float32", "complex64", "complex128", "goldilocks", "koalabear4", "goldilocks3"],
)
def test_index_arrays_of_all_types(device, dtype):
    a = rigel.random((4, 6), dtype=dtype, seed=3, device=device)
    plain = a.tolist()
    assert a[[3, 0], [1, -1]].tolist() == [plain[3][1], plain[0][5]]
    view = a[::2, ::-1]
    assert view[:, [0, 1]].tolist() == [[row[5], row[4]] for row in plain[::2]]
    view[[1], [2]] = a[0, 0]
    assert a[2, 3].tolist() == plain[0][0]


def test_invalid_indices_raise(device):
    a = rigel.zeros((3, 4), device=device)
    for bad, error in [
        ([0, 3], "index 3 is outside axis 0, which has length 3"), ([-4], "index -4"), (([0], [4]), "axis 1"),
        (np.array([True, False]), r"mask of shape \(2,\)"), ((0, 0, [0]), "3 indices"),
        (rigel.zeros((3, 5), dtype=bool, device=device), r"\(3, 5\)"),
    ]:  # fmt: skip
        with pytest.raises(IndexError, match=error):
            a[bad]
        with pytest.raises(IndexError, match=error):
            a[bad] = 1
    with pytest.raises(TypeError, match="integers, not float64"):
        a[[0.5]]
    with pytest.raises(TypeError):
        a["x"]
    with pytest.raises(ValueError, match="do not fit"):
        a[[0, 1], [0, 1, 2]]
    with pytest.raises(ValueError, match="broadcast"):
        a[[0, 1]] = rigel.zeros((3, 4), device=device)
    with pytest.raises(ValueError, match="copy"):
        rigel.zeros((1, 4), device=device).broadcast_to((3, 4))[[0]] = 1
    if device != "cpu":
        with pytest.raises(rigel.DeviceError):
            a[rigel.array([0])]


def test_values_that_overlap_are_read_first(device):
    a = rigel.arange(6, device=device)
    a[[0, 1, 2]] = a[3:]
    a[[5, 4, 3, 2, 1, 0]] = a
    assert a.tolist() == [5, 4, 3, 5, 4, 3]


@pytest.mark.parametrize("dtype", ["float64", "int32", "bool", "float16", "uint8"])
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_argmin_and_argmax(rng, device, dtype, axis):
    if device != "cpu" and dtype == "uint8":
        pytest.skip("float16 is the narrow type that devices are tested with")
    x = (rng.integers(0, 5, size=(4, 6)) if dtype != "bool" else rng.integers(0, 2, size=(4, 6))).astype(dtype)
    if dtype.startswith("float"):
        x[1, 3] = np.nan
    a = rigel.array(x, device=device)
    for name in ["argmin", "argmax"]:
        for keepdims in [False, True]:
            expected = getattr(np, name)(x, axis=axis, keepdims=keepdims)
            check(getattr(rigel, name)(a, axis, keepdims), expected)
            check(getattr(a, name)(axis=axis, keepdims=keepdims), expected)
    with pytest.raises(ValueError, match="no elements"):
        rigel.zeros(0, device=device).argmax()
    with pytest.raises(TypeError):
        rigel.field("babybear").zeros(3, device=device).argmin()


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("dtype", ["float64", "int32", "complex128", "int16", "uint8"])
def test_running_sums_and_products(rng, device, dtype, axis):
    if device != "cpu" and (dtype == "uint8" or dtype in ("int16", "complex128") and axis != 0):
        pytest.skip("compiles more kernels of the same text")
    x = sample(rng, dtype, (3, 5))
    a = rigel.array(x, device=device)
    for name in ["cumsum", "cumprod"]:
        expected = getattr(np, name)(x, axis=axis)
        found = getattr(rigel, name)(a, axis)
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)
        np.testing.assert_allclose(getattr(a[:, ::-1], name)(axis).numpy(), getattr(np, name)(x[:, ::-1], axis=axis))


@pytest.mark.parametrize("n", [1, 4, 1023, 1025, 5000])
def test_running_sums_of_long_rows(rng, device, n):
    x = rng.integers(-9, 9, size=(2, n))
    check(rigel.array(x, device=device).cumsum(1), np.cumsum(x, axis=1))
    y = rigel.field("koalabear").random((2, n), seed=n, device=device)
    expected = np.cumsum(y.numpy().astype(object), axis=1) % y.field.order
    assert y.cumsum(-1).tolist() == expected.tolist()
    assert rigel.zeros((2, 0), device=device).cumsum(1).shape == (2, 0)


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "uint32", "bool"] + NARROW[:-1])
def test_sort(rng, device, dtype):
    if device != "cpu" and dtype in ["float32", "uint32"] + NARROW:
        return
    x = (rng.integers(0, 9, size=(5, 7)) % (2 if dtype == "bool" else 9)).astype(dtype)
    if dtype.startswith("float"):
        x[2, 1:4] = np.nan
        x -= 4
    a = rigel.array(x, device=device)
    for axis in [-1, 0, None]:
        check(rigel.sort(a, axis), np.sort(x, axis=axis))
        check(a.sort(axis), np.sort(x, axis=axis))
        check(a.argsort(axis), np.argsort(x, axis=axis, kind="stable"))
    check(rigel.argsort(a), np.argsort(x, kind="stable"))
    check(rigel.take_along_axis(a, a.argsort(0), axis=0), np.sort(x, axis=0))


@pytest.mark.parametrize("n", [1, 2, 3, 1024, 1025, 3000])
def test_sort_of_long_rows(rng, device, n):
    x = rng.integers(-50, 50, size=(2, n))
    a = rigel.array(x, device=device)
    check(a.sort(), np.sort(x))
    check(a.argsort(), np.argsort(x, kind="stable"))


def test_sort_needs_an_order(device):
    assert rigel.zeros((2, 0), device=device).sort().shape == (2, 0)
    for dtype in ["complex128", "goldilocks"]:
        with pytest.raises(TypeError, match="no order"):
            rigel.zeros(3, dtype=dtype, device=device).sort()
    with pytest.raises(IndexError):
        rigel.zeros(3, device=device).sort(1)
    with pytest.raises(ValueError, match="as many axes"):
        rigel.take_along_axis(rigel.zeros((2, 2), device=device), rigel.array([0], device=device))


def test_clip_take_roll_flip(rng, device):
    x = rng.normal(size=(3, 4))
    a = rigel.array(x, device=device)
    check(rigel.clip(a, -0.5, 0.5), np.clip(x, -0.5, 0.5))
    check(a.clip(min=0), np.clip(x, 0, None))
    check(a.clip(max=rigel.array(x[0], device=device)), np.clip(x, None, x[0]))
    with pytest.raises(TypeError, match="min"):
        a.clip()
    check(rigel.take(a, [5, -1]), np.take(x, [5, -1]))
    check(a.take([[0, 1], [1, 2]], axis=0), np.take(x, [[0, 1], [1, 2]], axis=0))
    check(a.take(2, axis=1), np.take(x, 2, axis=1))
    check(rigel.roll(a, 5), np.roll(x, 5))
    check(rigel.roll(a, (-1, 2), axis=(0, 1)), np.roll(x, (-1, 2), axis=(0, 1)))
    check(rigel.roll(a, 1, axis=(0, 1)), np.roll(x, 1, axis=(0, 1)))
    check(rigel.roll(rigel.zeros(0, device=device), 3), np.zeros(0))
    with pytest.raises(TypeError):
        rigel.roll(a, (1, 2), axis=0)
    for axis in [None, 0, (0, 1)]:
        check(rigel.flip(a, axis), np.flip(x, axis))
    check(rigel.nonzero(a > 0)[1], np.nonzero(x > 0)[1])
    check(a.nonzero()[0], np.nonzero(x)[0])
    assert [part.shape for part in rigel.zeros((2, 3), device=device).nonzero()] == [(0,), (0,)]


@pytest.mark.parametrize("axis", [None, 0, (0, 1)])
@pytest.mark.parametrize("dtype", ["float64", "int32", "complex128", "int8", "float16", "complex64"])
def test_variance(rng, device, dtype, axis):
    if device != "cpu" and dtype in NARROW:
        return
    x = sample(rng, dtype, (5, 6))
    a = rigel.array(x, device=device)
    for name in ["var", "std"]:
        for ddof in [0, 1]:
            expected = getattr(np, name)(x, axis=axis, ddof=ddof, keepdims=True)
            found = getattr(rigel, name)(a, axis, ddof, keepdims=True)
            assert found.numpy().dtype == expected.dtype
            # NumPy rounds each square of a half, rigel only the result.
            tolerance = {"float16": 1e-2, "complex64": 1e-5}.get(dtype, 1e-12)
            np.testing.assert_allclose(found.numpy(), expected, rtol=tolerance)
            without = getattr(np, name)(x, axis=axis, ddof=ddof)
            np.testing.assert_allclose(getattr(a, name)(axis, ddof).numpy(), without, rtol=tolerance)
    with pytest.raises(TypeError):
        rigel.field("babybear").zeros(3, device=device).var()


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint32", "uint64", "int8", "uint16"])
def test_bits(rng, device, dtype):
    if device != "cpu" and dtype in ("uint32", "int64", "uint16"):
        pytest.skip("compiles more kernels of the same text")
    bounds = np.iinfo(dtype)
    x = rng.integers(bounds.min, bounds.max, size=40, dtype=dtype)
    y = rng.integers(0, 70, size=40).astype(dtype)
    a, b = rigel.array(x, device=device), rigel.array(y, device=device)
    for name in ["bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"]:
        expected = getattr(np, name)(x, y)
        check(getattr(rigel, name)(a, b), expected)
    check((a & 12) | (b ^ 5) << 2 >> 1, (x & 12) | (y ^ 5) << 2 >> 1)
    check(rigel.invert(a), ~x)
    a <<= 1
    a >>= 2
    check(a, x << 1 >> 2)
    check((rigel.lazy(b) << 1 >> 1).eval(), y << 1 >> 1)
    check(7 << (b & 3), 7 << (y & 3))
    check(7 >> (b & 3), 7 >> (y & 3))
    with pytest.raises(TypeError):
        rigel.zeros(3, device=device) << 1
    with pytest.raises(TypeError):
        rigel.zeros(3, device=device) & 1


def test_numpys_names(rng):
    x, y = rng.normal(size=5), rng.normal(size=5) + 3
    for name in ["subtract", "multiply", "divide", "true_divide", "floor_divide", "mod", "equal", "not_equal", "less",
                 "less_equal", "greater", "greater_equal"]:  # fmt: skip
        np.testing.assert_allclose(getattr(rigel, name)(x, y).numpy(), getattr(np, name)(x, y), rtol=1e-12)
    for name in ["negative", "absolute", "conjugate", "arctan"]:
        np.testing.assert_allclose(getattr(rigel, name)(x).numpy(), getattr(np, name)(x), rtol=1e-12)
    z = np.clip(x, -1, 1)
    np.testing.assert_allclose(rigel.arcsin(z).numpy(), np.arcsin(z))
    np.testing.assert_allclose(rigel.arccos(z).numpy(), np.arccos(z))
    np.testing.assert_allclose(rigel.power(y, 3).numpy(), np.power(y, 3))
    assert rigel.amax(x).item() == x.max() and rigel.amin(x).item() == x.min()
    assert rigel.concat([x, y]).shape == (10,)
    assert rigel.bitwise_not([1]).tolist() == [-2]
    assert rigel.bitwise_left_shift([1], 3).tolist() == [8] and rigel.bitwise_right_shift([8], 3).tolist() == [1]
    assert rigel.logical_and([1, 0], [2, 2]).tolist() == [True, False]
    for number in [2, 0, True, 0.5, float("nan"), 1j]:
        for name in ["logical_and", "logical_or", "logical_xor"]:
            for values in [[1, 0], [True, False], [0.0, 2.5]]:
                ours, theirs = getattr(rigel, name), getattr(np, name)
                check(ours(rigel.array(values), number), theirs(values, number))
                check(ours(number, rigel.array(values)), theirs(number, values))
    assert rigel.logical_or([0.5, 0], [0, 0]).tolist() == rigel.logical_xor([1, 0], [0, 0]).tolist() == [True, False]


def test_fill_bytes_and_new_axes(device):
    a = rigel.zeros((2, 3), dtype="int32", device=device)
    a[:, 1:].fill(5)
    expected = np.array([[0, 5, 5]] * 2, dtype="int32")
    assert a.tobytes() == expected.tobytes() and a.T.tobytes() == expected.T.tobytes()
    assert a.expand_dims(-1).shape == (2, 3, 1) and a.expand_dims(0).shape == (1, 2, 3)
    check(rigel.logical_not(a > 0), np.logical_not(expected > 0))
    with pytest.raises(IndexError):
        a.expand_dims(4)


def test_likes(device):
    a = rigel.array([[1, 2, 3]], dtype="int32", device=device)
    for made, value in [(rigel.zeros_like(a), 0), (rigel.ones_like(a), 1), (rigel.full_like(a, 7), 7)]:
        assert made.tolist() == [[value] * 3] and made.dtype == "int32" and made.device == a.device
    assert rigel.empty_like(a).shape == (1, 3)
    assert rigel.zeros_like(a, dtype="goldilocks").dtype == "goldilocks"
    assert rigel.ones_like(np.zeros((2, 2))).dtype == "float64"
    assert rigel.full_like(a, 2.7).tolist() == [[2] * 3]


def test_what_numpy_refuses_is_refused(device):
    a = rigel.array([[1, 2], [3, 4]], device=device)
    for axes in [(0, 0), (0, -2)]:
        with pytest.raises(ValueError, match="twice"):
            rigel.flip(a, axes)
    for empty, axis in [((0, 0), 1), ((3, 0), 1), ((0,), 0)]:
        with pytest.raises(ValueError, match="no elements"):
            rigel.argmax(rigel.zeros(empty, device=device), axis=axis)
    for value in [float("nan"), float("inf")]:
        with pytest.raises(ValueError, match="no integer"):
            a[a > 1] = value
        with pytest.raises(ValueError, match="no integer"):
            a[0] = value
    assert a.tolist() == [[1, 2], [3, 4]]


def test_shifts_beyond_the_largest_integer(device):
    x = np.arange(5)
    largest = 2**63 - 1
    check(rigel.roll(rigel.array(x, device=device), (largest, largest)), np.roll(x, 2 * largest % 5))
    check(rigel.roll(rigel.array(x, device=device), -largest), np.roll(x, -largest % 5))
