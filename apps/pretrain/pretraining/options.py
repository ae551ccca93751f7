"""The command line, and everything about it that can be checked before a rank starts."""

import argparse
import os
import tempfile
from pathlib import Path

from . import BadInput, configs, data, layout, link_settings, output, schedules

EPILOG = """Under torchrun each process is a rank; without it --ranks N starts N ranks on this host. README.md of this folder has
examples."""


class Parser(argparse.ArgumentParser):
    """One that does not ignore that its help cannot be written."""

    def print_help(self, file=None):
        try:
            output.show(self.format_help().rstrip("\n"))
            output.finish()
        except RuntimeError as lost:
            self.exit(1, f"pretrain: {lost}\n")


def parser():
    made = Parser(prog="pretrain", description="Pretrains a LLaMA or Qwen2 model.", epilog=EPILOG)
    model = made.add_argument_group("model")
    model.add_argument("--model", default="llama-small", help=f"{', '.join(configs.BUILT_IN)}, or a config.json (llama-small)")
    model.add_argument("--type", default="bfloat16", choices=["bfloat16", "float32"], help="of parameters and activations")
    model.add_argument("--master", choices=["float32"], help="AdamW updates copies of the parameters in this type")
    model.add_argument("--recompute", default="0", metavar="N", help="layers of each stage that keep no activations, or all (0)")
    model.add_argument("--compile", action="store_true", help="torch.compile for what is between the matrices")
    model.add_argument("--attention", default="auto", choices=["auto", "flash", "cudnn"], help="kernels of GPUs (PyTorch's choice)")
    model.add_argument("--deterministic", type=int, choices=[0, 1], default=0,
                       help="1: kernels of GPUs that give the same bits in each run, which are slower (0)")
    split = made.add_argument_group("layout")
    split.add_argument("--ranks", type=int, help="ranks to start on this host (1)")
    split.add_argument("--layout", help="pipeline=P,data=D,tensor=T (all ranks in one pipeline)")
    split.add_argument("--layers", help="layers of each stage: 17,15 (so that the slowest stage is as fast as can be)")
    split.add_argument("--schedule", default="one_f_one_b", help=f"{schedules.NAMES} (one_f_one_b)")
    split.add_argument("--chunks", type=int, help="stages on each rank: any number with interleaved (2), else what the schedule has")
    split.add_argument("--devices", default="auto", help="auto, cpu or cuda, or one for each rank: cuda,cpu (auto)")
    work = made.add_argument_group("training")
    work.add_argument("--steps", type=int, default=20)
    work.add_argument("--batch", type=int, default=8, help="sequences of a step, of all replicas (8)")
    work.add_argument("--micro-batch", type=int, default=1, help="sequences of a micro-batch (1)")
    work.add_argument("--sequence", type=int, default=256, help="tokens of a sequence (256)")
    work.add_argument("--learning-rate", type=float, default=3e-4, help="after the warm-up (3e-4)")
    work.add_argument("--warmup", type=int, default=10, help="steps in which the learning rate rises (10)")
    work.add_argument("--clip", type=float, help="largest norm of all gradients; the processor waits for the GPU to know it")
    work.add_argument("--seed", type=int, default=1)
    work.add_argument("--data", default="", help="a text file, a folder of them, or random (Python's standard library)")
    work.add_argument("--cache", default=data.default_cache(), help="folder of tokenizers and tokens (~/.cache/tandem/pretrain)")
    out = made.add_argument_group("results")
    out.add_argument("--save", metavar="FOLDER", help="of checkpoints, shared by all hosts")
    out.add_argument("--save-every", type=int, default=0, metavar="N", help="steps (0: at the end only)")
    out.add_argument("--resume", action="store_true", help="go on from the newest complete checkpoint in --save")
    out.add_argument("--json", metavar="FILE", help="a line for each step and for the whole run")
    out.add_argument("--report", metavar="FILE", help="a page with charts")
    link = made.add_argument_group("links")
    link.add_argument("--link", default="tandem", help=f"of pipelines between islands: {', '.join(link_settings.LINKS)} (tandem)")
    link.add_argument("--emulate-islands", action="store_true", help="each half of the ranks is an island")
    link.add_argument("--shared-staging", type=int, choices=[0, 1], help="Tandem's setting (its default)")
    link.add_argument("--stream-waits", type=int, choices=[0, 1], default=0,
                      help="1: streams instead of threads wait for Tandem's messages (0); hangs if PyTorch has to allocate meanwhile")
    link.add_argument("--timeout", type=float, default=600, help="seconds until a message counts as lost (600)")
    link.add_argument("--compare", metavar="LINKS", help="train over each of these links in turn: nccl,tandem-direct,gloo")
    link.add_argument("--rounds", type=int, default=3, help="of --compare (3); each has --steps steps over each link")
    return made


