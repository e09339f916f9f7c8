"""The type stubs match the module."""

import ast
import inspect
import pathlib

import rigel
from conftest import uncalled
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


class Uses(ast.NodeVisitor):
    """The names of rigel that test code uses: names of the module, and attributes of other objects.

    Only expressions count: not comments, docstrings, names of tests or of arguments. Strings count for the module in a
    file that looks names up with `getattr(rigel, name)`, and for objects in one with any `getattr(x, name)`.
    """

    def __init__(self):
        self.module, self.members, self.strings = set(), set(), set()
        self.looked_up = set()

    @classmethod
    def of(cls, text):
        uses = cls()
        uses.visit(ast.parse(text))
        uses.module |= uses.strings if "rigel" in uses.looked_up else set()
        uses.members |= uses.strings if uses.looked_up else set()
        return uses

    def visit_Attribute(self, node):
        of_module = isinstance(node.value, ast.Name) and node.value.id in ("rigel", "_rigel")
        (self.module if of_module else self.members).add(node.attr)
        self.generic_visit(node)

    def visit_Call(self, node):
        if isinstance(node.func, ast.Name) and node.func.id == "getattr":
            self.looked_up.add(ast.unparse(node.args[0]))
        self.generic_visit(node)

    def visit_Expr(self, node):
        if not isinstance(node.value, ast.Constant):  # a docstring
            self.generic_visit(node)

    def visit_Constant(self, node):
        if isinstance(node.value, str):
            self.strings.add(node.value)


def unused(stub, sources):
    """The public names of a stub that no test uses."""
    uses = [Uses.of(text) for text in sources]
    module, members = (set().union(*(getattr(use, kind) for use in uses)) for kind in ["module", "members"])
    missing = []
    for entry in ast.parse(stub).body:
        for name in filter(is_public, names([entry])):
            # Classes are also reached through their objects, so their members count.
            is_class = isinstance(entry, ast.ClassDef)
            if not is_class and name not in module:
                missing.append(name)
            if is_class:
                own = set(filter(is_public, names(entry.body)))
                missing += sorted(f"{name}.{member}" for member in own - members)
                missing += [name] if not own and name not in module else []
    return missing


def test_every_name_has_a_test():
    """Each public name of the stubs is used by an expression of a test."""
    tests = [path.read_text() for path in pathlib.Path(__file__).parent.glob("test_*.py")]
    assert not unused(STUB.read_text(), tests)
    # Those of the package itself.
    own = [f"def {name}(): ..." for name in rigel.__all__ if not hasattr(_rigel, name) and name != "Doctor"]
    assert len(own) > 20 and not unused("\n".join(own), tests)


def test_uncalled_functions_are_found():
    stub = "def sum(): ...\ndef amax(): ...\nclass Array:\n    def sum(self): ...\n    def dot(self): ...\n"
    assert uncalled(stub, {_rigel.max, _rigel.Array.dot}) == ["sum", "Array.sum"]
    assert uncalled(stub, {_rigel.sum, _rigel.amax, _rigel.Array.dot, _rigel.Array.sum}) == []


def test_unused_names_are_found():
    stub = "def f(): ...\ndef g(): ...\nclass C:\n    def m(self): ...\nclass E(Exception): ...\nd: DType"
    text = '"""f"""\n# rigel.f()\ndef test_f(f, m):\n    "f"\n    g()\n    other.f()'
    assert unused(stub, [text]) == ["f", "g", "C.m", "E", "d"]
    assert unused(stub, ["rigel.f(), rigel.g(), rigel.C().m(), rigel.E, rigel.d"]) == []
    assert unused(stub, ["for name in ['f', 'g']: getattr(rigel, name)(x.m)", "_rigel.E, _rigel.d"]) == []
    assert unused(stub, ["for name in ['f', 'g']: getattr(other, name)(x.m)", "_rigel.E, _rigel.d"]) == ["f", "g"]


def test_every_name_has_a_docstring():
    missing = []
    for entry in ast.parse(STUB.read_text()).body:
        for name in filter(is_public, names([entry])):
            thing = getattr(_rigel, name)
            missing += [] if inspect.getdoc(thing) else [name]
            if isinstance(entry, ast.ClassDef) and isinstance(thing, type):
                members = filter(is_public, names(entry.body))
                missing += [f"{name}.{m}" for m in members if not inspect.getdoc(getattr(thing, m))]
    assert not missing


def test_everything_public_is_reachable():
    assert all(hasattr(rigel, name) for name in rigel.__all__)
    # In modules of their own.
    missing = {name for name in vars(_rigel) if is_public(name)} - set(rigel.__all__) - {"MerkleTree", "Proof"}
    assert not missing
    constants = {"e", "inf", "nan", "newaxis", "pi"}
    assert all(inspect.getdoc(getattr(rigel, name)) for name in set(rigel.__all__) - constants)
