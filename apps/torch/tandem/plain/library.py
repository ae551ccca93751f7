"""tandem.h and tandem_pipelines.h for Python: constants, structures and functions, and errors as exceptions. Needs no PyTorch."""

import ctypes
import threading
from ctypes import POINTER, byref, c_char, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, c_void_p

from .. import glue

ABI_VERSION = 1
OK, IN_PROGRESS, TIMED_OUT = 0, -1, 6
HOST, CUDA, HIP = 0, 1, 2
ANY_SOURCE = -1

FLOAT32, FLOAT64, INT32, INT64, INT8, INT16, UINT8, UINT16, UINT32, UINT64, FLOAT16, BFLOAT16, FLOAT8_E4M3, FLOAT8_E5M2 = range(14)
SUM, PRODUCT, MINIMUM, MAXIMUM, AVERAGE, BAND, BOR, BXOR, PREMULTIPLIED_SUM = range(9)


class Error(ctypes.Structure):
    _fields_ = [("struct_bytes", c_size_t), ("code", c_int32), ("rank", c_int32), ("peer", c_int32), ("bytes_done", c_int64),
                ("bytes_total", c_int64), ("rail", c_char * 128), ("phase", c_char * 128), ("text", c_char * 1024)]

    def __init__(self):
        super().__init__(ctypes.sizeof(Error))

    def message(self):
        return self.text.decode("utf-8", "replace")


class Buffer(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("bytes", c_size_t), ("kind", c_int32), ("device", c_int32)]


class Reduction(ctypes.Structure):
    _fields_ = [("type", c_int32), ("op", c_int32), ("factor", c_double)]


class Call(ctypes.Structure):
    _fields_ = [("struct_bytes", c_size_t), ("timeout_ms", c_int64), ("stream", c_void_p), ("has_stream", c_int32)]

    def __init__(self, timeout_ms):
        super().__init__(ctypes.sizeof(Call), max(timeout_ms, 1))


StoreSet = ctypes.CFUNCTYPE(c_int, c_void_p, c_char_p, c_void_p, c_size_t)
StoreGet = ctypes.CFUNCTYPE(c_int, c_void_p, c_char_p, c_void_p, POINTER(c_size_t), c_int64)
Completed = ctypes.CFUNCTYPE(None, c_void_p, c_void_p)


class Store(ctypes.Structure):
    _fields_ = [("struct_bytes", c_size_t), ("context", c_void_p), ("set", StoreSet), ("get", StoreGet)]


class JobOptions(ctypes.Structure):
    _fields_ = [("struct_bytes", c_size_t), ("rank", c_int32), ("size", c_int32), ("store", POINTER(Store)), ("name", c_char_p),
                ("meet_timeout_ms", c_int64), ("operation_timeout_ms", c_int64), ("settings", POINTER(c_char_p)),
                ("memory_kind", c_int32), ("device", c_int32)]


class Pipeline(ctypes.Structure):
    _fields_ = [("struct_bytes", c_size_t), ("kind", c_char_p), ("ranks", c_int32), ("micro_batches", c_int32),
                ("chunks", c_int32), ("costs", POINTER(c_int32)), ("cost_count", c_size_t)]


class PipelineStep(ctypes.Structure):
    _fields_ = [("what", c_int32), ("chunk", c_int32), ("micro_batch", c_int32)]


class PipelinePrediction(ctypes.Structure):
    _fields_ = [("struct_bytes", c_size_t), ("chunks", c_int32), ("peak_stash", c_int32), ("peak_weights", c_int32),
                ("slots", c_int64), ("busy_slots", c_int64), ("bubble", c_double), ("bubble_of_all", c_double)]


