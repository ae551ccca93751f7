"""--compare: the same steps over each link in turn, in one process: the model is made once, and each link has its own groups."""

import os
import time

import torch

from . import output, training


def run(trainer, begun):
    job, options = trainer.job, trainer.options
    names = trainer.plan.links
    facts = training.describe(trainer) | {"link": None, "links": names, "rounds": options.rounds}
    lines = training.Lines(options.json, job.rank == 0)
    pipes = {name: trainer.use(name) for name in names}
    carriers = {name: carrier(trainer, pipes[name]) for name in names}
    lines.write("config", facts | {"carriers": carriers})
    if job.rank == 0:
        output.show(f"{options.model} over {', '.join(names)}: {options.rounds} rounds of {options.steps} steps, {facts['device']}; "
                    f"ready after {time.monotonic() - begun:.1f} s")
    blocks = {name: [] for name in names}
    for number in range(options.rounds):
        for name in names[number % len(names):] + names[:number % len(names)]:
            one = block(trainer, pipes[name])
            blocks[name].append(one)
            lines.write("block", {"link": name, "round": number + 1, "device": facts["device"], "torch": facts["torch"]} | one)
            if job.rank == 0:
                output.show(f"round {number + 1}/{options.rounds}  {name}: {median(one['tflops_per_gpu']):.4g} TFLOP/s, steps of "
                            f"{median(one['seconds']):.4g} s, final loss {one['losses'][-1]:.6f}")
    if job.rank == 0:
        table(names, carriers, blocks, facts, lines)


def carrier(trainer, pipes):
    """What carries the messages of rank 0."""
    found = {trainer.job.describe(end.group) if pipes.carriers[key] == "tandem" else pipes.carriers[key]
             for key, end in (pipes.outgoing | pipes.incoming).items()}
    return ", ".join(sorted(found)) or "none"


def block(trainer, pipes):
    """Trains from the start. The first step, which connects and loads kernels, is not counted where there are others."""
    job, options = trainer.job, trainer.options
    trainer.restart()
    trainer.select(pipes)
    if job.is_on_gpu:
        torch.cuda.reset_peak_memory_stats()
        torch.cuda.synchronize()
    job.barrier()
    seconds, losses, last = [], [], time.perf_counter()
    for number in range(options.steps):
        losses.append(trainer.step(number))
        now = time.perf_counter()
        seconds.append(now - last)
        last = now
    counted = seconds[1:] or seconds
    full, half = ([flops / s / 1e12 for s in counted] for flops in training.flops_of(trainer))
    allocated = torch.cuda.max_memory_allocated(job.device) if job.is_on_gpu else trainer.memory()
    used = sum_of_device(job)
    most = job.largest([allocated, used])
    return {"seconds": counted, "tflops_per_gpu": full, "tflops_per_gpu_half": half, "losses": losses,
            "loss_bits": [loss.hex() for loss in losses], "memory_bytes": int(most[0]), "device_used_bytes": int(most[1])}


def sum_of_device(job):
    """What all libraries together have of the GPU's memory."""
    if not job.is_on_gpu:
        return 0
    free, total = torch.cuda.mem_get_info(job.device)
    return total - free


def median(values):
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def table(names, carriers, blocks, facts, lines):
    unit = "GPU" if facts["device"].find("processor") < 0 else "rank"
    rows = [("link", f"TFLOP/s per {unit}", "lowest", "highest", "step, s", "tokens/s", "memory, GiB", "losses", "carried by")]
    reference = blocks[names[0]][0]["loss_bits"]
    for name in names:
        rates = [rate for one in blocks[name] for rate in one["tflops_per_gpu"]]
        seconds = median([s for one in blocks[name] for s in one["seconds"]])
        is_same = all(one["loss_bits"] == reference for one in blocks[name])
        memory = max(one["memory_bytes"] for one in blocks[name])
        tokens = facts["batch"] * facts["sequence"] / seconds
        lines.write("link", {"link": name, "carrier": carriers[name], "tflops_per_gpu": median(rates), "lowest": min(rates),
                             "highest": max(rates), "seconds": seconds, "tokens_per_s": tokens, "memory_bytes": memory,
                             "device_used_bytes": max(one["device_used_bytes"] for one in blocks[name]), "same_bits": is_same, "device": facts["device"], "torch": facts["torch"], "ranks": facts["ranks"],
                             "model": facts["model"], "flops": facts["flops"], "modules": os.environ.get("CUDA_MODULE_LOADING")})
        rows.append((name, f"{median(rates):.4g}", f"{min(rates):.4g}", f"{max(rates):.4g}", f"{seconds:.4g}", f"{tokens:.0f}",
                     f"{memory / (1 << 30):.2f}", "same bits" if is_same else "differ", carriers[name]))
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    for row in rows:
        output.show("  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip())
