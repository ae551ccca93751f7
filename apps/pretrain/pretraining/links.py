"""The messages of a pipeline over one link: process groups, and both ends of each."""

import collections
import concurrent.futures
import datetime

import torch
import torch.distributed as dist
from tandem.pipelines import BACKWARD, BACKWARD_INPUT, FORWARD

from . import link_settings


class Outgoing:
    """One direction between two stages. Tensors are kept until they are sent."""

    def __init__(self, group, peer):
        self.group, self.peer, self.bytes, self.last = group, peer, 0, None
        self._pending = collections.deque()

    def send(self, tensor):
        self.bytes += tensor.numel() * tensor.element_size()
        self._pending.append((dist.isend(tensor, self.peer, group=self.group), tensor))
        while self._pending and self._pending[0][0].is_completed():
            self._pending.popleft()[0].wait()

    def finish(self):
        """Where the link can make the current stream wait, that waits, else this thread does."""
        self.last = None
        while self._pending:
            work, tensor = self._pending.popleft()
            work.wait()
            self.last = work if tensor.is_cuda else None

    def check(self):
        """Raises what has ended a message that only the stream has waited for."""
        if self.last is not None:
            self.last.wait(datetime.timedelta(seconds=60))
            self.last = None


class Incoming:
    """Receives in the order in which the peer sends, which `order` lists; `ahead` of them before they are needed."""

    def __init__(self, group, peer, shape, kind, device, ahead):
        self.group, self.peer, self._ahead = group, peer, ahead
        self._new = lambda: torch.empty(shape, dtype=kind, device=device)
        self.last = None

    def start(self, order):
        self._order, self._posted = collections.deque(order), {}
        self._post_ahead()

    def _post_ahead(self):
        while self._order and len(self._posted) < self._ahead:
            self._post()

    def _post(self):
        self._posted[self._order.popleft()] = self._receive()

    def _receive(self):
        into = self._new()
        return dist.irecv(into, self.peer, group=self.group), into

    def take(self, micro_batch):
        while micro_batch not in self._posted:
            self._post()
        found = self._wait(*self._posted.pop(micro_batch))
        self._post_ahead()
        return found

    def _wait(self, work, tensor):
        work.wait()
        self.last = work if tensor.is_cuda else None
        return tensor

    def check(self):
        if self.last is not None:
            self.last.wait(datetime.timedelta(seconds=60))
            self.last = None


class StagedOutgoing(Outgoing):
    """Memory of a GPU over gloo, which carries host memory only: through pinned memory, by a thread of its own."""

    def __init__(self, group, peer, shape, kind, device):
        super().__init__(group, peer)
        self._pinned = torch.empty(shape, dtype=kind, pin_memory=True)
        self._stream, self._thread = torch.cuda.Stream(device), concurrent.futures.ThreadPoolExecutor(1)

    def send(self, tensor):
        self.bytes += tensor.numel() * tensor.element_size()
        produced = torch.cuda.current_stream().record_event()
        self._pending.append((self._thread.submit(self._carry, tensor, produced), tensor))
        while self._pending and self._pending[0][0].done():
            self._pending.popleft()[0].result()

    def _carry(self, tensor, produced):
        with torch.cuda.stream(self._stream):
            self._stream.wait_event(produced)
            self._pinned.copy_(tensor, non_blocking=True)
        self._stream.synchronize()
        dist.send(self._pinned, self.peer, group=self.group)

    def finish(self):
        while self._pending:
            self._pending.popleft()[0].result()

    def check(self):
        pass


class StagedIncoming(Incoming):
    def __init__(self, group, peer, shape, kind, device, ahead):
        super().__init__(group, peer, shape, kind, device, ahead)
        self._pinned = torch.empty(shape, dtype=kind, pin_memory=True)
        self._stream, self._thread = torch.cuda.Stream(device), concurrent.futures.ThreadPoolExecutor(1)

    def _receive(self):
        into = self._new()
        # What has used this memory before may still be queued.
        is_free = torch.cuda.current_stream().record_event()
        return self._thread.submit(self._carry, into, is_free), into

    def _carry(self, into, is_free):
        dist.recv(self._pinned, self.peer, group=self.group)
        with torch.cuda.stream(self._stream):
            self._stream.wait_event(is_free)
            into.copy_(self._pinned, non_blocking=True)
        self._stream.synchronize()

    def _wait(self, future, tensor):
        future.result()
        return tensor

    def check(self):
        pass


