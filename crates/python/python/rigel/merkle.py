"""Merkle trees over the rows of field arrays, with openings.

>>> import rigel
>>> code = rigel.field("goldilocks").random((4, 16), seed=1).lde(blowup=2)     # or device="cuda:0"
>>> tree = rigel.merkle.MerkleTree(code.T, hash="poseidon2")
>>> row, path = tree.open(9)
>>> rigel.merkle.verify(tree.root, 9, row, path, shape=(32, 4), dtype="goldilocks", hash="poseidon2")
True

Commitments and openings are those of Plonky3's `MerkleTreeMmcs` over one matrix, byte for byte. `blake2s` hashes leaves
and nodes as Stwo's trees do.
"""

from __future__ import annotations

from ._rigel import Array, MerkleTree, _merkle_verify

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ._rigel import DTypeLike

__all__ = ["MerkleTree", "verify"]


def verify(
    root: bytes | Sequence[bytes],
    index: int,
    row: Array,
    path: Iterable[bytes],
    *,
    shape: Sequence[int],
    dtype: DTypeLike,
    hash: str = "keccak",
) -> bool:
    """Whether `row` is row `index` of the array of this shape and type with this root, by its path. `root` may be a
    cap.

    The root, the shape, the type and the hash are the verifier's own knowledge; the index, the row and the path may
    come from anybody. Never take the shape or the type from the row: the hashes do not bind them. The sponges give a
    row and the same row with zeros after it one digest, and a node could pass for a row of a smaller tree. A row of
    another shape or type is False, as is every other wrong opening; arguments of wrong types or sizes raise. The hashes
    are computed on the CPU.

    >>> import rigel
    >>> tree = rigel.merkle.MerkleTree(rigel.field("babybear").arange(16).reshape(4, 4))
    >>> row, path = tree.open(2)
    >>> [rigel.merkle.verify(tree.root, index, row, path, shape=(4, 4), dtype="babybear") for index in range(4)]
    [False, False, True, False]
    """
    return _merkle_verify(root, index, row, path, shape, dtype, hash)
