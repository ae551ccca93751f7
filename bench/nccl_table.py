"""Tables of the results of bench/nccl."""

import statistics

import tables

ONE, TWO = "tandem, one island", "tandem, two islands"


def times(records, _ranks=2):
    """Microseconds of each program and size: NCCL and Tandem inside one island, and across two, each beside NCCL in its own run."""
    cells = {}
    for r in records:
        cells.setdefault((r["program"], r["bytes"], r["part"], r["library"]), []).append(r["out_of_place"]["time_us"])
    rows = [["nccl-tests", "bytes", "NCCL, us", "Tandem, one island, us", "NCCL / Tandem", "NCCL, us", "Tandem, two islands, us",
             "NCCL / Tandem"]]
    for program in dict.fromkeys(p for p, *_ in cells):
        for size in sorted({size for p, size, *_ in cells if p == program and size}):
            row = [program, tables.bytes_text(size)]
            for part, library in (("island", ONE), ("across", TWO)):
                both = [statistics.median(cells[key]) if (key := (program, size, part, one)) in cells else None for one in ("nccl", library)]
                row += ["-" if value is None else tables.number(value) for value in both]
                row.append("-" if None in both else f"{both[0] / both[1]:.2f}")
            rows.append(row)
    return rows


def across(records, _ranks=2):
    """The same of two islands only."""
    return [row[:2] + row[5:] for row in times(records)]


def checks(records, _ranks=2):
    """What nccl-tests have checked."""
    rows = [["nccl-tests", "library", "runs of a size, type and reduction", "data types", "reductions", "wrong values"]]
    for r in records:
        rows.append([r["program"], r["library"], str(r["rows"]), str(len(r["types"])), str(len(r["redops"])), str(r["wrong"])])
    return rows


def calls(records, _ranks=2):
    """What handing a call to NCCL costs: short calls, whose time is the processor's, and long ones."""
    rows = [["operation", "processes", "NCCL, 8 B to 1 MiB, us", "NCCL / Tandem, median", "lowest", "sizes below 0.97",
             "from 2 MiB: NCCL / Tandem, median", "lowest"]]
    for key in dict.fromkeys((r["program"], r["processes"]) for r in records):
        own = [r for r in records if (r["program"], r["processes"]) == key]
        short, long = ([r["ratio"] for r in own if (r["bytes"] <= 1 << 20) == is_short] for is_short in (True, False))
        us = statistics.median(r["nccl_us"] for r in own if r["bytes"] <= 1 << 20)
        rows.append([key[0], str(key[1]), tables.number(us), f"{statistics.median(short):.3f}", f"{min(short):.3f}",
                     f"{sum(ratio < 0.97 for ratio in short)} of {len(short)}", f"{statistics.median(long):.3f}", f"{min(long):.3f}"])
    return rows


def one_gpu(records, _ranks=2):
    """Microseconds of two ranks on one GPU: channels alone, and kernels, which one of the two libraries names by its settings."""
    named = next(r["library"] for r in records if "TANDEM_STREAM_KERNEL_BYTES=" in r["library"])
    by_kernels = {r["library"]: (r["library"] == named) != ("KERNEL_BYTES=0" in named) for r in records}
    cells = {}
    for r in records:
        cells.setdefault((r["program"], r["bytes"], by_kernels[r["library"]]), []).append(r["out_of_place"]["time_us"])
    rows = [["nccl-tests", "bytes", "channels, us", "kernels, us", "channels / kernels"]]
    for program in dict.fromkeys(p for p, *_ in cells):
        for size in sorted({size for p, size, _ in cells if p == program and size}):
            channels, kernels = (statistics.median(cells[program, size, which]) for which in (False, True))
            rows.append([program, tables.bytes_text(size), tables.number(channels), tables.number(kernels), f"{channels / kernels:.2f}"])
    return rows


