"""Zero-copy exchange with NumPy, PyTorch and CuPy."""

import gc
import weakref

import numpy as np
import pytest

import rigel
from conftest import needs_cuda
from test_arrays import NARROW


def address(array):
    return array.__array_interface__["data"][0]


def test_numpys_memory_is_used():
    theirs = np.arange(12.0).reshape(3, 4)
    ours = rigel.asarray(theirs)
    assert address(ours) == address(theirs)
    ours[0] = 7
    assert (theirs[0] == 7).all()
    part = theirs[::-1, 1::2]
    np.testing.assert_array_equal(rigel.asarray(part).numpy(), part)
    assert address(rigel.asarray(part)) == address(part)


def test_our_memory_is_used_by_numpy():
    ours = rigel.arange(6, dtype="float64").reshape(2, 3)
    for theirs in [np.asarray(ours), ours.numpy(), np.from_dlpack(ours), np.asarray(ours.T).T]:
        assert address(theirs) == address(ours)
        theirs[0, 0] += 1
    assert ours[0, 0].item() == 4
    copied = np.array(ours)
    assert address(copied) != address(ours)


def test_array_copies():
    theirs = np.zeros(3)
    ours = rigel.array(theirs)
    ours += 1
    assert (theirs == 0).all()
    again = rigel.array(ours)
    again += 1
    assert ours.tolist() == [1, 1, 1]
    assert rigel.asarray(ours) is ours


def test_memory_lives_as_long_as_it_is_used():
    theirs = np.arange(1000.0)
    gone = weakref.ref(theirs)
    ours = rigel.asarray(theirs)[10:]
    del theirs
    gc.collect()
    assert gone() is not None and ours[0].item() == 10
    del ours
    gc.collect()
    rigel.zeros(1)  # references dropped without Python's lock are released at the next call
    assert gone() is None
    view = np.asarray(rigel.arange(1000))
    gc.collect()
    assert view[999] == 999
    view = np.from_dlpack(rigel.arange(1000))
    gc.collect()
    assert view[999] == 999


@pytest.mark.parametrize("dtype", [">f8", ">i4", ">f2", ">c8"])
def test_other_byte_orders_are_converted(dtype):
    theirs = np.arange(5).astype(dtype)
    ours = rigel.asarray(theirs)
    assert ours.dtype == theirs.dtype.newbyteorder("=")
    np.testing.assert_array_equal(ours.numpy(), theirs)


@pytest.mark.parametrize("dtype", NARROW)
def test_memory_of_narrow_types_is_shared(dtype):
    theirs = np.arange(6).astype(dtype).reshape(2, 3)[:, ::-1]
    for ours in [rigel.asarray(theirs), rigel.from_dlpack(theirs)]:
        assert ours.dtype == dtype and address(ours) == address(theirs)
        for back in [np.asarray(ours), ours.numpy(), np.from_dlpack(ours)]:
            assert back.dtype == theirs.dtype and address(back) == address(theirs)
            np.testing.assert_array_equal(back, theirs)


def test_memory_that_must_be_copied():
    locked = np.arange(4.0)
    locked.flags.writeable = False
    ours = rigel.asarray(locked)
    ours += 1
    assert (locked == np.arange(4.0)).all()
    raw = np.zeros(33, dtype="uint8")
    crooked = raw[1:].view("float64")
    crooked[:] = [1, 2, 3, 4]
    assert rigel.asarray(crooked).tolist() == [1, 2, 3, 4]
    records = np.zeros(3, dtype=[("a", "u1"), ("b", "f8")])
    records["b"] = [5, 6, 7]
    assert rigel.asarray(records["b"]).tolist() == [5, 6, 7]
    assert rigel.asarray(np.zeros((0, 3))).shape == (0, 3)
    with pytest.raises(TypeError, match="counterpart"):
        rigel.asarray(np.array(["a"]))


def test_dtype_and_copy_of_array_protocol():
    ours = rigel.arange(3)
    assert np.asarray(ours, dtype="float32").dtype == np.float32
    assert address(np.array(ours, copy=True)) != address(ours)


def test_dlpack_of_numpy():
    theirs = np.arange(6, dtype="complex128").reshape(2, 3)[:, ::-1]
    ours = rigel.from_dlpack(theirs)
    np.testing.assert_array_equal(ours.numpy(), theirs)
    ours[0, 0] = 99
    assert theirs[0, 0] == 99
    assert ours.__dlpack_device__() == (1, 0)
    for version in [None, (1, 0), (0, 8)]:
        capsule = ours.__dlpack__(max_version=version)
        assert ("versioned" in repr(capsule)) == (version == (1, 0))
        del capsule  # an unused capsule frees its tensor


def test_fields_are_handed_out_as_copies():
    GF = rigel.field("koalabear")
    a = GF([1, 2, -1])
    assert np.asarray(a).tolist() == [1, 2, 2**31 - 2**24]
    assert np.asarray(a).dtype == np.uint32 and np.asarray(rigel.field("goldilocks")([1])).dtype == np.uint64
    assert np.asarray(rigel.field("koalabear4")([[1, 2, 3, 4]])).tolist() == [[1, 2, 3, 4]]
    assert not hasattr(a, "__array_interface__")
    with pytest.raises(TypeError, match="astype"):
        a.__dlpack__()


def test_devices_arrays_are_not_numpys():
    try:
        a = rigel.zeros(3, device="emulated")
    except rigel.DeviceError:
        pytest.skip("no C++ compiler for the emulated device")
    with pytest.raises(TypeError, match=r"\.cpu\(\)"):
        np.asarray(a)
    assert not hasattr(a, "__array_interface__") and not hasattr(a, "__cuda_array_interface__")
    with pytest.raises(BufferError):
        a.__dlpack__()
    assert a.cpu().numpy().tolist() == a.numpy().tolist() == [0, 0, 0]


