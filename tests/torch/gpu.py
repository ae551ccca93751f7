#!/usr/bin/env python3
"""The back-end with tensors on GPUs: every call against values known beforehand, streams that run ahead, and training with
the same losses as NCCL's. Run by hand, where there are GPUs.

usage: torchrun --nproc-per-node N gpu.py [calls|ahead|ahead_on_a_stream|streams|loader|losses|speed]... | mixed
"""

import os
import statistics
import sys
import time

if "mixed" in sys.argv and int(os.environ["RANK"]) % 2:
    os.environ["CUDA_VISIBLE_DEVICES"] = ""

import torch
import torch.distributed as dist
from torch import nn


def calls(rank, ranks, gpu):
    def full(value, count=1000):
        return torch.full((count,), float(value), device=gpu)

    total = ranks * (ranks - 1) / 2
    for _ in range(3):
        data = full(rank)
        dist.all_reduce(data)
        assert torch.equal(data, full(total))
        into = [full(-1) for _ in range(ranks)]
        dist.all_gather(into, full(rank))
        assert all(torch.equal(part, full(r)) for r, part in enumerate(into))
        flat = full(-1, 1000 * ranks)
        dist.all_gather_into_tensor(flat, full(rank))
        assert torch.equal(flat.view(ranks, -1)[:, 0].cpu(), torch.arange(float(ranks)))
        part = full(-1)
        dist.reduce_scatter_tensor(part, flat)
        assert torch.equal(part, full(rank * ranks))
        data = full(rank)
        dist.broadcast(data, 1 % ranks)
        assert torch.equal(data, full(1 % ranks))
        sent, received = torch.arange(float(ranks), device=gpu) + 10 * rank, torch.zeros(ranks, device=gpu)
        dist.all_to_all_single(received, sent)
        assert torch.equal(received, 10 * torch.arange(float(ranks), device=gpu) + rank)
        received = full(-1)
        for work in dist.batch_isend_irecv([dist.P2POp(dist.irecv, received, (rank - 1) % ranks),
                                            dist.P2POp(dist.isend, full(rank), (rank + 1) % ranks)]):
            work.wait()
        assert torch.equal(received, full((rank - 1) % ranks))
        strided = torch.arange(12.0, device=gpu).view(3, 4).t()
        dist.all_reduce(strided)
        assert torch.equal(strided, ranks * torch.arange(12.0, device=gpu).view(3, 4).t())
        big = full(1, 20_000_001)
        dist.all_reduce(big)
        assert (big != ranks).count_nonzero() == 0
        half = full(rank).bfloat16()
        dist.all_reduce(half, op=dist.ReduceOp.AVG)
        assert torch.equal(half.float(), full(total / ranks))
        for kind in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
            for value in (torch.finfo(kind).max, -torch.finfo(kind).max):
                greatest = torch.full((1000,), value, dtype=kind, device=gpu)
                dist.all_reduce(greatest, op=dist.ReduceOp.AVG)
                assert torch.isfinite(greatest).all(), f"{kind}: an average of {value} is {greatest[0]}"
        on_host = torch.ones(3)
        dist.all_reduce(on_host)
        assert on_host.sum() == 3 * ranks
        future = dist.all_reduce(full(rank), async_op=True).get_future().then(lambda f: f.value()[0] * 2)
        assert torch.equal(future.wait(), full(2 * total))
    objects = [None] * ranks
    dist.all_gather_object(objects, {"rank": rank})
    assert objects[-1] == {"rank": ranks - 1}
    dist.barrier()
    return "right"


def ahead(rank, ranks, gpu):
    """A wait does not block the processor: calls that follow 0.2 s of work of their stream return long before it is done."""
    data = torch.ones(1_000_000, device=gpu)
    dist.all_reduce(data.mul_(0.5))  # a first use initialises the library, and loads kernels
    data.fill_(1)
    torch.cuda.synchronize()
    torch.cuda._sleep(int(0.2 * 1.9e9))
    begun = time.perf_counter()
    for _ in range(20):
        dist.all_reduce(data)
        data.mul_(0.5)
    issued = time.perf_counter() - begun
    torch.cuda.synchronize()
    done = time.perf_counter() - begun
    assert data[0].item() == (ranks / 2) ** 20, data[0].item()
    if torch.cuda.device_count() >= ranks:
        assert issued < done / 2, (issued, done)
    return f"20 calls issued in {issued * 1e3:.1f} ms, done after {done * 1e3:.1f} ms"


def ahead_on_a_stream(rank, ranks, gpu):
    """The same on a stream of the program's instead of the default stream."""
    with torch.cuda.stream(torch.cuda.Stream()):
        return ahead(rank, ranks, gpu)