JOB = COMM = OP = c_void_p
LENGTHS = POINTER(c_size_t)
OPERATIONS = {  # between the communicator and the call
    "barrier": [],
    "broadcast": [Buffer, c_int32],
    "all_reduce": [Buffer, Buffer, Reduction],
    "reduce": [Buffer, Buffer, Reduction, c_int32],
    "all_gather": [Buffer, Buffer, LENGTHS],
    "reduce_scatter": [Buffer, Buffer, LENGTHS, Reduction],
    "gather": [Buffer, Buffer, LENGTHS, c_int32],
    "scatter": [Buffer, Buffer, LENGTHS, c_int32],
    "all_to_all": [Buffer, LENGTHS, Buffer, LENGTHS],
    "send": [Buffer, c_int32, c_int32],
    "recv": [Buffer, c_int32, c_int32],
}
FUNCTIONS = {  # result, arguments
    "abi_version": (c_int, []),
    "version": (c_char_p, []),
    "log_to_stderr": (None, []),
    "job_create": (c_int, [POINTER(JobOptions), POINTER(JOB), POINTER(Error)]),
    "job_destroy": (None, [JOB]),
    "job_world": (COMM, [JOB]),
    "comm_create_group": (c_int, [COMM, POINTER(c_int32), c_size_t, c_char_p, POINTER(COMM), POINTER(Error)]),
    "comm_destroy": (None, [COMM]),
    "comm_abort": (None, [COMM, c_char_p]),
    "comm_rank": (c_int, [COMM]),
    "comm_size": (c_int, [COMM]),
    "comm_describe": (None, [COMM, c_char_p, c_size_t]),
    "op_test": (c_int, [OP, POINTER(Error)]),
    "op_wait": (c_int, [OP, c_int64, POINTER(Error)]),
    "op_wait_stream": (c_int, [OP, c_void_p, POINTER(Error)]),
    "op_source": (c_int32, [OP]),
    "op_on_complete": (None, [OP, Completed, c_void_p]),
    "op_cancel": (None, [OP]),
    "op_release": (None, [OP]),
    "pipeline_steps": (c_int, [POINTER(Pipeline), c_int32, POINTER(PipelineStep), POINTER(c_size_t), POINTER(Error)]),
    "pipeline_stage": (c_int, [POINTER(Pipeline), c_int32, c_int32, POINTER(c_int32), POINTER(Error)]),
    "pipeline_predict": (c_int, [POINTER(Pipeline), c_int32, POINTER(PipelinePrediction), POINTER(Error)]),
} | {name: (c_int, [COMM, *arguments, POINTER(Call), POINTER(OP), POINTER(Error)]) for name, arguments in OPERATIONS.items()}


class Library:
    """The functions of both headers without their prefix. Calls release the interpreter's lock. Raises glue.Unusable."""

    def __init__(self):
        opened, path = glue.opened(), glue.library()
        try:
            for name, (result, arguments) in FUNCTIONS.items():
                function = opened[f"tandem_{name}"]
                function.restype, function.argtypes = result, arguments
                setattr(self, name, function)
        except AttributeError as missing:
            raise glue.Unusable(f"tandem: {path} cannot be used ({missing}): install it and this package from one version of "
                                "Tandem") from missing
        if self.abi_version() != ABI_VERSION:
            raise glue.Unusable(f"tandem: {path} has the interface {self.abi_version()}, this package needs {ABI_VERSION}: install "
                                "both from one version of Tandem")


_lock = threading.Lock()
_loaded = None


def loaded():
    """The Library of this process, which the first call opens. Raises glue.Unusable."""
    global _loaded
    with _lock:
        if _loaded is None:
            _loaded = Library()
        return _loaded


def failure(error):
    """What is raised for an error of Tandem. Scripts recognise a timeout by that word."""
    from torch.distributed import DistBackendError

    return DistBackendError(("tandem: a timeout : " if error.code == TIMED_OUT else "tandem: ") + error.message())


def check(status, error):
    if status != OK:
        raise failure(error)


def start(function, comm, call, *arguments):
    """Starts an operation; returns its handle."""
    op, error = OP(), Error()
    check(function(comm, *arguments, byref(call), byref(op), byref(error)), error)
    return op.value


def lengths(of_ranks):
    """Lengths by rank as an argument."""
    return (c_size_t * len(of_ranks))(*of_ranks)


def milliseconds(duration):
    """Of a timedelta, as PyTorch passes it; -1 is its value for "not given"."""
    return (duration.days * 86_400 + duration.seconds) * 1000 + duration.microseconds // 1000
