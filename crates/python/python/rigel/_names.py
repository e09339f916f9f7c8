"""Functions of NumPy in terms of arrays' methods and of other functions. They take arrays, and what becomes one."""

from __future__ import annotations

from ._rigel import Array, asarray, concatenate, isfinite, isnan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    Shape = int | Sequence[int]


def all(a: Any, axis: Any = None, keepdims: bool = False) -> Array:
    """Whether all elements along the axes are true.

    >>> import rigel
    >>> rigel.all([[True, False], [True, True]], axis=1)
    array([False,  True])
    """
    return asarray(a).all(axis=axis, keepdims=keepdims)


def any(a: Any, axis: Any = None, keepdims: bool = False) -> Array:
    """Whether any element along the axes is true.

    >>> import rigel
    >>> rigel.any([0, 1]).item()
    True
    """
    return asarray(a).any(axis=axis, keepdims=keepdims)


def isinf(x: Any) -> Array:
    """Whether each number is infinite.

    >>> import rigel
    >>> rigel.isinf([1.0, -float("inf"), float("nan")])
    array([False,  True, False])
    """
    x = asarray(x)
    return ~(isfinite(x) | isnan(x))


def _inexact(x: Any) -> Array:
    """Numbers whose differences do not wrap: integers and truth values become float64."""
    x = asarray(x)
    return x.astype("float64") if x.dtype.kind in "biu" else x


def isclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Array:
    """Whether each `|a - b|` is at most `atol + rtol |b|`. Infinite numbers are close to themselves only.

    >>> import rigel
    >>> rigel.isclose([1.0, 2.0], [1.0 + 1e-9, 2.1])
    array([ True, False])
    """
    a, b = _inexact(a), _inexact(b)
    near = ((a - b).abs() <= atol + rtol * b.abs()) & isfinite(b) | (a == b)
    return near | isnan(a) & isnan(b) if equal_nan else near


def allclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    """Whether all elements are close; see `isclose`.

    >>> import rigel
    >>> rigel.allclose(rigel.ones(3) / 3 * 3, 1.0)
    True
    """
    return bool(isclose(a, b, rtol, atol, equal_nan).all())


def array_equal(a: Any, b: Any) -> bool:
    """Whether both have the same shape and the same elements.

    >>> import rigel
    >>> rigel.array_equal([1, 2], [1, 2]), rigel.array_equal([1, 2], [1, 2, 3])
    (True, False)
    """
    a, b = asarray(a), asarray(b)
    return a.shape == b.shape and bool((a == b).all())


def count_nonzero(a: Any, axis: Any = None, keepdims: bool = False) -> Array:
    """The number of elements that are not zero.

    >>> import rigel
    >>> rigel.count_nonzero([0, 5, 7]).item()
    2
    """
    return (asarray(a) != 0).sum(axis=axis, keepdims=keepdims)


def square(x: Any) -> Array:
    """The squares of the elements.

    >>> import rigel
    >>> rigel.square([1, 2, 3])
    array([1, 4, 9])
    """
    x = asarray(x)
    return x * x


def copy(a: Any) -> Array:
    """A copy, with memory of its own.

    >>> import rigel
    >>> rigel.copy([1, 2])
    array([1, 2])
    """
    return asarray(a).copy()


def reshape(a: Any, shape: Shape) -> Array:
    """The elements in another shape; one length may be -1.

    >>> import rigel
    >>> rigel.reshape(rigel.arange(6), (2, -1)).shape
    (2, 3)
    """
    return asarray(a).reshape(shape)


def ravel(a: Any) -> Array:
    """The elements in one axis.

    >>> import rigel
    >>> rigel.ravel([[1, 2], [3, 4]])
    array([1, 2, 3, 4])
    """
    return asarray(a).ravel()


def transpose(a: Any, axes: Sequence[int] | None = None) -> Array:
    """The axes in another order: reversed, unless one is given.

    >>> import rigel
    >>> rigel.transpose(rigel.zeros((2, 3, 4)), (1, 0, 2)).shape
    (3, 2, 4)
    """
    return asarray(a).transpose() if axes is None else asarray(a).transpose(axes)


def swapaxes(a: Any, axis1: int, axis2: int) -> Array:
    """Two axes exchanged.

    >>> import rigel
    >>> rigel.swapaxes(rigel.zeros((2, 3, 4)), 0, 2).shape
    (4, 3, 2)
    """
    return asarray(a).swapaxes(axis1, axis2)


def squeeze(a: Any, axis: int | None = None) -> Array:
    """Without the axes of length one, or without one of them.

    >>> import rigel
    >>> rigel.squeeze(rigel.zeros((1, 3, 1))).shape
    (3,)
    """
    return asarray(a).squeeze() if axis is None else asarray(a).squeeze(axis)


def expand_dims(a: Any, axis: int) -> Array:
    """With another axis, of length one.

    >>> import rigel
    >>> rigel.expand_dims([1, 2], 0).shape
    (1, 2)
    """
    return asarray(a).expand_dims(axis)


def broadcast_to(a: Any, shape: Shape) -> Array:
    """The elements repeated to a shape, without a copy.

    >>> import rigel
    >>> rigel.broadcast_to([1, 2], (3, 2)).shape
    (3, 2)
    """
    return asarray(a).broadcast_to(shape)


def vstack(arrays: Sequence[Any]) -> Array:
    """The arrays as rows: along the first axis, with vectors as one row each.

    >>> import rigel
    >>> rigel.vstack([[1, 2], [3, 4]])
    array([[1, 2],
           [3, 4]])
    """
    rows = [asarray(a) for a in arrays]
    return concatenate([a if a.ndim > 1 else a.reshape(1, -1) for a in rows])


def hstack(arrays: Sequence[Any]) -> Array:
    """The arrays side by side: along the second axis, or the first of vectors.

    >>> import rigel
    >>> rigel.hstack([[1, 2], [3]])
    array([1, 2, 3])
    """
    columns = [asarray(a) for a in arrays]
    columns = [a if a.ndim else a.reshape(1) for a in columns]
    return concatenate(columns, axis=0 if columns and columns[0].ndim == 1 else 1)


def outer(a: Any, b: Any) -> Array:
    """The products of each element of `a` with each of `b`.

    >>> import rigel
    >>> rigel.outer([1, 2], [3, 4, 5])
    array([[ 3,  4,  5],
           [ 6,  8, 10]])
    """
    return asarray(a).reshape(-1, 1) * asarray(b).reshape(1, -1)
