#!/usr/bin/env python3
"""vLLM's communicator (pynccl.py and pynccl_wrapper.py, unchanged, from a folder), which binds NCCL by ctypes.

usage: torchrun --nproc-per-node N vllm_program.py FOLDER
"""

import importlib.util
import logging
import os
import sys
import types

import torch
import torch.distributed as dist


def load(folder):
    """The two files as modules of a package vllm of which little else is here."""
    for name in ("vllm", "vllm.distributed", "vllm.distributed.device_communicators"):
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__path__ = []
    logger, utils, groups = (types.ModuleType(f"vllm.{name}") for name in ("logger", "utils", "distributed.utils"))
    logger.init_logger = logging.getLogger
    utils.find_nccl_library = lambda: "libnccl.so.2"
    utils.current_stream = torch.cuda.current_stream
    groups.StatelessProcessGroup = type("StatelessProcessGroup", (), {})
    sys.modules |= {"vllm.logger": logger, "vllm.utils": utils, "vllm.distributed.utils": groups}
    for file in ("pynccl_wrapper", "pynccl"):
        name = f"vllm.distributed.device_communicators.{file}"
        spec = importlib.util.spec_from_file_location(name, os.path.join(folder, f"{file}.py"))
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name].PyNcclCommunicator


def main():
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    gpu = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(gpu)
    over = load(sys.argv[1])(dist.group.WORLD, gpu)
    assert over.available, "it found no NCCL"
    over.disabled = False
    checked = 0

    def require(got, expected):
        nonlocal checked
        assert bool((got == expected).all()), f"rank {rank}: {got} instead of {expected}"
        checked += 1

    for kind in (torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int32, torch.int64, torch.int8):
        for count in (1, 1000, 3_000_001):
            data = torch.full((count,), rank + 1, dtype=kind, device=gpu)
            require(over.all_reduce(data), ranks * (ranks + 1) // 2)
            into = torch.zeros(ranks * count, dtype=kind, device=gpu)
            over.all_gather(into, data)
            require(into.view(ranks, count), torch.arange(1, ranks + 1, device=gpu)[:, None])
            part = torch.zeros_like(data)
            over.reduce_scatter(part, into)
            require(part, ranks * (rank + 1))
            over.broadcast(part, ranks - 1)
            require(part, ranks * ranks)
            received = torch.zeros_like(data)
            # Around the ring; the first rank sends first.
            if rank == 0:
                over.send(torch.full_like(data, 7), (rank + 1) % ranks)
            over.recv(received, (rank - 1) % ranks)
            if rank > 0:
                over.send(received, (rank + 1) % ranks)
            require(received, 7)
            received.zero_()
            over.group_start()
            over.send(data, (rank + 1) % ranks)
            over.recv(received, (rank - 1) % ranks)
            over.group_end()
            require(received, (rank - 1) % ranks + 1)
    dist.barrier()
    print(f"rank {rank}: NCCL {over.nccl.ncclGetVersion()}, {checked} results, all right", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
