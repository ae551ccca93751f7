"""The tables of bench/torch."""

import statistics

import tables

OPS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv", "ddp_step")
WHOLE_RUN = OPS[-1]  # part of a run of all operations only


def beside_others(_records, ranks):
    """Microseconds of a call through torch.distributed, and those of other back-ends divided by Tandem's."""
    _, records = tables.newest(WHOLE_RUN)
    cells = {}
    for r in records:
        if r["ranks"] == ranks:
            cells.setdefault((r["op"], r["bytes"]), {}).setdefault(r["channel"], []).append(tables.p50(r))
    rows = [["call", "bytes", "Tandem, us", "gloo, us", "commux (UCX), us", "gloo / Tandem", "commux / Tandem"]]
    for (op, size), took in sorted(cells.items(), key=lambda cell: (OPS.index(cell[0][0]), cell[0][1])):
        us = {channel: statistics.median(times) for channel, times in took.items()}
        others = ("gloo", "commux")
        rows.append([op, tables.bytes_text(size), tables.number(us["tandem"]),
                     *(tables.number(us[other]) if other in us else "" for other in others),
                     *(f"{us[other] / us['tandem']:.2f}" if other in us else "" for other in others)])
    return rows


TABLES = {f"torch-{ranks}": (WHOLE_RUN, ranks, beside_others) for ranks in (2, 4)}
