"""The table of README.md: six results, each from the newest results file that has its records, as in RESULTS.md."""

import statistics

import tables

HEADER = ["what", "bytes", "Tandem", "baseline", "speed-up"]
P50, RATE, VALUE = (tables.p50, "us"), (tables.algbw, "GB/s"), (lambda record: record["value"], "GB/s")
# (label, operation, ranks, members common to the records of the row, Tandem's channel, baseline's channel and name, measure)
ROWS = [
    ("TCP over loopback, half a round trip", "pingpong", 2, {"bytes": 8}, tables.TANDEM, "openmpi", "Open MPI", P50),
    ("TCP over loopback, one way", "oneway", 2, {"bytes": 16 << 20}, tables.TANDEM, "openmpi", "Open MPI", RATE),
    ("TCP over loopback, all_reduce of 2 ranks", "allreduce", 2, {"bytes": 16 << 20}, tables.TANDEM, "openmpi", "Open MPI",
     P50),
    ("shared memory, half a round trip", "pingpong-shm", 2, {"bytes": 8}, tables.SHM, "openmpi", "Open MPI", P50),
    ("4 NICs of 1 Gbit/s as one channel, one way", "rails", 2, {"bytes": 16 << 20, "case": "4 x 1 Gbit/s"}, "rails", "openmpi",
     "Open MPI", RATE),
    ("GPU to GPU of one host, one way", "gpu", 2, {"bytes": 64 << 20, "case": "oneway"}, "tandem", "nccl", "NCCL", VALUE),
]


def by_round(records, common, channel, measure):
    return {r["round"]: measure(r) for r in records
            if r["channel"] == channel and not r.get("apart") and all(r.get(key) == value for key, value in common.items())}


def summary(records_of):
    """The rows, and their sources as (path, records), in the order of the rows, each once.
    `records_of(operation, ranks)` returns such a pair."""
    rows, sources = [HEADER], {}
    for what, op, ranks, common, own_channel, peer, peer_name, (measure, unit) in ROWS:
        path, records = records_of(op, ranks)
        own, other = (by_round(records, common, channel, measure) for channel in (own_channel, peer))
        both = sorted(own.keys() & other.keys())
        if not both:
            raise SystemExit(f"{path}: '{what}' has no round with both {own_channel} and {peer}")
        ratios = [other[i] / own[i] if unit == "us" else own[i] / other[i] for i in both]
        own_text, other_text = (f"{tables.number(statistics.median(values.values()))} {unit}" for values in (own, other))
        rows.append([what, tables.bytes_text(common["bytes"]), own_text, f"{peer_name} {other_text}",
                     f"{tables.number(statistics.median(ratios))}x"])
        sources.setdefault(path, records)
    return rows, list(sources.items())
