"""A training script as users write it: it names gloo, and knows nothing of Tandem.

usage: torchrun --nproc-per-node N train.py MODE...   (MODES below; hsdp and fsdp_tensor need an even number of ranks)

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


def data(step, rank, rows=BATCH):
    random = torch.Generator().manual_seed(1000 * step + rank)
    return torch.randn(rows, WIDTH, generator=random), torch.randn(rows, WIDTH, generator=random)


def whole_loss(loss):
    loss = loss.detach().clone()
    dist.all_reduce(loss, op=dist.ReduceOp.SUM)
    return loss / dist.get_world_size()


def train(wrapped, data_of=None):
    optimizer = torch.optim.AdamW(wrapped.parameters(), lr=1e-2)
    for step in range(STEPS):
        inputs, targets = data(step, dist.get_rank() if data_of is None else data_of)
        loss = nn.functional.mse_loss(wrapped(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield whole_loss(loss)


def ddp():
    return train(nn.parallel.DistributedDataParallel(model(), bucket_cap_mb=0.05))


class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return BATCH * STEPS * dist.get_world_size()

    def __getitem__(self, index):
        inputs, targets = data(index, 0)
        return inputs[0], targets[0]


def loader():
    """DDP, with batches from processes that are forked between the steps."""
    wrapped = nn.parallel.DistributedDataParallel(model())
    optimizer = torch.optim.AdamW(wrapped.parameters(), lr=1e-2)
    samples = Samples()
    sampler = torch.utils.data.DistributedSampler(samples, seed=3)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for inputs, targets in torch.utils.data.DataLoader(samples, BATCH, sampler=sampler, num_workers=2):
            loss = nn.functional.mse_loss(wrapped(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            yield whole_loss(loss)


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
    return train(split, data_of=0)


def two_dimensions(*names):
    """A mesh of N/2 x 2 ranks."""
    from torch.distributed.device_mesh import init_device_mesh
    return init_device_mesh("cpu", (dist.get_world_size() // 2, 2), mesh_dim_names=names)


def hsdp():
    """Sharded over two ranks, replicated over the others."""
    from torch.distributed.fsdp import fully_shard
    mesh = two_dimensions("replicate", "shard")
    sharded = model()
    for layer in sharded:
        fully_shard(layer, mesh=mesh)
    fully_shard(sharded, mesh=mesh)
    return train(sharded)


def fsdp_tensor():
    """Layers split over two ranks, sharded over the others; both ranks of a split have the same data."""
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    mesh = two_dimensions("shard", "tensor")
    both = model()
    for layer in both:
        parallelize_module(layer, mesh["tensor"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
        fully_shard(layer, mesh=mesh["shard"])
    fully_shard(both, mesh=mesh["shard"])
    return train(both, data_of=mesh["shard"].get_local_rank())


class Ring(torch.autograd.Function):
    """PyTorch's ring attention around the operator for processors, for which it has no entry of its own."""

    @staticmethod
    def forward(kept, group, q, k, v):
        from torch.distributed.tensor.experimental._context_parallel import _attention
        operator = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
        out, logsumexp = _attention._templated_ring_attention(group, 2, operator, q, k, v, is_causal=True)
        kept.group = group
        kept.save_for_backward(q, k, v, out, logsumexp)
        return out

    @staticmethod
    def backward(kept, gradient):
        from torch.distributed.tensor.experimental._context_parallel import _attention
        q, k, v, out, logsumexp = kept.saved_tensors
        operator = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
        return None, *_attention._templated_ring_attention_backward(
            kept.group, 2, operator, gradient, "grad_out", q, k, v, out, logsumexp, is_causal=True, dropout_p=0.0)


class Attention(nn.Module):
    def __init__(self, attend, heads=4):
        super().__init__()
        self.attend, self.heads = attend, heads
        self.in_projection, self.out_projection = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.in_projection(x).view(batch, length, 3 * self.heads, -1).transpose(1, 2).chunk(3, 1)
        return x + self.out_projection(self.attend(*parts).transpose(1, 2).reshape(batch, length, width))


