"""Field arrays against galois and against coefficient arithmetic."""

import galois
import numpy as np
import pytest

import rigel

PRIMES = {
    "mersenne31": 2**31 - 1,
    "babybear": 2**31 - 2**27 + 1,
    "koalabear": 2**31 - 2**24 + 1,
    "goldilocks": 2**64 - 2**32 + 1,
}
GENERATORS = {"mersenne31": 7, "babybear": 31, "koalabear": 3, "goldilocks": 7}
# x^d as coefficients of lower powers, for an extension of degree d.
REDUCED = {
    "babybear4": [11, 0, 0, 0],
    "koalabear4": [3, 0, 0, 0],
    "goldilocks2": [7, 0],
    "goldilocks3": [1, 1, 0],
    "cm31": [-1, 0],
}


def galois_field(name):
    return galois.GF(PRIMES[name], primitive_element=GENERATORS[name], verify=False)


def integers(a):
    return [int(value) for value in np.asarray(a).reshape(-1)]


@pytest.mark.parametrize("name", PRIMES)
def test_arithmetic_is_galois(name, device):
    GF, theirs = rigel.field(name), galois_field(name)
    x, y = GF.random(40, seed=1, device=device), GF.random(40, seed=2, device=device)
    a, b = theirs(integers(x.cpu())), theirs(integers(y.cpu()))
    assert integers((x + y).cpu()) == integers(a + b)
    assert integers((x - y).cpu()) == integers(a - b)
    assert integers((x * y).cpu()) == integers(a * b)
    assert integers((x / y).cpu()) == integers(a / b)
    assert integers((-x).cpu()) == integers(-a)
    assert integers((x**12345).cpu()) == integers(a**12345)
    assert integers(x.inverse().cpu()) == integers(theirs(1) / a)
    assert integers(x.sum().cpu()) == integers(np.sum(a))
    assert (x == x).numpy().all() and (x != y).numpy().any()


@pytest.mark.parametrize("name", PRIMES)
def test_matmul_is_exact(name, device):
    GF, p = rigel.field(name), PRIMES[name]
    x, y = GF.random((5, 7), seed=3, device=device), GF.random((7, 4), seed=4, device=device)
    a, b = (np.array(m.tolist(), dtype=object) for m in (x, y))
    assert (x @ y).tolist() == (a.dot(b) % p).tolist()


