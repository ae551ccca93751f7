"""When each rank computed and when it waited, in one step: by CUDA events on GPUs, by the clock on processors."""

import contextlib
import time

import torch


class Record:
    def __init__(self, device):
        self._on_gpu = device.type == "cuda"
        self.is_on = False
        self._spans = []

    def start(self):
        """Begins a step whose spans are kept, while the device is idle."""
        self.is_on, self._spans = True, []
        self._origin, self._clock = time.time(), time.perf_counter()
        self._first = self._event()

    def _event(self):
        if not self._on_gpu:
            return time.perf_counter()
        made = torch.cuda.Event(enable_timing=True)
        made.record()
        return made

    @contextlib.contextmanager
    def span(self, what, chunk, micro_batch):
        if not self.is_on:
            yield
            return
        begun = self._event()
        yield
        self._spans.append((what, chunk, micro_batch, begun, self._event()))

    def take(self):
        """[what, chunk, micro-batch, begin, end] in seconds since the epoch, once the device is idle again."""
        self.is_on = False

        def at(event):
            seconds = self._first.elapsed_time(event) / 1e3 if self._on_gpu else event - self._clock
            return self._origin + seconds

        return [[what, chunk, m, at(begun), at(ended)] for what, chunk, m, begun, ended in self._spans]
