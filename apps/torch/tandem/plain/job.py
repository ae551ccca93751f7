"""This process as a rank of a job, whose ranks meet through a store of torch.distributed."""

import ctypes
import datetime
from ctypes import byref

from . import library as c
from .tensors import GPU_MEMORY


def _store_functions(store):
    """The caller's store as Tandem's: (set, get)."""

    @c.StoreSet
    def set_value(_context, key, value, size):
        try:
            store.set(key.decode(), ctypes.string_at(value, size))
            return 0
        except Exception:  # noqa: BLE001: it may not leave a function that C calls
            return 1

    @c.StoreGet
    def get_value(_context, key, value, size, timeout_ms):
        try:
            store.wait([key.decode()], datetime.timedelta(milliseconds=timeout_ms))
            found = bytes(store.get(key.decode()))
            if len(found) <= size[0]:
                ctypes.memmove(value, found, len(found))
            size[0] = len(found)
            return 0
        except Exception:  # noqa: BLE001
            return 1

    return set_value, get_value


class Job:
    """The last group that uses it leaves."""

    def __init__(self, lib, store, rank, size, timeout_ms, name, gpu):
        set_value, get_value = _store_functions(store)
        functions = c.Store(ctypes.sizeof(c.Store), None, set_value, get_value)
        options = c.JobOptions(ctypes.sizeof(c.JobOptions), rank, size, ctypes.pointer(functions), name.encode(), timeout_ms,
                               timeout_ms)
        if gpu >= 0:
            options.memory_kind, options.device = GPU_MEMORY, gpu
        made, error = c.JOB(), c.Error()
        c.check(lib.job_create(byref(options), byref(made), byref(error)), error)
        self._lib, self._job, self._users = lib, made.value, 0

    def world(self):
        return self._lib.job_world(self._job)

    def join(self):
        self._users += 1
        return self

    def leave(self):
        self._users -= 1
        if self._users == 0:
            self._lib.job_destroy(self._job)
