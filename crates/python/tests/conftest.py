"""The test devices: `RIGEL_TEST_DEVICES`, or by default the CPU, the emulated device and, if there is one, the
first GPU. After a run of all tests, every function of the stubs must have been called.

`scripts/python` runs the tests of each device in a process of its own: `RIGEL_TEST_PART` is the device, the first of
which also takes the tests that name none, and `RIGEL_TEST_UNCALLED` the file that gets the functions that the part has
not called."""

import ast
import os
import pathlib
import sys

import numpy as np
import pytest

import rigel
from rigel import _rigel


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


#: The functions and methods of the native module that tests have called, as they are found in its namespaces.
CALLED = set()


def _note(_, event, function):
    if event != "c_call":
        return
    owner = getattr(function, "__self__", None)
    if owner is _rigel:
        CALLED.add(function)
    elif type(owner).__module__.partition(".")[0] == "rigel":
        CALLED.add(getattr(type(owner), function.__name__, None))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    sys.setprofile(_note)
    try:
        return (yield)
    finally:
        sys.setprofile(None)


def uncalled(stub, called):
    """The public functions and methods of the stub that are not among those called. Properties are not calls, and
    need a test only by name (`test_types.py`); aliases are one function."""
    missing = []
    for entry in ast.parse(stub).body:
        if getattr(entry, "name", "").startswith("_"):
            continue  # Types that only the stub has, and what the package calls itself.
        if isinstance(entry, ast.FunctionDef):
            missing += [entry.name] if getattr(_rigel, entry.name) not in called else []
        elif isinstance(entry, ast.ClassDef):
            owner = getattr(_rigel, entry.name)
            methods = {m.name for m in entry.body if isinstance(m, ast.FunctionDef) and not m.decorator_list}
            missing += sorted(f"{entry.name}.{name}" for name in methods if getattr(owner, name) not in called)
    return [name for name in missing if not name.rpartition(".")[2].startswith("_")]


def _part_of(item):
    """The device whose part of the tests this one is in."""
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    return parameters.get("device", DEVICES[0])


def pytest_collection_modifyitems(config, items):
    part = os.environ.get("RIGEL_TEST_PART")
    if part:
        here = [item for item in items if _part_of(item) == part]
        config.hook.pytest_deselected(items=[item for item in items if item not in here])
        items[:] = here


def pytest_sessionfinish(session):
    part = os.environ.get("RIGEL_TEST_UNCALLED")
    if part:
        missing = uncalled(_STUB.read_text(), CALLED)
        # Overloads are one function.
        pathlib.Path(part).write_text("".join(f"{name}\n" for name in sorted(set(missing))))
        return
    files = {item.path for item in session.items}
    here = pathlib.Path(__file__).parent
    # Those of clusters call nothing of the native module that others do not, and some need packages of their own.
    others = set(here.glob("test_*.py")) - set(here.glob("test_cluster*.py"))
    whole = others <= files and not session.config.option.keyword
    if not whole:
        print(f"\nnot all tests were run: whether they call all of {_STUB.name} was not checked", file=sys.stderr)
    if whole and session.exitstatus == 0 and (missing := uncalled(_STUB.read_text(), CALLED)):
        print(f"\nno test calls these functions of {_STUB.name}: {', '.join(missing)}", file=sys.stderr)
        session.exitstatus = 1


_STUB = pathlib.Path(rigel.__file__).with_name("_rigel.pyi")
