"""The run: steps, the progress line, the records of each rank, and what is written."""

import json
import math
import os
import socket
import subprocess
import time
from pathlib import Path

import torch
import torch.distributed as dist

from . import BadInput, checkpoint, configs, output, report


def flops_of(trainer):
    """Of one step on one rank, with causal attention in full, and in half."""
    options, plan = trainer.options, trainer.plan
    tokens = options.batch * options.sequence
    return [configs.flops_per_token(plan.members, options.sequence, half) * tokens / trainer.job.ranks for half in (False, True)]


def describe(trainer):
    """What a reader of the results needs to repeat them."""
    job, options, plan = trainer.job, trainer.options, trainer.plan
    count = job.sums([sum(p.numel() for p in trainer.parameters)])[0]
    return {
        "model": options.model, "architecture": plan.members["model_type"], "parameters_on_ranks": int(count),
        "layers": plan.layers, "layout": plan.layout.text(), "schedule": plan.schedule.kind, "chunks": plan.schedule.chunks,
        "type": options.type, "master": options.master, "recompute": options.recompute, "compile": options.compile,
        "attention": options.attention, "deterministic": options.deterministic, "batch": options.batch,
        "micro_batch": options.micro_batch, "micro_batches": plan.micro_batches, "sequence": options.sequence,
        "seed": options.seed, "steps": options.steps, "data": trainer.source.name, "link": options.link,
        "emulated_islands": options.emulate_islands, "shared_staging": options.shared_staging,
        "stream_waits": options.stream_waits, "ranks": job.ranks, "device": device_name(job), "host": socket.gethostname(),
        "torch": torch.__version__, "commit": _commit(), "allocator": os.environ.get("PYTORCH_CUDA_ALLOC_CONF", ""),
        "flops": "tflops_per_gpu counts causal attention in full, tflops_per_gpu_half in half; recomputation is not counted",
    }


def device_name(job):
    if job.is_on_gpu:
        return torch.cuda.get_device_name(job.device)
    return f"processor, {torch.get_num_threads()} thread{'s' if torch.get_num_threads() > 1 else ''} a rank"


def _commit():
    found = subprocess.run(["git", "-C", str(Path(__file__).parent), "rev-parse", "--short=12", "HEAD"], capture_output=True,
                           text=True, check=False)
    return found.stdout.strip() or None


def time_text(seconds):
    seconds = round(seconds)
    hours, minutes = seconds // 3600, seconds // 60 % 60
    return f"{hours}:{minutes:02}:{seconds % 60:02}" if hours else f"{minutes}:{seconds % 60:02}"


class Lines:
    """The file of --json; on rank 0."""

    def __init__(self, path, is_on, append=False):
        self._lines = output.Lines("--json", path, is_on, append)

    def write(self, what, values):
        self._lines.write(json.dumps({"event": what} | values))


def step_record(trainer, number, loss, seconds, memory):
    options = trainer.options
    full, half = (flops / seconds / 1e12 for flops in flops_of(trainer))
    return {"step": number + 1, "loss": loss, "loss_bits": loss.hex(), "seconds": round(seconds, 6),
            "tflops_per_gpu": round(full, 6), "tflops_per_gpu_half": round(half, 6),
            "tokens_per_s": round(options.batch * options.sequence / seconds, 3), "memory_bytes": int(memory)}


def progress(trainer, one, left):
    unit = "GPU" if trainer.job.is_on_gpu else "rank"
    output.show(f"step {one['step']}/{trainer.options.steps}  loss {one['loss']:.6f}  {one['tflops_per_gpu']:.4g} TFLOP/s per {unit}  "
                f"{one['tokens_per_s']:.0f} tokens/s  {one['memory_bytes'] / (1 << 30):.2f} GiB  {time_text(left)} left")


