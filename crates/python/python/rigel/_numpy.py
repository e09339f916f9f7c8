"""NumPy's functions on Rigel arrays."""

from __future__ import annotations

from ._rigel import Array

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def call(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Calls a NumPy function with the arrays converted to NumPy arrays."""
    import numpy

    def plain(given: Any) -> Any:
        if isinstance(given, Array):
            if given.field is not None:
                raise TypeError(
                    f"numpy.{func.__name__} would compute with integers, not in {given.dtype.name}; use rigel's "
                    f"functions, "
                    "or .numpy() for the integers"
                )
            return numpy.asarray(given)
        if type(given) in (list, tuple):
            return type(given)(map(plain, given))
        return given

    return func(*plain(args), **{name: plain(value) for name, value in kwargs.items()})
