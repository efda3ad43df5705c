"""Exceptions on their way through modules: the job sees what it saw without us."""
import os
import signal
import sys
import threading
import traceback

import torch
from torch import nn

from job import Block, Net, core, fail, hooked, run, scene


@scene
def error_uncaught():
    run(fail)


@scene
def error_of_torch():
    nn.Sequential(nn.Linear(4, 3), nn.Linear(4, 3))(torch.ones(2, 4))


@scene
def error_wrong_arguments():
    module = nn.Linear(2, 2)
    for call in (lambda: module(), lambda: module(1, 2, 3), lambda: module(self=1), lambda: nn.Module.__call__()):
        try:
            call()
        except TypeError as error:
            print(error)
            traceback.print_exc()
    module(torch.ones(1, 2), what=3)


@scene
def error_caught_by_parent():
    class Parent(nn.Module):
        def __init__(self):
            super().__init__()
            self.child = Net(fail)

        def forward(self, x):
            try:
                return self.child(x)
            except ValueError as error:
                traceback.print_exc()
                print([frame.f_code.co_name for frame, _ in traceback.walk_tb(error.__traceback__)])
                assert sys.exc_info()[2] is error.__traceback__
                return x

    outer = nn.Sequential(Parent(), nn.Linear(4, 1))
    print(outer(torch.ones(1, 4)).shape)
    print(sys.exc_info())


@scene
def error_raise_from():
    class Parent(Block):
        def forward(self, x):
            try:
                return run(fail)
            except ValueError as error:
                raise RuntimeError("translated") from error

    nn.Sequential(Parent())(torch.ones(1, 4))


@scene
def error_raise_from_none():
    class Parent(Block):
        def forward(self, x):
            try:
                return run(fail)
            except ValueError:
                raise RuntimeError("translated") from None

    nn.Sequential(Parent())(torch.ones(1, 4))


@scene
def error_during_handling():
    class Parent(Block):
        def forward(self, x):
            try:
                return run(fail)
            except ValueError:
                return self.linear(torch.ones(1, 7))

    nn.Sequential(Parent())(torch.ones(1, 4))


@scene
def error_in_finally_and_with():
    class Scope:
        def __enter__(self):
            return self

        def __exit__(self, kind, error, trace):
            print(kind, [line for _, line in traceback.walk_tb(trace)])

    class Parent(Block):
        def forward(self, x):
            with Scope():
                try:
                    return run(fail)
                finally:
                    print("finally", sys.exc_info()[0])

    nn.Sequential(Parent())(torch.ones(1, 4))


@scene
def error_raised_again_later():
    kept = []

    class Parent(Block):
        def forward(self, x):
            try:
                return run(fail)
            except ValueError as error:
                kept.append(error)
                return x

    parent = nn.Sequential(Parent())
    parent(torch.ones(1, 4))
    try:
        run(lambda: (_ for _ in ()).throw(kept[0]))
    except ValueError:
        traceback.print_exc()
    raise kept[0]


@scene
def error_same_exception_through_two_modules():
    error = KeyError("one")

    def again():
        raise error

    for _ in range(3):
        try:
            run(again)
        except KeyError:
            traceback.print_exc()
    run(again)


@scene
def error_in_hooks():
    net = Net()
    net.blocks.register_forward_hook(lambda *a: fail())
    try:
        net(torch.ones(1, 4))
    except ValueError:
        traceback.print_exc()
    other = Net()
    other.head.register_forward_pre_hook(lambda *a: fail())
    other(torch.ones(1, 4))


@scene
def error_in_backward_hook():
    net = Net()
    net.head.register_full_backward_hook(lambda *a: fail())
    net(torch.ones(1, 4)).sum().backward()


@scene
def keyboard_interrupt_raised():
    def action():
        raise KeyboardInterrupt

    run(action)


@scene
def keyboard_interrupt_signal():
    run(lambda: os.kill(os.getpid(), signal.SIGINT))


@scene
def system_exit():
    run(lambda: sys.exit(7))


@scene
def stop_iteration():
    def action():
        next(iter(()))

    try:
        run(action)
    except StopIteration:
        traceback.print_exc()
    net = Net(action)

    def generator():
        yield net(torch.ones(1, 4))

    list(generator())


@scene
def generators():
    class Stream(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x):
            for i in range(3):
                x = self.linear(x)
                yield i
            fail()

    print(next(Stream()(torch.ones(1, 4))))

    def through():
        try:
            yield Net()(torch.ones(1, 4)).shape
        except ValueError:
            traceback.print_exc()
            yield run(fail)

    items = through()
    print(next(items))
    try:
        items.throw(ValueError("thrown in"))
    except ValueError:
        traceback.print_exc()
    list(Stream()(torch.ones(1, 4)))


@scene
def error_in_thread():
    thread = threading.Thread(target=run, args=(fail,), name="worker")
    thread.start()
    thread.join()


@scene
def error_in_finalizer():
    class Loud:
        def __del__(self):
            run(fail)

    run(lambda: Loud() and None)


@scene
def recursion():
    class Endless(nn.Module):
        def __init__(self):
            super().__init__()
            self.again = [self]

        def forward(self, x):
            return self.again[0](x)

    # The depth reached differs (one frame of ours in four), so only what doesn't depend on it is printed. Different
    # depths at the start let the limit strike in each of the frames.
    def at_depth(n):
        if n:
            return at_depth(n - 1)
        try:
            Endless()(1)
        except RecursionError as error:
            frames = [f.f_code.co_filename for f, _ in traceback.walk_tb(error.__traceback__)]
            print(any("<tensortap" in name for name in frames), error.__context__, error.__cause__)

    for n in range(8):
        at_depth(n)
    if hooked:
        assert core.fake_core_depth() == 0, core.fake_core_depth()
    print(Net()(torch.ones(1, 4)).shape)
