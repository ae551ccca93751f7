"""Handles of operations in progress: what is to be done after them, the tensors that they use, and who waits for them."""

import itertools
import os
import threading
import time
from ctypes import byref

import torch
from torch.distributed import DistBackendError, _Work
from torch.futures import Future

from . import library as c
from . import tensors as t

asking = threading.local()  # whether `get_future` is called for the Work itself, which it leaves in `found`
_NO_FUTURE = Future()

_numbers = itertools.count(1)
_watchers = {}  # by number: what is called when an operation is complete, and stays alive until then
os.register_at_fork(after_in_child=_watchers.clear)


@c.Completed
def _is_complete(number, op):
    _watchers[number].is_over(op)


def finish_watching(limit_s):
    """Waits for the calls of `_is_complete`: none may come after the interpreter's end. Operations were ended before."""
    limit = time.monotonic() + limit_s
    while _watchers and time.monotonic() < limit:
        time.sleep(0.001)


class _Abandoned:
    """What operations still use when their handle is gone."""

    def __init__(self, lib, ops, kept):
        self.lib, self.left, self.kept = lib, len(ops), kept
        self.number = next(_numbers)
        _watchers[self.number] = self
        for op in ops:
            lib.op_on_complete(op, _is_complete, self.number)

    def is_over(self, op):
        self.lib.op_release(op)
        self.left -= 1
        if self.left == 0:
            del _watchers[self.number]


