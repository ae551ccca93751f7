#!/usr/bin/env python3
"""What a program that knows NCCL's interface only sees on GPUs when another rank is killed, stopped or aborted, makes another
call, or none: an error on every rank, in time, that names the rank. Run by hand, where there are GPUs.

usage: gpu_faults.py LIBRARY [CASE]...     (LIBRARY: libtandem_nccl.so; one rank for each GPU, or two that share the only one)

Each case has a rank a process, once in one island, over the vendor's library (which cannot share a GPU), and once with each rank
as an island. Prints one
line of JSON for each; exit status 1 if a rank got no error, or late.
"""

import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

OPERATION_TIMEOUT_S = 4
# By case: seconds within which every other rank has its error, and whether it names the last rank.
CASES = {"killed": (2, True), "aborted": (2, True), "stopped": (OPERATION_TIMEOUT_S + 2, True),
         "wrong_count": (OPERATION_TIMEOUT_S + 2, False), "wrong_type": (OPERATION_TIMEOUT_S + 2, False),
         "one_rank_fewer": (OPERATION_TIMEOUT_S + 2, True), "killed_sender": (2, True),
         "stopped_sender": (OPERATION_TIMEOUT_S + 2, True)}
FLOAT32, INT32, SUM, IN_PROGRESS, NOT_READY = 7, 2, 0, 7, 600
COUNT = 1 << 20


class unique_id(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]


class Rank:
    def __init__(self, rank, ranks, folder):
        self.rank, self.ranks, self.folder = rank, ranks, folder
        self.cuda, self.nccl = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL("libnccl.so.2")
        self.nccl.ncclGetLastError.restype = ctypes.c_char_p
        self.nccl.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, unique_id, ctypes.c_int]
        self.nccl.ncclAllReduce.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int,
                                            ctypes.c_void_p, ctypes.c_void_p]
        context, count = ctypes.c_void_p(), ctypes.c_int()
        self.ok(self.cuda.cuInit(0))
        self.ok(self.cuda.cuDeviceGetCount(ctypes.byref(count)))
        self.ok(self.cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), rank % count.value))
        self.ok(self.cuda.cuCtxSetCurrent(context))
        self.data, self.stream, self.comm = ctypes.c_uint64(), ctypes.c_void_p(), ctypes.c_void_p()
        self.ok(self.cuda.cuMemAlloc_v2(ctypes.byref(self.data), ctypes.c_size_t(4 * COUNT)))
        self.ok(self.cuda.cuMemsetD32_v2(self.data, 0, ctypes.c_size_t(COUNT)))
        self.ok(self.cuda.cuStreamCreate(ctypes.byref(self.stream), 1))
        self.ok(self.nccl.ncclCommInitRank(ctypes.byref(self.comm), ranks, self.meet(), rank))

    @staticmethod
    def ok(status):
        assert status == 0, f"status {status}"

    def meet(self):
        path, made = os.path.join(self.folder, "id"), unique_id()
        if self.rank == 0:
            self.ok(self.nccl.ncclGetUniqueId(ctypes.byref(made)))
            with open(path + ".new", "wb") as file:
                file.write(bytes(made))
            os.rename(path + ".new", path)
        while not os.path.exists(path):
            time.sleep(0.01)
        with open(path, "rb") as file:
            return unique_id.from_buffer_copy(file.read())

    def all_reduce(self, count=COUNT, kind=FLOAT32):
        """The status of the call, or that which arrives while its stream waits; None: neither ends within 20 s."""
        status = self.nccl.ncclAllReduce(self.data.value, self.data.value, count, kind, SUM, self.comm, self.stream)
        return status if status not in (0, IN_PROGRESS) else self.until_idle()

    def message(self):
        """The same of a message from the last rank to each other."""
        last = self.ranks - 1
        for peer in range(last) if self.rank == last else [last]:
            call = self.nccl.ncclSend if self.rank == last else self.nccl.ncclRecv
            status = call(ctypes.c_void_p(self.data.value), ctypes.c_size_t(COUNT), FLOAT32, peer, self.comm, self.stream)
            if status not in (0, IN_PROGRESS):
                return status
        return self.until_idle()

    def until_idle(self, is_queued=True):
        end = time.monotonic() + 20
        while time.monotonic() < end:
            now = ctypes.c_int()
            self.ok(self.nccl.ncclCommGetAsyncError(self.comm, ctypes.byref(now)))
            if now.value not in (0, IN_PROGRESS):
                return now.value
            if is_queued and self.cuda.cuStreamQuery(self.stream) != NOT_READY:
                return 0
        return None

    def wrote(self, name, value=""):
        with open(os.path.join(self.folder, name), "w") as file:
            file.write(value or repr(time.monotonic()))

    def report(self, status):
        said = {"rank": self.rank, "status": status, "at": time.monotonic(),
                "text": (self.nccl.ncclGetLastError(self.comm) or b"").decode(errors="replace")}
        begun = time.monotonic()
        self.nccl.ncclCommAbort(self.comm)
        said["stream"] = self.cuda.cuStreamSynchronize(self.stream)
        said["abort_s"] = time.monotonic() - begun
        self.wrote(f"report{self.rank}", json.dumps(said))

    def play(self, case):
        is_last = self.rank == self.ranks - 1
        call = self.message if case.endswith("_sender") else self.all_reduce
        for turn in range(10):
            self.ok(call())
        if case.startswith(("killed", "stopped", "aborted")):
            status = 0
            for turn in range(200_000):
                if is_last and turn == 20:
                    self.wrote("began")
                    if case == "aborted":
                        self.ok(self.nccl.ncclCommAbort(self.comm))
                        return
                    os.kill(os.getpid(), signal.SIGKILL if case.startswith("killed") else signal.SIGSTOP)
                status = call()
                if status != 0:
                    break
            return self.report(status)
        if is_last:
            self.wrote("began")
        if case == "one_rank_fewer":
            return self.report(self.until_idle(is_queued=False) if is_last else self.all_reduce())
        status = self.all_reduce(COUNT // 2 if case == "wrong_count" and is_last else COUNT,
                                 INT32 if case == "wrong_type" and is_last else FLOAT32)
        # The vendor's library may carry out calls that differ, and return nonsense.
        self.report(status if status != 0 else self.until_idle(is_queued=False))


