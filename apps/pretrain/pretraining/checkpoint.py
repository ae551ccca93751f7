"""Checkpoints: a folder for each step, with a part of each rank. It gets its name when all parts are written."""

import re
import shutil
from pathlib import Path

import torch

from . import BadInput, checked


def _identity(trainer):
    options, plan = trainer.options, trainer.plan
    return {"model": dict(plan.members), "layout": plan.layout.text(), "layers": plan.layers,
            "stages": [plan.schedule.stage_of(trainer.position, chunk) for chunk in range(plan.schedule.chunks)],
            "type": options.type, "master": options.master, "seed": options.seed, "batch": options.batch,
            "sequence": options.sequence, "data": trainer.source.name}


def save(trainer, folder, step):
    """After `step` steps. All ranks call it."""
    job, part = trainer.job, Path(folder) / f"step-{step:08d}.part"
    if job.rank == 0 and part.exists():  # of a run that was killed, perhaps with other ranks
        shutil.rmtree(part)
    job.barrier()
    part.mkdir(parents=True, exist_ok=True)
    file = part / f"rank-{job.rank}.pt"
    torch.save({"identity": _identity(trainer), "step": step, "optimizer": trainer.optimizer.state_dict(),
                "stages": [stage.state_dict() for stage in trainer.stages],
                "masters": None if trainer.updated is trainer.parameters else [p.detach() for p in trainer.updated]}, file)
    checked.seal(file)
    job.barrier()
    if job.rank == 0:
        checked.sync(part)
        made, old = (Path(folder) / f"step-{step:08d}{suffix}" for suffix in ("", ".old"))
        shutil.rmtree(old, ignore_errors=True)
        if made.exists():
            made.rename(old)
        part.rename(made)
        checked.sync(folder)
        shutil.rmtree(old, ignore_errors=True)
    job.barrier()


def newest(folder):
    """The folder of the newest complete checkpoint, or None."""
    found = [path for path in Path(folder).glob("step-*") if re.fullmatch(r"step-\d{8}", path.name)]
    return max(found, key=lambda path: path.name, default=None)


def load(trainer, folder):
    """Goes on as if there had been no interruption; returns the number of steps done."""
    found = newest(folder)
    if found is None:
        return 0
    mine = found / f"rank-{trainer.job.rank}.pt"
    wrong = checked.problem(mine)
    if wrong:
        advice = f"remove {found} to go on from the checkpoint before it"
        if wrong.endswith(".sum is missing"):
            advice += f"; if it is known to be complete: python3 {checked.__file__} {found}/*.pt"
        raise BadInput(f"--resume: rank {trainer.job.rank} cannot go on from {mine}: {wrong}; {advice}")
    try:
        # Beside the model there is no room on a GPU for a copy of it; pages of the file are read as they are copied.
        state = torch.load(mine, map_location="cpu", mmap=trainer.job.is_on_gpu or None,
                           weights_only=True)
    except (OSError, RuntimeError) as failed:
        raise BadInput(f"--resume: {mine} cannot be read: {failed}") from None
    for name, value in _identity(trainer).items():
        if state["identity"][name] != value:
            raise BadInput(f"--resume: {found} is of another run: its {name} is {state['identity'][name]}, not {value}")
    for stage, values in zip(trainer.stages, state["stages"]):
        stage.load_state_dict(values)
    if state["masters"] is not None:
        with torch.no_grad():
            for master, values in zip(trainer.updated, state["masters"]):
                master.copy_(values)
    trainer.optimizer.load_state_dict(state["optimizer"])
    return state["step"]
