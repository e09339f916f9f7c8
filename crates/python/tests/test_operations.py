"""Every operation against NumPy, on every device."""

import operator

import numpy as np
import pytest

import rigel
from test_arrays import NARROW, TYPES, sample

UNARY = {
    "neg": np.negative, "abs": np.abs, "exp": np.exp, "log": np.log, "sqrt": np.sqrt, "sin": np.sin, "cos": np.cos,
    "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh,
    "tanh": np.tanh, "floor": np.floor, "ceil": np.ceil, "conj": np.conj, "real": np.real, "imag": np.imag,
    "isnan": np.isnan, "isfinite": np.isfinite,
}  # fmt: skip
BINARY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "pow": np.power,
    "floor_div": np.floor_divide, "remainder": np.remainder, "minimum": np.minimum, "maximum": np.maximum,
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip


def close(ours, theirs, tolerance=1e-12):
    ours = ours.numpy()
    assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
    tolerance = {"float16": 1e-3, "float32": 2e-6, "complex64": 4e-6}.get(str(theirs.dtype), tolerance)
    np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128", "int64"] + NARROW)
@pytest.mark.parametrize("name", UNARY)
def test_unary(rng, name, dtype):
    kind = np.dtype(dtype).kind
    if kind == "c" and name in ("floor", "ceil"):
        with pytest.raises(TypeError):
            getattr(rigel, name)(rigel.zeros(3, dtype=dtype))
        return
    x = sample(rng, dtype, 37)
    if kind not in "iu":
        x = (x * 0.3).astype(dtype)
    elif name in ("asin", "acos", "exp", "sinh", "cosh"):
        x = x % 2
    if name in ("log", "sqrt") and kind != "c":
        x = np.abs(x // 2 if kind in "iu" else x) + np.ones((), dtype)
    if name in ("asin", "acos") and kind == "f":
        x = np.clip(x, -1, 1)
    if name in ("floor", "ceil") and kind in "iu":
        return  # NumPy keeps integers, rigel converts them to floats
    close(getattr(rigel, name)(rigel.array(x)), UNARY[name](x), 1e-11)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128", "int32", "uint64"] + NARROW)
@pytest.mark.parametrize("name", BINARY)
def test_binary(rng, name, dtype):
    kind = np.dtype(dtype).kind
    ordered = ("floor_div", "remainder", "minimum", "maximum", "lt", "le", "gt", "ge")
    if kind == "c" and name in ordered:
        with pytest.raises(TypeError, match=f"not defined for {dtype}"):
            getattr(rigel, name)(rigel.zeros(3, dtype=dtype), 1)
        return
    x, y = sample(rng, dtype, (5, 7)), sample(rng, dtype, (7,))
    if name == "pow":
        y = (y % 4).astype(dtype) if kind != "c" else y * np.asarray(0.5, dtype)
        x = np.abs(x).astype(dtype) if kind == "f" else x
    if name in ("floor_div", "remainder", "div"):
        y = np.where(y == 0, 1, y).astype(dtype)
    close(getattr(rigel, name)(rigel.array(x), rigel.array(y)), BINARY[name](x, y), 1e-10)


def test_types_of_results_are_numpys():
    for a in TYPES:
        for b in TYPES:
            x, y = np.ones(1, a), np.ones(1, b)
            assert (rigel.array(x) + rigel.array(y)).dtype == (x + y).dtype, (a, b)
            assert rigel.array(x).astype(b).dtype == b


def test_halves_are_rounded_once():
    every = np.arange(2**16, dtype="uint16").view("float16")
    x, y = every[np.isfinite(every)], np.float16(0.3)
    a = rigel.array(x)
    with np.errstate(all="ignore"):
        for ours, theirs in [(a + y, x + y), (a * y, x * y), (y / a, y / x), (abs(a).sqrt(), np.sqrt(abs(x)))]:
            np.testing.assert_array_equal(ours.numpy(), theirs)
        # Between two halves, and on either side of the middle by less than a float can tell.
        middle = (x[:-1].astype(float) + x[1:]) / 2
        for wide in [middle, np.nextafter(middle, -1e9), np.nextafter(middle, 1e9), np.array([np.nan, np.inf, 7e4])]:
            np.testing.assert_array_equal(rigel.array(wide).astype("float16").numpy(), wide.astype("float16"))


def test_integers_wrap_around(device):
    for dtype in ["int8", "int16", "uint8", "uint16"]:
        limits = np.iinfo(dtype)
        x = np.array([limits.min, limits.max, limits.max - 1, 1], dtype)
        a = rigel.array(x, device=device)
        fused = rigel.lazy(a) * a + a
        np.testing.assert_array_equal(fused.eval().numpy(), x * x + x)
        assert a.sum().dtype == x.sum().dtype and a.sum().item() == x.sum()


def test_numbers_outside_a_type():
    for dtype, value in [("int8", 300), ("uint8", -1), ("uint16", 2**40), ("int32", -(2**40))]:
        x = np.array([1, 100], dtype)
        a = rigel.array(x)
        for operation in ["x + value", "value * x", "x // value"]:
            with pytest.raises(OverflowError, match=f"{value} is outside the range of {dtype}"):
                eval(operation, {"x": a, "value": value})
        with pytest.raises(OverflowError):
            a[0] = value


def test_comparisons_with_numbers_outside_a_type(rng):
    limits = [sign * (1 << bits) for bits in [7, 8, 31, 63, 64, 127, 200] for sign in [1, -1]]
    for dtype in ["int8", "uint8", "int16", "uint32", "int64", "uint64", "float32"]:
        x = sample(rng, dtype, (2, 3))
        if dtype != "float32":
            x[0, :2] = np.iinfo(dtype).min, np.iinfo(dtype).max
        a = rigel.array(x)
        for value in [-1, 300, *(limit + more for limit in limits for more in [-1, 0, 1])]:
            for compare in [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]:
                name = f"{dtype} {compare.__name__} {value}"
                with np.errstate(over="ignore"):
                    expected, reflected = compare(x, value), compare(value, x)
                assert compare(a, value).tolist() == expected.tolist(), name
                assert compare(value, a).tolist() == reflected.tolist(), f"{name}, reflected"
    a = rigel.array([0, 5], dtype="uint64")
    with pytest.raises(OverflowError, match="more than 127 bits is outside the range of uint64"):
        a + (1 << 300)
    with pytest.raises(OverflowError, match="-1 is outside the range of uint64"):
        a * -1


def test_comparisons_with_numbers_outside_a_type_on_devices(device):
    a = rigel.array([0, 5], dtype="uint64", device=device)
    assert (rigel.lazy(a) + 1 > -1).eval().tolist() == [True, True]
    assert rigel.equal(a, 1 << 300).tolist() == [False, False] and a[:0].tolist() == (a[:0] < -1).tolist()


def test_narrow_types_on_devices(rng, device):
    for dtype in NARROW:
        x, y = sample(rng, dtype, (5, 7)), sample(rng, dtype, (7,))
        a, b = rigel.array(x, device=device), rigel.array(y, device=device)
        close((rigel.lazy(a) * b - a).eval(), x * y - x)
        close(a[:, 1:].mean(axis=0), np.asarray(x[:, 1:].mean(axis=0)), 1e-10)
        np.testing.assert_array_equal(a[:, [3, -1]].numpy(), x[:, [3, -1]])
    for dtype, to in [("uint8", "float16"), ("float64", "float16"), ("float16", "complex64")]:
        x = sample(rng, dtype, (5, 7))
        np.testing.assert_array_equal(rigel.array(x, device=device).T.astype(to).numpy(), x.T.astype(to))
    for dtype in ["float16", "int8"]:
        x = sample(rng, dtype, (3, 40))
        a = rigel.array(x, device=device)
        np.testing.assert_array_equal(a.sort(axis=1).numpy(), np.sort(x, axis=1))
        close(a.cumsum(axis=1), x.astype("float32").cumsum(axis=1).astype(np.cumsum(x).dtype))
        close(a @ a.T, x @ x.T)
    with pytest.raises(TypeError, match="complex64 have no order"):
        rigel.zeros(3, dtype="complex64", device=device).sort()


def test_operators_on_devices(rng, device):
    x, y = rng.normal(size=(4, 6)), rng.normal(size=(6,)) + 3
    a, b = rigel.array(x, device=device), rigel.array(y, device=device)
    close(a + b, x + y)
    close((a - b) * 2 / b, (x - y) * 2 / y)
    close(1.5 - a, 1.5 - x)
    close(-a, -x)
    close(abs(a) ** 0.5, abs(x) ** 0.5, 1e-11)
    close(a[:, ::2].T + 1, x[:, ::2].T + 1)
    assert ((a < 0).numpy() == (x < 0)).all()
    close(rigel.where(a < 0, a, 0.0), np.where(x < 0, x, 0.0))


@pytest.mark.parametrize(
    "expression",
    [
        "x + 1", "1 + x", "x - 2.5", "2.5 - x", "x * 3", "3 * x", "x / 4", "4 / (x + 100.5)", "x // 3",
        "100 // (x + 100.5)", "x % 7", "x ** 2", "2 ** (x % 5)", "-x", "+x", "abs(x)", "x == 1", "x != 1", "x < 1",
        "1 < x", "x <= 1", "x >= 1", "x + 1j", "x * np.float64(2)", "np.float64(2) * x", "np.float32(2) + x",
        "x + np.arange(4.0)", "np.arange(4.0) - x", "x + [1, 2, 3, 4]", "(x > 0) & (x < 10)",
        "(x > 0) | (x < -10)", "(x > 0) ^ (x < 10)", "~(x > 0)",
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtype", ["int64", "float32", "int8", "float16"])
def test_operators_with_numbers(expression, dtype):
    theirs = np.array([[-3, -1, 0, 1], [2, 5, 7, 11]], dtype=dtype)
    expected = eval(expression, {"np": np, "x": theirs})
    found = eval(expression, {"np": np, "x": rigel.array(theirs)})
    assert isinstance(found, rigel.Array)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5 if dtype != "float16" else 1e-3)
    assert found.dtype == expected.dtype


def test_bits_of_integers_turn():
    x = np.array([0, 1, -5], dtype="int32")
    assert (~rigel.array(x)).tolist() == (~x).tolist()
    with pytest.raises(TypeError):
        ~rigel.zeros(2)


def test_in_place_writes_the_same_memory(device):
    a = rigel.arange(6, dtype="float64", device=device)
    view = a[::2]
    a += 1
    a *= 2
    a -= rigel.ones(6, device=device)
    a /= 2
    a **= 2
    assert view.tolist() == [(2 * (i + 1) - 1) ** 2 / 4 for i in [0, 2, 4]]
    view += 100
    assert a[0].item() == 100.25
    with pytest.raises(ValueError):
        view += rigel.zeros((2, 3), device=device)


def test_in_place_keeps_the_type():
    a = rigel.arange(3)
    a //= 2
    a %= 2
    assert a.dtype == "int64"
    with pytest.raises(TypeError, match="float64"):
        a += 0.5
    with pytest.raises(TypeError):
        a /= 2


@pytest.mark.parametrize("axis", [None, 0, 1, -1, (0, 2), (1, 2)])
@pytest.mark.parametrize("name", ["sum", "prod", "min", "max", "mean"])
@pytest.mark.parametrize("dtype", ["float64", "int32", "int8", "uint16", "float16"])
def test_reductions(rng, name, axis, dtype):
    x = sample(rng, dtype, (3, 4, 5))
    if name == "prod":
        x = (x % 1 + 0.5).astype(dtype) if dtype == "float16" else x % 3 + 1
    a = rigel.array(x)
    for keepdims in [False, True]:
        expected = np.asarray(getattr(np, name)(x, axis=axis, keepdims=keepdims))
        close(getattr(rigel, name)(a, axis=axis, keepdims=keepdims), expected, 1e-10)
        close(getattr(a, name)(axis, keepdims), expected, 1e-10)


def test_reductions_on_devices(rng, device):
    x = rng.normal(size=(33, 70))
    a = rigel.array(x, device=device)
    close(a.sum(), np.asarray(x.sum()), 1e-10)
    close(a.sum(axis=0), x.sum(axis=0), 1e-10)
    close(a.max(axis=1), x.max(axis=1))
    close(a.mean(), np.asarray(x.mean()), 1e-10)


def test_empty_reductions():
    assert rigel.zeros(0).sum().item() == 0 and rigel.zeros(0).prod().item() == 1
    with pytest.raises(ValueError, match="no elements"):
        rigel.zeros(0).max()


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128", "int64", "uint32"] + NARROW)
@pytest.mark.parametrize(
    "shapes", [((3, 4), (4, 5)), ((4,), (4, 5)), ((3, 4), (4,)), ((4,), (4,)), ((2, 3, 4), (4, 5))]
)
def test_matmul(rng, dtype, shapes):
    x, y = (sample(rng, dtype, shape) for shape in shapes)
    expected = np.asarray(x @ y)
    np.testing.assert_allclose((rigel.array(x) @ rigel.array(y)).numpy(), expected, rtol=1e-4)
    np.testing.assert_allclose(rigel.matmul(rigel.array(x), y).numpy(), expected, rtol=1e-4)


def test_matmul_on_devices(rng, device):
    x, y = rng.normal(size=(17, 33)), rng.normal(size=(9, 33))
    close(rigel.array(x, device=device) @ rigel.array(y, device=device).T, x @ y.T, 1e-10)
    assert isinstance(rigel.matmul_engine(device), str)


def test_lazy_and_fuse(rng, device):
    x, y = rng.normal(size=(20, 3)), rng.normal(size=3)
    a, b = rigel.array(x, device=device), rigel.array(y, device=device)
    expected = np.tanh(x * y + 1) - np.where(x > 0, x, 0.5) ** 2

    def formula(a, b, one):
        return rigel.tanh(a * b + one) - rigel.where(a > 0, a, 0.5) ** 2

    close(formula(rigel.lazy(a), b, 1).eval(), expected)
    close(rigel.fuse(formula)(a, b, one=1), expected)
    close(formula(rigel.lazy(a), b, 1).sum(axis=0), expected.sum(axis=0), 1e-10)
    first, (second,) = rigel.fuse(lambda a, b: (a + b, [a - b]))(a, b)
    close(first, x + y)
    close(second, x - y)
    postponed = rigel.lazy(a) + 1
    assert isinstance(postponed, rigel.Lazy) and postponed.shape == (20, 3) and postponed.dtype == "float64"
    assert "20" in repr(postponed)


def test_lazy_reports_when_evaluated():
    wrong = rigel.lazy(rigel.zeros(3)) + rigel.zeros(4)
    with pytest.raises(ValueError, match=r"\(3,\) and \(4,\)"):
        wrong.eval()


def test_incompatible_operands_raise(device):
    with pytest.raises(ValueError, match="do not fit"):
        rigel.zeros(3, device=device) + rigel.zeros(4, device=device)
    with pytest.raises(TypeError):
        rigel.zeros(3, device=device) + "a"
    with pytest.raises(ValueError):
        rigel.zeros((2, 3), device=device) @ rigel.zeros((2, 3), device=device)
    if device != "cpu":
        with pytest.raises(rigel.DeviceError, match="cpu"):
            rigel.zeros(3, device=device) + rigel.zeros(3)


def test_large_operations_on_threads(rng):
    x = rng.normal(size=200_000)
    a = rigel.array(x)
    close(a * 2 + a, x * 3)
    close(a.sum(), np.asarray(x.sum()), 1e-9)
