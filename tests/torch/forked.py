"""Runs Python programs in children of this process, which has loaded PyTorch, transformers and apps/pretrain once for all of them:
loading takes a program 9 s of a processor, and most of these tests' own work takes less than one."""

import atexit
import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "apps" / "pretrain"))


def load():
    """Before the first child; without threads of its own, which a fork would not copy."""
    import torch  # noqa: F401
    import torch.optim  # noqa: F401
    from pretraining import checkpoint, compare, job, report, trainer, training  # noqa: F401
    from transformers import LlamaConfig, Qwen2Config  # noqa: F401
    from transformers.models.llama import modeling_llama  # noqa: F401
    from transformers.models.qwen2 import modeling_qwen2  # noqa: F401


class Program:
    """What of subprocess.Popen these tests use. Output is read when the program has ended."""

    def __init__(self, *command, environment=None, stdout=None):
        load()
        self._output, self._errors = tempfile.TemporaryFile(), tempfile.TemporaryFile()
        self.args = list(map(str, command))
        sys.stdout.flush()
        sys.stderr.flush()
        self._process = multiprocessing.get_context("fork").Process(
            target=self._run, args=(environment or os.environ.copy(), self._output if stdout is None else stdout))
        self._process.start()
        self.pid = self._process.pid

    def _run(self, environment, stdout):
        os.dup2(stdout if isinstance(stdout, int) else stdout.fileno(), 1)
        os.dup2(self._errors.fileno(), 2)
        atexit._clear()  # of this process, such as those that remove its folders
        os.environ.clear()
        os.environ.update(environment)
        sys.argv = self.args
        sys.path[0] = str(Path(self.args[0]).parent)
        try:
            runpy.run_path(self.args[0], run_name="__main__")
        finally:
            atexit._run_exitfuncs()  # which a child of multiprocessing leaves out before Python 3.13

    @property
    def returncode(self):
        return self._process.exitcode

    def poll(self):
        return self._process.exitcode

    def communicate(self, timeout=None):
        self._process.join(timeout)
        if self._process.exitcode is None:
            self._process.kill()
            self._process.join()
            raise subprocess.TimeoutExpired(self.args, timeout, *map(self._text, (self._output, self._errors)))
        return self._text(self._output), self._text(self._errors)

    @staticmethod
    def _text(file):
        file.seek(0)
        return file.read().decode()


def run(*command, timeout, **keywords):
    """subprocess.CompletedProcess"""
    program = Program(*command, **keywords)
    output, errors = program.communicate(timeout)
    return subprocess.CompletedProcess(program.args, program.returncode, output, errors)
