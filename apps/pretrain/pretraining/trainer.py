"""A training step: forwards and backwards in the order of a schedule, gradients of all replicas, and AdamW."""

import torch
import torch.distributed as dist

from . import configs, data
from .links import LooseEnds, Pipes
from .model import Stage, TensorPart
from .record import Record
from .runner import Runner

BUCKET_BYTES = 64 << 20  # of gradients that replicas add up in one call
BETAS, EPSILON, WEIGHT_DECAY = (0.9, 0.95), 1e-8, 0.1


class Trainer:
    def __init__(self, job, plan, options, source):
        self.job, self.plan, self.options, self.source = job, plan, options, source
        self.kind = getattr(torch, options.type)
        self.position, self.replica, part = job.layout.place(job.rank)
        config, schedule = configs.load(plan.members), plan.schedule
        self.data_group, tensor_group = job.inner_groups(plan.links[0])
        self.split = TensorPart(tensor_group, part, job.layout.tensor)
        numbers = [schedule.stage_of(self.position, chunk) for chunk in range(schedule.chunks)]
        self.stages = []
        for number in numbers:
            layers = plan.layers_of(number)
            recomputed = len(layers) if options.recompute == "all" else int(options.recompute)
            self.stages.append(Stage(config, layers, number == 0, number == schedule.stages - 1, self.kind, job.device,
                                     options.seed, self.split, recomputed, options.compile))
        self.parameters = [p for stage in self.stages for p in stage.parameters()]
        self.record, self.runner = Record(job.device), None
        self._make_optimizer()
        if job.is_on_gpu or options.compile:
            self._warm_up()

    def _warm_up(self):
        """A step on zeros without messages: CUDA loads a kernel, and kernels are compiled, on first use, when all streams are
        idle, and streams may wait for a peer that waits for this rank."""
        options, plan = self.options, self.plan
        shape = options.micro_batch, options.sequence, plan.members["hidden_size"]
        ends = LooseEnds(plan.schedule, self.position, shape, self.kind, self.job.device)
        tokens = torch.zeros(plan.micro_batches, options.micro_batch, options.sequence + 1, dtype=torch.long)
        Runner(self.stages, plan.schedule, self.position, ends, Record(self.job.device)).step(tokens.to(self.job.device))
        for parameter in self.parameters:
            parameter.grad = None
        if self.job.is_on_gpu:
            torch.cuda.synchronize()

    def _make_optimizer(self):
        options = self.options
        self.updated = self.parameters
        if options.master and self.kind != torch.float32:
            self.updated = [torch.nn.Parameter(p.detach().float()) for p in self.parameters]
        matrices = [p for p in self.updated if p.dim() > 1]
        others = [p for p in self.updated if p.dim() <= 1]
        self.optimizer = torch.optim.AdamW(
            [{"params": matrices, "weight_decay": WEIGHT_DECAY}, {"params": others, "weight_decay": 0.0}],
            lr=options.learning_rate, betas=BETAS, eps=EPSILON, fused=self.job.is_on_gpu)

    def use(self, link):
        """Makes the groups of that link, and returns its ends for `select`."""
        options, members = self.options, self.plan.members
        shape = options.micro_batch, options.sequence, members["hidden_size"]
        return Pipes(link, self.job, self.plan.schedule, shape, self.kind)

    def select(self, pipes):
        self.data_group, self.split.group = pipes.inner_groups
        self.runner = Runner(self.stages, self.plan.schedule, self.position, pipes, self.record)

    def restart(self):
        """Back to the values that training begins with."""
        for stage in self.stages:
            stage.reset()
        self._make_optimizer()

    def step(self, number):
        """Trains one step and returns its loss, the same on every rank. The processor waits for the GPU at its end only."""
        options, plan = self.options, self.plan
        tokens = data.batch(self.source, options.seed, number, options.batch, options.sequence)
        mine = tokens.view(plan.micro_batches, plan.layout.data, options.micro_batch, -1)[:, self.replica].contiguous()
        for parameter in self.parameters:
            parameter.grad = None
        loss = self.runner.step(mine.to(self.job.device))
        self._average_gradients()
        if options.clip:
            self._clip(options.clip)
        with self.record.span("update", 0, -1):
            self._update(number)
        if self.job.is_on_gpu:
            torch.cuda.synchronize()
        self.runner.pipes.check()
        is_counted = any(stage.is_last for stage in self.stages) and self.stages[0].part.index == 0
        share = loss.item() / (plan.micro_batches * plan.layout.data) if is_counted else 0.0
        return self.job.sums([share])[0]

    def _average_gradients(self):
        group, replicas = self.data_group, self.plan.layout.data
        if group is None:
            return
        with self.record.span("all-reduce", 0, -1):
            pending, bucket, size = [], [], 0
            for parameter in self.parameters:
                bucket.append(parameter.grad)
                size += parameter.grad.numel() * parameter.grad.element_size()
                if size >= BUCKET_BYTES or parameter is self.parameters[-1]:
                    flat = torch.cat([gradient.reshape(-1) for gradient in bucket])
                    pending.append((dist.all_reduce(flat, group=group, async_op=True), flat, bucket))
                    bucket, size = [], 0
            for work, flat, gradients in pending:
                work.wait()
                flat /= replicas
                sizes = [gradient.numel() for gradient in gradients]
                for gradient, part in zip(gradients, flat.split(sizes)):
                    gradient.copy_(part.view_as(gradient))

    def _clip(self, limit):
        """The norm is added up layer by layer, in one order, so that it has the same bits in every cut."""
        totals = [0.0] * (self.plan.members["num_hidden_layers"] + 3)
        on_first_part = self.stages[0].part.index == 0
        for stage in self.stages:
            for number, parameters in stage.parts():
                squares = [p.grad.float().pow(2).sum() for p in parameters if on_first_part or hasattr(p, "cut_dimension")]
                totals[number] = torch.stack(squares).double().sum().item() if squares and self.replica == 0 else 0.0
        norm = sum(self.job.sums(totals)) ** 0.5
        if norm > limit:
            for parameter in self.parameters:
                parameter.grad.mul_(limit / norm)

    def _update(self, number):
        rate = self.options.learning_rate * min(1.0, (number + 1) / max(1, self.options.warmup))
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        if self.updated is self.parameters:
            self.optimizer.step()
            return
        for master, parameter in zip(self.updated, self.parameters):
            master.grad = parameter.grad.float()
        self.optimizer.step()
        with torch.no_grad():
            for master, parameter in zip(self.updated, self.parameters):
                parameter.copy_(master)
                master.grad = None

    def reduced_bytes(self, what):
        """That this rank has summed with others in a step, for data or tensor parallelism."""
        if what == "data":
            return sum(p.numel() * p.element_size() for p in self.parameters)
        options, plan = self.options, self.plan
        layer = options.micro_batch * options.sequence * plan.members["hidden_size"] * self.kind.itemsize
        layers = sum(len(stage.layers) for stage in self.stages)
        return 4 * layers * layer * plan.micro_batches  # two sums forward and two backward

    def memory(self):
        """The most bytes of the GPU's memory that PyTorch has used, or of this process's."""
        if self.job.is_on_gpu:
            return torch.cuda.max_memory_reserved(self.job.device)
        import resource
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
