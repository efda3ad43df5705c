"""Finds the probe in this process: the table of functions that probe/sdk/tensortap.h describes."""
from __future__ import annotations

import ctypes
import sys
from time import monotonic
from typing import Any, Callable, List, Optional

_NO_WINDOW = 2**64 - 1
_LOOK_AGAIN_S = 1.0  # a probe may be attached later

_SIZE, _TEXT, _U32, _U64, _POINTER = (ctypes.c_size_t, ctypes.c_char_p, ctypes.c_uint32, ctypes.c_uint64,
                                      ctypes.c_void_p)
# PYFUNCTYPE keeps the GIL, right for calls of a few nanoseconds; CFUNCTYPE lets it go, for those that read tensors.
_SHORT, _LONG = ctypes.PYFUNCTYPE, ctypes.CFUNCTYPE
# In the order of struct TensortapSdk, behind `window`.
_MEMBERS = (
    ("range_begin", _SHORT(_U64, _TEXT, _SIZE, _U32)),
    ("range_end", _SHORT(None, _U64)),
    ("steps_by_job", _SHORT(None)),
    ("step_begin", _SHORT(ctypes.c_int, _U64)),
    ("step_end", _SHORT(None)),
    ("label", _SHORT(ctypes.c_int, _POINTER, _TEXT, _SIZE, _U32)),
    ("stats_tensor", _LONG(ctypes.c_int, _POINTER, _TEXT, _SIZE)),
    ("stats", _LONG(ctypes.c_int, _TEXT, _SIZE, _POINTER, _U32, _POINTER, _U32)),
    ("stats_values", _SHORT(ctypes.c_int, _TEXT, _SIZE, _POINTER)),
    ("gradient", _SHORT(ctypes.c_int, _TEXT, _SIZE, _TEXT, _SIZE, _U32, ctypes.c_double)),
    ("gradient_tensor", _LONG(ctypes.c_int, _TEXT, _SIZE, _TEXT, _SIZE, _POINTER)),
    ("gradient_data", _LONG(ctypes.c_int, _TEXT, _SIZE, _TEXT, _SIZE, _POINTER, _U32, _U64)),
    ("tag", _SHORT(ctypes.c_int, _TEXT, _SIZE, _TEXT, _SIZE)),
    ("identity", _SHORT(ctypes.c_int, _POINTER)),
)
NOT_HOST = -1  # what a function says of a tensor whose elements are not plain dense host memory


class Table:
    """The probe's functions. One that an older probe does not have does nothing."""

    def __init__(self, address: int) -> None:
        size = ctypes.c_uint32.from_address(address).value
        pointers = ctypes.c_void_p
        self.capturing = ctypes.c_ubyte.from_address(pointers.from_address(address + 8).value or 0)
        self.window = ctypes.c_uint64.from_address(pointers.from_address(address + 16).value or 0)
        for place, (name, kind) in enumerate(_MEMBERS):
            offset = 24 + 8 * place
            function = pointers.from_address(address + offset).value if offset + 8 <= size else None
            setattr(self, name, kind(function) if function else _nothing)

    def __getattr__(self, name: str) -> Any:  # for type checkers: all members are set above
        raise AttributeError(name)


def _nothing(*_: Any) -> int:
    return 0


_table: Optional[Table] = None
_next_look = 0.0
_when_found: List[Callable[[Table], None]] = []


def table() -> Optional[Table]:
    """The probe's functions, or None. Once found they stay."""
    global _table, _next_look
    if _table is not None:
        return _table
    now = monotonic()
    if now < _next_look:
        return None
    _next_look = now + _LOOK_AGAIN_S
    found = _look()
    if found is not None:
        _table = found
        for call in _when_found:
            call(found)
    return found


def when_found(call: Callable[[Table], None]) -> None:
    """Calls it with the table as soon as there is one."""
    _when_found.append(call)


def _look() -> Optional[Table]:
    try:
        # Of the whole process: the probe's library is in the global scope, preloaded or attached.
        function = ctypes.CDLL(None).tensortap_sdk
    except (AttributeError, OSError, TypeError):
        return None
    function.restype = ctypes.c_void_p
    function.argtypes = []
    address = function()
    return Table(address) if address else None


def followed() -> Optional[Table]:
    """The probe's functions while it follows what threads do (a capture runs, or waits for its first step), else None."""
    found = _table
    if found is None:  # the usual way without a probe is kept short
        if monotonic() < _next_look:
            return None
        found = table()
    return found if found is not None and found.capturing.value else None


def live() -> Optional[Table]:
    """The probe's functions while something is captured, else None."""
    found = followed()
    return found if found is not None and found.window.value != _NO_WINDOW else None


def is_capturing() -> bool:
    """Is anything being captured now? To leave out work whose only purpose is the trace."""
    return not compiling() and live() is not None


def _first_check() -> bool:
    """Is torch.compile tracing this code? Once torch is there, its own function takes this one's place."""
    global compiling, _next_look
    torch = sys.modules.get("torch")
    if torch is None:
        return False
    check = getattr(getattr(torch, "compiler", None), "is_dynamo_compiling", None)
    if check is None:  # before 2.1
        check = getattr(sys.modules.get("torch._dynamo"), "is_compiling", None)
    if check is not None and check():  # traced: nothing may be changed
        return True
    if check is None and hasattr(torch, "compile"):  # 2.0, and nothing was compiled yet
        return False
    compiling = check if check is not None else _never
    _next_look = 0.0  # a probe comes with torch: don't wait to see it
    return False


def _never() -> bool:
    return False


# A constant to torch.compile: what stands behind it is not traced.
compiling: Callable[[], bool] = _first_check


def exporting() -> bool:
    """Like compiling(), and also in torch.export: its tensors have no elements, and each operator is in its graph."""
    compiler = getattr(sys.modules.get("torch"), "compiler", None)
    check = getattr(compiler, "is_compiling", None)
    return compiling() if check is None else bool(check())


def text(value: str, what: str) -> bytes:
    """A text as the probe takes it."""
    if not isinstance(value, str):
        raise TypeError("%s is a str, not %s" % (what, type(value).__name__))
    return value.encode("utf-8", "replace")
