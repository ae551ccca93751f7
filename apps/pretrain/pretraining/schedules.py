"""The order of forwards and backwards of each rank, and the stage of each chunk, as tandem.pipelines computes them."""

from . import BadInput

try:
    from tandem import glue, pipelines
except ImportError:
    pipelines = None

NAMES = ", ".join(pipelines.KINDS) if pipelines else "those of the package tandem, which is not installed"
WHEEL = "or install Tandem's wheel (apps/torch/README.md)"


class Schedule:
    """`orders`: for each rank its steps: (what, chunk, micro-batch). `costs_of`: of a number of stages, for v_uneven."""

    def __init__(self, kind, ranks, micro_batches, chunks=None, costs_of=None):
        if pipelines is None:
            raise BadInput("the package tandem, which makes the schedules for every link, is not installed: run tests/torch/install "
                           f"build/torch, {WHEEL}")
        if kind not in pipelines.KINDS:
            raise BadInput(f"--schedule {kind}: no such schedule; choose {NAMES}")
        self.kind, self.ranks, self.micro_batches = kind, ranks, micro_batches
        self.chunks = chunks or (2 if kind in pipelines.TWO_CHUNKS else 1)
        self.stages = ranks * self.chunks
        costs = costs_of(self.stages) if costs_of and kind == "v_uneven" else None
        try:
            self.orders = pipelines.schedule(kind, ranks, micro_batches, chunks=self.chunks, costs=costs)
            self._numbers = {(r, c): pipelines.stage_of(kind, r, ranks, c, self.chunks)
                             for r in range(ranks) for c in range(self.chunks)}
        except ValueError as refused:
            raise BadInput(f"--schedule {kind}: {refused}") from None
        except glue.Unusable as failed:
            raise BadInput(f"{failed}; Tandem's library makes the schedules for every link: set TANDEM_LIBRARY to a libtandem_c.so of "
                           f"this version, {WHEEL}") from None
        self._places = {stage: place for place, stage in self._numbers.items()}

    def stage_of(self, rank, chunk):
        return self._numbers[rank, chunk]

    def place_of(self, stage):
        """(rank, chunk)."""
        return self._places[stage]

    def sent(self, stage, whats):
        """The micro-batches in the order in which that stage does one of these steps."""
        rank, chunk = self._places[stage]
        return [m for what, c, m in self.orders[rank] if c == chunk and what in whats]
