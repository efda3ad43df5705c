"""What a job says of its run as a whole: tags and the comparison identity. Both stand in the trace's meta record."""
from __future__ import annotations

import atexit
import ctypes
from typing import Dict, Optional

from . import _probe

_MAX_TAGS = 64


class _Identity(ctypes.Structure):
    """struct TensortapIdentity of tensortap.h."""

    _fields_ = [("size", ctypes.c_uint32), ("reserved", ctypes.c_uint32), ("physical_batch", ctypes.c_uint64),
                ("accumulation_steps", ctypes.c_uint64)] + [
                    (name, ctypes.c_char_p)
                    for name in ("implementation_id", "pair_id", "workload_id", "model_id", "config_id", "data_id",
                                 "seed_policy", "precision", "device_state")]


# Said before there was a probe: told as soon as there is one.
_early_tags: Dict[bytes, bytes] = {}
_early_identity: Optional[_Identity] = None
_waiting = False


def _tell(table: _probe.Table) -> None:
    for key, value in _early_tags.items():
        table.tag(key, len(key), value, len(value))
    if _early_identity is not None:
        table.identity(ctypes.addressof(_early_identity))


def _wait() -> None:
    global _waiting
    if not _waiting:
        _waiting = True
        _probe.when_found(_tell)
        atexit.register(_probe.table)  # at the latest; the capture ends behind this


def tag(key: str, value: object) -> bool:
    """Puts a tag on this run: any text under a key. Said again under one key, it replaces what was said before.

    At most 64 keys of 128 bytes, with values of 1024. Tags belong to the process: each capture of it has them, also one
    that begins later, and so have the captures of forked workers. True when it was taken.
    """
    key_bytes = _probe.text(key, "a tag's key")
    value_bytes = str(value).encode("utf-8", "replace")
    if _probe.compiling():
        return False
    table = _probe.table()
    if table is not None:
        return table.tag(key_bytes, len(key_bytes), value_bytes, len(value_bytes)) == 1
    if key_bytes in _early_tags or len(_early_tags) < _MAX_TAGS:
        _early_tags[key_bytes] = value_bytes
        _wait()
    return False


def identity(*, workload_id: str, model_id: str, config_id: str, data_id: str, seed_policy: str, precision: str,
             device_state: str, physical_batch: int = 1, accumulation_steps: int = 1,
             implementation_id: Optional[str] = None, pair_id: Optional[str] = None) -> bool:
    """Says how this run is to be compared with others (trace/10, comparison identity). True when it was taken."""
    global _early_identity
    texts = dict(workload_id=workload_id, model_id=model_id, config_id=config_id, data_id=data_id,
                 seed_policy=seed_policy, precision=precision, device_state=device_state)
    given = _Identity(size=ctypes.sizeof(_Identity))
    for name, value in {**texts, "implementation_id": implementation_id, "pair_id": pair_id}.items():
        if value is None and name not in texts:
            continue
        encoded = _probe.text(value, name)  # type: ignore[arg-type]
        if not value.strip():  # type: ignore[union-attr]
            raise ValueError("%s is blank" % name)
        setattr(given, name, encoded)
    for name, count in (("physical_batch", physical_batch), ("accumulation_steps", accumulation_steps)):
        if not isinstance(count, int) or isinstance(count, bool):
            raise TypeError("%s is an int, not %s" % (name, type(count).__name__))
        if not 1 <= count < 2**64:
            raise ValueError("%s is at least 1, not %d" % (name, count))
        setattr(given, name, count)
    if _probe.compiling():
        return False
    table = _probe.table()
    if table is not None:
        return table.identity(ctypes.addressof(given)) == 1
    _early_identity = given
    _wait()
    return False
