"""A process group's back-end in Python: the calls of torch.distributed as operations of tandem.h."""

import ctypes
from ctypes import byref

import torch
from torch._C._distributed_c10d import Backend as TorchBackend
from torch.distributed import ReduceOp

from . import blocking
from . import library as c
from . import tensors as t
from .work import Work

# Tags from here on are those of monitored barriers.
FIRST_BARRIER_TAG = 64512
BARRIER_TAGS = 1024

# The process's groups that use a job. They stay alive until they leave: PyTorch's wrapper of TORCH_DISTRIBUTED_DEBUG=DETAIL
# keeps their C++ part only.
joined = set()


class Backend(TorchBackend):
    def __init__(self, lib, job, comm, timeout, name, is_part):
        """@param name  of the back-end, as scripts and profiles see it
        @param is_part  some ranks of the job only; then it owns `comm`"""
        super().__init__(lib.comm_rank(comm), lib.comm_size(comm))
        self._lib, self._job, self._comm, self._name, self._is_part = lib, job.join(), comm, name, is_part
        self._rank, self._ranks = self.rank(), self.size()
        self._options = TorchBackend.Options(name, timeout=timeout)
        self._timeout_ms = c.milliseconds(timeout)
        self._calls = self._barriers = 0
        self._gpu = None  # of its last tensors on one
        self._coalesced = None
        joined.add(self)

    def create_group(self, ranks, name, timeout):
        """A group of these ranks of this one; None on other ranks."""
        if self._rank not in ranks:
            return None
        made, error = c.COMM(), c.Error()
        members = (ctypes.c_int32 * len(ranks))(*ranks)
        c.check(self._lib.comm_create_group(self._used(), members, len(ranks), name.encode(), byref(made), byref(error)), error)
        return Backend(self._lib, self._job, made.value, timeout, self._name, True)

    def leave(self):
        comm, job, self._comm, self._job = self._comm, self._job, None, None
        joined.discard(self)
        if self._is_part and comm is not None:
            self._lib.comm_destroy(comm)
        if job is not None:
            job.leave()

    def shutdown(self):
        self.leave()

    def abort(self):
        if self._comm is not None:
            self._lib.comm_abort(self._comm, b"torch.distributed has aborted the process group")

    def is_in_job(self):
        return self._job is not None

    def describe(self):
        text = ctypes.create_string_buffer(256)
        self._lib.comm_describe(self._used(), text, len(text))
        return text.value.decode()

    # What torch.distributed asks.

    def getBackendName(self):
        return self._name

    @property
    def options(self):
        return self._options

    @property
    def supports_splitting(self):
        return True

    @property
    def supports_coalescing(self):
        return True

    def set_timeout(self, timeout):
        self._timeout_ms = c.milliseconds(timeout)

    _set_default_timeout = set_timeout

    def _set_sequence_number_for_group(self):
        pass

    def _get_sequence_number_for_group(self):
        return self._calls

    def split(self, _store, ranks, options):
        return self.create_group(list(ranks), options.group_name, options._timeout)

    def perform_nocolor_split(self, _device):
        pass

    def start_coalescing(self):
        self._coalesced = []

    def end_coalescing(self):
        if self._coalesced is None:
            raise RuntimeError("tandem: end_coalescing without start_coalescing")
        parts, self._coalesced = self._coalesced, None
        whole = Work(self._lib, f"{self._name}:coalesced")
        for part in parts:
            whole.add_part(part)
        return whole

    # How a call becomes operations.

    def _used(self):
        if self._comm is None:
            raise RuntimeError("tandem: this process group was shut down")
        return self._comm

    def _limit(self, opts):
        given = c.milliseconds(opts.timeout)
        return self._timeout_ms if given == -1 else given

    def _make(self, title, outputs=()):
        self._calls += 1
        return Work(self._lib, f"{self._name}:{title}", outputs)

    def _start(self, work, limit_ms, function, *arguments):
        """Starts an operation for `work`: a function of tandem.h with these arguments."""
        call = c.Call(limit_ms)
        for argument in arguments:
            if type(argument) is c.Buffer and argument.kind != c.HOST:
                self._gpu = gpu = torch.device("cuda", argument.device)
                work.is_on(gpu)
                call.stream, call.has_stream = torch.cuda.current_stream(gpu).cuda_stream, 1
                break
        work.add(c.start(function, self._used(), call, *arguments))

    def _give(self, work):
        """What is returned to the caller; part of a batch between start_coalescing and end_coalescing."""
        if self._coalesced is not None:
            self._coalesced.append(work)
        return work

    # The same data on all ranks.

    def broadcast(self, tensors, opts):
        work = self._make("broadcast", tensors)
        used = work.updates(t.only_one("broadcast", tensors))
        self._start(work, self._limit(opts), self._lib.broadcast, t.buffer_of(used), opts.rootRank)
        return self._give(work)

    def _start_all_reduce(self, work, tensor, opts):
        how = t.reduction_of(opts.reduceOp, tensor)
        buffer = t.buffer_of(work.updates(tensor))
        self._start(work, self._limit(opts), self._lib.all_reduce, buffer, buffer, how)

    def allreduce(self, tensors, opts):
        if len(tensors) == 1 and tensors[0].is_sparse:
            if opts.reduceOp.op != ReduceOp.SUM:
                raise ValueError("tandem: all_reduce: sparse tensors have sums only")
            blocking.sparse_all_reduce(self._lib, self._used(), tensors[0], self._ranks, self._limit(opts))
            return self._give(self._make("sparse_all_reduce", tensors))
        work = self._make("all_reduce", tensors)
        self._start_all_reduce(work, t.only_one("all_reduce", tensors), opts)
        return self._give(work)

    allreduce_sparse = allreduce

    def allreduce_coalesced(self, tensors, opts):
        for tensor in tensors:
            t.check_tensor("all_reduce_coalesced", tensor)
        work = self._make("all_reduce", tensors)
        for tensor in tensors:
            self._start_all_reduce(work, tensor, opts)
        return self._give(work)

    def reduce(self, tensors, opts):
        tensor = t.only_one("reduce", tensors)
        how = t.reduction_of(opts.reduceOp, tensor)
        work = self._make("reduce", tensors)
        buffer = t.buffer_of(work.updates(tensor) if opts.rootRank == self._rank else work.reads(tensor))
        self._start(work, self._limit(opts), self._lib.reduce, buffer, buffer, how, opts.rootRank)
        return self._give(work)

    def _start_all_gather(self, work, outputs, tensor, opts):
        t.check_list("all_gather", outputs, self._ranks)
        t.check_tensor("all_gather", tensor)
        t.check_same_type("all_gather", outputs[0], tensor)
        mine = outputs[self._rank]
        if mine.numel() != tensor.numel():
            raise ValueError(f"tandem: all_gather: the input has {tensor.numel()} elements, the output for this rank "
                             f"{mine.numel()}")
        self._start(work, self._limit(opts), self._lib.all_gather, t.buffer_of(work.reads(tensor)),
                    t.buffer_of(work.writes_all(outputs)), t.unequal_lengths_of(outputs))

    def allgather(self, outputs, inputs, opts):
        tensor = t.only_one("all_gather", inputs)
        if len(outputs) != 1:
            raise ValueError("tandem: all_gather: expected one list of outputs")
        work = self._make("all_gather", outputs[0])
        self._start_all_gather(work, outputs[0], tensor, opts)
        return self._give(work)

    def allgather_coalesced(self, outputs, inputs, opts):
        if len(outputs) != self._ranks or any(len(of_rank) != len(inputs) for of_rank in outputs):
            raise ValueError(f"tandem: all_gather_coalesced: expected a list of {len(inputs)} outputs for each of {self._ranks} "
                             "ranks")
        work = self._make("all_gather", [tensor for of_rank in outputs for tensor in of_rank])
        for number, tensor in enumerate(inputs):
            self._start_all_gather(work, [of_rank[number] for of_rank in outputs], tensor, opts)
        return self._give(work)

    def _start_all_gather_single(self, work, output, tensor, opts):
        call = "all_gather_into_tensor"
        t.check_tensor(call, output)
        t.check_tensor(call, tensor)
        t.check_same_type(call, output, tensor)
        if output.numel() != tensor.numel() * self._ranks:
            raise ValueError(f"tandem: {call}: the output has {output.numel()} elements, expected {self._ranks} times the input's "
                             f"{tensor.numel()}")
        self._start(work, self._limit(opts), self._lib.all_gather, t.buffer_of(work.reads(tensor)),
                    t.buffer_of(work.writes(output)), None)

    def all_gather_single(self, output, tensor, opts):
        work = self._make("all_gather", [output])
        self._start_all_gather_single(work, output, tensor, opts)
        return self._give(work)

    def all_gather_single_coalesced(self, outputs, inputs, opts):
        self._check_pairs("all_gather_into_tensor_coalesced", outputs, inputs)
        work = self._make("all_gather", outputs)
        for output, tensor in zip(outputs, inputs):
            self._start_all_gather_single(work, output, tensor, opts)
        return self._give(work)

    # A part for each rank.

    @staticmethod
    def _check_pairs(call, outputs, inputs):
        if len(outputs) != len(inputs):
            raise ValueError(f"tandem: {call}: {len(outputs)} outputs for {len(inputs)} inputs")

    def _check_root_list(self, call, lists, what, opts):
        """Whether this rank is the root, which alone has a list of tensors, one for each rank."""
        is_root = opts.rootRank == self._rank
        if len(lists) != int(is_root):
            raise ValueError(f"tandem: {call}: expected " + (f"one list of {what} at the root" if is_root else
                                                             f"no {what} at other ranks than the root"))
        return is_root

    def _check_root_sizes(self, call, tensors, other):
        t.check_list(call, tensors, self._ranks)
        t.check_same_type(call, tensors[0], other)
        if not t.are_equally_long(tensors) or tensors[0].numel() != other.numel():
            raise ValueError(f"tandem: {call}: inputs and outputs differ in size")

    def gather(self, outputs, inputs, opts):
        tensor = t.only_one("gather", inputs)
        is_root = self._check_root_list("gather", outputs, "outputs", opts)
        work = self._make("gather", outputs[0] if is_root else ())
        mine, everything = t.buffer_of(work.reads(tensor)), t.NOTHING
        if is_root:
            self._check_root_sizes("gather", outputs[0], tensor)
            everything = t.buffer_of(work.writes_all(outputs[0]))
        self._start(work, self._limit(opts), self._lib.gather, mine, everything, None, opts.rootRank)
        return self._give(work)

    def scatter(self, outputs, inputs, opts):
        output = t.only_one("scatter", outputs)
        is_root = self._check_root_list("scatter", inputs, "inputs", opts)
        work = self._make("scatter", outputs)
        mine, everything = t.buffer_of(work.writes(output)), t.NOTHING
        if is_root:
            self._check_root_sizes("scatter", inputs[0], output)
            everything = t.buffer_of(work.reads(t.joined(inputs[0])))
        self._start(work, self._limit(opts), self._lib.scatter, everything, mine, None, opts.rootRank)
        return self._give(work)

    def reduce_scatter(self, outputs, inputs, opts):
        output = t.only_one("reduce_scatter", outputs)
        if len(inputs) != 1:
            raise ValueError("tandem: reduce_scatter: expected one list of inputs")
        parts = inputs[0]
        t.check_list("reduce_scatter", parts, self._ranks)
        t.check_same_type("reduce_scatter", parts[0], output)
        if parts[self._rank].numel() != output.numel():
            raise ValueError(f"tandem: reduce_scatter: the output has {output.numel()} elements, the input for this rank "
                             f"{parts[self._rank].numel()}")
        how = t.reduction_of(opts.reduceOp, output)
        work = self._make("reduce_scatter", outputs)
        self._start(work, self._limit(opts), self._lib.reduce_scatter, t.buffer_of(work.reads(t.joined(parts))),
                    t.buffer_of(work.writes(output)), t.unequal_lengths_of(parts), how)
        return self._give(work)

    def _start_reduce_scatter_single(self, work, output, tensor, opts):
        call = "reduce_scatter_tensor"
        t.check_tensor(call, output)
        t.check_tensor(call, tensor)
        t.check_same_type(call, output, tensor)
        if tensor.numel() != output.numel() * self._ranks:
            raise ValueError(f"tandem: {call}: the input has {tensor.numel()} elements, expected {self._ranks} times the output's "
                             f"{output.numel()}")
        how = t.reduction_of(opts.reduceOp, output)
        self._start(work, self._limit(opts), self._lib.reduce_scatter, t.buffer_of(work.reads(tensor)),
                    t.buffer_of(work.writes(output)), None, how)

    def reduce_scatter_single(self, output, tensor, opts):
        work = self._make("reduce_scatter", [output])
        self._start_reduce_scatter_single(work, output, tensor, opts)
        return self._give(work)

    def reduce_scatter_single_coalesced(self, outputs, inputs, opts):
        self._check_pairs("reduce_scatter_tensor_coalesced", outputs, inputs)
        work = self._make("reduce_scatter", outputs)
        for output, tensor in zip(outputs, inputs):
            self._start_reduce_scatter_single(work, output, tensor, opts)
        return self._give(work)

    def all_to_all_single(self, output, tensor, output_splits, input_splits, opts):
        t.check_tensor("all_to_all_single", output)
        t.check_tensor("all_to_all_single", tensor)
        t.check_same_type("all_to_all_single", output, tensor)
        received = t.split_lengths("output", output_splits, output, self._ranks)
        sent = t.split_lengths("input", input_splits, tensor, self._ranks)
        is_equal = not output_splits and not input_splits
        work = self._make("all_to_all", [output])
        self._start(work, self._limit(opts), self._lib.all_to_all, t.buffer_of(work.reads(tensor)),
                    None if is_equal else c.lengths(sent), t.buffer_of(work.writes(output)),
                    None if is_equal else c.lengths(received))
        return self._give(work)

    def alltoall(self, outputs, inputs, opts):
        t.check_list("all_to_all", outputs, self._ranks)
        t.check_list("all_to_all", inputs, self._ranks)
        t.check_same_type("all_to_all", outputs[0], inputs[0])
        work = self._make("all_to_all", outputs)
        self._start(work, self._limit(opts), self._lib.all_to_all, t.buffer_of(work.reads(t.joined(inputs))),
                    t.lengths_of(inputs), t.buffer_of(work.writes_all(outputs)), t.lengths_of(outputs))
        return self._give(work)

    # Messages and barriers.

    def send(self, tensors, to, tag=0):
        tensor = t.only_one("send", tensors)
        self._check_tag(tag)
        work = self._make("send", tensors)
        self._start(work, self._timeout_ms, self._lib.send, t.buffer_of(work.reads(tensor)), to, tag)
        return self._give(work)

    def recv(self, tensors, source, tag=0):
        return self._receive("recv", tensors, source, tag)

    def recv_anysource(self, tensors, tag=0):
        return self._receive("recvAnySource", tensors, c.ANY_SOURCE, tag)

    def _receive(self, title, tensors, source, tag):
        tensor = t.only_one("recv", tensors)
        self._check_tag(tag)
        work = self._make(title, tensors)
        # It keeps what it had where a message is shorter.
        self._start(work, self._timeout_ms, self._lib.recv, t.buffer_of(work.updates(tensor)), source, tag)
        return self._give(work)

    @staticmethod
    def _check_tag(tag):
        if not 0 <= tag < FIRST_BARRIER_TAG:
            raise ValueError(f"tandem: tag {tag}: tags are 0 to {FIRST_BARRIER_TAG - 1}")

    def barrier(self, opts):
        if self._gpu is not None:  # what it separates includes the work of GPUs
            torch.cuda.current_stream(self._gpu).synchronize()
        work = self._make("barrier")
        self._start(work, self._limit(opts), self._lib.barrier)
        return self._give(work)

    def monitored_barrier(self, opts, wait_for_all=False):
        call = blocking.MonitoredBarrier(self._lib, self._used(), FIRST_BARRIER_TAG + self._barriers % BARRIER_TAGS)
        self._barriers += 1
        if self._rank == 0:
            call.as_rank_0(self._ranks, self._limit(opts), wait_for_all)
        else:
            call.as_other(self._rank, self._limit(opts))
