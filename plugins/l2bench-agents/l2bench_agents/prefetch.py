"""Batches gathered ahead by a thread while the last one is learned from."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

ItemT = TypeVar("ItemT")

_END = object()


def prefetched(items: Iterable[ItemT], ahead: int) -> Iterator[ItemT]:
    """Yield the same items in the same order, up to ``ahead`` of them made in advance.

    What making them raises is raised here. Leaving early ends the thread.
    """
    if not ahead:
        yield from items
        return
    made: queue.Queue[Any] = queue.Queue(ahead)
    left = threading.Event()

    def put(item: Any) -> bool:
        while not left.is_set():
            try:
                made.put(item, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def work() -> None:
        try:
            for item in items:
                if not put((item, None)):
                    return
            put((_END, None))
        except BaseException as error:
            put((_END, error))

    thread = threading.Thread(target=work, name="l2bench-prefetch", daemon=True)
    thread.start()
    try:
        while True:
            item, error = made.get()
            if error is not None:
                raise error
            if item is _END:
                return
            yield item
    finally:
        left.set()
        thread.join()
