"""Merkle trees: openings verify, equal on all devices, and by an independent computation of Blake2s."""

import hashlib

import numpy as np
import pytest

import rigel

PAIRS = [
    ("koalabear", "poseidon2"),
    ("goldilocks2", "poseidon2"),
    ("koalabear4", "keccak"),
    ("goldilocks", "keccak256"),
    ("mersenne31", "blake2s"),
]


def blake2s(message):
    return hashlib.blake2s(message, digest_size=32).digest()


def blake2s_layers(matrix):
    layers = [[blake2s(np.asarray(row, dtype="<u4").tobytes()) for row in matrix]]
    while len(layers[-1]) > 1:
        below = layers[-1]
        layers.append([blake2s(below[i] + below[i + 1]) for i in range(0, len(below), 2)])
    return layers


def test_blake2s_trees_are_hashlibs(device):
    x = rigel.field("mersenne31").random((16, 5), seed=3, device=device)
    tree = rigel.merkle.MerkleTree(x, hash="blake2s", cap_height=1)
    layers = blake2s_layers(x.tolist())
    assert tree.root == layers[-1][0] and tree.cap == layers[-2]
    for index, (row, path) in zip([6, 15], tree.open([6, 15])):
        assert row.tolist() == x[index].tolist() and row.device == "cpu"
        assert path == [layers[k][(index >> k) ^ 1] for k in range(3)]


@pytest.mark.parametrize("name, hash", PAIRS)
def test_openings_verify(name, hash, device):
    x = rigel.field(name).random((8, 2, 3), seed=4)
    here, there = (rigel.merkle.MerkleTree(x.to(place), hash=hash) for place in ["cpu", device])
    assert there.root == here.root == x.merkle_root(hash) and there.cap == [here.root]
    assert there.height == len(there) == 8 and there.hash == hash and device in there.device and hash in repr(there)
    row, path = there.open(5)
    assert (row == x[5]).all() and row.shape == (2, 3) and path == here.open(5)[1]

    def verify(root=here.root, index=5, row=row, path=path, shape=(8, 2, 3), dtype=name):
        return rigel.merkle.verify(root, index, row, path, shape=shape, dtype=dtype, hash=hash)

    assert verify() and verify(row=row.to(device))
    changed = row.copy()
    changed[1, 2] += 1
    assert not verify(index=4) and not verify(index=-3) and not verify(index=13) and not verify(index=2**80)
    assert not verify(row=changed) and not verify(row=row[:1]) and not verify(row=row[:, :2])
    assert not verify(shape=(16, 2, 3))
    assert not verify(path=path[1:]) and not verify(path=path[::-1]) and not verify(path=[])
    assert not verify(root=path[0])


def test_a_cap_is_a_commitment():
    x = rigel.field("babybear").random((8, 3), seed=5)
    tree = rigel.merkle.MerkleTree(x, cap_height=2)
    row, path = tree.open(6)
    assert len(tree.cap) == 4 and len(path) == 1
    committed = {"shape": (8, 3), "dtype": "babybear"}
    assert rigel.merkle.verify(tree.cap, 6, row, path, **committed)
    assert not rigel.merkle.verify(tree.cap[::-1], 6, row, path, **committed)
    x[6] = 0  # the tree has a copy
    assert (tree.open(6)[0] == row).all()


@pytest.mark.parametrize("hash", ["poseidon2", "keccak", "keccak256", "blake2s"])
def test_rows_of_another_shape_or_type_do_not_verify(hash):
    GF = rigel.field("koalabear")
    tree = rigel.merkle.MerkleTree(GF([[1, 2, 3, 0]] * 8), hash=hash)
    assert tree.shape == (8, 4) and tree.dtype == GF([1]).dtype
    path = tree.open(3)[1]

    def verify(row):
        return rigel.merkle.verify(tree.root, 3, row, path, shape=(8, 4), dtype="koalabear", hash=hash)

    assert verify(GF([1, 2, 3, 0]))
    for row in [[1, 2, 3, 0, 0], [1, 2, 3, 0, 0, 0, 0, 0], [1, 2, 3], [[1, 2, 3, 0]], [[1, 2], [3, 0]], 1, []]:
        assert not verify(GF(row))
    extension = rigel.field("koalabear4")([[1, 2, 3, 0]])
    assert extension.shape == (1,) and not verify(extension)


def test_invalid_trees_raise(device):
    GF = rigel.field("goldilocks")
    with pytest.raises(TypeError, match="use keccak or keccak256 or poseidon2"):
        rigel.merkle.MerkleTree(GF.zeros((4, 2), device=device), hash="blake2s")
    with pytest.raises(TypeError, match="supported hashes"):
        rigel.merkle.MerkleTree(GF.zeros(4, device=device), hash="sha1")
    with pytest.raises(TypeError, match="field"):
        rigel.merkle.MerkleTree(rigel.zeros(4, device=device))
    with pytest.raises(ValueError, match="power of two"):
        rigel.merkle.MerkleTree(GF.zeros((3, 2), device=device))
    with pytest.raises(ValueError, match="at most 2"):
        rigel.merkle.MerkleTree(GF.zeros(4, device=device), cap_height=3)
    tree = rigel.merkle.MerkleTree(GF.zeros(4, device=device))
    for wrong in [4, -1, [0, 4]]:
        with pytest.raises(IndexError, match="of a tree of 4 rows"):
            tree.open(wrong)
    with pytest.raises(TypeError, match="index"):
        tree.open("a")
    row, path = tree.open(0)
    committed = {"shape": (4,), "dtype": "goldilocks"}
    with pytest.raises(ValueError, match="there must be 32"):
        rigel.merkle.verify(b"short", 0, row, path, **committed)
    with pytest.raises(ValueError, match="powers of two"):
        rigel.merkle.verify(tree.root, 0, row, path, shape=(3,), dtype="goldilocks")
    with pytest.raises(TypeError, match="32 bytes"):
        rigel.merkle.verify(tree.root, 0, row, [1, 2], **committed)
    with pytest.raises(TypeError, match="integer"):
        rigel.merkle.verify(tree.root, 0.5, row, path, **committed)
