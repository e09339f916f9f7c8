"""The examples in the documentation, and those in examples/."""

import doctest
import inspect
import pathlib
import subprocess
import sys

import pytest

import rigel
import rigel._doctor
import rigel._fuse
from conftest import DEVICES

EXAMPLES = pathlib.Path(__file__).parent.parent / "examples"


def documented():
    """Each public object with its documentation, by name."""
    modules = [rigel.cairo, rigel.merkle, rigel.proofs, rigel.risc0]
    found = {"rigel": rigel, **{module.__name__: module for module in modules}}
    for name in rigel.__all__:
        value = getattr(rigel, name)
        if inspect.isclass(value):
            for member, entry in vars(value).items():
                if not member.startswith("_") and getattr(entry, "__doc__", None):
                    found[f"rigel.{name}.{member}"] = entry
        if inspect.isclass(value) or inspect.isroutine(value):
            found[f"rigel.{name}"] = value
    for module in modules:
        for name in module.__all__:
            found[f"{module.__name__}.{name}"] = getattr(module, name)
    return found


@pytest.mark.parametrize("name", documented())
def test_documentation(name):
    text = inspect.getdoc(documented()[name])
    assert text, f"{name} is not documented"
    example = doctest.DocTestParser().get_doctest(text, {}, name, None, 0)
    said = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    runner.run(example, out=said.append)
    assert runner.failures == 0, "".join(said)


@pytest.mark.parametrize("device", [name for name in DEVICES if name != "emulated"])
@pytest.mark.parametrize("example", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_example(example, device):
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / example), "--device", device], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
