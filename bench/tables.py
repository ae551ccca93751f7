"""Reads results files and builds tables from them; used by compare and tabulate."""

import functools
import json
import statistics
from pathlib import Path

RESULTS = Path(__file__).resolve().parent / "results"
TANDEM = "tandem-tcp"
SHM = "tandem-shm"
SHARED = "tandem-shared"
OWN = (TANDEM, SHM, "rails", "two_level", "portable", "tandem")
POINT_TO_POINT = ["raw", "raw-polled", "openmpi", "mpich", "gloo"]
COLLECTIVES = ["allreduce", "allgather", "reducescatter", "broadcast", "alltoall"]


def interval(ratios):
    """The median, and the narrowest interval by order statistics with at least 95 % confidence."""
    ordered = sorted(ratios)
    n = len(ordered)
    tail, skip = 0.5 ** n, 0
    at_most = tail
    while skip + 1 < n // 2:
        choose = 1
        for i in range(skip + 1):
            choose = choose * (n - i) // (i + 1)
        if 2 * (at_most + choose * tail) > 0.05:
            break
        at_most += choose * tail
        skip += 1
    return statistics.median(ordered), ordered[skip], ordered[n - 1 - skip]


@functools.cache
def load(path):
    """The records of a results file, read-only; an invalid line is an error with its line number."""
    records = []
    for number, line in enumerate(Path(path).read_text().splitlines(), 1):
        try:
            records.append(json.loads(line))
        except ValueError as problem:
            raise SystemExit(f"{path}:{number}: not a line of JSON: {problem}") from None
    return records


def newest(op, pattern="*.jsonl", folder=RESULTS, fits=lambda record: True):
    """The newest results file (file names contain the date) with records of Tandem for the operation that satisfy `fits`."""
    for path in sorted(folder.glob(pattern), key=lambda p: p.stem.split("-", 1)[1], reverse=True):
        records = load(path)
        if any(r["op"] == op and r.get("channel", TANDEM) in OWN and fits(r) for r in records):
            return path, records
    raise SystemExit(f"no results of '{op}' in {folder}: run bench/compare or bench/build_time")


def bytes_text(count):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= unit and count % unit == 0:
            return f"{count // unit} {name}"
    return f"{count} B"


def number(value):
    """Three significant digits, never an exponent."""
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


class Op:
    """The records of one operation and number of ranks, by size and channel: one for each round."""

    def __init__(self, records, op, ranks):
        self.cells = {}
        for r in records:
            if r["op"] == op and r.get("ranks") == ranks and not r.get("apart"):
                self.cells.setdefault((r["bytes"], r["channel"]), {})[r["round"]] = r
        self.sizes = sorted({size for size, _ in self.cells})
        self.channels = {channel for _, channel in self.cells}

    def value(self, size, channel, measure):
        """The median of all rounds, or None where the channel did not run this size."""
        rounds = self.cells.get((size, channel))
        return statistics.median(measure(r) for r in rounds.values()) if rounds else None

    def ratio(self, size, over, under, measure):
        """The median of the rounds' ratios: drift of the machine between rounds cancels out."""
        a, b = self.cells.get((size, over), {}), self.cells.get((size, under), {})
        both = [measure(a[i]) / measure(b[i]) for i in sorted(a.keys() & b.keys()) if measure(b[i])]
        return statistics.median(both) if both else None


def p50(record):
    return record["time_us"]["p50"]


def mean(record):
    return record["time_us"]["mean"]


def algbw(record):
    return record["algbw_gb_per_s"]


def cell(value, suffix=""):
    return "-" if value is None else number(value) + suffix


def latency_table(records, op, ranks, channels, ratios, measure=p50):
    """Microseconds of each channel that ran, and the ratios of other libraries to Tandem, the first channel."""
    data = Op(records, op, ranks)
    channels, ratios = ([c for c in all_ if c in data.channels] for all_ in (channels, ratios))
    rows = [["bytes"] + [f"{c}, us" for c in channels] + [f"{r} / tandem" for r in ratios]]
    for size in data.sizes:
        times = [cell(data.value(size, c, measure)) for c in channels]
        factors = [cell(data.ratio(size, c, channels[0], measure), "x") for c in ratios]
        rows.append([bytes_text(size)] + times + factors)
    return rows


def bandwidth_table(records, op, ranks, channels, ratios):
    """Median GB/s (1e9) of each channel that ran, Tandem first, and the ratios of Tandem to other libraries."""
    data = Op(records, op, ranks)
    channels, ratios = ([c for c in all_ if c in data.channels] for all_ in (channels, ratios))
    rows = [["bytes"] + [f"{c}, GB/s" for c in channels] + [f"tandem / {r}" for r in ratios]]
    for size in data.sizes:
        speeds = [cell(data.value(size, c, algbw)) for c in channels]
        factors = [cell(data.ratio(size, channels[0], c, algbw)) for c in ratios]
        rows.append([bytes_text(size)] + speeds + factors)
    return rows