def run(library, case, ranks, island):
    limit, is_named = CASES[case]
    environment = os.environ | {"LD_PRELOAD": os.path.realpath(library), "NCCL_SOCKET_IFNAME": "=lo", "NCCL_DEBUG": "WARN",
                                "TANDEM_VENDOR_LIBRARY": str(int(island)), "TANDEM_OPERATION_TIMEOUT_S": str(OPERATION_TIMEOUT_S)}
    with tempfile.TemporaryDirectory() as folder:
        each = [subprocess.Popen([sys.executable, __file__, "--rank", case, str(rank), str(ranks), folder], env=environment,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for rank in range(ranks)]
        reporting = ranks if case in ("wrong_count", "wrong_type", "one_rank_fewer") else ranks - 1
        end = time.monotonic() + 60
        while time.monotonic() < end and any(each[rank].poll() is None for rank in range(reporting)):
            time.sleep(0.02)
        for one in each:
            one.kill()
        printed = [one.communicate()[0] for one in each]

        def read(name):
            path = os.path.join(folder, name)
            return open(path).read() if os.path.exists(path) else ""

        began, found, wrong = read("began"), [], []
        for rank in range(reporting):
            said = json.loads(read(f"report{rank}") or "{}")
            late_s = said["at"] - float(began) if said and began else None
            found.append({"rank": rank, "seconds": late_s and round(late_s, 3), "status": said.get("status"),
                          "abort_s": said and round(said["abort_s"], 3), "text": said.get("text")})
            name_is_there = rank == ranks - 1 or f"rank {ranks - 1}" in (said.get("text") or "")
            if not said or not said["status"] or late_s is None or late_s > limit or said["abort_s"] > 2 or (is_named and not name_is_there):
                wrong.append(rank)
        print(json.dumps({"op": "nccl-faults", "case": case, "ranks": ranks, "island": "one" if island else "each rank one",
                          "limit_s": limit, "is_right": not wrong, "found": found}), flush=True)
        for rank in wrong:
            print(f"rank {rank}: {printed[rank][-1500:]}", flush=True)
        return not wrong


def main():
    if sys.argv[1] == "--rank":
        case, rank, ranks, folder = sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
        return Rank(rank, ranks, folder).play(case) or 0
    cuda, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
    if cuda.cuInit(0) != 0 or cuda.cuDeviceGetCount(ctypes.byref(count)) != 0 or count.value < 1:
        print("skipped: needs a GPU")
        return 0
    is_right = True
    for case in sys.argv[2:] or CASES:
        for island in (False, True) if count.value > 1 else (False,):
            is_right = run(sys.argv[1], case, max(2, min(count.value, 4)), island) and is_right
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
