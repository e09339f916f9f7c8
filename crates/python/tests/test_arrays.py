"""Creation, indexing and reading of arrays."""

import copy
import pickle

import numpy as np
import pytest

import rigel

# Types that are stored, and computed with in a wider one.
NARROW = ["int8", "int16", "uint8", "uint16", "float16", "complex64"]
TYPES = ["bool", "int32", "int64", "uint32", "uint64", "float32", "float64", "complex128"] + NARROW


def sample(rng, dtype, shape):
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.startswith("complex"):
        return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)
    if dtype.startswith("float"):
        return rng.normal(size=shape).astype(dtype)
    limits = np.iinfo(dtype)
    return rng.integers(max(limits.min, -1000), min(limits.max, 1000), shape).astype(dtype)


@pytest.mark.parametrize("dtype", TYPES)
def test_round_trip_through_each_device(rng, device, dtype):
    for shape in [(), (1,), (0, 3), (7, 5)]:
        theirs = sample(rng, dtype, shape)
        theirs = np.asarray(theirs, dtype=dtype)
        ours = rigel.array(theirs, device=device)
        assert ours.shape == shape and ours.dtype == dtype and ours.dtype == theirs.dtype
        assert ours.device.startswith(device)
        np.testing.assert_array_equal(ours.numpy(), theirs)
        assert ours.tolist() == theirs.tolist()


@pytest.mark.parametrize("dtype", ["float32"] + NARROW)
def test_attributes_are_numpys(dtype):
    theirs = np.arange(24, dtype=dtype).reshape(2, 3, 4)
    ours = rigel.array(theirs)
    for name in ["shape", "ndim", "size", "nbytes", "itemsize", "strides"]:
        assert getattr(ours, name) == getattr(theirs, name)
    assert ours.T.strides == theirs.T.strides
    assert len(ours) == 2
    assert ours.dtype is getattr(rigel, dtype) and ours.dtype.kind == theirs.dtype.kind


@pytest.mark.parametrize(
    "nested, dtype",
    [
        ([1, 2, 3], "int64"),
        ([[1, 2.5], [True, 4]], "float64"),
        ([True, False], "bool"),
        ([1, 2j], "complex128"),
        ([2**63], "uint64"),
        ([], "float64"),
        ([[], []], "float64"),
        (3, "int64"),
        (2.5, "float64"),
        (((1, 2), (3, 4)), "int64"),
        ([np.float32(1.5), np.int16(2)], "float64"),
    ],
)
def test_nested_lists(nested, dtype):
    ours = rigel.array(nested)
    theirs = np.array(nested)
    assert ours.dtype == dtype
    assert ours.shape == theirs.shape
    assert ours.tolist() == theirs.tolist()


@pytest.mark.parametrize(
    "ragged, place",
    [([[1, 2], [3]], "[1]"), ([[1, 2], 3], "[1]"), ([1, [2]], "[1]"), ([[[1], [2]], [[3], [4, 5]]], "[1][1]")],
)
def test_ragged_lists_name_the_place(ragged, place):
    with pytest.raises(ValueError, match="ragged") as error:
        rigel.array(ragged)
    assert place in str(error.value)


def test_objects_that_are_not_numbers_raise():
    with pytest.raises(TypeError, match=r"\[1\].*str"):
        rigel.array([1, "2"])
    with pytest.raises(TypeError):
        rigel.array(object())
    itself = []
    itself.append(itself)
    with pytest.raises(ValueError, match="64"):
        rigel.array(itself)
    with pytest.raises(TypeError, match="float128"):
        rigel.zeros(3, dtype="float128")
    for value, dtype in [(2**31, "int32"), (128, "int8"), (-1, "uint8"), (2**15, "int16"), (2**16, "uint16")]:
        with pytest.raises(OverflowError):
            rigel.array([value], dtype=dtype)


INDICES = [
    0,
    -1,
    slice(None),
    slice(None, None, -1),
    slice(1, 100, 2),
    slice(-2, None),
    ...,
    None,
    (0, 1),
    (slice(None), 2),
    (..., 0),
    (slice(None, None, -2), None, slice(3, 0, -1)),
    (1, ..., -1),
    (slice(3, 1),),
]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_indexing(index):
    theirs = np.arange(60).reshape(3, 4, 5)
    ours = rigel.array(theirs)
    np.testing.assert_array_equal(ours[index].numpy(), theirs[index])
    theirs, ours = theirs.copy(), ours.copy()
    theirs[index] = 7
    ours[index] = 7
    np.testing.assert_array_equal(ours.numpy(), theirs)


