"""einsum against NumPy's."""

import numpy as np
import pytest

import rigel

KNOWN = [
    "ij,jk->ik", "ij,jk", "ji", "ii", "ii->i", "ij->", "i,i", "i,j->ij", "i,j->ji", "bij,bjk->bik", "ij,ij->i",
    "ijj->ij", "iij,j->i", "ij,jk,kl->li", "i,ij,j", "ij,kj,kj->ik", "...ij,...jk->...ik", "...i->...", "...",
    "i...,i...", "...i,i", "ba,ca->bc", "Ab,bA->A", "ij,kl->ijkl", ",ij->ij", "i...j,j->...i", "a b , b c -> a c",
]  # fmt: skip
SIZES = {"i": 2, "j": 3, "k": 4, "l": 2, "b": 3, "a": 2, "c": 4, "A": 2}


def shapes(subscripts, rng):
    """A shape for each operand; some axes have length 1, which is broadcast, but never part of a diagonal."""
    found = []
    for number, term in enumerate(subscripts.replace(" ", "").split("->")[0].split(",")):
        shape = []
        letters = iter(term.replace("...", "."))
        for letter in letters:
            if letter == ".":
                shape += [5, 2][number % 2 :]
            else:
                single = term.count(letter) == 1 and rng.random() < 0.1
                shape.append(1 if single else SIZES[letter])
        found.append(tuple(shape))
    return found


def random_subscripts(rng):
    letters = list("ijkl")
    terms = ["".join(rng.choice(letters, rng.integers(1, 4))) for _ in range(rng.integers(1, 4))]
    used = sorted(set("".join(terms)))
    output = "".join(rng.permutation(used)[: rng.integers(0, len(used) + 1)])
    return ",".join(terms) + ("->" + output if rng.random() < 0.8 else "")


def check(subscripts, rng, device, dtype="int64"):
    arrays = [rng.integers(-9, 9, shape).astype(dtype) for shape in shapes(subscripts, rng)]
    expected = np.einsum(subscripts, *arrays)
    found = rigel.einsum(subscripts, *(rigel.asarray(a, device=device) for a in arrays))
    assert found.shape == expected.shape and found.dtype == dtype, subscripts
    assert np.allclose(found.numpy(), expected), subscripts


def test_known_subscripts_are_numpys(rng, device):
    for subscripts in KNOWN if device == "cpu" else KNOWN[::3]:
        check(subscripts, rng, device)


def test_random_subscripts_are_numpys(rng, device):
    for _ in range(200 if device == "cpu" else 8):
        check(random_subscripts(rng), rng, device)


@pytest.mark.parametrize("dtype", ["int32", "float32", "float64", "complex128"])
def test_types_are_numpys(dtype, rng):
    for subscripts in ["ij,jk->ik", "ij,ij->", "i,j", "ij->i", "ij,jk,kl"]:
        check(subscripts, rng, "cpu", dtype)
    mixed = rigel.einsum("i,i->i", np.arange(3, dtype="int32"), np.ones(3, dtype=dtype))
    assert mixed.dtype == np.einsum("i,i->i", np.arange(3, dtype="int32"), np.ones(3, dtype=dtype)).dtype


def test_fields_are_exact(rng, device):
    GF = rigel.field("koalabear")
    for subscripts in ["ij,jk->ik", "ij,jk,kl->il", "ii", "i,j,k->kij", "bij,bj->bi"]:
        arrays = [GF.random(shape, seed=n, device=device) for n, shape in enumerate(shapes(subscripts, rng))]
        plain = [np.array(a.tolist(), dtype=object) for a in arrays]
        assert (rigel.einsum(subscripts, *arrays).numpy() == np.einsum(subscripts, *plain) % GF.order).all()


def test_invalid_subscripts_raise():
    a = rigel.zeros((2, 3))
    for subscripts, said in [
        ("ij,jk", "subscripts of 2 operands, but 1 are given"),
        ("ijk", "names 3 axes of operand 0, which has 2"),
        ("ii", "'i' has length 3 in operand 0"),
        ("ij->k", "'k' of the result is in no operand"),
        ("ij->ii", "twice"),
        ("i?", "not a letter"),
        ("i....", "dots"),
        ("...j->j", "no '...'"),
    ]:
        with pytest.raises(ValueError, match="einsum"):
            try:
                rigel.einsum(subscripts, a)
            except ValueError as error:
                assert said in str(error)
                raise
    with pytest.raises(ValueError, match="at least one|subscripts of"):
        rigel.einsum("i")
    with pytest.raises(TypeError, match="astype"):
        rigel.einsum("i", [True])
    with pytest.raises(TypeError):
        rigel.einsum("i,i", rigel.field("koalabear").ones(2), rigel.ones(2))


def test_dot_is_numpys(rng, device):
    a, b = rng.integers(-9, 9, (2, 3)), rng.integers(-9, 9, 3)
    for x, y in [(a, b), (b, b), (a, a.T), (a, np.int64(2))]:
        found = rigel.dot(rigel.asarray(x, device=device), rigel.asarray(y, device=device))
        assert np.array_equal(found.numpy(), x.dot(y))
