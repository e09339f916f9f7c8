"""Fuses functions of arrays into one pass over memory."""

from __future__ import annotations

import functools

from ._rigel import Array, Lazy, lazy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def fuse(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compiles a function of arrays to one kernel. The function is called with expressions instead of its array
    arguments, and its result (an expression, or a tuple, list or dict of them) is evaluated.

    The function must consist of operators and rigel's element-wise functions. Reductions in it are evaluated
    immediately.

    >>> import rigel
    >>> @rigel.fuse
    ... def smooth(x, y, weight=0.5):
    ...     return rigel.tanh(x) * weight + y * (1 - weight)
    >>> smooth(rigel.zeros(3), rigel.ones(3))
    array([0.5, 0.5, 0.5])
    """

    @functools.wraps(function)
    def fused(*args: Any, **kwargs: Any) -> Any:
        places = [lazy(arg) if isinstance(arg, Array) else arg for arg in args]
        names = {name: lazy(arg) if isinstance(arg, Array) else arg for name, arg in kwargs.items()}
        return _evaluated(function(*places, **names))

    return fused


def _evaluated(result: Any) -> Any:
    if isinstance(result, Lazy):
        return result.eval()
    if isinstance(result, tuple) and hasattr(result, "_fields"):  # a named tuple
        return type(result)(*map(_evaluated, result))
    if isinstance(result, (tuple, list)):
        return type(result)(map(_evaluated, result))
    if isinstance(result, dict):
        return {key: _evaluated(value) for key, value in result.items()}
    return result
