"""Tandem for PyTorch: the back-end "tandem" of torch.distributed.

`import torch` loads it (entry point torch.backends), so a script only has to name it:

    torch.distributed.init_process_group("tandem")

or not even that: with TANDEM_TAKE_OVER=nccl (or gloo, or both: "nccl,gloo") it carries the process groups of scripts
that name those.
"""


def dump_flight_recorder(path=""):
    """Writes the last calls of this process, for torchfrtrace, into that file; without one, where a failed call would
    write them: TORCH_FR_DUMP_TEMP_FILE followed by the rank. Returns the file's name."""
    from . import distributed

    return distributed.loaded().dump_flight_recorder(str(path))
