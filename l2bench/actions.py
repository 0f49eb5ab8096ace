"""Does an action belong to its task? Asked before the environment sees it, at next to no cost."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from l2bench.errors import ActionRefused

#: Raises if an action is not in the space.
Check = Callable[[Any], None]


def allowed(space: Any) -> range:
    """Return the actions of a discrete space; for any other, none.

    An ``int`` among them needs no `checker`: this is the fastest test there is.
    """
    if hasattr(space, "start") and hasattr(space, "n"):
        return range(int(space.start), int(space.start + space.n))
    return range(0)


def checker(space: Any, who: str) -> Check:
    """Return what refuses an action that is not in the space, ``who`` being whoever gave it.

    A discrete action has to be one of those that there are; numbers have to be of the space's
    shape, and finite. Bounds are not checked, since many environments clip; nor are other spaces.
    """
    known = allowed(space)
    if known:

        def check(action: Any) -> None:
            try:
                number = int(action) if np.ndim(action) == 0 else -1
                # whatever equals one of them will do; an int is looked up, not searched for
                fits = bool(number == action) and number in known
            except (TypeError, ValueError, OverflowError):
                fits = False
            if not fits:
                raise ActionRefused(f"{who} {_told(action)}, which is not in {_told(space)}")

        return check
    if hasattr(space, "low") and hasattr(space, "high"):
        shape = space.shape
        short = len(shape) == 1 and shape[0] <= 32

        def check(action: Any) -> None:
            simple = short and action.__class__ is np.ndarray and action.shape == shape
            simple = simple and action.dtype.kind in "fiu"
            if not (simple and all(map(math.isfinite, action.tolist()))):  # faster than numpy
                _check_numbers(action, space, who)

        return check
    return lambda action: None


def _check_numbers(action: Any, space: Any, who: str) -> None:
    try:
        given = np.asarray(action)
        if given.dtype.kind in "cSU":
            raise TypeError
        numbers = given.astype(np.float64)
    except (TypeError, ValueError):
        raise ActionRefused(f"{who} {_told(action)}, which is not in {_told(space)}") from None
    if numbers.shape != space.shape:
        raise ActionRefused(
            f"{who} an action of shape {numbers.shape}, which is not in {_told(space)}"
        )
    if not np.isfinite(numbers).all():
        raise ActionRefused(f"{who} {_told(action)}, which is not finite")


def _told(thing: Any) -> str:
    """Return an action or a space as part of one line."""
    text = repr(thing.tolist() if isinstance(thing, np.ndarray | np.generic) else thing)
    return " ".join(text.split())[:80]
