"""The order of forwards and backwards of each rank, and the stage of each chunk."""

from . import BadInput

FORWARD, BACKWARD, BACKWARD_INPUT, BACKWARD_WEIGHTS = "forward", "backward", "backward_input", "backward_weights"


def gpipe(ranks, micro_batches, chunks):
    """All forwards, then all backwards."""
    return [[(FORWARD, c, m) for c in range(chunks) for m in range(micro_batches)] +
            [(BACKWARD, c, m) for c in reversed(range(chunks)) for m in range(micro_batches)] for _ in range(ranks)]


def one_f_one_b(ranks, micro_batches, _chunks):
    """A backward follows each forward as soon as the pipeline is full."""
    orders = []
    for rank in range(ranks):
        ahead = min(ranks - 1 - rank, micro_batches)
        order = [(FORWARD, 0, m) for m in range(ahead)]
        for m in range(micro_batches):
            order += [(FORWARD, 0, m + ahead)] if m + ahead < micro_batches else []
            order.append((BACKWARD, 0, m))
        orders.append(order)
    return orders


OWN = {"gpipe": gpipe, "one_f_one_b": one_f_one_b}  # without Tandem's library, too
OF_LIBRARY = ("interleaved", "zb_h1", "zb_v", "v_uneven")
KINDS = (*OWN, *OF_LIBRARY)
TWO_CHUNKS = ("interleaved", "zb_v", "v_uneven")  # on each rank, where --chunks does not say how many


class Schedule:
    """`orders`: for each rank its steps: (what, chunk, micro-batch). `costs_of`: of a number of stages, for v_uneven."""

    def __init__(self, kind, ranks, micro_batches, chunks=None, costs_of=None):
        if kind not in KINDS:
            raise BadInput(f"--schedule {kind}: no such schedule; choose {', '.join(KINDS)}")
        self.kind, self.ranks, self.micro_batches = kind, ranks, micro_batches
        self.chunks = chunks or (2 if kind in TWO_CHUNKS else 1)
        self.stages = ranks * self.chunks
        if kind in OWN:
            if self.chunks > 1 and kind != "gpipe":
                raise BadInput(f"--schedule {kind}: it has one chunk on each rank, not {self.chunks}")
            self.orders = OWN[kind](ranks, micro_batches, self.chunks)
            numbers = {(r, c): c * ranks + r for r in range(ranks) for c in range(self.chunks)}
        else:
            self.orders, numbers = self._of_library(costs_of)
        self._numbers, self._places = numbers, {stage: place for place, stage in numbers.items()}

    def _of_library(self, costs_of):
        try:
            from tandem import pipelines
        except ImportError:
            raise BadInput(f"--schedule {self.kind}: needs the package tandem with its pipelines; without it choose "
                           f"{' or '.join(OWN)}") from None
        costs = costs_of(self.stages) if costs_of and self.kind == "v_uneven" else None
        try:
            orders = pipelines.schedule(self.kind, self.ranks, self.micro_batches, chunks=self.chunks, costs=costs)
            numbers = {(r, c): pipelines.stage_of(self.kind, r, self.ranks, c, self.chunks)
                       for r in range(self.ranks) for c in range(self.chunks)}
        except (ValueError, OSError, AttributeError) as failed:
            raise BadInput(f"--schedule {self.kind}: {failed}") from None
        return [[tuple(step) for step in steps] for steps in orders], numbers

    def stage_of(self, rank, chunk):
        return self._numbers[rank, chunk]

    def place_of(self, stage):
        """(rank, chunk)."""
        return self._places[stage]

    def sent(self, stage, whats):
        """The micro-batches in the order in which that stage does one of these steps."""
        rank, chunk = self._places[stage]
        return [m for what, c, m in self.orders[rank] if c == chunk and what in whats]
