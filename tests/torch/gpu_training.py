#!/usr/bin/env python3
"""Training of a GPT of about 1 B parameters on GPUs: the time of a step, memory, and how much a multiplication of matrices
loses while a collective runs beside it. Prints one JSON line. Run by hand, where there are GPUs.

usage: torchrun --nproc-per-node N gpu_training.py ddp|fsdp2|beside|turns|beside_turns...

turns: all of these with NCCL and with Tandem in turn, in the same processes, and the processor's time for a call. Where GPUs and
processors vary by more than the difference that is looked for, this finds it; memory it does not. beside_turns: only what is beside.
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


class Training:
    """A model over one group, a step at a time."""

    def __init__(self, kind, gpu, group=None):
        torch.manual_seed(7)
        model = Gpt().to(gpu, torch.bfloat16)
        self.parameters = sum(p.numel() for p in model.parameters())
        if kind == "ddp":
            model = nn.parallel.DistributedDataParallel(model, device_ids=[gpu.index], gradient_as_bucket_view=True, process_group=group)
        else:
            from torch.distributed.fsdp import fully_shard
            how = {} if group is None else {"mesh": dist.DeviceMesh.from_group(group, "cuda")}
            for block in model.blocks:
                fully_shard(block, **how)
            fully_shard(model, **how)
        self.model, self.gpu, self.group, self.steps = model, gpu, group, 0
        self.optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def step(self):
        """Its time in milliseconds, and the loss."""
        random = torch.Generator().manual_seed(1000 * self.steps + dist.get_rank())
        tokens = torch.randint(WORDS, (BATCH, TOKENS + 1), generator=random).to(self.gpu)
        self.steps += 1
        torch.cuda.synchronize()
        dist.barrier()
        begun = time.perf_counter()
        loss = nn.functional.cross_entropy(self.model(tokens[:, :-1]).float().view(-1, WORDS), tokens[:, 1:].reshape(-1))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        torch.cuda.synchronize()
        took_ms = (time.perf_counter() - begun) * 1e3
        mean = loss.detach().clone()
        dist.all_reduce(mean, group=self.group)
        return took_ms, round(mean.item() / dist.get_world_size(), 5)


def train(kind, gpu):
    training = Training(kind, gpu)
    steps = [training.step() for _ in range(STEPS)]
    free, total = torch.cuda.mem_get_info()
    return {"parameters": training.parameters, "step_ms": round(statistics.median(took for took, _ in steps[3:]), 2),
            "losses": [loss for _, loss in steps],
            "used_mib": (total - free) >> 20, "torch_peak_mib": torch.cuda.max_memory_reserved() >> 20}


class Beside:
    """The time of multiplications, alone or with calls on 64 MiB running beside them on another stream: all_reduce, or a message
    to the next rank and one from the last."""

    def __init__(self, gpu, what="all_reduce"):
        self.call = getattr(self, what)
        self.received = torch.ones(16 << 20, device=gpu) if what == "messages" else None
        self.factor = torch.randn(8192, 8192, device=gpu, dtype=torch.bfloat16)
        self.data = torch.ones(16 << 20, device=gpu)
        self.side = torch.cuda.Stream()

    def all_reduce(self, group):
        return [dist.all_reduce(self.data, group=group, async_op=True)]

    def messages(self, group):
        rank, ranks = dist.get_rank(), dist.get_world_size()
        return dist.batch_isend_irecv([dist.P2POp(dist.isend, self.data, (rank + 1) % ranks, group),
                                       dist.P2POp(dist.irecv, self.received, (rank - 1) % ranks, group)])

    def timed(self, with_calls, group=None):
        torch.cuda.synchronize()
        dist.barrier()
        first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.mm(self.factor, self.factor)  # so that the device does not wait while the processor makes the first call
        first.record()
        for _ in range(20):
            if with_calls:
                with torch.cuda.stream(self.side):
                    for work in self.call(group):
                        work.wait()
            torch.mm(self.factor, self.factor)
        last.record()
        torch.cuda.synchronize()
        return first.elapsed_time(last)


def beside(gpu):
    on = Beside(gpu)
    rounds = [(on.timed(False), on.timed(True)) for _ in range(8)][2:]
    return {"alone_ms": round(statistics.median(r[0] for r in rounds), 3),
            "beside_ms": round(statistics.median(r[1] for r in rounds), 3)}


def in_turn(names, use, rounds, unused):
    """The median of use(name) in so many rounds, the first of which are left out, in one order and the other."""
    found = {name: [] for name in names}
    for number in range(rounds):
        for name in names if number % 2 == 0 else reversed(names):
            found[name].append(use(name))
    return {name: round(statistics.median(of[unused:]), 3) for name, of in found.items()}


def beside_in_turn(gpu, groups=None):
    """Each measurement between two of multiplications alone: clocks and power drift by more than what is looked for."""
    groups = groups or both_groups() | {"nccl again": dist.new_group(backend="nccl")}
    for what in ("all_reduce", "messages"):
        on = Beside(gpu, what)
        alone_ms, more = [on.timed(False)], {name: [] for name in groups}
        for _ in range(42):
            for name, group in groups.items():
                took_ms = on.timed(True, group)
                alone_ms.append(on.timed(False))
                more[name].append(took_ms / statistics.mean(alone_ms[-2:]) - 1)
        yield {"what": f"multiplications beside {what}", "unit": "% more time", "alone_ms": round(statistics.median(alone_ms), 3)} | {
            name: round(100 * statistics.median(found[2:]), 2) for name, found in more.items()}


def both_groups():
    return {"nccl": dist.group.WORLD, "tandem": dist.new_group(backend="tandem")}


def turns(gpu):
    groups = both_groups()
    names = list(groups)
    for kind in ("ddp", "fsdp2"):
        both = {name: Training(kind, gpu, group) for name, group in groups.items()}
        losses = {name: [] for name in groups}

        def step(name):
            took_ms, loss = both[name].step()
            losses[name].append(loss)
            return took_ms

        took_ms = in_turn(names, step, 64, 4)
        yield {"what": kind, "unit": "ms a step"} | took_ms | {
            "losses_differ_by": max(abs(a - b) / a for a, b in zip(*losses.values()))}
        del both
        torch.cuda.empty_cache()

    yield from beside_in_turn(gpu, groups)
    mine, all_parts = torch.ones(1 << 18, device=gpu), torch.ones(dist.get_world_size() << 18, device=gpu)
    calls = {"all_reduce": lambda group: dist.all_reduce(mine, group=group, async_op=True),
             "all_gather": lambda group: dist.all_gather_into_tensor(all_parts, mine, group=group, async_op=True),
             "reduce_scatter": lambda group: dist.reduce_scatter_tensor(mine, all_parts, group=group, async_op=True)}
    for what, call in calls.items():
        def issue(name, call=call):
            torch.cuda.synchronize()
            dist.barrier()
            begun = time.perf_counter()
            for _ in range(100):
                call(groups[name]).wait()
            took_us = (time.perf_counter() - begun) * 1e4
            torch.cuda.synchronize()
            return took_us

        yield {"what": f"{what} of 1 MiB by this rank", "unit": "us of the processor a call"} | in_turn(names, issue, 12, 2)


def main():
    rank = int(os.environ["RANK"])
    gpu = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(gpu)
    are_in_turn = {"turns": turns, "beside_turns": beside_in_turn}
    backend = os.environ.get("TANDEM_TEST_BACKEND", "nccl" if are_in_turn.keys() & set(sys.argv) else "tandem")
    dist.init_process_group(backend)
    for mode in sys.argv[1:]:
        all_found = are_in_turn[mode](gpu) if mode in are_in_turn else [beside(gpu) if mode == "beside" else train(mode, gpu)]
        for found in all_found:
            if rank == 0:
                print(json.dumps({"backend": dist.get_backend(), "mode": mode, "ranks": dist.get_world_size(),
                                  "gpu": torch.cuda.get_device_name(), "torch": torch.__version__} | found), flush=True)
        torch.cuda.empty_cache()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