def crossings(schedule):
    """(boundary, position before it, position after it), where these differ."""
    for boundary in range(schedule.stages - 1):
        before, after = schedule.place_of(boundary)[0], schedule.place_of(boundary + 1)[0]
        if before != after:
            yield boundary, before, after


class LooseEnds:
    """In place of `Pipes`, without a peer: sends nothing and receives zeros."""

    def __init__(self, schedule, position, shape, kind, device):
        self.outgoing, self.incoming = {}, {}
        self._new = lambda: torch.zeros(shape, dtype=kind, device=device)
        for boundary, before, after in crossings(schedule):
            for direction, source, target in (("activations", before, after), ("gradients", after, before)):
                if position == source:
                    self.outgoing[direction, boundary] = self
                if position == target:
                    self.incoming[direction, boundary] = self

    def send(self, tensor):
        pass

    def take(self, micro_batch):
        return self._new()

    def start(self, schedule):
        pass

    def finish(self):
        pass


class Pipes:
    """The ends that this rank has of all messages of a pipeline over one link.

    Each neighbour pair, boundary and direction has a process group of its own, so that no message waits for an unrelated one,
    and so that back-ends that keep one order for each pair of ranks cannot deadlock. All ranks make all groups, in one order.
    """

    def __init__(self, link, job, schedule, shape, kind):
        self.outgoing, self.incoming, self.carriers = {}, {}, {}
        self.inner_groups = job.inner_groups(link)
        position, replica, part = job.layout.place(job.rank)
        for boundary, before, after in crossings(schedule):
            for d in range(job.layout.data):
                for t in range(job.layout.tensor):
                    ends = job.layout.rank(before, d, t), job.layout.rank(after, d, t)
                    backend = job.backend_between(link, *ends)
                    for direction, (source, target) in (("activations", ends), ("gradients", ends[::-1])):
                        group = job.new_group(sorted(ends), backend, link)
                        if job.rank in ends:
                            self._add((direction, boundary), group, source, target, backend, job, shape, kind,
                                      link_settings.ahead_of(link))

    def _add(self, key, group, source, target, backend, job, shape, kind, ahead):
        self.carriers[key] = backend
        is_staged = backend == "gloo" and job.device.type == "cuda"
        near = torch.device("cpu") if is_staged else job.device
        if job.rank == source:
            self.outgoing[key] = (StagedOutgoing(group, target, shape, kind, job.device) if is_staged
                                  else Outgoing(group, target))
            self._first(dist.isend(torch.zeros(shape, dtype=kind, device=near), target, group=group))
        else:
            self.incoming[key] = (StagedIncoming if is_staged else Incoming)(group, source, shape, kind, job.device, ahead)
            self._first(dist.irecv(torch.zeros(shape, dtype=kind, device=near), source, group=group))

    @staticmethod
    def _first(work):
        """A message as long as all others, group by group in one order: the first one connects, and allocates memory that the
        driver gives only while no stream waits, so this thread does."""
        work.wait(datetime.timedelta(seconds=60))

    def start(self, schedule):
        for (direction, boundary), end in self.incoming.items():
            if direction == "activations":
                end.start(schedule.sent(boundary, (FORWARD,)))
            else:
                end.start(schedule.sent(boundary + 1, (BACKWARD, BACKWARD_INPUT)))

    def finish(self):
        for end in self.outgoing.values():
            end.finish()

    def check(self):
        for end in (*self.outgoing.values(), *self.incoming.values()):
            end.check()

    def sent_bytes(self):
        """(direction, boundary): bytes, since the last call."""
        sent = {key: end.bytes for key, end in self.outgoing.items()}
        for end in self.outgoing.values():
            end.bytes = 0
        return sent
