"""Tables of the results of bench/gpu."""

import statistics

import tables


def gpu(records, _ranks=2):
    """Device memory of two GPUs: half a round trip, one way by peer copies and staged through host memory, and all_reduce
    of two islands, each compared with its baseline of the same round."""
    cells = {}
    for r in records:
        cells.setdefault((r["case"], r["bytes"], r["channel"]), {})[r["round"]] = r["value"]

    def row(what, size, own, peer, said, is_time):
        rounds = sorted(own.keys() & peer.keys())
        if not rounds:
            return []
        ratios = [peer[i] / own[i] if is_time else own[i] / peer[i] for i in rounds]
        return [[what, tables.bytes_text(size), *(tables.cell(statistics.median(c.values())) for c in (own, peer)), said,
                 tables.number(statistics.median(ratios))]]

    def rows_of(case, what, channel, peer, said):
        found = []
        for size in sorted({size for c, size, _ in cells if c == case}):
            is_time = case in ("pingpong", "overlap") or size <= 8
            unit = "relative to its time alone" if case == "overlap" else "us" if is_time else "GB/s"
            own, other = cells.get((case, size, channel), {}), cells.get((case, size, peer), {})
            found += row(f"{what}, {unit}", size, own, other, said, is_time)
        return found

    for size in {size for case, size, _ in cells if case == "forward"}:
        host, pinned = (cells.get(("forward", size, channel), {}) for channel in ("host", "pinned_copy"))
        cells[("forward", size, "lower")] = {i: min(host[i], pinned[i]) for i in host.keys() & pinned.keys()}
    rows = [["what", "bytes", "Tandem", "baseline", "which", "speed-up"]]
    rows += rows_of("pingpong", "half a round trip", "tandem", "nccl", "NCCL")
    rows += rows_of("oneway", "one way, 8 in flight", "tandem", "nccl", "NCCL")
    rows += rows_of("oneway", "one way, 8 in flight", "tandem", "peer_copy", "bare copies")
    rows += rows_of("forward", "staged through the host", "tandem", "lower", "host channel or pinned copy")
    rows += rows_of("forward", "staged through the host", "tandem", "gloo", "Gloo, staged by the caller")
    rows += rows_of("forward", "copied between the processes", "copied", "lower", "host channel or pinned copy")
    rows += rows_of("forward", "copied between the processes", "copied", "gloo", "Gloo, staged by the caller")
    rows += rows_of("overlap", "a compute kernel during messages", "tandem", "nccl", "NCCL")
    rows += rows_of("beside short", "half a round trip during long messages", "tandem beside", "nccl beside", "NCCL")
    rows += rows_of("beside long", "those long messages, 8 in flight", "tandem beside", "nccl beside", "NCCL")
    rows += rows_of("allreduce", "all_reduce, two islands", "tandem", "nccl", "NCCL, as one island")
    rows += rows_of("allreduce", "all_reduce, two islands, staged through the host", "forwarding", "gloo", "Gloo, staged by the caller")
    return rows


def copies(records, _ranks=2):
    """Rates of bare copies by streams and copies per call, and the driver time per copy."""
    cells = {}
    for r in records:
        if r["case"].startswith("copies "):
            cells.setdefault((r["case"], r["bytes"], r["channel"]), []).append(r["value"])
    shapes = list(dict.fromkeys(channel for _, _, channel in cells if "asking" not in channel))
    rows = [["copies", "bytes", *shapes]]
    for case, size in sorted({(case, size) for case, size, _ in cells}):
        way = {"copies write": "written", "copies read": "read"}[case]
        for said, more in (("GB/s", ""), ("us in the driver per copy", " asking")):
            found = [cells.get((case, size, shape + more)) for shape in shapes]
            rows.append([f"{way}, {said}", tables.bytes_text(size),
                         *(tables.cell(statistics.median(c)) if c else "-" for c in found)])
    return rows


TABLES = {"gpu": ("gpu", 2, gpu), "gpu-four": ("gpu-four", 4, gpu), "gpu-copies": ("gpu", 2, copies)}
