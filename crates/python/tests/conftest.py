"""The test devices: `RIGEL_TEST_DEVICES`, or by default the CPU, the emulated device and, if there is one, the
first GPU."""

import os

import numpy as np
import pytest

import rigel


def _devices():
    named = os.environ.get("RIGEL_TEST_DEVICES")
    if named:
        return [name.strip() for name in named.split(",")]
    found = {device.kind for device in rigel.devices()}
    return ["cpu"] + [name for kind, name in [("emulated", "emulated"), ("cuda", "cuda:0")] if kind in found]


DEVICES = _devices()


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


@pytest.fixture
def rng():
    return np.random.default_rng(20240607)


def has_cuda():
    return any(name.startswith("cuda") for name in DEVICES)


needs_cuda = pytest.mark.skipif(not has_cuda(), reason="no CUDA device")
