"""Calls that block their caller: sums of sparse tensors, and the barrier that names the ranks that do not arrive."""

import time
from ctypes import byref

import torch
from torch.distributed import DistBackendError

from . import library as c
from .tensors import NOTHING, buffer_of


def _gather_now(lib, comm, mine, elements_of_rank, limit_ms):
    """The blocks of all ranks, which may differ in length."""
    everything = torch.empty(sum(elements_of_rank), dtype=mine.dtype, device=mine.device)
    bytes_of_rank = c.lengths([elements * mine.element_size() for elements in elements_of_rank])
    op = c.start(lib.all_gather, comm, c.Call(limit_ms), buffer_of(mine), buffer_of(everything), bytes_of_rank)
    error = c.Error()
    status = lib.op_wait(op, -1, byref(error))
    lib.op_release(op)
    c.check(status, error)
    return everything


def sparse_all_reduce(lib, comm, data, ranks, limit_ms):
    """Replaces a sparse tensor by the sum of all ranks' tensors, of which each may have other elements: gathers them and adds
    them up on every rank, as gloo does."""
    mine = data.detach().coalesce()
    count = torch.tensor([mine._nnz()])
    counts = _gather_now(lib, comm, count, [1] * ranks, limit_ms).tolist()
    dimensions, value_sizes = mine.sparse_dim(), mine.values().size()[1:]
    my_indices = mine.indices().t().contiguous().view(-1)
    indices = _gather_now(lib, comm, my_indices, [of_rank * dimensions for of_rank in counts], limit_ms)
    my_values = mine.values().contiguous().view(-1)
    values = _gather_now(lib, comm, my_values, [of_rank * value_sizes.numel() for of_rank in counts], limit_ms)
    if indices.numel() == 0:
        return
    total = torch.sparse_coo_tensor(indices.view(-1, dimensions).t(), values.view(-1, *value_sizes), data.size(),
                                    check_invariants=False)
    with torch.no_grad():
        data.copy_(total.coalesce())


class MonitoredBarrier:
    """Rank 0 receives a message of each rank, then answers all of them. The texts of errors are those of gloo, which scripts
    look for."""

    def __init__(self, lib, comm, tag):
        self._lib, self._comm, self._tag, self._error = lib, comm, tag, c.Error()

    def as_other(self, rank, limit_ms):
        if self._has_passed(self._lib.send, 0, limit_ms) and self._has_passed(self._lib.recv, 0, limit_ms):
            return
        raise DistBackendError(f"Rank {rank} successfully reached monitoredBarrier, but received errors while waiting for "
                               "send/recv from rank 0. Please check rank 0 logs for faulty rank. Original error: "
                               f"{self._error.message()}")

    def as_rank_0(self, ranks, limit_ms, wait_for_all):
        limit = time.monotonic() + limit_ms / 1000
        missing = []
        for peer in range(1, ranks):
            left_ms = int((limit - time.monotonic()) * 1000)
            if left_ms <= 0 and not wait_for_all:
                self._fail("Rank 0 timed out in monitoredBarrier", limit_ms)
            if self._has_passed(self._lib.recv, peer, left_ms):
                continue
            if not wait_for_all:
                self._fail(f"Rank {peer} failed to pass monitoredBarrier", limit_ms)
            missing.append(str(peer))
        if missing:
            self._fail(f"Ranks {', '.join(missing)} failed to pass monitoredBarrier", limit_ms)
        for peer in range(1, ranks):
            self._has_passed(self._lib.send, peer, limit_ms)

    def _fail(self, what, limit_ms):
        raise DistBackendError(f"[Rank 0]: {what} in {limit_ms} ms; {self._error.message()}")

    def _has_passed(self, send_or_recv, peer, limit_ms):
        """Exchanges an empty message."""
        op, call = c.OP(), c.Call(limit_ms)
        status = send_or_recv(self._comm, NOTHING, peer, self._tag, byref(call), byref(op), byref(self._error))
        if status == c.OK:
            status = self._lib.op_wait(op, -1, byref(self._error))
        self._lib.op_release(op)
        return status == c.OK