def pingpong(records, ranks=2):
    return latency_table(records, "pingpong", ranks, [TANDEM] + POINT_TO_POINT, ["raw-polled", "openmpi", "mpich", "gloo"])


def coroutines(records, ranks=2):
    channels = ["asio-callback", "asio-awaitable", TANDEM]
    return latency_table(records, "pingpong", ranks, channels, ["asio-callback", "asio-awaitable"])


def oneway(records, ranks=2):
    return bandwidth_table(records, "oneway", ranks, [TANDEM] + POINT_TO_POINT, POINT_TO_POINT)


def pingpong_shm(records, ranks=2):
    rows = latency_table(records, "pingpong-shm", ranks, [SHM, "openmpi", "mpich"], ["openmpi", "mpich"])
    data = Op(records, "pingpong-shm", ranks)
    if any("line_ns" in r for rounds in data.cells.values() for r in rounds.values()):
        rows[0].append("cache line, us")
        for row, size in zip(rows[1:], data.sizes):
            row.append(cell(data.value(size, SHM, lambda r: statistics.mean(r["line_ns"]) / 1e3)))
    return rows


def oneway_shm(records, ranks=2):
    peers = [SHARED, "tandem-single-copy", "openmpi", "mpich", "memcpy"]
    rows = bandwidth_table(records, "oneway-shm", ranks, [SHM, *peers], peers)
    data = Op(records, "oneway-shm", ranks)
    if SHARED in data.channels:
        rows[0].append("shared / memcpy")
        for row, size in zip(rows[1:], data.sizes):
            row.append(cell(data.ratio(size, SHARED, "memcpy", algbw)))
    return rows


def collective(op):
    over_shm = op.endswith("-shm")
    peers = ["openmpi", "mpich"] + ([] if over_shm else ["gloo"])
    own = [SHM, SHARED] if over_shm else [TANDEM]
    # The root of a broadcast does not wait for the receivers in any library: the time of a single call means little.
    measure = mean if op.startswith("broadcast") else p50

    def table(records, ranks):
        return latency_table(records, op, ranks, [*own, *peers], [*own[1:], *peers], measure)

    return table


def rails(records, _ranks=2):
    """GB/s of each set of rails, compared with one rail, with the sum of its rails measured alone, and with other libraries."""
    cells = {}
    for r in records:
        cells.setdefault((r["case"], r["channel"]), {})[r["round"]] = algbw(r)
    one = cells[("1 x 1 Gbit/s", "rails")]

    def ratio(case, under):
        own = cells[(case, "rails")]
        return number(statistics.median(own[i] / under(i) for i in sorted(own)))

    rows = [["rails", "GB/s", "over one rail", "over Gloo on one", "over Open MPI on all", "over the sum of its rails"]]
    for case in [c for c, channel in cells if channel == "rails" and "slowed" not in c]:
        row = [case, number(statistics.median(cells[(case, "rails")].values())), "-", "-", "-", "-"]
        if case.endswith("x 1 Gbit/s"):
            row[2] = ratio(case, lambda i: one[i])
            row[3] = ratio(case, lambda i: cells[("1 x 1 Gbit/s", "gloo")][i])
        if case.endswith("x 1 Gbit/s, 256 KiB"):
            row[2] = ratio(case, lambda i: cells[("1 x 1 Gbit/s, 256 KiB", "rails")][i])
        if (case, "openmpi") in cells:
            row[4] = ratio(case, lambda i: cells[(case, "openmpi")][i])
        if case == "250 + 750 Mbit/s":
            row[5] = ratio(case, lambda i: sum(cells[(c, "rails")][i] for c in ("250 Mbit/s", "750 Mbit/s")))
        rows.append(row)
    return rows


def rails_trouble(records, _ranks=2):
    """Remaining throughput with a rail slowed during a message, and with unauthenticated connections."""
    one = {r["round"]: algbw(r) for r in records if r["case"] == "1 x 1 Gbit/s" and r["channel"] == "rails"}
    strangers = [algbw(r) / one[r["round"]] for r in records if r["channel"] == "strangers"]
    # The rate of the healthy rail until the end.
    slowed = [r["rails"][1]["bytes"] / (r["time_us"]["p50"] * 1e3) / one[r["round"]]
              for r in records if "slowed" in r["case"]]
    return [["fault", "measured", "ratio"],
            ["one rail of two slowed to a tenth during a message", "rate of the healthy rail / its rate alone",
             number(statistics.median(slowed))],
            ["1,000 silent unauthenticated connections, 50 slow ones, a port scan", "throughput / throughput without them",
             number(statistics.median(strangers))]]


