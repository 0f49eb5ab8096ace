"""Pickled arrays and plain data, read by a small interpreter that can call nothing.

A pickle is a program: the ordinary reader imports and calls whatever it names. Here its opcodes
act on a stack of plain values, and a name is looked up in a short table of functions of this
module. Every other name and opcode is refused, and nothing is imported.
"""

from __future__ import annotations

import math
import pickletools
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import IO, Any

import numpy as np

from l2bench.errors import Unsupported

#: Longer pickles than any result file needs are refused.
MOST_BYTES = 256 * 1024 * 1024

#: Called for what a pickle keeps elsewhere, such as the storage of a tensor.
Persistent = Callable[[Any], Any]


_FAULTS = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    OverflowError,
    MemoryError,
    struct.error,
)


@dataclass(frozen=True)
class Name:
    """A class or function that a pickle names."""

    path: str


@dataclass
class Scalar:
    """A type of numbers, as a pickle describes it."""

    code: str
    order: str = "="

    def dtype(self) -> np.dtype[Any]:
        """Return the numpy type.

        Raises:
            Unsupported: if it is no plain type of numbers or booleans.
        """
        kind, size = self.code[:1], self.code[1:]
        if kind not in "biufc" or size not in ("1", "2", "4", "8", "16"):
            raise Unsupported(f"an array of type {self.code!r}")
        return np.dtype(self.order.replace("|", "=") + self.code)


@dataclass
class Block:
    """An array that is filled once its state is known."""

    array: np.ndarray[Any, Any] | None = None


@dataclass
class Machine:
    """The interpreter: its stack, marks and memo."""

    persistent: Persistent
    functions: Mapping[str, Callable[..., Any]]
    stack: list[Any] = field(default_factory=list)
    marks: list[int] = field(default_factory=list)
    memo: dict[int, Any] = field(default_factory=dict)

    def run(self, stream: IO[bytes]) -> Any:
        """Return the value that the next pickle of a stream describes.

        Raises:
            Unsupported: if it is damaged, or holds anything but arrays and plain data.
        """
        try:
            for opcode, argument, _ in pickletools.genops(stream):
                self.step(opcode.name, argument)
            (result,) = self.stack
        except _FAULTS as error:
            raise Unsupported(f"a damaged pickle ({error})") from None
        return result

    def step(self, opcode: str, argument: Any) -> None:
        """Carry out one opcode."""
        if opcode in _CONSTANTS:
            self.stack.append(_CONSTANTS[opcode]())
        elif opcode in _VALUES:
            self.stack.append(argument)
        elif opcode in _TUPLES:
            self.tuple(_TUPLES[opcode])
        elif opcode in ("PUT", "BINPUT", "LONG_BINPUT"):
            self.memo[argument] = self.stack[-1]
        elif opcode in ("GET", "BINGET", "LONG_BINGET"):
            self.stack.append(self.memo[argument])
        elif opcode == "GLOBAL":
            self.stack.append(self.named(*argument.split(" ", 1)))
        elif opcode not in ("PROTO", "FRAME", "STOP"):
            action = _ACTIONS.get(opcode)
            if action is None:
                raise Unsupported(f"the pickle opcode {opcode}")
            action(self)

    def named(self, module: str, name: str) -> Name:
        """Return a name of the table; whatever else is named is refused."""
        path = f"{module}.{name}"
        if path not in self.functions:
            raise Unsupported(f"{path}, which is neither an array nor plain data")
        return Name(path)

    def since_mark(self) -> list[Any]:
        """Take everything above the last mark."""
        at = self.marks.pop()
        taken = self.stack[at:]
        del self.stack[at:]
        return taken

    def tuple(self, size: int) -> None:
        """Replace the topmost values by a tuple of them."""
        taken = [self.stack.pop() for _ in range(size)]
        self.stack.append(tuple(reversed(taken)))

    def reduce(self) -> None:
        """Call a function of the table."""
        arguments, function = self.stack.pop(), self.stack.pop()
        if not isinstance(function, Name) or not isinstance(arguments, tuple):
            raise Unsupported("a call of something that is no function")
        self.stack.append(self.functions[function.path](*arguments))

    def build(self) -> None:
        """Fill an array, or complete a type."""
        state, target = self.stack.pop(), self.stack[-1]
        if isinstance(target, Block):
            _, shape, scalar, fortran, raw = state
            target.array = array(raw, scalar, shape, "F" if fortran else "C")
        elif isinstance(target, Scalar) and isinstance(state, tuple):
            if state[1] not in ("<", ">", "|", "=") or any(part for part in state[2:5]):
                raise Unsupported("an array of structured type")
            target.order = state[1]
        else:
            raise Unsupported("the state of something that is no array")

    def set_items(self, items: list[Any]) -> None:
        """Put keys and values into the dictionary on top."""
        target = self.stack[-1]
        if not isinstance(target, dict):
            raise Unsupported("items of something that is no dictionary")
        target.update(zip(items[::2], items[1::2], strict=True))

    def extend(self, items: list[Any]) -> None:
        """Append to the list on top."""
        target = self.stack[-1]
        if not isinstance(target, list):
            raise Unsupported("items of something that is no list")
        target.extend(items)