def context(ring=False):
    """Each rank has a part of the sequence. PyTorch 2.11 passes a ring only the attention operators of GPUs, so on
    processors context_parallel works with the math kernel alone, for which DTensor gathers keys and values. That kernel
    makes its causal mask as a plain tensor, which DTensor refuses: no mask. With `ring`, the ring all the same."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.experimental import context_parallel
    from torch.distributed.tensor.experimental._attention import set_rotate_method
    from torch.nn.attention import SDPBackend, sdpa_kernel
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    set_rotate_method("alltoall")

    def attend(q, k, v):
        return Ring.apply(mesh.get_group(), q, k, v) if ring else nn.functional.scaled_dot_product_attention(q, k, v)

    torch.manual_seed(7)
    split = nn.Sequential(Attention(attend), block(), Attention(attend), block())
    optimizer = torch.optim.AdamW(split.parameters(), lr=1e-2)
    for step in range(STEPS):
        inputs, targets = (part.view(2, -1, WIDTH) for part in data(step, 0, 4 * BATCH))
        with sdpa_kernel(SDPBackend.MATH), context_parallel(mesh, buffers=[inputs, targets], buffer_seq_dims=[1, 1]):
            loss = nn.functional.mse_loss(split(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
        for parameter in split.parameters():
            dist.all_reduce(parameter.grad, op=dist.ReduceOp.SUM)
            parameter.grad /= dist.get_world_size()
        optimizer.step()
        yield whole_loss(loss)


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


def stages_of(indices, count, layers):
    from torch.distributed.pipelining import PipelineStage
    return [PipelineStage(layers[i], i, count, torch.device("cpu")) for i in indices]


def forward_only():
    """A pipeline that only evaluates."""
    from torch.distributed.pipelining import _ScheduleForwardOnly
    rank, ranks = dist.get_rank(), dist.get_world_size()
    layers = model(ranks)
    schedule = _ScheduleForwardOnly(stages_of([rank], ranks, layers)[0], n_microbatches=2 * ranks)
    for step in range(STEPS):
        inputs, targets = data(step, 0)
        with torch.no_grad():
            outputs = schedule.step(*((inputs,) if rank == 0 else ()))
            yield whole_loss(nn.functional.mse_loss(outputs, targets) if rank == ranks - 1 else torch.zeros(())) * ranks


def pipeline(schedule_name, stages_per_rank):
    from torch.distributed.pipelining import schedules
    rank, ranks = dist.get_rank(), dist.get_world_size()
    count = ranks * stages_per_rank
    layers = model(count)
    kind = getattr(schedules, schedule_name)
    if schedule_name in ("ScheduleZBVZeroBubble", "ScheduleDualPipeV"):
        mine = [rank, count - 1 - rank]
    else:
        mine = [rank + ranks * k for k in range(stages_per_rank)]
    stages = stages_of(mine, count, layers)
    loss_fn = nn.functional.mse_loss
    single = stages_per_rank == 1
    schedule = kind(stages[0] if single else stages, n_microbatches=2 * ranks, loss_fn=loss_fn)
    if schedule_name == "_PipelineScheduleRuntime":  # it runs whatever order a file has
        with tempfile.NamedTemporaryFile(prefix="tandem-schedule-", suffix=".csv") as file:
            schedules.ScheduleInterleaved1F1B(stages, n_microbatches=2 * ranks, loss_fn=loss_fn)._dump_csv(file.name)
            schedule._load_csv(file.name, format="compute_comms")
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
    "from_file": ("_PipelineScheduleRuntime", 2),
    "dualpipe_v": ("ScheduleDualPipeV", 2),
}
OF_FOUR_RANKS = ("hsdp", "fsdp_tensor")
MODES = {"ddp": ddp, "loader": loader, "fsdp2": fsdp2, "tensor": tensor, "checkpoint": checkpoint, "hsdp": hsdp,
         "fsdp_tensor": fsdp_tensor, "context": context, "ring": lambda: context(ring=True), "forward_only": forward_only} | {
    name: lambda schedule=schedule: pipeline(*schedule) for name, schedule in SCHEDULES.items()}


def lacking(mode):
    """What this version of PyTorch lacks for a mode, or None."""
    from torch.distributed.pipelining import schedules
    if mode in SCHEDULES and not hasattr(schedules, SCHEDULES[mode][0]):
        return SCHEDULES[mode][0]
    if mode in ("fsdp2", "checkpoint", *OF_FOUR_RANKS) and not hasattr(torch.cpu.Stream, "record_event"):
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
