"""Commands that are over within a second start without what only long ones need."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager

#: What numpy and pydantic read when they are imported: no threads, no search for extensions.
_LEAN = {"OPENBLAS_NUM_THREADS": "1", "PYDANTIC_DISABLE_PLUGINS": "__all__"}


@contextmanager
def brief() -> Iterator[None]:
    """Collect no garbage, and let numpy and pydantic start lean if they are imported meanwhile.

    What the user has set in the environment is kept.
    """
    collecting = gc.isenabled()
    lean = {name: value for name, value in _LEAN.items() if name not in os.environ}
    gc.disable()
    os.environ.update(lean)
    try:
        yield
    finally:
        for name in lean:
            os.environ.pop(name, None)
        if collecting:
            gc.enable()