def rails_loopback(records, _ranks=2):
    """GB/s over loopback of the tcp channel and of one rail, with and without checksums and secret."""
    data = {}
    for r in records:
        data.setdefault(r["bytes"], {}).setdefault(r["case"], {})[r["round"]] = algbw(r)
    names = ["tcp", "tcp, system", "rails", "rails, checksum", "rails, no secret"]
    pairs = [("tcp", "tcp, system"), ("rails", "tcp"), ("rails, checksum", "rails"), ("rails", "rails, no secret")]
    rows = [["bytes"] + [f"{n}, GB/s" for n in names]
            + ["tcp / tcp, system", "rails / tcp", "checksum on / off", "secret on / off"]]
    for size in sorted(data):
        own = data[size]
        ratios = [statistics.median(own[a][i] / own[b][i] for i in own[a]) for a, b in pairs]
        rows.append([bytes_text(size)] + [number(statistics.median(own[n].values())) for n in names]
                    + [number(r) for r in ratios])
    return rows


def rails_cost(records, _ranks=2):
    """GB/s between two namespaces without protection, with secret and checksums, and with encryption in addition."""
    data = {}
    for r in records:
        data.setdefault((r["link"], r["bytes"]), {}).setdefault(r["case"], {})[r["round"]] = algbw(r)
    rows = [["link", "bytes", "neither, GB/s", "secret and checksums, GB/s", "/ neither", "encrypted, GB/s", "/ neither"]]
    for (link, size), own in data.items():
        rates = {case: number(statistics.median(of.values())) for case, of in own.items()}
        shares = {case: number(statistics.median(of[i] / own["off"][i] for i in of)) for case, of in own.items()}
        rows.append([link, bytes_text(size), rates["off"], rates["on"], shares["on"], rates["encrypted"], shares["encrypted"]])
    return rows


def roce(records, _ranks=2):
    """Rails over RDMA and perftest in the same machines: MB/s one way, microseconds, and the gain of a second rail."""
    cells = {}
    for r in records:
        cells.setdefault((r["case"], r["bytes"], r["channel"]), {})[r["round"]] = r["value"] * (1 if r["case"] == "pingpong" else 1000)

    def row(what, case, size, peer, upside_down=False):
        own = cells[(case, size, "rails")]
        ratios = [peer[i] / own[i] if upside_down else own[i] / peer[i] for i in sorted(own)]
        return [what, bytes_text(size), *(cell(statistics.median(c.values())) for c in (own, peer)),
                number(statistics.median(ratios))]

    rows = [["what", "bytes", "rails", "baseline", "speed-up"]]
    for size in sorted({size for case, size, _ in cells if case == "oneway"}):
        rows.append(row("one way, MB/s; ib_write_bw", "oneway", size, cells[("oneway", size, "ib_write_bw")]))
    rows.append(row("half a round trip, us; ib_send_lat", "pingpong", 8, cells[("pingpong", 8, "ib_send_lat")], True))
    size = next(size for case, size, _ in cells if case == "two of two")
    rows.append(row("two rails of equal rate, MB/s; one rail", "two of two", size, cells[("one of two", size, "rails")]))
    return rows


def two_level(records, _ranks=4):
    """Milliseconds of each algorithm and placement, its share of the links' bound, and two_level against the ring."""
    cells, bounds = {}, {}
    for r in records:
        cells.setdefault((r["case"], r["bytes"], r["channel"]), {})[r["round"]] = p50(r)
        bounds[(r["case"], r["bytes"], r["channel"])] = r["bound_us"]

    def time(case, size, way):
        own = cells[(case, size, way)]
        share = statistics.median(bounds[(case, size, way)] / own[i] for i in own)
        return [number(statistics.median(own.values()) / 1e3), number(share)]

    rows = [["ranks numbered", "bytes", "two_level, ms", "of its bound", "ring, ms", "of its bound", "by the plan, ms",
             "ring / two_level", "ratio of the bounds"]]
    for case, size in sorted({(case, size) for case, size, _ in cells}):
        own = {way: cells[(case, size, way)] for way in ("two_level", "ring")}
        times = statistics.median(own["ring"][i] / own["two_level"][i] for i in own["ring"])
        most = bounds[(case, size, "ring")] / bounds[(case, size, "two_level")]
        rows.append([case, bytes_text(size), *time(case, size, "two_level"), *time(case, size, "ring"),
                     time(case, size, "plan")[0], f"{number(times)}x", f"{number(most)}x"])
    return rows


# Memory streams, reads and writes, per byte of data.
STREAMS = {"copy": 2, "read": 1, "update": 3, "multiply": 2, "divide": 2}
SETS = ("portable", "avx2", "avx512")