def streams(rank, ranks, gpu):
    """Several streams of the program, tensors that are freed under way, and handles that nobody waits for."""
    side = [torch.cuda.Stream() for _ in range(3)]
    for turn in range(30):
        made = []
        for k, stream in enumerate(side):
            with torch.cuda.stream(stream):
                torch.cuda._sleep(2_000_000)
                data = torch.full((300_000,), float(rank + k + turn), device=gpu)
                work = dist.all_reduce(data, async_op=True)
                made.append((stream, data.clone() if k == 2 else data, work, k))
                if k == 2:  # not waited for, and freed
                    del data, work
        with torch.cuda.stream(side[0]):
            filler = [torch.full((300_000,), -1.0, device=gpu) for _ in range(4)]
        for stream, data, work, k in made[:2]:
            with torch.cuda.stream(stream):
                work.wait()
                expected = ranks * (ranks - 1) / 2 + ranks * (k + turn)
                wrong = (data != expected).count_nonzero()
            stream.synchronize()
            assert wrong.item() == 0, (turn, k, wrong)
        del filler, made
    try:
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            dist.all_reduce(data)
        raise AssertionError("a call inside the capture of a graph was not refused")
    except (ValueError, RuntimeError) as refused:
        assert "captured" in str(refused) or "captur" in str(refused), refused
    return "right"


def mixed(rank, ranks, gpu):
    """Even ranks have tensors on a GPU, odd ones, which see no GPU, in host memory."""
    for _ in range(3):
        data = torch.full((100_000,), float(rank), device=gpu)
        dist.all_reduce(data)
        assert (data == ranks * (ranks - 1) / 2).all()
        into = [torch.empty(1000, device=gpu) for _ in range(ranks)]
        dist.all_gather(into, torch.full((1000,), float(rank), device=gpu))
        assert [part[7].item() for part in into] == list(range(ranks))
        data = torch.full((1000,), float(rank), device=gpu)
        dist.broadcast(data, 1)
        assert (data == 1).all()
        if rank == 0:
            dist.send(data * 5, 1)
        elif rank == 1:
            dist.recv(data, 0)
            assert (data == 5).all()
    return "right"


def loader(rank, ranks, gpu):
    """Workers of a data loader, forked while the GPU and the back-end are in use."""
    numbers = torch.arange(256.0)
    batches = torch.utils.data.DataLoader(numbers[rank::ranks], batch_size=16, num_workers=2, pin_memory=True,
                                          multiprocessing_context="fork")
    for _ in range(2):
        total = torch.zeros(1, device=gpu)
        for batch in batches:
            part = batch.to(gpu, non_blocking=True).sum().view(1)
            dist.all_reduce(part)
            total += part
        assert total.item() == numbers.sum().item(), total
    return "right"


def losses(rank, ranks, gpu):
    torch.manual_seed(7)
    model = nn.Sequential(*(nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256)) for _ in range(4))).to(gpu)
    wrapped = nn.parallel.DistributedDataParallel(model, device_ids=[gpu.index])
    from torch.distributed.fsdp import fully_shard
    sharded = nn.Sequential(*(nn.Linear(256, 256) for _ in range(4))).to(gpu)
    for layer in sharded:
        fully_shard(layer)
    fully_shard(sharded)
    found = []
    for module in (wrapped, sharded):
        optimizer = torch.optim.SGD(module.parameters(), lr=0.05)
        for step in range(6):
            random = torch.Generator().manual_seed(100 * step + rank)
            inputs = torch.randn(64, 256, generator=random).to(gpu)
            loss = nn.functional.mse_loss(module(inputs), inputs)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            mean = loss.detach().clone()
            dist.all_reduce(mean)
            found.append(mean.item() / ranks)
    return " ".join(f"{loss:.7f}" for loss in found)


def speed(rank, ranks, gpu):
    lines = []
    for size in (8, 64 << 10, 1 << 20, 16 << 20, 256 << 20):
        data = torch.ones(max(1, size // 4), device=gpu)
        for name in ("all_reduce", "send_recv"):
            def call():
                if name == "all_reduce":
                    dist.all_reduce(data)
                elif rank % 2 == 0:
                    dist.send(data, rank + 1)
                    dist.recv(data, rank + 1)
                else:
                    dist.recv(data, rank - 1)
                    dist.send(data, rank - 1)
            times = []
            for _ in range(6):  # the first calls map memory, and a GPU takes some more to reach its speed
                call()
            for _ in range(20):
                torch.cuda.synchronize()
                begun = time.perf_counter()
                call()
                torch.cuda.synchronize()
                times.append((time.perf_counter() - begun) * 1e6 / (2 if name == "send_recv" else 1))
            lines.append(f"{name} {size} B {statistics.median(times):.1f} us")
    return "; ".join(lines)


def main():
    modes = sys.argv[1:] or ["calls", "ahead", "ahead_on_a_stream", "streams", "loader", "losses", "speed"]
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    gpu = torch.device("cpu")
    if torch.cuda.is_available():
        gpu = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
        torch.cuda.set_device(gpu)
    dist.init_process_group(os.environ.get("TANDEM_TEST_BACKEND", "tandem"))
    for mode in modes:
        outcome = globals()[mode](rank, ranks, gpu)
        dist.barrier()
        if rank == 0:
            print(f"{dist.get_backend()} {mode}: {outcome}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
