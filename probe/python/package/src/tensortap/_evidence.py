"""Names and statistics of tensors, and gradients.

What the probe can read where it lies (plain dense host memory) is read there, and no operator of torch runs. Any
other tensor is copied first, inside a range `tensortap.stats` or `tensortap.gradients`: its operators are in the trace,
and the job pays for the copy and waits for the device.
"""
from __future__ import annotations

import ctypes
import sys
from typing import Any, Dict, Iterable, List, Optional, Tuple, Union

from . import _probe
from ._spans import Range

_CATEGORIES = {"parameter": 0, "activation": 1, "gradient": 2, "optimizer": 3, "other": 4}
_MISSING = 1
_PRESENT = 0
# Codes of the buffer protocol, by what they mean on 64-bit Linux: numbers of c10::ScalarType.
_BUFFER_TYPES = {"B": 0, "b": 1, "h": 2, "i": 3, "l": 4, "q": 4, "e": 5, "f": 6, "d": 7, "?": 11, "H": 27, "I": 28,
                 "L": 29, "Q": 29}
_F64 = 7


def _is_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def label(tensor: Any, name: str, category: str = "activation") -> bool:
    """Names a tensor: the trace gets a `tensor` record with that label. True when it was recorded.

    `category`: parameter, activation, gradient, optimizer or other.
    """
    text = _probe.text(name, "a label")
    if category not in _CATEGORIES:
        raise ValueError("category is one of %s, not %r" % (", ".join(_CATEGORIES), category))
    if _probe.exporting():
        return False
    if not _is_tensor(tensor):
        raise TypeError("label() takes a torch.Tensor, not %s" % type(tensor).__name__)
    live = _probe.live()
    address = _address(tensor) if live is not None else 0
    if live is None or not address:
        return False
    return live.label(address, text, len(text), _CATEGORIES[category]) == 1


def stats(value: Any, name: str) -> bool:
    """Records statistics of a tensor, an array or a number: how many elements are not finite, root mean square,
    greatest magnitude and mean. True when they were recorded; complex and quantized elements are not.

    Costs about a nanosecond an element. A tensor that is not dense host memory is copied to the host first.
    """
    text = _probe.text(name, "a label")
    if _probe.exporting():
        return False
    live = _probe.live()
    if _is_tensor(value):
        return live is not None and _stats_of_tensor(live, value, text)
    if isinstance(value, (int, float)):
        number = ctypes.c_double(value)
        return live is not None and live.stats(text, len(text), ctypes.addressof(number), _F64, None, 0) == 1
    try:
        view = memoryview(value)
    except TypeError:
        raise TypeError("stats() takes a tensor, an array or a number, not %s" % type(value).__name__) from None
    return live is not None and _stats_of_buffer(live, view, text)


def _stats_of_tensor(live: _probe.Table, tensor: Any, text: bytes) -> bool:
    address = _address(tensor)
    done = live.stats_tensor(address, text, len(text)) if address else 0
    if done != _probe.NOT_HOST:
        return done == 1
    try:
        with Range("tensortap.stats"):
            copy = _on_host(tensor)
        return live.stats_tensor(_address(copy), text, len(text)) == 1
    except Exception:  # a kind of tensor that cannot be copied
        return False


def _on_host(tensor: Any) -> Any:
    tensor = tensor.detach()
    if getattr(tensor, "layout", None) is not sys.modules["torch"].strided:
        tensor = tensor.to_dense()
    return tensor.cpu().resolve_conj().resolve_neg().contiguous()


def _stats_of_buffer(live: _probe.Table, view: memoryview, text: bytes) -> bool:
    kind = _BUFFER_TYPES.get(view.format)
    if kind is None or not view.c_contiguous:
        return False
    shape = (ctypes.c_int64 * view.ndim)(*view.shape)
    data: Any = None
    if view.nbytes:
        data = ctypes.c_char * view.nbytes
        data = data.from_buffer_copy(view.cast("B")) if view.readonly else data.from_buffer(view.cast("B"))
    address = ctypes.addressof(data) if data is not None else None
    return live.stats(text, len(text), address, kind, ctypes.addressof(shape), view.ndim) == 1


def gradients(model: Union[Any, Iterable[Tuple[str, Any]]], root: Optional[str] = None) -> int:
    """Records the state (present, missing, zero, not finite) and norm of each parameter's gradient: call it behind
    `backward()`. Yields how many were recorded.

    `model`: a module, or pairs of name and parameter. `root` names the collection; a module's class if it is not said.
    Gradients on a device are reduced there, by operators that are in the trace, and fetched together: the job waits.
    """
    named = getattr(model, "named_parameters", None)
    pairs: Iterable[Tuple[str, Any]] = named() if callable(named) else model
    name = root if root is not None else type(model).__name__ if callable(named) else "parameters"
    root_text = _probe.text(name, "root")
    if _probe.exporting():
        return 0
    live = _probe.live()
    if live is None:
        return 0
    recorded = 0
    elsewhere: Dict[Any, List[Tuple[bytes, Any]]] = {}
    for key, parameter in pairs:
        key_text = _probe.text(key, "a parameter's name")
        if not _is_tensor(parameter):
            raise TypeError("gradients() takes parameters, not %s" % type(parameter).__name__)
        grad = parameter.grad
        done = live.gradient_tensor(root_text, len(root_text), key_text, len(key_text),
                                    None if grad is None else _address(grad))
        if done == _probe.NOT_HOST:
            elsewhere.setdefault(grad.device, []).append((key_text, grad))
        recorded += done == 1
    for gathered in elsewhere.values():
        recorded += _reduce_elsewhere(live, root_text, gathered)
    return recorded


def _reduce_elsewhere(live: _probe.Table, root: bytes, gathered: List[Tuple[bytes, Any]]) -> int:
    torch = sys.modules["torch"]
    try:
        with Range("tensortap.gradients"), torch.no_grad():
            norms = torch.stack([_norm(grad) for _, grad in gathered]).tolist()
    except Exception:  # a kind of tensor that has no norm
        return 0
    return sum(live.gradient(root, len(root), key, len(key), _PRESENT, norm) == 1
               for (key, _), norm in zip(gathered, norms))


def _norm(grad: Any) -> Any:
    grad = grad.detach()
    if getattr(grad, "is_sparse", False):
        grad = grad.coalesce().values()
    return grad.double().norm() if grad.device.type == "cpu" else grad.float().norm()


def _address(tensor: Any) -> int:
    """Of its c10::TensorImpl."""
    return getattr(tensor, "_cdata", 0)
