"""The table of the results of bench/forwarding."""

import statistics

import tables


def forwarding(records, _ranks=2):
    """The time of a pipeline's step, predicted from the link that was measured in the same round, and measured."""
    cells = {}
    for r in records:
        cells.setdefault((r["link"], r["bytes"], r["schedule"]), []).append(r)

    def middle(rows, value):
        return tables.number(statistics.median(value(r) for r in rows))

    def link_gbit(r, way):
        return 8 * r["bytes"] / min(r[name + way] for name in ("plain", "host") if r[name + way] > 0) / 1e6

    rows = [["link", "messages", "link alone, Gbit/s", "both ways at once", "schedule", "predicted, ms", "measured, ms", "measured / predicted",
             "decides", "cores busy"]]
    for (link, size, schedule), own in cells.items():
        limits = [r["decides"] for r in own]
        rows.append([link, tables.bytes_text(size), middle(own, lambda r: link_gbit(r, "_ms")),
                     middle(own, lambda r: link_gbit(r, "_both_ms")), schedule, middle(own, lambda r: r["predicted_ms"]),
                     middle(own, lambda r: r["measured_ms"]), middle(own, lambda r: r["measured_ms"] / r["predicted_ms"]),
                     max(limits, key=limits.count), middle(own, lambda r: r["cpu_ms"] / r["measured_ms"])])
    return rows


TABLES = {"forwarding": ("forwarding", 2, forwarding)}
