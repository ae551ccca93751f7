#!/usr/bin/env python3
"""Which calls of CUDA wait while a stream waits for a word of memory, as streams do for other ranks. Run by hand, on a GPU.

usage: bench/gpu_closing.py
Prints one JSON line for each call: its time on the thread that makes it while the stream waits (it is let go after 0.5 s), alone
and while another thread closes memory of another process.
"""

import ctypes
import json
import subprocess
import sys
import threading
import time

LET_GO_S = 0.5
BYTES = 4 << 20
EXPORTED = 32
cuda = ctypes.CDLL("libcuda.so.1")
u64, void = ctypes.c_uint64, ctypes.c_void_p


class Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 64)]


def call(name, *arguments):
    status = getattr(cuda, name)(*arguments)
    if status != 0:
        raise RuntimeError(f"{name}: {status}")


def context():
    device, made = ctypes.c_int(), void()
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(made), device)
    call("cuCtxSetCurrent", made)
    return made


def memory(bytes_=BYTES):
    made = u64()
    call("cuMemAlloc_v2", ctypes.byref(made), ctypes.c_size_t(bytes_))
    return made


def stream():
    made = void()
    call("cuStreamCreate", ctypes.byref(made), 1)
    return made


def export():
    """In a process of its own, which keeps the allocations until its input ends."""
    context()
    for _ in range(EXPORTED):
        handle = (ctypes.c_ubyte * 64)()
        call("cuIpcGetMemHandle", handle, memory())
        print(bytes(handle).hex(), flush=True)
    sys.stdin.read()


def opened(text):
    handle = Handle()
    ctypes.memmove(ctypes.byref(handle), bytes.fromhex(text), 64)
    made = u64()
    cuda.cuIpcOpenMemHandle_v2.argtypes = [ctypes.POINTER(u64), Handle, ctypes.c_uint]
    call("cuIpcOpenMemHandle_v2", ctypes.byref(made), handle, 1)
    return made


def timed(of, what):
    """Appends its time, in milliseconds."""
    begun = time.perf_counter()
    what()
    of.append(round((time.perf_counter() - begun) * 1e3, 3))


def main():
    other = subprocess.Popen([sys.executable, __file__, "export"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    handles = [other.stdout.readline().strip() for _ in range(EXPORTED)]
    here = context()
    waiting, free, word = stream(), stream(), void()
    call("cuMemHostAlloc", ctypes.byref(word), ctypes.c_size_t(4096), 3)
    at = u64()
    call("cuMemHostGetDevicePointer_v2", ctypes.byref(at), word, 0)
    value = ctypes.cast(word, ctypes.POINTER(ctypes.c_uint32))
    one, two, event = memory(), memory(), void()
    call("cuEventCreate", ctypes.byref(event), 2)
    name = ctypes.create_string_buffer(100)
    call("cuDeviceGetName", name, 100, 0)
    calls = {
        "cuIpcCloseMemHandle": lambda: call("cuIpcCloseMemHandle", opened(handles.pop())),
        "cuMemcpyDtoDAsync": lambda: call("cuMemcpyDtoDAsync_v2", one, two, ctypes.c_size_t(BYTES), free),
        "cuEventRecord": lambda: call("cuEventRecord", event, free),
        "cuEventQuery": lambda: cuda.cuEventQuery(event),
        "cuStreamWriteValue32": lambda: call("cuStreamWriteValue32_v2", free, u64(at.value + 64), 1, 0),
        "cuStreamWaitEvent": lambda: call("cuStreamWaitEvent", free, event, 0),
        "cuIpcOpenMemHandle": lambda: opened(handles.pop()),
        "cuMemAlloc": lambda: memory(1 << 20),
        "cuMemFree": lambda: call("cuMemFree_v2", memory(1 << 20)),
    }
    number = 0
    for while_closing in (False, True):
        for each, what in calls.items():
            number += 1
            mapped = opened(handles.pop())
            took, closing = [], []

            def let_go(until=number):
                time.sleep(LET_GO_S)
                value[0] = until

            def close(of=mapped, closing=closing):
                call("cuCtxSetCurrent", here)
                timed(closing, lambda: call("cuIpcCloseMemHandle", of))

            threads = [threading.Thread(target=let_go)] + [threading.Thread(target=close)] * while_closing
            call("cuStreamWaitValue32_v2", waiting, at, number, 0)
            for thread in threads:
                thread.start()
            time.sleep(0.05)
            timed(took, what if each != "cuIpcCloseMemHandle" or while_closing else close)
            for thread in threads:
                thread.join()
            call("cuCtxSynchronize")
            beside_ms = closing[0] if while_closing else None
            print(json.dumps({"op": "gpu-closing", "call": each, "ms": took[0], "closing_beside_ms": beside_ms,
                              "gpu": name.value.decode()}), flush=True)
    other.stdin.close()
    other.wait()


if __name__ == "__main__":
    export() if sys.argv[1:] == ["export"] else main()
