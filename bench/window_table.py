"""The table of bench/windows."""

import tables

HOW = ("put, mapped", "put, messages", "get, mapped", "get, messages", "send and receive", "memcpy")


def windows(records, _ranks=2):
    """Microseconds of a call, and those of messages and memcpy divided by those of mapped memory."""
    cells = {(r["settings"]["what"], r["bytes"]): tables.p50(r) for r in records}
    rows = [["bytes", *(f"{how}, us" for how in HOW), "put: messages / mapped", "get: messages / mapped", "memcpy / put"]]
    for size in sorted({size for _, size in cells}):
        took = {how: cells[how, size] for how in HOW}
        rows.append([tables.bytes_text(size), *(tables.number(took[how]) for how in HOW),
                     *(f"{took[a] / took[b]:.2f}" for a, b in (("put, messages", "put, mapped"), ("get, messages", "get, mapped"),
                                                               ("memcpy", "put, mapped")))])
    return rows


TABLES = {"windows": ("window", 2, windows)}
