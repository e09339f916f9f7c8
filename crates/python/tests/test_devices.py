"""Devices, their memory, copies between them, and missing devices."""

import pytest

import rigel


def test_devices():
    found = rigel.devices()
    assert found[0].name == "cpu" and found[0].memory > 0 and found[0].capability is None
    assert all(device.name.startswith(device.kind) for device in found) and "cpu" in repr(found[0])
    assert all(isinstance(device, rigel.DeviceInfo) and device.title for device in found)


def test_doctor():
    report = rigel.doctor()
    assert report["version"] == rigel.__version__ and isinstance(report["driver"]["ok"], bool)
    assert "NVRTC" in str(report) and "cuBLAS" in str(report)


def test_moves(device):
    a = rigel.arange(1000)
    there = a.to(device)
    assert there.device.startswith(device) and there.cpu().device == "cpu"
    assert there.T[::-1].cpu().tolist() == list(range(999, -1, -1))
    pending = a.send(device)
    assert isinstance(pending, rigel.Pending)
    arrived = pending.wait()
    assert pending.ready and arrived.sum().item() == 499500 and pending.wait().size == 1000
    assert arrived.send("cpu").wait().tolist() == a.tolist()
    rigel.synchronize(device)


def test_memory_limit(device):
    if device == "cpu":
        with pytest.raises(ValueError):
            rigel.memory("cpu")
        with pytest.raises(MemoryError):
            rigel.zeros(1 << 55)
        return
    before = rigel.memory(device)
    a = rigel.zeros(1 << 16, device=device)
    assert rigel.memory(device)["in_use"] >= before["in_use"] + a.nbytes
    rigel.set_memory_limit(rigel.memory(device)["in_use"] + (1 << 20), device)
    try:
        with pytest.raises(MemoryError, match="limit"):
            rigel.zeros(1 << 24, device=device)
    finally:
        rigel.set_memory_limit(None, device)
    assert rigel.memory(device)["limit"] is None
    assert rigel.zeros(1 << 18, device=device).size == 1 << 18


def test_devices_that_are_not_there():
    with pytest.raises(rigel.DeviceError):
        rigel.zeros(1, device="cuda:77")
    with pytest.raises(rigel.DeviceError, match="nowhere"):
        rigel.zeros(1, device="nowhere")
    with pytest.raises(TypeError):
        rigel.zeros(1, device=3)
    assert issubclass(rigel.DeviceError, RuntimeError) and issubclass(rigel.CompileError, RuntimeError)