def loops(records):
    """(what, type, instruction set, bytes) -> GB/s of data by round; memory records are keyed by the type that follows."""
    cells, waiting = {}, []
    for r in records:
        what, kind = r["settings"]["what"], r["settings"].get("type")
        if kind is None:
            waiting.append(r)
            continue
        for memory in waiting:
            cells.setdefault((memory["settings"]["what"], kind, "memory", memory["bytes"]), {})[memory["round"]] = \
                algbw(memory)
        waiting = []
        cells.setdefault((what, kind, r["channel"], r["bytes"]), {})[r["round"]] = algbw(r)
    return cells


def median(cells, what, kind, channel, size):
    rounds = cells.get((what, kind, channel, size))
    return statistics.median(rounds.values()) if rounds else None


def reductions(records, _ranks=1):
    """GB/s of data of the sum, by type; compared with memory updates without arithmetic, and the slowest other operation."""
    cells = loops(records)
    short, long = sorted({size for _, _, _, size in cells})
    sets = [s for s in SETS if any(channel == s for _, _, channel, _ in cells)]
    widest = sets[-1]
    rows = [["sum of"] + [f"{s}, {bytes_text(long)}" for s in sets] + [f"{widest} / memory", "slowest other operation"]
            + [f"{s}, {bytes_text(short)}" for s in sets]]
    for kind in dict.fromkeys(kind for _, kind, _, _ in cells):
        own, memory = cells[("sum", kind, widest, long)], cells[("update", kind, "memory", long)]
        ops = {w for w, k, channel, _ in cells if (k, channel) == (kind, widest) and STREAMS.get(w, 3) == 3} - {"sum"}
        slowest = min(ops, key=lambda w: median(cells, w, kind, widest, long))
        rows.append([kind] + [cell(median(cells, "sum", kind, s, long)) for s in sets]
                    + [number(statistics.median(own[i] / memory[i] for i in own)),
                       f"{slowest} {number(median(cells, slowest, kind, widest, long))}"]
                    + [cell(median(cells, "sum", kind, s, short)) for s in sets])
    return rows


def memory(records, _ranks=1):
    """Memory bandwidth in the same run: bytes of all streams, read and written, per second."""
    sizes = sorted({r["bytes"] for r in records}, reverse=True)
    rows = [["memory"] + [f"GB/s, {bytes_text(size)}" for size in sizes]]
    words = {"read": "read one stream", "copy": "copy (C library)", "update": "update one stream by another"}
    for what, said in words.items():
        speeds = [statistics.median(algbw(r) for r in records if r["settings"]["what"] == what and r["bytes"] == size)
                  for size in sizes]
        rows.append([said] + [number(s * STREAMS[what]) for s in speeds])
    return rows


def soak(records, _ranks=2):
    """Result of an hour of random faults on the rails between two machines."""
    r = records[-1]
    left = sum(count for name, count in r.items() if name.endswith("_left"))
    faults = ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in sorted(r["faults"].items()))
    return [["minutes", "messages", "GB", "faults", "lanes lost", "wrong bytes", "objects left at the end"],
            [str(r["minutes"]), str(r["messages"]), number(r["bytes"] / 1e9), faults, str(r["lanes_lost"]), str(r["wrong_bytes"]),
             str(left)]]


# Name -> (operation, ranks, table of records).
TABLES = {
    "pingpong": ("pingpong", 2, pingpong),
    "coroutines": ("pingpong", 2, coroutines),
    "oneway": ("oneway", 2, oneway),
    "pingpong-shm": ("pingpong-shm", 2, pingpong_shm),
    "oneway-shm": ("oneway-shm", 2, oneway_shm),
    "rails": ("rails", 2, rails),
    "rails-trouble": ("rails", 2, rails_trouble),
    "rails-loopback": ("rails-loopback", 2, rails_loopback),
    "rails-cost": ("rails-cost", 2, rails_cost),
    "roce": ("roce", 2, roce),
    "soak": ("soak", 2, soak),
    "two-level": ("two-level", 4, two_level),
    "reductions": ("reduction", 1, reductions),
    "reductions-memory": ("reduction", 1, memory),
}
for _op in (*COLLECTIVES, *(f"{op}-shm" for op in COLLECTIVES), "barrier"):
    for _ranks in (2, 4):
        TABLES[f"{_op}-{_ranks}"] = (_op, _ranks, collective(_op))


def plain(rows):
    """Aligned columns for a terminal."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(c.rjust(w) for c, w in zip(row, widths)) for row in rows)


def markdown(rows):
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    lines.insert(1, "|" + "--:|" * len(rows[0]))
    return "\n".join(lines)