def run(trainer, done, begun):
    job, options = trainer.job, trainer.options
    is_first = job.rank == 0
    if done >= options.steps:
        raise BadInput(f"--steps {options.steps}: the checkpoint has {done} steps already")
    facts = describe(trainer)
    lines = Lines(options.json, is_first, append=done > 0)
    lines.write("config", facts | {"first_step": done + 1})
    if is_first:
        output.show(f"{options.model} in {len(trainer.plan.layers)} stages of {','.join(map(str, trainer.plan.layers))} layers, "
                    f"{trainer.plan.layout.text()}, {trainer.plan.schedule.kind}, {options.link}, {facts['device']}; ready after "
                    f"{time.monotonic() - begun:.1f} s")
    steps, spans, sent = [], [], {}
    job.barrier()
    last = time.perf_counter()
    for number in range(done, options.steps):
        is_shown = number == options.steps - 1
        if is_shown:
            trainer.record.start()
        loss = trainer.step(number)
        if is_shown:
            spans = trainer.record.take()
        memory = job.largest([trainer.memory()])[0]
        now = time.perf_counter()
        one = step_record(trainer, number, loss, now - last, memory)
        last = now
        if not math.isfinite(loss):
            raise RuntimeError(f"step {number + 1}: the loss is {loss}; lower --learning-rate, or set --clip")
        steps.append(one)
        lines.write("step", one)
        sent = trainer.runner.pipes.sent_bytes()
        if is_first:
            rest = steps[1:] or steps
            progress(trainer, one, (options.steps - number - 1) * sum(s["seconds"] for s in rest) / len(rest))
        if options.save and (number + 1 == options.steps or (options.save_every and (number + 1) % options.save_every == 0)):
            checkpoint.save(trainer, options.save, number + 1)
            last = time.perf_counter()
    finish(trainer, facts, steps, spans, sent, lines)


def finish(trainer, facts, steps, spans, sent, lines):
    job, options, pipes = trainer.job, trainer.options, trainer.runner.pipes
    links = []
    for (direction, boundary), count in sent.items():
        end = pipes.outgoing[direction, boundary]
        links.append({"from": job.rank, "to": end.peer, "what": f"{direction}, stages {boundary} and {boundary + 1}",
                      "carrier": job.describe(end.group) if pipes.carriers[direction, boundary] == "tandem"
                      else pipes.carriers[direction, boundary], "bytes_per_step": count})
    for what, group in (("data", trainer.data_group), ("tensor", trainer.split.group)):
        if group is not None:
            links.append({"from": job.rank, "to": None, "what": f"all-reduce, {what} parallel",
                          "carrier": job.describe(group) if dist.get_backend(group) == "tandem" else dist.get_backend(group),
                          "bytes_per_step": trainer.reduced_bytes(what)})
    mine = {"rank": job.rank, "device": device_name(job), "island": list(job.island(job.rank)), "spans": spans, "links": links,
            "place": list(job.layout.place(job.rank)), "memory_bytes": trainer.memory(),
            "layers": [[layer.number for layer in stage.layers] for stage in trainer.stages]}
    ranks = [json.loads(text) for text in job.texts(json.dumps(mine))]
    if job.rank != 0:
        return
    counted = steps[1:] or steps
    seconds = sorted(one["seconds"] for one in counted)[len(counted) // 2]
    summary = {"median_seconds": seconds, "final_loss": steps[-1]["loss"], "final_loss_bits": steps[-1]["loss_bits"],
               "tflops_per_gpu": round(flops_of(trainer)[0] / seconds / 1e12, 6),
               "tflops_per_gpu_half": round(flops_of(trainer)[1] / seconds / 1e12, 6),
               "tokens_per_s": round(options.batch * options.sequence / seconds, 3),
               "memory_bytes": max(one["memory_bytes"] for one in steps), "links": [one for rank in ranks for one in rank["links"]]}
    lines.write("summary", facts | summary)
    if options.report:
        output.write_file("--report", options.report, report.page(facts | summary, steps, ranks))