class Work(_Work):
    def __init__(self, lib, title, outputs=()):
        super().__init__()
        self._ops, self._is_over = [], False
        self._lib, self._title, self._outputs = lib, title, list(outputs)
        self._kept, self._after, self._parts = [], [], []
        self._completion = threading.Lock()  # held while `_after` runs
        self._failure = None
        self._gpu = None    # of its tensors: streams wait for it, not threads
        self._steps = None  # an event: what `_after` has queued on the first stream that waited
        self._signal = self._future = None
        self._number, self._left = None, 0

    def __del__(self):
        left = []
        for op in self._ops:
            if not self._is_over and self._lib.op_test(op, None) == c.IN_PROGRESS:
                left.append(op)
            else:
                self._lib.op_release(op)
        if left:
            _Abandoned(self._lib, left, [*self._kept, *self._outputs])

    def add(self, op):
        self._ops.append(op)

    def add_part(self, work):
        """Waits for that one, too."""
        self._parts.append(work)

    def is_on(self, gpu):
        self._gpu = gpu

    def keep(self, *tensors):
        self._kept += tensors

    def after(self, step):
        self._after.append(step)

    def reads(self, tensor):
        """A tensor that a call reads, in consecutive memory."""
        used = t.dense(tensor)
        self._kept.append(used)
        return used

    def updates(self, tensor):
        """A tensor that a call reads and writes: itself, or a copy that is copied back."""
        used = self.reads(tensor)
        if used is not tensor:
            self.after(lambda: tensor.copy_(used))
        return used

    def writes(self, tensor):
        """A tensor that a call writes: itself, or memory from which it is copied."""
        used = tensor if t.is_dense(tensor) else torch.empty(tensor.size(), dtype=tensor.dtype, device=tensor.device)
        self._kept.append(used)
        if used is not tensor:
            self.after(lambda: tensor.copy_(used))
        return used

    def writes_all(self, tensors):
        """One buffer for all tensors of a list, to which it is copied if it is not their own memory."""
        used, is_their_own = t.joined_memory(tensors)
        self.keep(used, *tensors)
        if not is_their_own:
            self.after(lambda: t.distribute(used, tensors))
        return used

    def _complete(self, has_failed=True):
        """Once, when all operations are complete.
        @param has_failed  whether one of them may have failed"""
        with self._completion:
            if self._is_over:
                return
            for op in self._ops if has_failed else ():
                if self._lib.op_test(op, None) != c.OK and self._failure is None:
                    error = c.Error()
                    self._lib.op_test(op, byref(error))
                    self._failure = c.failure(error)
            for part in self._parts:
                self._failure = self._failure or part.exception()
            if self._failure is None:
                try:
                    self._run_steps()
                except Exception as failed:  # noqa: BLE001: `wait` raises it
                    self._failure = failed
            self._after, self._kept = [], []
            self._is_over = True
            signal = self._signal
        if signal is not None:
            signal.set_result(None)

    def _run_steps(self):
        """Once: what is to be done after the operations, which a stream does where it waits for them."""
        steps, self._after = self._after, []
        if not steps:
            return
        with torch.no_grad():
            for step in steps:
                step()
        if self._gpu is None:
            return
        stream = torch.cuda.current_stream(self._gpu)
        for tensor in self._kept:
            if tensor.is_cuda:
                tensor.record_stream(stream)
        self._steps = torch.cuda.Event()
        self._steps.record(stream)

    def _wait_on_stream(self):
        """Makes the current stream wait for the operations and then do the steps after them."""
        stream = torch.cuda.current_stream(self._gpu)
        with self._completion:
            for op in self._ops:
                error = c.Error()
                c.check(self._lib.op_wait_stream(op, stream.cuda_stream, byref(error)), error)
            if self._steps is not None:
                stream.wait_event(self._steps)
            self._run_steps()

    def wait(self, timeout=None):
        limit_ms = c.milliseconds(timeout) if timeout else 0
        if self._gpu is not None and limit_ms <= 0:
            self._wait_on_stream()
            return all(part.wait() for part in self._parts)
        limit = time.monotonic() + limit_ms / 1000
        has_failed = False
        for op in self._ops:
            left_ms = max(int((limit - time.monotonic()) * 1000), 0) if limit_ms > 0 else -1
            status = self._lib.op_wait(op, left_ms, None)
            has_failed = has_failed or status != c.OK
            if status == c.IN_PROGRESS:
                raise DistBackendError(f"tandem: caught collective operation timeout: {self._title} is not complete after "
                                       f"{limit_ms} ms: another rank has not joined it yet, or it takes longer")
        for part in self._parts:
            part.wait(timeout)
        self._complete(has_failed)
        if self._failure is not None:
            raise self._failure.with_traceback(None)
        if self._gpu is not None:
            self._wait_on_stream()  # for what `_complete` has queued
        return True

    def is_completed(self):
        if any(self._lib.op_test(op, None) == c.IN_PROGRESS for op in self._ops):
            return False
        if not all(part.is_completed() for part in self._parts):
            return False
        self._complete()
        return True

    def exception(self):
        return self._failure

    def is_success(self):
        return self._failure is None

    def synchronize(self):
        if self._gpu is not None:
            self._wait_on_stream()

    def result(self):
        return self._outputs

    def source_rank(self):
        return self._lib.op_source(self._ops[-1]) if self._is_over and self._ops else -1

    _source_rank = source_rank

    def is_over(self, _op):
        """On a thread of Tandem, for each operation."""
        self._left -= 1
        if self._left == 0:
            try:
                self._complete()
            finally:
                del _watchers[self._number]

    def _value(self, _signal):
        if self._failure is not None:
            raise self._failure.with_traceback(None)
        return self._outputs

    def get_future(self):
        if getattr(asking, "is_on", False):
            asking.found = self
            return _NO_FUTURE
        # Without operations of its own nothing would complete it: parts of a batch, sparse sums.
        if self._gpu is not None or not self._ops:
            return self._completed_future()
        with self._completion:
            if self._future is None:
                self._signal = Future()
                self._future = self._signal.then(self._value)
                if self._is_over:
                    self._signal.set_result(None)
                else:
                    self._watch()
            return self._future

    def _watch(self):
        """The object stays alive until the last operation is complete."""
        self._number, self._left = next(_numbers), len(self._ops)
        _watchers[self._number] = self
        for op in self._ops:
            self._lib.op_on_complete(op, _is_complete, self._number)

    def _completed_future(self):
        """Waits for the operations. On a GPU the values belong to a stream of its own, for which code that uses them waits."""
        if self._future is not None:
            return self._future
        signal = Future(devices=None if self._gpu is None else [self._gpu])
        future = signal.then(self._value)
        with torch.cuda.stream(None if self._gpu is None else torch.cuda.Stream(self._gpu)):
            try:
                self.wait()
            except Exception as failed:  # noqa: BLE001: `_value` raises it
                self._failure = self._failure or failed
            signal.set_result(None if self._gpu is None else self._outputs)
        self._future = future
        return future