def kernels(records, _ranks=2):
    """Microseconds of two islands by the number of processes, and of what kernels relay, beside NCCL in the same run."""
    cells = {}
    for r in records:
        library = next((name for part, name in (("RELAY_BYTES=", "relayed"), ("KERNEL_BYTES=1G", "kernels only"), ("KERNEL_BYTES=0", "channels"))
                        if part in r["library"]), r["library"])
        cells.setdefault((r["program"], r["bytes"], r["processes"], library), []).append(r["out_of_place"]["time_us"])
    columns = [(1, TWO), (2, TWO), (2, "relayed"), (2, "channels")]
    rows = [["nccl-tests", "bytes", "NCCL, one process, us", "Tandem, us", "NCCL / Tandem", "NCCL, two processes, us", "Tandem, us", "NCCL / Tandem",
             "relayed, us", "channels, us"]]
    for program in dict.fromkeys(p for p, *_ in cells):
        for size in sorted({size for p, size, *_ in cells if p == program}):
            value = {key: statistics.median(cells[program, size, *key]) for key in [(1, "nccl"), (2, "nccl"), *columns]}
            text = {key: tables.number(found) for key, found in value.items()}
            ratio = {n: f"{value[n, 'nccl'] / value[n, TWO]:.2f}" for n in (1, 2)}
            rows.append([program, tables.bytes_text(size), text[1, "nccl"], text[1, TWO], ratio[1], text[2, "nccl"], text[2, TWO], ratio[2],
                         text[2, "relayed"], text[2, "channels"]])
    return rows


def direct(records, _ranks=2):
    """Microseconds of two islands whose GPUs reach each other by the number of processes, beside NCCL, of some of the sizes."""
    cells = {}
    for r in records:
        cells.setdefault((r["program"], r["bytes"], r["processes"], r["library"]), []).append(r["out_of_place"]["time_us"])
    rows = [["nccl-tests", "bytes", "NCCL, one process, us", "Tandem, us", "NCCL / Tandem", "NCCL, two processes, us", "Tandem, us", "NCCL / Tandem"]]
    shown = {4 << 10, *(1 << n for n in range(16, 30, 2))}
    for program in dict.fromkeys(p for p, *_ in cells):
        sizes = {size for p, size, *_ in cells if p == program and size}
        for size in sorted(shown & sizes | {min(sizes)}):
            row = [program, tables.bytes_text(size)]
            for n in (1, 2):
                both = [statistics.median(cells[program, size, n, one]) if (program, size, n, one) in cells else None for one in ("nccl", TWO)]
                row += ["-" if value is None else tables.number(value) for value in both]
                row.append("-" if None in both else f"{both[0] / both[1]:.2f}")
            rows.append(row)
    return rows


def torch(records, _ranks=2):
    """Losses of unchanged PyTorch."""
    rows = [["PyTorch over", "calls", "same bits of loss as over NCCL"]]
    for r in records:
        rows.append([r["library"], "right" if "calls" in r["same_losses"] else "wrong", ", ".join(m for m in r["same_losses"] if m != "calls")])
    return rows


TABLES = {"nccl-calls": ("nccl-calls", 2, calls), "nccl-tests": ("nccl-tests", 2, times), "nccl-checks": ("nccl-tests-check", 2, checks), "nccl-torch": ("nccl-torch", 2, torch),
          "nccl-pages": ("nccl-tests-pages", 2, across), "nccl-pages-checks": ("nccl-tests-check-pages", 2, checks),
          "nccl-kernels": ("nccl-tests-kernels", 2, kernels), "nccl-direct": ("nccl-tests-direct", 2, direct), "nccl-direct-checks": ("nccl-tests-check-direct", 2, checks),
          "nccl-one-gpu": ("nccl-tests-one-gpu", 2, one_gpu), "nccl-one-gpu-checks": ("nccl-tests-check-one-gpu", 2, checks),
          "nccl-processes": ("nccl-tests-processes", 4, times), "nccl-processes-checks": ("nccl-tests-check-processes", 4, checks)}
