"""The type stubs match the module."""

import ast
import inspect
import pathlib
import re

import rigel
from rigel import _rigel

STUB = pathlib.Path(rigel.__file__).with_name("_rigel.pyi")


def names(body):
    found = set()
    for entry in body:
        if isinstance(entry, (ast.FunctionDef, ast.ClassDef)):
            found.add(entry.name)
        elif isinstance(entry, ast.AnnAssign) and "TypeAlias" not in ast.dump(entry.annotation):
            found.add(entry.target.id)
    return found


def is_public(name):
    return not name.startswith("_")


def test_every_name_is_typed():
    tree = ast.parse(STUB.read_text())
    there = set(filter(is_public, vars(_rigel))) - {"Rows"}
    typed = set(filter(is_public, names(tree.body)))
    assert there == typed
    for entry in tree.body:
        is_class = isinstance(entry, ast.ClassDef) and is_public(entry.name)
        if is_class and not issubclass(getattr(_rigel, entry.name), Exception):
            members = set(filter(is_public, vars(getattr(_rigel, entry.name))))
            assert members == set(filter(is_public, names(entry.body))), entry.name


def test_every_name_has_a_test_and_a_docstring():
    """Each public name of the stubs occurs as a word in a test, exists, and is documented."""
    words = set()
    for path in pathlib.Path(__file__).parent.glob("test_*.py"):
        words.update(re.findall(r"[A-Za-z_]\w*", path.read_text()))
    missing = []
    for entry in ast.parse(STUB.read_text()).body:
        for name in filter(is_public, names([entry])):
            thing = getattr(_rigel, name)
            missing += [name] if name not in words or not inspect.getdoc(thing) else []
            if isinstance(entry, ast.ClassDef) and isinstance(thing, type):
                for member in filter(is_public, names(entry.body)):
                    documented = inspect.getdoc(getattr(thing, member))
                    missing += [f"{name}.{member}"] if member not in words or not documented else []
    assert not missing


def test_everything_public_is_reachable():
    assert all(hasattr(rigel, name) for name in rigel.__all__)
    missing = {name for name in vars(_rigel) if is_public(name)} - set(rigel.__all__) - {"Proof"}
    assert not missing
    assert all(inspect.getdoc(getattr(rigel, name)) for name in rigel.__all__)
