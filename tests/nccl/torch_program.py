#!/usr/bin/env python3
"""A training script as users write it for GPUs: it names nccl, and knows nothing of Tandem. Rank 0 prints the losses, exactly.

usage: torchrun --nproc-per-node 2 torch_program.py [calls|ddp|fsdp2|pipeline]...
"""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn

STEPS, WIDTH, BATCH = 5, 256, 32


def model(blocks=4):
    torch.manual_seed(7)
    return nn.Sequential(*(nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH)) for _ in range(blocks)))


def data(step, rank, gpu):
    random = torch.Generator().manual_seed(1000 * step + rank)
    return torch.randn(BATCH, WIDTH, generator=random).to(gpu), torch.randn(BATCH, WIDTH, generator=random).to(gpu)


def calls(rank, ranks, gpu):
    """Numbers known beforehand; no losses."""
    for count in (1, 1000, 3_000_001):
        mine = torch.full((count,), float(rank + 1), device=gpu)
        dist.all_reduce(mine)
        assert (mine == ranks * (ranks + 1) / 2).all()
        into = torch.empty(ranks, count, device=gpu)
        dist.all_gather_into_tensor(into, torch.full((count,), float(rank), device=gpu))
        assert torch.equal(into[:, 0].cpu(), torch.arange(float(ranks)))
        part = torch.empty(count, device=gpu)
        dist.reduce_scatter_tensor(part, into, op=dist.ReduceOp.AVG)
        assert (part == rank).all()
        received = torch.empty(count, device=gpu)
        for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, torch.full((count,), float(rank), device=gpu), (rank + 1) % ranks),
                                            dist.P2POp(dist.irecv, received, (rank - 1) % ranks)]):
            work.wait()
        assert (received == (rank - 1) % ranks).all()
        back = torch.empty(ranks, device=gpu)
        dist.all_to_all_single(back, torch.arange(float(ranks), device=gpu) + 10 * rank)
        assert torch.equal(back.cpu(), torch.arange(float(ranks)) * 10 + rank)
    alone = dist.new_group([0])
    if rank == 0:
        dist.all_reduce(mine, group=alone)
    objects = [None] * ranks
    dist.all_gather_object(objects, {"rank": rank})
    assert objects == [{"rank": r} for r in range(ranks)]
    # One message outside of a batch: a communicator of two ranks of its own.
    if rank == 0:
        dist.send(torch.full((5,), 3.0, device=gpu), 1)
    elif rank == 1:
        five = torch.empty(5, device=gpu)
        dist.recv(five, 0)
        assert (five == 3).all()
    dist.barrier()
    return []


def trained(wrapped, rank, gpu):
    optimizer = torch.optim.AdamW(wrapped.parameters(), lr=1e-3)
    for step in range(STEPS):
        x, y = data(step, rank, gpu)
        loss = nn.functional.mse_loss(wrapped(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        whole = loss.detach().clone()
        dist.all_reduce(whole)
        yield whole.item()


def ddp(rank, _ranks, gpu):
    return list(trained(nn.parallel.DistributedDataParallel(model().to(gpu), device_ids=[gpu.index]), rank, gpu))


def fsdp2(rank, _ranks, gpu):
    from torch.distributed.fsdp import fully_shard
    whole = model().to(gpu)
    for block in whole:
        fully_shard(block)
    fully_shard(whole)
    return list(trained(whole, rank, gpu))


def pipeline(rank, ranks, gpu):
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B
    blocks = model(2 * ranks)
    mine = nn.Sequential(*list(blocks)[2 * rank:2 * rank + 2]).to(gpu)
    schedule = Schedule1F1B(PipelineStage(mine, rank, ranks, gpu), n_microbatches=8, loss_fn=nn.functional.mse_loss)
    optimizer = torch.optim.AdamW(mine.parameters(), lr=1e-3)
    found = []
    for step in range(STEPS):
        x, y = data(step, 0, gpu)
        losses = []
        schedule.step(*([x] if rank == 0 else []), target=y if rank == ranks - 1 else None, losses=losses)
        optimizer.step()
        optimizer.zero_grad()
        loss = torch.stack(losses).sum() if losses else torch.zeros((), device=gpu)
        dist.broadcast(loss, ranks - 1)
        found.append(loss.item())
    return found


def main():
    dist.init_process_group("nccl")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    gpu = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(gpu)
    for mode in sys.argv[1:] or ["calls", "ddp", "fsdp2", "pipeline"]:
        found = globals()[mode](rank, ranks, gpu)
        if rank == 0:
            print(f"{mode}: {' '.join(float(x).hex() for x in found)}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
