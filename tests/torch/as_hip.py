#!/usr/bin/env python3
"""Runs a script of which the odd ranks meet their GPU through HIP, which is translated to CUDA (tests/hip): the stand-in for a
second vendor, where there are NVIDIA GPUs only. PyTorch itself stays that for CUDA.

usage: torchrun --nproc-per-node N as_hip.py SCRIPT ARGUMENT...     (TANDEM_TEST_HIP: path of the translation, libamdhip64.so.6)
"""

import ctypes
import os
import runpy
import sys
from pathlib import Path


def become_hip():
    ctypes.CDLL(os.environ["TANDEM_TEST_HIP"])  # found by its name from here on
    import torch

    from tandem import distributed, glue

    if distributed.is_plain(glue.torch_version(torch)):
        from tandem.plain import job, library, tensors
        tensors.GPU_MEMORY = job.GPU_MEMORY = library.HIP
        return
    compile_for_cuda = glue.command
    glue.command = lambda *arguments: [*compile_for_cuda(*arguments), "-DTANDEM_TORCH_HIP"]
    os.environ["TANDEM_CACHE"] = str(glue.cache_folder() / "as_hip")


if __name__ == "__main__":
    if int(os.environ["RANK"]) % 2:
        become_hip()
    script = sys.argv[1]
    sys.argv = sys.argv[1:]
    sys.path[0] = str(Path(script).resolve().parent)
    runpy.run_path(script, run_name="__main__")
