"""The back-end for PyTorch 2.15 and later: in Python, over the functions of tandem.h, so that nothing is compiled. It does what
the one of the folder backend/ does, which versions before need."""

import sys
import threading
import weakref

_lock = threading.Lock()
_opened = None
_world = None  # a weak reference to the default group


def load():
    """Opens Tandem's library. Returns this module. Raises Unusable."""
    global _opened
    from . import gaps, library

    with _lock:
        if _opened is None:
            opened = library.loaded()
            opened.log_to_stderr()
            gaps.let_handles_answer()
            gaps.let_ranks_stay_out_of_splits()
            _opened = opened
    return sys.modules[__name__]


def create_job(store, rank, size, timeout, name, is_world, shown_name, gpu, _global_ranks):
    """Joins a job; returns the back-end of all its ranks. PyTorch 2.15's own recorder knows their global ranks."""
    global _world
    from .backend import Backend
    from .job import Job
    from .library import milliseconds

    job = Job(_opened, store, rank, size, milliseconds(timeout), name, gpu)
    made = Backend(_opened, job, job.world(), timeout, shown_name, False)
    if is_world:
        _world = weakref.ref(made)
    return made


def world():
    """The default group's back-end, while it is in a job; else None."""
    found = _world() if _world is not None else None
    return found if found is not None and found.is_in_job() else None


def leave_all():
    from .backend import joined
    from .work import finish_watching

    for group in list(joined):
        group.leave()
    finish_watching(limit_s=5)


def dump_flight_recorder(_path):
    raise RuntimeError("tandem: PyTorch 2.15 and later record the calls themselves; with "
                       "TANDEM_GLUE=compiled Tandem does")