def test_indexing_on_devices(device):
    theirs = np.arange(60.0).reshape(3, 4, 5)
    ours = rigel.array(theirs, device=device)
    np.testing.assert_array_equal(ours[1:, ::-2, 2].numpy(), theirs[1:, ::-2, 2])
    ours[:, 1] = ours[:, 2] * 2
    theirs[:, 1] = theirs[:, 2] * 2
    ours[0] = [[1.0] * 5] * 4
    theirs[0] = 1
    np.testing.assert_array_equal(ours.numpy(), theirs)


def test_bad_indices():
    a = rigel.arange(6).reshape(2, 3)
    with pytest.raises(IndexError):
        a[2]
    with pytest.raises(IndexError):
        a[0, 0, 0]
    for index in [True, 1.0, "a"]:
        with pytest.raises(TypeError, match="integers, slices"):
            a[index]


def test_views_share_memory():
    a = rigel.zeros((2, 3))
    a.T[0] = 1
    a.reshape(6)[5] = 2
    assert a.tolist() == [[1, 0, 0], [1, 0, 2]]
    assert a.ravel().shape == (6,) and a.flatten().shape == (6,)
    flat = a.flatten()
    flat[0] = 9
    assert a[0, 0].item() == 1


def test_shapes():
    theirs = np.arange(24).reshape(2, 1, 3, 4)
    ours = rigel.array(theirs)
    np.testing.assert_array_equal(ours.transpose(3, 0, 1, 2).numpy(), theirs.transpose(3, 0, 1, 2))
    np.testing.assert_array_equal(ours.transpose((1, 0, 3, 2)).numpy(), theirs.transpose(1, 0, 3, 2))
    np.testing.assert_array_equal(ours.swapaxes(0, -1).numpy(), theirs.swapaxes(0, -1))
    assert ours.squeeze().shape == theirs.squeeze().shape == ours.squeeze(1).shape
    assert ours.reshape((4, -1)).shape == (4, 6)
    with pytest.raises(ValueError):
        ours.squeeze(0)
    with pytest.raises(ValueError):
        ours.reshape(5, -1)


def test_one_element():
    assert rigel.array([2.5]).item() == 2.5 and float(rigel.array(2.5)) == 2.5
    assert int(rigel.array(7)) == 7 and complex(rigel.array(1j)) == 1j and bool(rigel.array([True]))
    assert [10, 20, 30][rigel.array(1)] == 20
    assert rigel.arange(6).reshape(2, 3).item(1, 2) == 5
    with pytest.raises(ValueError):
        bool(rigel.arange(2))
    with pytest.raises(ValueError):
        rigel.arange(2).item()
    with pytest.raises(TypeError):
        [1, 2][rigel.array(1.0)]


def test_iteration():
    rows = list(rigel.arange(6).reshape(2, 3))
    assert [row.tolist() for row in rows] == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(TypeError):
        iter(rigel.array(1))
    assert len(rigel.zeros((0, 3))) == 0


def test_repr_is_numpys():
    small = [np.array([0.1, -2, 3.14159], dtype) for dtype in ["float16", "float32", "complex64", "int8"]]
    smaller = [np.array([1e-5, 6.1e-5], dtype) for dtype in ["float16", "float32"]]
    others = [np.arange(5), np.array([[1.5, 2.0], [3.0, 1e10]]), np.array([True, False]), np.arange(2000.0)]
    for theirs in others + small + smaller:
        assert repr(rigel.array(theirs)).replace("\n", "").replace(" ", "") == repr(theirs).split(", shape")[0].rstrip(
            ")"
        ).replace("\n", "").replace(" ", "") + ")"


def test_pickle_and_copy(device):
    a = rigel.array([[1.5, 2], [3, 4]], device=device)
    for other in [pickle.loads(pickle.dumps(a)), copy.copy(a), copy.deepcopy(a), a.copy()]:
        assert other.device == a.device and other.tolist() == a.tolist()
        other[0] = 0
    assert a.tolist() == [[1.5, 2], [3, 4]]
    f = rigel.field("koalabear")([5, 6])
    assert (pickle.loads(pickle.dumps(f)) == f).tolist() == [True, True]
    assert pickle.loads(pickle.dumps(rigel.float32)) is rigel.float32
    assert pickle.loads(pickle.dumps(rigel.field("qm31"))) is rigel.field("qm31")