@pytest.mark.parametrize("name", PRIMES)
def test_facts(name):
    GF, p = rigel.field(name), PRIMES[name]
    assert GF.order == GF.characteristic == p and GF.degree == 1 and GF.name == name
    assert GF.generator == GENERATORS[name] and GF.dtype == name
    root = GF.root_of_unity(2)
    assert root == p - 1
    n = 1 << GF.two_adicity
    assert pow(GF.root_of_unity(n), n, p) == 1 and pow(GF.root_of_unity(n), n // 2, p) == p - 1
    with pytest.raises(ValueError):
        GF.root_of_unity(2 * n)
    with pytest.raises(ValueError):
        GF.root_of_unity(3)
    assert rigel.field(name.upper()) is GF


def test_integers_of_any_size():
    p = PRIMES["goldilocks"]
    GF = rigel.field("goldilocks")
    values = [0, -1, 2**64 - 1, 2**200, -(2**150), p, 5]
    assert GF(values).tolist() == [value % p for value in values]
    assert GF(np.array([-1, 3])).tolist() == [p - 1, 3]
    assert GF(np.array([2**64 - 1], dtype="uint64")).tolist() == [(2**64 - 1) % p]
    assert (GF([1, 2]) + 2**300).tolist() == [(1 + 2**300) % p, (2 + 2**300) % p]
    assert (GF([1, 2]) * np.int64(-1)).tolist() == [p - 1, p - 2]
    assert (3 - GF([1, 2])).tolist() == [2, 1]
    assert GF(7).item() == 7 and GF.arange(2, 8, 3).tolist() == [2, 5]
    assert GF.zeros(2).tolist() == [0, 0] and GF.ones((1, 2)).tolist() == [[1, 1]]
    assert isinstance(GF([1]), GF) and not isinstance(rigel.zeros(1), GF) and GF([1]).field is GF


def multiplied(a, b, p, reduced):
    """The product of two polynomials modulo x^d = reduced."""
    d = len(a)
    product = [0] * (2 * d - 1)
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            product[i + j] += x * y
    for i in range(2 * d - 2, d - 1, -1):
        for j, c in enumerate(reduced):
            product[i - d + j] += product[i] * c
    return [value % p for value in product[:d]]


@pytest.mark.parametrize("name", ["babybear4", "koalabear4", "goldilocks2", "goldilocks3", "cm31"])
def test_extensions(name, device):
    GF = rigel.field(name)
    p, d = GF.characteristic, GF.degree
    x, y = GF.random(6, seed=5, device=device), GF.random(6, seed=6, device=device)
    a, b = x.tolist(), y.tolist()
    reduced = REDUCED[name]
    assert (x * y).tolist() == [multiplied(u, v, p, reduced) for u, v in zip(a, b)]
    assert (x + y).tolist() == [[(s + t) % p for s, t in zip(u, v)] for u, v in zip(a, b)]
    assert (x * x.inverse()).tolist() == [[1] + [0] * (d - 1)] * 6
    assert (x / y * y == x).numpy().all()
    assert x.coefficients().shape == (6, d) and GF.order == p**d
    assert GF(np.array(a, dtype="uint64")).tolist() == a
    base = rigel.field(x.coefficients().dtype.name)
    assert (x * base([2], device=device)).tolist() == [[2 * c % p for c in u] for u in a]


def test_qm31():
    GF = rigel.field("qm31")
    i, u = GF([[0, 1, 0, 0]]), GF([[0, 0, 1, 0]])
    p = GF.characteristic
    assert (i * i).tolist() == [[p - 1, 0, 0, 0]]
    assert (u * u).tolist() == [[2, 1, 0, 0]]


@pytest.mark.parametrize("name", ["babybear", "koalabear", "goldilocks"])
def test_ntt_is_the_sum(name, device):
    GF, p, n = rigel.field(name), PRIMES[name], 16
    x = GF.random((2, n), seed=7, device=device)
    w = GF.root_of_unity(n)
    rows = x.tolist()
    expected = [[sum(c * pow(w, i * j, p) for j, c in enumerate(row)) % p for i in range(n)] for row in rows]
    assert x.ntt().tolist() == expected
    assert x.ntt().intt().tolist() == rows
    shift, v = 5, GF.root_of_unity(4 * n)
    extended = x.ntt().lde(blowup=4, shift=shift).tolist()
    for i in [0, 1, 17, 63]:
        point = shift * pow(v, i, p) % p
        values = [sum(c * pow(point, j, p) for j, c in enumerate(row)) % p for row in rows]
        assert [row[i] for row in extended] == values


def test_ntt_of_an_extension(device):
    x = rigel.field("koalabear4").random(8, seed=8, device=device)
    parts = x.coefficients().T.contiguous().ntt().T
    assert x.ntt().coefficients().tolist() == parts.tolist()


@pytest.mark.parametrize("hash", ["keccak", "poseidon2", "blake2s"])
def test_merkle_roots_are_the_same_everywhere(hash):
    from conftest import DEVICES

    x = rigel.field("koalabear").random((8, 5), seed=9)
    roots = {x.to(device).merkle_root(hash) for device in DEVICES}
    assert len(roots) == 1 and len(roots.pop()) == 32
    changed = x.copy()
    changed[3, 2] = 1
    assert changed.merkle_root(hash) != x.merkle_root(hash)


def test_invalid_field_operations_raise(device):
    GF = rigel.field("babybear")
    with pytest.raises(ZeroDivisionError, match="1 of 3"):
        GF([1, 0, 2], device=device).inverse()
    with pytest.raises(ZeroDivisionError):
        GF([1, 2], device=device) / GF([1, 0], device=device)
    with pytest.raises(ValueError, match="power of two"):
        GF.zeros(6, device=device).ntt()
    with pytest.raises(ValueError, match="2\\^"):
        GF.zeros(1 << 4, device=device).lde(blowup=1 << 40)
    with pytest.raises(ValueError, match="circle"):
        rigel.field("mersenne31").zeros(8, device=device).ntt()
    with pytest.raises(TypeError):
        GF.zeros(3, device=device) + 0.5
    with pytest.raises(TypeError, match="astype"):
        GF.zeros(3, device=device) + rigel.field("koalabear").zeros(3, device=device)
    with pytest.raises(TypeError):
        rigel.zeros(4, device=device).ntt()
    with pytest.raises(TypeError):
        GF.zeros(4, device=device) < GF.zeros(4, device=device)
    with pytest.raises(TypeError):
        GF([0.5])
    with pytest.raises(ValueError):
        rigel.field("float64")
    with pytest.raises(ValueError, match="koalabear"):
        rigel.field("koala bear 9")
    with pytest.raises(TypeError, match="blake2s"):
        GF.zeros(4).merkle_root("md5")


def test_exponents_are_numbers_of_their_own():
    field = rigel.field("goldilocks")
    with pytest.raises(OverflowError):
        field([3]) ** (2**130)
    assert (field([3, 3, 3]) ** [1, 2, 3]).tolist() == [3, 9, 27]
    assert (field([3, 3, 3]) ** np.array([1, 2, 3])).tolist() == [3, 9, 27]
    assert rigel.where([True, False], field([1, 2]), 0).tolist() == [1, 0]


def test_types_of_fields():
    types = [rigel.mersenne31, rigel.cm31, rigel.qm31, rigel.goldilocks2, rigel.goldilocks3, rigel.koalabear]
    assert [rigel.field(of).degree for of in types] == [1, 2, 4, 2, 3, 1]
    assert [of.itemsize for of in types] == [4, 8, 16, 16, 24, 4]


def test_a_field_keeps_the_device():
    field = rigel.field("koalabear")
    assert field(rigel.arange(3, device="emulated")).device == "emulated:0"
    assert field([1, 2]).device == "cpu"