def numbers(name, text):
    try:
        return [int(item) for item in text.split(",")]
    except ValueError:
        raise BadInput(f"{name} {text}: not whole numbers separated by commas") from None


def devices_of(options, ranks):
    """What --devices says of each rank: auto, cpu or cuda."""
    named = options.devices.split(",")
    for name in named:
        if name not in ("auto", "cpu", "cuda"):
            raise BadInput(f"--devices {options.devices}: {name} is neither cpu nor cuda")
    if len(named) == 1:
        return named * ranks
    if len(named) != ranks:
        raise BadInput(f"--devices {options.devices}: {len(named)} devices for {ranks} ranks")
    return named


def may_have_gpus(options):
    if set(options.devices.split(",")) == {"cpu"}:
        return False
    return bool(list(Path("/dev").glob("nvidia[0-9]*"))) or Path("/dev/kfd").exists()


def check_numbers(options):
    for name in ("steps", "batch", "micro_batch", "sequence", "chunks", "rounds", "ranks"):
        if getattr(options, name) is not None and getattr(options, name) < 1:
            raise BadInput(f"--{name.replace('_', '-')} {getattr(options, name)}: at least 1")
    if options.recompute != "all" and not options.recompute.isdigit():
        raise BadInput(f"--recompute {options.recompute}: neither a number of layers nor all")
    if options.attention == "cudnn" and options.deterministic:
        raise BadInput("--attention cudnn: it has no deterministic kernels; leave --deterministic out, or choose flash")
    if not options.timeout > 0:
        raise BadInput(f"--timeout {options.timeout:g}: not a number of seconds")


class Plan:
    """What the options mean for that many ranks. Raises BadInput."""

    def __init__(self, options, ranks):
        check_numbers(options)
        self.members = configs.members_of(options.model)
        self.layout = layout.parse(options.layout, ranks)
        layout.check_tensor(self.layout, self.members)
        self.devices = devices_of(options, ranks)
        unit = self.layout.data * options.micro_batch
        if options.batch % unit:
            raise BadInput(f"--batch {options.batch}: not a multiple of {unit}, a micro-batch of {options.micro_batch} on each of "
                           f"{self.layout.data} replicas")
        self.micro_batches = options.batch // unit
        given = numbers("--layers", options.layers) if options.layers else None

        def costs_of(stages):
            self.layers = configs.cut(self.members, stages, options.sequence, given)
            return configs.costs(self.members, self.layers, options.sequence)

        self.schedule = schedules.Schedule(options.schedule, self.layout.pipeline, self.micro_batches, options.chunks, costs_of)
        self.layers = configs.cut(self.members, self.schedule.stages, options.sequence, given)
        longest = self.members.get("max_position_embeddings", options.sequence)
        if options.sequence > longest:
            raise BadInput(f"--sequence {options.sequence}: the model has positions for {longest} tokens")
        self.links = options.compare.split(",") if options.compare else [options.link]
        if len(set(self.links)) < len(self.links):
            raise BadInput(f"--compare {options.compare}: a link is named twice")
        for name in self.links:
            link_settings.check(name, may_have_gpus(options))
        if options.emulate_islands and ranks % 2:
            raise BadInput(f"--emulate-islands: {ranks} ranks have no halves")

    def layers_of(self, stage):
        first = sum(self.layers[:stage])
        return list(range(first, first + self.layers[stage]))


def check_outputs(options):
    """That what will be written can be, and what will be read is there."""
    for name in ("json", "report"):
        path = getattr(options, name)
        if path:
            if not output.is_special(path):
                _try(f"--{name} {path}", Path(os.path.realpath(path)).parent)
            if os.path.isdir(path) or (os.path.exists(path) and not os.access(path, os.W_OK)):
                raise BadInput(f"--{name} {path}: cannot be written")
    if options.compare and (options.report or options.save):
        raise BadInput("--compare: it writes --json only; leave --report and --save out")
    if (options.resume or options.save_every) and not options.save:
        raise BadInput(f"{'--resume' if options.resume else '--save-every'}: give the folder of checkpoints, too: --save FOLDER")
    if options.save:
        _try(f"--save {options.save}", Path(options.save), make=True)
    data.check(options.data)


def _try(what, folder, make=False):
    try:
        if make:
            folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as failed:
        raise BadInput(f"{what}: cannot be written: {failed.strerror}: {folder}") from None
