#!/usr/bin/env python3
"""Training of a GPT of about 1 B parameters on GPUs: the time of a step, memory, and how much a multiplication of matrices
loses while a collective runs beside it. Prints one JSON line. Run by hand, where there are GPUs.

usage: torchrun --nproc-per-node N gpu_training.py ddp|fsdp2|beside
"""

import json
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch import nn

STEPS = 12
WIDTH, LAYERS, HEADS, TOKENS, BATCH, WORDS = 2048, 20, 16, 1024, 4, 8192


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = (part.view(b, t, HEADS, -1).transpose(1, 2) for part in self.qkv(self.first(x)).chunk(3, -1))
        x = x + self.out(nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, -1))
        return x + self.down(nn.functional.gelu(self.up(self.second(x))))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, tokens):
        x = self.words(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def train(kind, rank, gpu):
    torch.manual_seed(7)
    model = Gpt().to(gpu, torch.bfloat16)
    parameters = sum(p.numel() for p in model.parameters())
    if kind == "ddp":
        model = nn.parallel.DistributedDataParallel(model, device_ids=[gpu.index], gradient_as_bucket_view=True)
    else:
        from torch.distributed.fsdp import fully_shard
        for block in model.blocks:
            fully_shard(block)
        fully_shard(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    losses, times = [], []
    for step in range(STEPS):
        random = torch.Generator().manual_seed(1000 * step + rank)
        tokens = torch.randint(WORDS, (BATCH, TOKENS + 1), generator=random).to(gpu)
        torch.cuda.synchronize()
        dist.barrier()
        begun = time.perf_counter()
        loss = nn.functional.cross_entropy(model(tokens[:, :-1]).float().view(-1, WORDS), tokens[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - begun) * 1e3)
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        losses.append(round(mean.item() / dist.get_world_size(), 5))
    free, total = torch.cuda.mem_get_info()
    return {"parameters": parameters, "step_ms": round(statistics.median(times[3:]), 2), "losses": losses,
            "used_mib": (total - free) >> 20, "torch_peak_mib": torch.cuda.max_memory_reserved() >> 20}


def beside(rank, gpu):
    """The time of multiplications alone, and with all_reduce of 64 MiB running beside them on another stream."""
    a = torch.randn(8192, 8192, device=gpu, dtype=torch.bfloat16)
    data = torch.ones(16 << 20, device=gpu)
    side = torch.cuda.Stream()

    def timed(with_calls):
        torch.cuda.synchronize()
        dist.barrier()
        first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        first.record()
        for _ in range(20):
            if with_calls:
                with torch.cuda.stream(side):
                    dist.all_reduce(data, async_op=True).wait()
            torch.mm(a, a)
        last.record()
        torch.cuda.synchronize()
        return first.elapsed_time(last)

    rounds = [(timed(False), timed(True)) for _ in range(8)][2:]
    return {"alone_ms": round(statistics.median(r[0] for r in rounds), 3),
            "beside_ms": round(statistics.median(r[1] for r in rounds), 3)}


def main():
    rank = int(os.environ["RANK"])
    gpu = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(gpu)
    dist.init_process_group(os.environ.get("TANDEM_TEST_BACKEND", "tandem"))
    for mode in sys.argv[1:]:
        found = beside(rank, gpu) if mode == "beside" else train(mode, rank, gpu)
        if rank == 0:
            print(json.dumps({"backend": dist.get_backend(), "mode": mode, "ranks": dist.get_world_size(),
                              "gpu": torch.cuda.get_device_name(), "torch": torch.__version__} | found), flush=True)
        torch.cuda.empty_cache()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
