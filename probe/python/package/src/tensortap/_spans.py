"""Ranges, measured regions and steps: spans of the calling thread."""
from __future__ import annotations

import functools
from typing import Any, Callable, Iterable, Iterator, List, Optional, TypeVar

from . import _probe

_MEASURED_REGION = 1
_NEXT_STEP = 2**64 - 1

_Function = TypeVar("_Function", bound=Callable[..., Any])
_Item = TypeVar("_Item")


class Range:
    """A named range: a context manager, or a decorator (each call is a range).

        with tensortap.range("tokenize"):
            …

        @tensortap.range("augment")
        def augment(batch): …

    Ranges of one thread nest; one that ends while another is open inside it lasts as long as that.
    """

    _flags = 0

    def __init__(self, name: str) -> None:
        if not isinstance(name, str):
            raise TypeError("a range's name is a str, not %s" % type(name).__name__)
        self._name = name
        self._tokens: List[int] = []

    def __enter__(self: Any) -> Any:
        if _probe.compiling():
            return self
        followed = _probe.followed()
        if followed is not None:
            name = self._name.encode("utf-8", "replace")
            self._tokens.append(followed.range_begin(name, len(name), self._flags))
        return self

    def __exit__(self, *_: Any) -> None:
        if self._tokens:
            token = self._tokens.pop()
            table = _probe.table()
            if token and table is not None:
                table.range_end(token)

    def __call__(self, function: _Function) -> _Function:
        kind, name = type(self), self._name

        @functools.wraps(function)
        def ranged(*args: Any, **kwargs: Any) -> Any:
            with kind(name):
                return function(*args, **kwargs)

        return ranged  # type: ignore[return-value]


class Measured(Range):
    """A range whose figures are asked for.

    The trace marks it as a measured region, and `trace-analyze cat --from … --to …` cuts a trace to its times. The trace's
    one `measured` span stays the capture's window: to capture one part of a run and nothing else, use `trace-ctl start`.
    """

    _flags = _MEASURED_REGION


class Step:
    """One iteration of the job: a context manager.

        for batch in loader:
            with tensortap.step():
                …

    From the first one on, no steps are inferred any more. Steps are numbered on from the last one, or as `number` says
    (below 2**32); they count while nothing is captured too, so that a capture that begins later has the job's numbers. One that would begin inside an operator, a module call or another step is left out and counted.
    """

    def __init__(self, number: Optional[int] = None) -> None:
        if number is not None and (not isinstance(number, int) or isinstance(number, bool)):
            raise TypeError("a step's number is an int, not %s" % type(number).__name__)
        if number is not None and not 0 <= number < 2**32:
            raise ValueError("a step's number is from 0 to 2**32 - 1, not %d" % number)
        self._number = _NEXT_STEP if number is None else number
        self._begun = False

    def __enter__(self) -> "Step":
        if not _probe.compiling():
            table = _probe.table()
            self._begun = table is not None and table.step_begin(self._number) == 1
        return self

    def __exit__(self, *_: Any) -> None:
        if self._begun and not _probe.compiling():
            self._begun = False
            table = _probe.table()
            if table is not None:
                table.step_end()


def mark_steps() -> None:
    """Says that this job marks its steps itself, before the first one: nothing is inferred until then either.

    Worth it when work of the first step comes ahead of it, a batch to load say.
    """
    table = None if _probe.compiling() else _probe.table()
    if table is not None:
        table.steps_by_job()


def steps(items: Iterable[_Item]) -> Iterator[_Item]:
    """The items, each inside a step of its own: `for batch in tensortap.steps(loader): …`.

    When the length is known (a DataLoader's is), a step begins before its item is fetched: the time that loading takes
    is in it. Otherwise it begins behind that, because nobody knows whether there is another item.
    """
    mark_steps()
    try:
        known = len(items)  # type: ignore[arg-type]
    except Exception:  # no length, or one that raises (an IterableDataset without): not our business
        known = 0
    iterator = iter(items)
    fetched = 0
    while True:
        step = Step()
        inside = fetched < known
        try:
            if inside:
                step.__enter__()
            try:
                item = next(iterator)
            except StopIteration:
                return
            fetched += 1
            if not inside:
                step.__enter__()
            yield item
        finally:
            step.__exit__()
