#!/usr/bin/env python3
"""A CuPy program as users write it: every call of cupyx.distributed, which knows nothing but NCCL, with numbers known beforehand.

usage: cupy_program.py RANK RANKS PORT     (one process a GPU; PORT is free on this host)
"""

import sys

import cupy
import cupyx.distributed


def main():
    rank, ranks, port = map(int, sys.argv[1:4])
    cupy.cuda.Device(rank).use()
    over = cupyx.distributed.init_process_group(ranks, rank, host="127.0.0.1", port=port)
    checked = 0
    for kind in ("float32", "float64", "int32", "int64", "uint8", "float16", "complex64"):
        for count in (1, 1000, 300_001):
            def full(value, length=count, kind=kind):
                return cupy.full(length, value, dtype=kind)

            def require(got, expected):
                nonlocal checked
                assert bool((got == expected).all()), f"rank {rank}: {kind} x {count}: {got} instead of {expected}"
                checked += 1

            into = full(0)
            over.all_reduce(full(rank + 1), into)
            require(into, ranks * (ranks + 1) // 2)
            if kind != "complex64":
                over.all_reduce(full(rank + 1), into, "max")
                require(into, ranks)
            into = full(0)
            over.reduce(full(rank + 1), into, ranks - 1)
            require(into, ranks * (ranks + 1) // 2 if rank == ranks - 1 else 0)
            into = full(rank + 1)
            over.broadcast(into, ranks - 1)
            require(into, ranks)
            into = full(0, (ranks, count))
            over.all_gather(full(rank + 1), into, count)
            require(into, cupy.arange(1, ranks + 1, dtype=kind)[:, None])
            part = full(0)
            over.reduce_scatter(into, part, count)
            require(part, ranks * (rank + 1))
            into = full(0)
            over.send_recv(full(rank + 1), into, ranks - 1 - rank) if ranks == 2 else over.all_reduce(full(1), into)
            require(into, ranks - rank if ranks == 2 else ranks)
            into = full(0, (ranks, count))
            over.all_to_all(cupy.repeat(cupy.arange(ranks, dtype=kind) + 10 * rank, count).reshape(ranks, count), into)
            require(into, 10 * cupy.arange(ranks, dtype=kind)[:, None] + rank)
            into = full(0)
            over.scatter(full(1, (ranks, count)) * cupy.arange(1, ranks + 1, dtype=kind)[:, None], into, 0)
            require(into, rank + 1)
            into = full(0, (ranks, count))
            over.gather(full(rank + 1), into, 0)
            require(into, cupy.arange(1, ranks + 1, dtype=kind)[:, None] if rank == 0 else 0)
    over.barrier()
    print(f"rank {rank}: {checked} results, all right", flush=True)
    over.stop()


if __name__ == "__main__":
    main()