def test_torch_on_the_cpu():
    torch = pytest.importorskip("torch")
    theirs = torch.arange(6.0).reshape(2, 3)
    ours = rigel.asarray(theirs)
    ours += 1
    assert theirs[0, 0] == 1
    back = torch.from_dlpack(ours)
    back += 1
    assert ours[0, 0].item() == 2
    assert back.data_ptr() == theirs.data_ptr()


@needs_cuda
def test_torch_on_a_gpu():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch sees no GPU")
    theirs = torch.arange(1 << 20, device="cuda", dtype=torch.float32)
    ours = rigel.asarray(theirs)
    assert ours.device == "cuda:0"
    ours += 1
    rigel.synchronize("cuda:0")
    assert theirs.data_ptr() == ours.__cuda_array_interface__["data"][0]
    assert theirs[-1].item() == 1 << 20
    made = torch.from_dlpack(rigel.full(1 << 20, 3.0, device="cuda:0"))
    assert (made * 2).sum().item() == 6 << 20


def gpu_address(array):
    return array.__cuda_array_interface__["data"][0]


@needs_cuda
@pytest.mark.parametrize("own_stream", [False, True], ids=["default stream", "own stream"])
def test_memory_that_torch_still_reads_is_not_overwritten_by_another_stream(own_stream):
    """An upload takes the memory of an array that torch has let go of while its kernels are still to read it.

    Uploads have a stream of their own, which does not wait for torch's unless the memory says that it is in use.
    """
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch sees no GPU")
    # The pool maps blocks of this size one by one, without further memory for later ones.
    size = 1 << 30
    if rigel.memory("cuda:0")["free"] < 8 * size:
        pytest.skip("needs 8 GiB of free device memory")
    zeros = rigel.zeros(size, dtype="uint8", device="cpu")
    zeros.send("cuda:0").wait()  # the first upload pins memory, which takes longer than the kernels below
    stream = torch.cuda.Stream() if own_stream else torch.cuda.current_stream()

    # Everything free that is large enough is taken, until a block has to be mapped. That one is lent: when it is free
    # again, it is the only one that fits.
    taken = []
    misses = rigel.memory("cuda:0")["misses"]
    while rigel.memory("cuda:0")["misses"] == misses:
        taken.append(rigel.full(size, 3, dtype="uint8", device="cuda:0"))
        gpu_address(taken[-1])
    lent = taken.pop()
    address_lent = gpu_address(lent)
    with torch.cuda.stream(stream):
        theirs = torch.from_dlpack(lent)
        del lent
        assert theirs.sum().item() == 3 * size  # loads the kernel, which may wait for kernels that run
        torch.cuda._sleep(1 << 30)  # half a second
        total = theirs.sum()
        del theirs
    uploaded = zeros.send("cuda:0").wait()
    assert gpu_address(uploaded) == address_lent, "the upload took other memory, so nothing was tested"
    assert total.item() == 3 * size
    assert uploaded.sum().item() == 0


@needs_cuda
def test_cupy():
    cupy = pytest.importorskip("cupy")
    theirs = cupy.arange(1 << 16, dtype="float64")
    for ours in [rigel.asarray(theirs), rigel.from_dlpack(theirs)]:
        ours += 1
        rigel.synchronize("cuda:0")
    assert theirs[0].item() == 2
    ours = rigel.arange(1000, device="cuda:0")
    for shared in [cupy.asarray(ours), cupy.from_dlpack(ours)]:
        assert shared.data.ptr == ours.__cuda_array_interface__["data"][0]
        assert int(shared.sum()) == 499500
    assert (rigel.asarray(cupy.ones(3)) * 2).tolist() == [2, 2, 2]


def test_memory_that_comes_twice_is_one_memory():
    theirs = np.arange(1 << 17, dtype=float)
    expected = theirs[::-1].copy()
    ours = rigel.asarray(theirs)
    ours[:] = theirs[::-1]
    np.testing.assert_array_equal(theirs, expected)
    square = rigel.asarray(np.arange(300.0 * 300).reshape(300, 300))
    expected = square.numpy().copy() + square.numpy().T
    square += square.numpy().T
    np.testing.assert_array_equal(square.numpy(), expected)


def test_broadcasts_are_read_only():
    wide = rigel.zeros((1,)).broadcast_to((5,))
    assert not np.asarray(wide).flags.writeable
    with pytest.raises(ValueError, match="share elements"):
        wide += 1


def test_numpys_functions_take_numbers_and_refuse_fields():
    a = rigel.array([[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_allclose(np.linalg.inv(a), np.linalg.inv(a.numpy()))
    assert np.sum(a) == 10 and np.concatenate([a, a]).shape == (4, 2)
    field = rigel.field("goldilocks")([[1, 2], [3, 4]])
    with pytest.raises(TypeError, match="would compute with integers"):
        np.linalg.eigvals(field)
    with pytest.raises(TypeError, match="would compute with integers"):
        np.block([[field, field]])
    assert np.asarray(field).tolist() == [[1, 2], [3, 4]]


def test_booleans_of_other_bytes_are_true():
    theirs = np.array([2, 0, 255, 1], np.uint8).view(bool)
    ours = rigel.asarray(theirs)
    assert (ours == rigel.ones(4, dtype=bool)).tolist() == [True, False, True, True]