def test_creation(device):
    np.testing.assert_array_equal(rigel.arange(3, 20, 4, device=device).numpy(), np.arange(3, 20, 4))
    np.testing.assert_allclose(rigel.arange(0, 1, 0.1, device=device).numpy(), np.arange(0, 1, 0.1))
    np.testing.assert_allclose(rigel.linspace(-1, 1, 7, device=device).numpy(), np.linspace(-1, 1, 7))
    np.testing.assert_array_equal(rigel.eye(3, device=device).numpy(), np.eye(3))
    np.testing.assert_array_equal(rigel.full((2, 2), 7, device=device).numpy(), np.full((2, 2), 7))
    np.testing.assert_array_equal(rigel.ones(4, dtype="int32", device=device).numpy(), np.ones(4, dtype="int32"))
    assert rigel.empty((3, 4), dtype=float, device=device).shape == (3, 4)
    one, same, other = (rigel.random(100, seed=seed, device=device).numpy() for seed in [1, 1, 2])
    np.testing.assert_array_equal(one, same)
    np.testing.assert_array_equal(one, rigel.random(100, seed=1).numpy())
    assert (one != other).any() and 0 <= one.min() and one.max() < 1


def test_dtypes():
    assert rigel.float64 == np.float64 == rigel.float64 and rigel.float64 == np.dtype("float64") and rigel.int64 == int
    assert np.dtype("int32") == rigel.int32 and rigel.int32 != "int64"
    assert rigel.zeros(1, dtype=np.uint32).dtype is rigel.uint32
    assert rigel.zeros(1, dtype=np.dtype("complex128")).dtype is rigel.complex128
    assert rigel.zeros(1, dtype=bool).dtype is rigel.bool_
    assert {rigel.float32: 1}["float32"] == 1
    assert str(rigel.babybear4) == "babybear4" and rigel.DType("BabyBear-4") is rigel.babybear4
    assert [rigel.DType(name).kind for name in ["bool", "int32", "uint64", "float32", "complex128"]] == list("biufc")


def test_joining(device):
    theirs = [np.arange(6.0).reshape(2, 3), np.ones((2, 3))]
    ours = [rigel.array(a, device=device) for a in theirs]
    np.testing.assert_array_equal(rigel.concatenate(ours, axis=1).numpy(), np.concatenate(theirs, axis=1))
    np.testing.assert_array_equal(rigel.stack(ours, axis=-1).numpy(), np.stack(theirs, axis=-1))
    with pytest.raises(ValueError):
        rigel.concatenate([ours[0], rigel.zeros(3, device=device)])


def test_astype(rng):
    floats = rng.normal(size=50) * 100
    for dtype in ["int32", "int64", "float32", "complex128"]:
        np.testing.assert_array_equal(rigel.array(floats).astype(dtype).numpy(), floats.astype(dtype))
    same = rigel.array([1.0])
    converted = same.astype("float64")
    converted[0] = 2
    assert same[0].item() == 1


def test_any_all_in_and_format():
    a = rigel.array([[0, 1], [2, 0]])
    assert bool(a.any()) and not bool(a.all())
    np.testing.assert_array_equal(a.any(axis=0).numpy(), [True, True])
    np.testing.assert_array_equal(a.all(axis=1, keepdims=True).numpy(), [[False], [False]])
    assert not bool(rigel.zeros((0,)).any()) and bool(rigel.zeros((0,)).all())
    assert 2 in a and 3 not in a
    assert f"{a.mean():.2f}" == "0.75" and f"{a}" == str(a)
    with pytest.raises(TypeError):
        f"{a:.2f}"


def test_str_is_numpys():
    for values in [np.arange(0, 1, 0.1), np.float32([2 / 3, 0.1, 12.5]), np.array([True, True]), np.array([1e-5, 1.5])]:
        assert str(rigel.array(values)).replace(",", "") == str(values)


def test_devices_that_do_not_exist_are_named():
    with pytest.raises(rigel.DeviceError, match="write cpu, cuda:N"):
        rigel.zeros(3, device="gpu")
