"""Starts the ranks, or is one of them."""

import contextlib
import faulthandler
import os
import signal
import sys
import time

from . import BadInput, options as command_line

ON_GPUS = {
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",    # what deterministic kernels need
    "CUDA_DEVICE_MAX_CONNECTIONS": "32",     # a queue for each stream: kernels that wait for a peer share none with others
}


def main(script):
    options = command_line.parser().parse_args()
    is_rank = "RANK" in os.environ
    ranks = int(os.environ["WORLD_SIZE"]) if is_rank else options.ranks or 1
    is_shown = int(os.environ.get("RANK", 0)) == 0
    try:
        if is_rank and options.ranks not in (None, ranks):
            raise BadInput(f"--ranks {options.ranks}: this job has {ranks}")
        plan = command_line.Plan(options, ranks)
        if is_shown:
            command_line.check_outputs(options)
    except BadInput as bad:
        if is_shown:
            print(f"pretrain: {bad}", file=sys.stderr)
        return 2
    return run_rank(options, plan) if is_rank else start(script, ranks)


def start(script, ranks):
    """What torchrun does, without its own report of a rank that has failed: the ranks say themselves what has happened."""
    import logging

    from torch.distributed import run as torchrun
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // ranks)))
    command = ["--standalone", "--nproc-per-node", str(ranks), "--no-python", sys.executable, script]
    try:
        torchrun.run(torchrun.parse_args([*command, *sys.argv[1:]]))
    except ChildFailedError as failed:
        return next((one.exitcode for one in failed.failures.values() if one.exitcode > 0), 1)
    except KeyboardInterrupt:
        return 130
    return 0


def run_rank(options, plan):
    faulthandler.register(signal.SIGUSR1)  # where its threads are, for a job that does not go on
    for name, value in ON_GPUS.items():
        os.environ.setdefault(name, value)
    if options.stream_waits:  # a kernel is loaded when all streams are idle
        os.environ.setdefault("CUDA_MODULE_LOADING", "EAGER")
    rank = int(os.environ["RANK"])
    if plan.devices[rank] == "cpu":  # Tandem takes a rank that sees a GPU for one that works on it
        os.environ |= {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""}
    try:
        return _train(options, plan)
    except BadInput as bad:
        if rank == 0 or f"rank {rank} " in str(bad):
            print(f"pretrain: {bad}", file=sys.stderr, flush=True)
        _exit(2)
    except Exception as failed:  # noqa: BLE001
        if os.environ.get("PRETRAIN_TRACEBACK"):
            import traceback
            traceback.print_exc()
        text = str(failed).split("\nException raised from")[0].strip().splitlines()
        print(f"pretrain: rank {rank}: {text[0] if text else type(failed).__name__}", file=sys.stderr, flush=True)
        _exit(1)


def _exit(status):
    """At once: groups whose peers are gone must not be waited for."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, AttributeError):  # a full disk, or it is closed
            stream.flush()
    os._exit(status)


def _train(options, plan):
    begun = time.monotonic()
    import torch
    import torch.distributed as dist

    from . import checkpoint, compare, data, output, training
    from .job import Job
    from .trainer import Trainer

    if "OMP_NUM_THREADS" in os.environ:
        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    job = Job(options, plan)
    source = data.prepare(options.data, options.cache, plan.members["vocab_size"], job.local_rank == 0, job.barrier,
                          options.sequence)
    trainer = Trainer(job, plan, options, source)
    if options.compare:
        compare.run(trainer, begun)
    else:
        trainer.select(trainer.use(options.link))
        done = checkpoint.load(trainer, options.save) if options.resume else 0
        training.run(trainer, done, begun)
    job.barrier()
    dist.destroy_process_group()
    output.finish()
    return 0
