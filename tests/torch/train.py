"""A training script as users write it: it names gloo, and knows nothing of Tandem.

usage: torchrun --nproc-per-node N train.py ddp|fsdp2|tensor|checkpoint|gpipe|1f1b|interleaved|zero_bubble|zbv

Rank 0 prints the losses, exactly.
"""

import os
import sys
import tempfile

import torch
import torch.distributed as dist
from torch import nn

STEPS = 4
WIDTH = 32
BATCH = 16


def block():
    return nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH), nn.LayerNorm(WIDTH))


def model(blocks=4):
    torch.manual_seed(7)
    return nn.Sequential(*(block() for _ in range(blocks)))


def data(step, rank):
    random = torch.Generator().manual_seed(1000 * step + rank)
    return torch.randn(BATCH, WIDTH, generator=random), torch.randn(BATCH, WIDTH, generator=random)


def whole_loss(loss):
    loss = loss.detach().clone()
    dist.all_reduce(loss, op=dist.ReduceOp.SUM)
    return loss / dist.get_world_size()


def train(wrapped, same_data=False):
    optimizer = torch.optim.AdamW(wrapped.parameters(), lr=1e-2)
    for step in range(STEPS):
        inputs, targets = data(step, 0 if same_data else dist.get_rank())
        loss = nn.functional.mse_loss(wrapped(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield whole_loss(loss)


def ddp():
    return train(nn.parallel.DistributedDataParallel(model(), bucket_cap_mb=0.05))


def fsdp2():
    from torch.distributed.fsdp import fully_shard
    sharded = model()
    for layer in sharded:
        fully_shard(layer)
    fully_shard(sharded)
    return train(sharded)


def tensor():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    split = model()
    for layer in split:
        parallelize_module(layer, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    return train(split, same_data=True)


def checkpoint():
    """Saves after the first steps, loads into another model, and goes on."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.fsdp import fully_shard
    sharded = fully_shard(model())
    yield from train(sharded)
    folder = [tempfile.mkdtemp(prefix="tandem-checkpoint-") if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(folder)
    dcp.save({"model": sharded.state_dict()}, checkpoint_id=folder[0])
    other = fully_shard(model().apply(lambda m: hasattr(m, "reset_parameters") and m.reset_parameters()))
    state = {"model": other.state_dict()}
    dcp.load(state, checkpoint_id=folder[0])
    other.load_state_dict(state["model"])
    yield from train(other)


def pipeline(schedule_name, stages_per_rank):
    from torch.distributed.pipelining import PipelineStage, schedules
    rank, ranks = dist.get_rank(), dist.get_world_size()
    count = ranks * stages_per_rank
    layers = model(count)
    kind = getattr(schedules, schedule_name)
    if schedule_name in ("ScheduleZBVZeroBubble", "ScheduleDualPipeV"):
        mine = [rank, count - 1 - rank]
    else:
        mine = [rank + ranks * k for k in range(stages_per_rank)]
    stages = [PipelineStage(layers[i], i, count, torch.device("cpu")) for i in mine]
    loss_fn = nn.functional.mse_loss
    single = stages_per_rank == 1
    schedule = kind(stages[0] if single else stages, n_microbatches=2 * ranks, loss_fn=loss_fn)
    optimizer = torch.optim.SGD([p for i in mine for p in layers[i].parameters()], lr=1e-2)
    has_last = count - 1 in mine
    for step in range(STEPS):
        inputs, targets = data(step, 0)
        losses = []
        arguments = (inputs,) if 0 in mine else ()
        schedule.step(*arguments, **({"target": targets, "losses": losses} if has_last else {}))
        optimizer.step()
        optimizer.zero_grad()
        mean = torch.stack(losses).mean() if has_last else torch.zeros(())
        yield whole_loss(mean) * ranks


SCHEDULES = {  # and stages of a rank
    "gpipe": ("ScheduleGPipe", 1),
    "1f1b": ("Schedule1F1B", 1),
    "interleaved": ("ScheduleInterleaved1F1B", 2),
    "looped_bfs": ("ScheduleLoopedBFS", 2),
    "zero_bubble": ("ScheduleInterleavedZeroBubble", 2),
    "zbv": ("ScheduleZBVZeroBubble", 2),
    "dualpipe_v": ("ScheduleDualPipeV", 2),
}
MODES = {"ddp": ddp, "fsdp2": fsdp2, "tensor": tensor, "checkpoint": checkpoint} | {
    name: lambda schedule=schedule: pipeline(*schedule) for name, schedule in SCHEDULES.items()}


def lacking(mode):
    """What this version of PyTorch lacks for a mode, or None."""
    from torch.distributed.pipelining import schedules
    if mode in SCHEDULES and not hasattr(schedules, SCHEDULES[mode][0]):
        return SCHEDULES[mode][0]
    if mode in ("fsdp2", "checkpoint") and not hasattr(torch.cpu.Stream, "record_event"):
        return "FSDP2 on CPUs"
    if mode == "zbv" and torch.__version__.startswith("2.6."):
        return "shape inference that works where a rank has the first and the last stage"
    return None


def gloo_can(mode):
    """Whether gloo carries it, too. Its messages to the rank itself fail, and in PyTorch 2.6 messages both ways at once hang."""
    if mode in ("zbv", "dualpipe_v"):
        return False
    return mode not in SCHEDULES or mode == "gpipe" or not torch.__version__.startswith("2.6.")


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    for name in sys.argv[1:]:
        losses = [loss.item() for loss in MODES[name]()]
        dist.barrier()
        if dist.get_rank() == 0:
            print(f"{name}: " + " ".join(loss.hex() for loss in losses), flush=True)
            if os.environ.get("TANDEM_TEST_SHOW"):
                print(losses)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