def _pair(machine: Machine) -> list[Any]:
    value, key = machine.stack.pop(), machine.stack.pop()
    return [key, value]


def _dictionary(machine: Machine) -> None:
    items = machine.since_mark()
    machine.stack.append(dict(zip(items[::2], items[1::2], strict=True)))


def _stack_global(machine: Machine) -> None:
    module, name = reversed((machine.stack.pop(), machine.stack.pop()))
    machine.stack.append(machine.named(module, name))


def _memoize(machine: Machine) -> None:
    machine.memo[len(machine.memo)] = machine.stack[-1]


_CONSTANTS: Mapping[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_DICT": dict,
    "EMPTY_LIST": list,
    "EMPTY_TUPLE": tuple,
}
#: Opcodes whose argument is the value itself.
_VALUES = frozenset(
    (
        "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT",
        "STRING", "BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8",
        "BYTEARRAY8", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8",
    )
)  # fmt: skip
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_ACTIONS: Mapping[str, Callable[[Machine], None]] = {
    "MARK": lambda m: m.marks.append(len(m.stack)),
    "POP": lambda m: m.stack.__delitem__(-1),
    "POP_MARK": lambda m: m.since_mark().clear(),
    "TUPLE": lambda m: m.stack.append(tuple(m.since_mark())),
    "LIST": lambda m: m.stack.append(m.since_mark()),
    "DICT": _dictionary,
    "APPEND": lambda m: m.extend([m.stack.pop()]),
    "APPENDS": lambda m: m.extend(m.since_mark()),
    "SETITEM": lambda m: m.set_items(_pair(m)),
    "SETITEMS": lambda m: m.set_items(m.since_mark()),
    "STACK_GLOBAL": _stack_global,
    "MEMOIZE": _memoize,
    "REDUCE": lambda m: m.reduce(),
    "BUILD": lambda m: m.build(),
    "BINPERSID": lambda m: m.stack.append(m.persistent(m.stack.pop())),
}


def array(raw: Any, scalar: Any, shape: Any, order: Any) -> np.ndarray[Any, Any]:
    """Return bytes as an array.

    Raises:
        Unsupported: if type, shape and number of bytes do not fit.
    """
    if isinstance(raw, str):
        raw = raw.encode("latin-1")
    if not isinstance(scalar, Scalar) or not isinstance(raw, bytes | bytearray):
        raise Unsupported("an array that is no array of numbers")
    dtype, lengths = scalar.dtype(), (shape,) if isinstance(shape, int) else tuple(shape)
    if not all(isinstance(length, int) and length >= 0 for length in lengths):
        raise Unsupported(f"an array of shape {lengths}")
    if math.prod(lengths) * dtype.itemsize != len(raw) or order not in ("C", "F"):
        raise Unsupported(f"an array of shape {lengths} in {len(raw)} bytes")
    return np.frombuffer(bytes(raw), dtype).reshape(lengths, order=order)


def _encode(text: str, encoding: str) -> bytes:
    if encoding not in ("latin1", "latin-1"):
        raise Unsupported(f"bytes in the encoding {encoding!r}")
    return text.encode("latin-1")


def _scalar(scalar: Any, raw: Any = b"") -> Any:
    return array(raw, scalar, (), "C").item()


def _not_called(*_: Any) -> Any:
    raise Unsupported("a call of a class that is only named in arrays")


_CORES = ("numpy.core", "numpy._core")

#: What a pickle may name.
FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    **{f"{core}.multiarray._reconstruct": lambda *_: Block() for core in _CORES},
    **{f"{core}.multiarray.scalar": _scalar for core in _CORES},
    **{f"{core}.numeric._frombuffer": array for core in _CORES},
    "numpy.ndarray": _not_called,
    "numpy.dtype": lambda code, *_: Scalar(str(code)),
    "_codecs.encode": _encode,
    "__builtin__.bytes": lambda: b"",
    "builtins.bytes": lambda: b"",
    "collections.OrderedDict": lambda pairs=(): dict(pairs),
}


def plain(value: Any) -> Any:
    """Return a value with its arrays, one level deep in a dictionary, as numpy arrays."""
    if isinstance(value, Block):
        return value.array
    if isinstance(value, dict):
        arrays = {key: item.array for key, item in value.items() if isinstance(item, Block)}
        return {**value, **arrays}
    return value
