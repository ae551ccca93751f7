#!/usr/bin/env python3
"""A rank is killed at a random moment of a training loop: every other rank raises within 2 s, names it, destroys its group
and makes a new one of the survivors in the same process.

usage: lost_rank.py [--ranks N] [--times COUNT] [--seed NUMBER]
"""

import argparse
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time

RAISES_WITHIN_S = 2
ATTEMPTS = 5


def rank_body(rank, ranks, victim, folder, started, report):
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("tandem", init_method=f"file://{folder}/first", rank=rank, world_size=ranks)
    part = dist.new_group([r for r in range(ranks) if r % 2 == 0])
    data = torch.ones(50_000)
    small = torch.ones(1)
    started.release()
    try:
        while True:
            pending = dist.all_reduce(data, async_op=True)
            dist.all_reduce(small)
            if rank % 2 == 0:
                dist.all_reduce(small, group=part)
            pending.wait()
            dist.batch_isend_irecv([dist.P2POp(dist.isend, data, (rank + 1) % ranks),
                                    dist.P2POp(dist.irecv, data.clone(), (rank - 1) % ranks)])[0].wait()
            dist.barrier()
    except dist.DistBackendError as lost:
        raised_at, text = time.monotonic(), str(lost)
    dist.destroy_process_group()
    survivors = [r for r in range(ranks) if r != victim]
    dist.init_process_group("tandem", init_method=f"file://{folder}/second", rank=survivors.index(rank),
                            world_size=len(survivors))
    total = torch.ones(3)
    dist.all_reduce(total)
    report.put((rank, raised_at, text, total[0].item()))
    dist.destroy_process_group()


def once(context, ranks, after_s, victim):
    """The longest time after which a survivor has raised."""
    longest_s = 0
    with tempfile.TemporaryDirectory(prefix="tandem-lost-") as folder:
        started, report = context.Semaphore(0), context.Queue()
        all_ranks = [context.Process(target=rank_body, args=(r, ranks, victim, folder, started, report), daemon=True)
                     for r in range(ranks)]
        for process in all_ranks:
            process.start()
        for _ in all_ranks:
            if not started.acquire(timeout=400):  # the first ones compile the back-end, beside other tests
                sys.exit("lost_rank: the ranks did not start")
        time.sleep(after_s)
        os.kill(all_ranks[victim].pid, signal.SIGKILL)
        killed_at = time.monotonic()
        for _ in range(ranks - 1):
            rank, raised_at, text, total = report.get(timeout=60)
            print(f"  rank {rank}: {raised_at - killed_at:.3f} s after rank {victim} was killed: {text[:120]}", flush=True)
            longest_s = max(longest_s, raised_at - killed_at)
            assert f"rank {victim}" in text, text
            assert total == ranks - 1, total
        for number, process in enumerate(all_ranks):
            process.join(30)
            assert process.exitcode == (-signal.SIGKILL if number == victim else 0), (number, process.exitcode)
    return longest_s


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=3)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    draw = random.Random(options.seed)
    for number in range(options.times):
        victim, after_s = draw.randrange(options.ranks), draw.uniform(0, 0.3)
        print(f"{number + 1}: rank {victim} of {options.ranks}, after {after_s:.3f} s", flush=True)
        context = multiprocessing.get_context("spawn")
        # A busy machine may hold up any of them.
        assert any(once(context, options.ranks, after_s, victim) < RAISES_WITHIN_S for _ in range(ATTEMPTS)), "too late each time"
    print("every survivor has raised in time, named the lost rank, and joined a new group")


if __name__ == "__main__":
    main()
