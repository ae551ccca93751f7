"""Pipeline schedules as Tandem computes them, for programs that run the stages of a model themselves. Needs no job and no
PyTorch: only the library.

    for what, chunk, micro_batch in schedule("zb_v", ranks=4, micro_batches=8)[rank]:
        ...  # on stage_of("zb_v", rank, 4, chunk) of the model

Every rank that gives the same arguments gets the same schedules. A schedule keeps forwards, input parts and weight parts of
each chunk in the order of micro-batches, so that gradients are summed in the same order with every kind. Every function raises
glue.Unusable if there is no library.
"""

import ctypes
from ctypes import byref, c_int32, c_size_t
from typing import NamedTuple

from .plain.library import OK, Error, Pipeline, PipelinePrediction, PipelineStep, loaded

KINDS = ("gpipe", "one_f_one_b", "interleaved", "zb_h1", "zb_v", "v_uneven")
TWO_CHUNKS = ("interleaved", "zb_v", "v_uneven")  # of each rank, unless others are asked for; the others have one
FORWARD, BACKWARD, BACKWARD_INPUT, BACKWARD_WEIGHTS = "forward", "backward", "backward_input", "backward_weights"
_WORK = (FORWARD, BACKWARD, BACKWARD_INPUT, BACKWARD_WEIGHTS)  # by number in tandem_pipelines.h


class Step(NamedTuple):
    """One computation of a rank. A backward is both of its parts: the input part, which the previous stage waits for, and the
    weight part."""

    what: str
    chunk: int
    micro_batch: int


class Prediction(NamedTuple):
    """A rank in the simulation of a schedule, with messages that take no time."""

    peak_stash: int  # maximum of micro-batches of its chunks between forward and the end of backward
    peak_weights: int  # maximum of input parts whose weight part is pending
    slots: int  # until the last rank has completed, in the unit of the costs
    busy_slots: int
    bubble: float  # the part of the time in which this rank does not compute
    bubble_of_all: float


def _call(name, *arguments):
    """Calls that function of tandem_pipelines.h. Raises ValueError with its text."""
    error = Error()
    if getattr(loaded(), f"pipeline_{name}")(*arguments, byref(error)) != OK:
        raise ValueError(error.message())


def _pipeline(kind, ranks, micro_batches, chunks, costs):
    flat = [cost for stage in costs or () for cost in stage]
    array = (c_int32 * len(flat))(*flat) if flat else None
    return Pipeline(ctypes.sizeof(Pipeline), kind.encode(), ranks, micro_batches, chunks, array, len(flat))


def schedule(kind, ranks, micro_batches, chunks=0, costs=None):
    """The steps of each rank, in order: a list of Step for each. `kind` is one of KINDS; `chunks` of each rank, 0: two for
    interleaved, zb_v and v_uneven, else one; `costs` of each stage, for v_uneven: (forward, backward_input, backward_weights),
    integers. Raises ValueError."""
    pipeline = _pipeline(kind, ranks, micro_batches, chunks, costs)
    of_ranks = []
    for rank in range(max(ranks, 1)):
        count = c_size_t(0)
        _call("steps", byref(pipeline), rank, None, byref(count))
        steps = (PipelineStep * count.value)()
        _call("steps", byref(pipeline), rank, steps, byref(count))
        of_ranks.append([Step(_WORK[step.what], step.chunk, step.micro_batch) for step in steps])
    return of_ranks


def stage_of(kind, rank, ranks, chunk, chunks=0):
    """The stage of the model, 0 to ranks * chunks - 1, that a rank's chunk is."""
    stage = c_int32()
    _call("stage", byref(_pipeline(kind, ranks, 0, chunks, None)), rank, chunk, byref(stage))
    return stage.value


def predict(kind, ranks, micro_batches, chunks=0, costs=None):
    """The Prediction of each rank; without costs, for equal ones."""
    pipeline = _pipeline(kind, ranks, micro_batches, chunks, costs)
    of_ranks = []
    for rank in range(max(ranks, 1)):
        found = PipelinePrediction(ctypes.sizeof(PipelinePrediction))
        _call("predict", byref(pipeline), rank, byref(found))
        of_ranks.append(Prediction(found.peak_stash, found.peak_weights, found.slots, found.busy_slots, found.bubble,
                                   found.bubble_of_all))
    return of_ranks
