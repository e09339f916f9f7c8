"""NumPy's functions on Rigel arrays: Rigel's own where there is one that keeps the meaning, else NumPy's, on the
numbers as NumPy arrays. Field elements never become integers on the way."""

from __future__ import annotations

from . import _names, _rigel
from ._rigel import Array

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

#: Functions of NumPy that fields have under the same name and with the same arguments.
_SAME = [
    "all", "any", "array_equal", "broadcast_to", "concatenate", "copy", "cumprod", "cumsum", "dot", "einsum",
    "expand_dims", "flip", "hstack", "ones_like", "outer", "prod", "ravel", "reshape", "roll", "squeeze", "stack",
    "sum", "swapaxes", "take", "take_along_axis", "transpose", "vstack", "where", "zeros_like",
]  # fmt: skip
#: Those that are methods here, with their NumPy modules.
_OF_FIELDS = {
    ("numpy.linalg", "solve"): lambda a, b: a.solve(b),
    ("numpy.linalg", "inv"): lambda a: a.inv(),
    ("numpy.linalg", "det"): lambda a: a.det(),
    ("numpy.linalg", "matrix_rank"): lambda a: a.matrix_rank(),
    ("numpy", "convolve"): lambda a, v: a.poly_multiply(v),
}
_UFUNCS_OF_FIELDS = {"reciprocal": lambda x: x.inverse(), "square": lambda x: x * x, "positive": lambda x: x.copy()}


def call(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Calls a NumPy function."""
    if _field_in((args, kwargs)) is not None:
        own = _OF_FIELDS.get((func.__module__, func.__name__))
        if own is None and func.__module__ == "numpy" and func.__name__ in _SAME:
            own = getattr(_names, func.__name__, None) or getattr(_rigel, func.__name__)
        if own is not None:
            return own(*args, **kwargs)
    return func(*_plain(func, args), **_plain(func, kwargs))


def call_ufunc(ufunc: Any, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Calls one of NumPy's functions of elements, which its operators call too."""
    if method == "__call__" and not kwargs:
        name = ufunc.__name__
        if _field_in(inputs) is not None and name in _UFUNCS_OF_FIELDS:
            return _UFUNCS_OF_FIELDS[name](*inputs)
        own = getattr(_rigel, name, None)
        if own is not None:
            return own(*inputs)
    if any(isinstance(array, Array) for array in kwargs.get("out", ())):
        raise TypeError(f"numpy.{ufunc.__name__} can't write into a Rigel array; assign its result: x[:] = ...")
    return getattr(ufunc, method)(*_plain(ufunc, inputs), **_plain(ufunc, kwargs))


def _field_in(given: Any) -> Array | None:
    """An array of field elements among the arguments."""
    if isinstance(given, Array):
        return given if given.field is not None else None
    values = given.values() if type(given) is dict else given if type(given) in (list, tuple) else ()
    return next((found for found in map(_field_in, values) if found is not None), None)


def _plain(func: Callable[..., Any], given: Any) -> Any:
    """The arguments with NumPy arrays in place of Rigel's."""
    import numpy

    if isinstance(given, Array):
        if given.field is not None:
            raise TypeError(
                f"numpy.{func.__name__} would compute with integers, not in {given.dtype.name}; use rigel's functions, "
                "or .numpy() for the integers"
            )
        return numpy.asarray(given)
    if type(given) in (list, tuple):
        return type(given)(_plain(func, value) for value in given)
    if type(given) is dict:
        return {name: _plain(func, value) for name, value in given.items()}
    return given
