#!/usr/bin/env python3
"""Runs PyTorch's own suite for back-ends, torch.testing._internal.distributed.distributed_test.

usage: suite.py gloo|tandem|nccl|tandem-gpu [--ranks N] [--part K/N] [--json FILE] [unittest arguments: -k NAME ...]

"tandem" means the tests that gloo gets, with Tandem taking gloo's place (TANDEM_TAKE_OVER=gloo): under its own name most of
them would be skipped, because the suite lists the back-ends that it knows. "tandem-gpu": the tests that NCCL gets. With --json, the outcome of every test: "ok",
"skipped: REASON", "failed".
"""

import argparse
import json
import os
import sys
import tempfile
import unittest
from pathlib import Path


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("backend", choices=("gloo", "tandem", "nccl", "tandem-gpu"))
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--part", help="K/N: every Nth test, from the Kth on, counted from 0")
    return parser.parse_known_args()


def prepare(backend, ranks):
    folder = Path(os.environ.get("TEMP_DIR") or tempfile.mkdtemp(prefix="tandem-suite-"))
    for name in ("barrier", "test_dir", "init_dir"):
        (folder / name).mkdir(exist_ok=True)
    replaced = "nccl" if backend in ("nccl", "tandem-gpu") else "gloo"
    os.environ.update({"BACKEND": replaced, "WORLD_SIZE": str(ranks), "TEMP_DIR": str(folder)})
    if backend.startswith("tandem"):
        os.environ["TANDEM_TAKE_OVER"] = replaced
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    # The suite names the file itself; each test meets there.
    os.environ.setdefault("INIT_METHOD", f"file://{folder}/init_dir/shared_init_file")


class Outcomes(unittest.TextTestResult):
    def __init__(self, *args, **named):
        super().__init__(*args, **named)
        self.by_test = {}

    def _put(self, test, outcome):
        name = test.id().rsplit(".", 1)[-1]
        self.by_test.setdefault(name, outcome)

    def addError(self, test, err):
        super().addError(test, err)
        self._put(test, "failed")

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._put(test, "failed")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._put(test, f"skipped: {reason}")

    def addSuccess(self, test):
        super().addSuccess(test)
        self._put(test, "ok")


def make_case():
    """The class that unittest runs; also for `-k` and the names that unittest prints."""
    from torch.testing._internal.distributed.distributed_test import DistributedTest, TestDistBackend

    class TestDistBackendWithSpawn(TestDistBackend, DistributedTest._DistTestBase):
        def setUp(self):
            super().setUp()
            # Forked where that is possible, since importing torch would take most of the time of each rank. A process that
            # has used CUDA cannot fork, and PyTorch's set-up of a test does use it.
            how = "fork" if os.environ["BACKEND"] == "gloo" else "spawn"
            self._start_processes(torch.multiprocessing.get_context(how).Process)

    TestDistBackendWithSpawn.__module__ = __name__
    TestDistBackendWithSpawn.__qualname__ = "TestDistBackendWithSpawn"
    return TestDistBackendWithSpawn


options, rest = arguments() if __name__ == "__main__" else (None, None)
if options:
    prepare(options.backend, options.ranks)
import torch  # noqa: E402: loads the back-end, and reads the environment set above

TestDistBackendWithSpawn = make_case()
if os.environ.get("TANDEM_TAKE_OVER"):
    from tandem import distributed, glue

    if distributed.is_plain(glue.torch_version(torch)):
        # The tests remain, but expect no events of profilers: a back-end in Python cannot record those of its calls.
        from torch.testing._internal.distributed import distributed_test
        distributed_test.PROFILING_SUPPORTED_BACKENDS.remove("gloo")
        distributed_test.SEND_RECV_PROFILING_SUPPORTED_BACKENDS.remove("gloo")
    # Tests that gloo passes and Tandem does not, with the reasons.
    for name, reason in json.loads(Path(__file__).with_name("skips.json").read_text()).items():
        setattr(TestDistBackendWithSpawn, name, unittest.skip(reason)(getattr(TestDistBackendWithSpawn, name)))

if __name__ == "__main__":
    class Runner(unittest.TextTestRunner):
        resultclass = Outcomes

    if options.part:
        part, parts = map(int, options.part.split("/"))
        names = unittest.defaultTestLoader.getTestCaseNames(TestDistBackendWithSpawn)
        rest += [f"TestDistBackendWithSpawn.{name}" for name in names[part::parts]]
    program = unittest.main(argv=[sys.argv[0], *rest], testRunner=Runner(verbosity=2), exit=False)
    if options.json:
        options.json.write_text(json.dumps(program.result.by_test, indent=1, sort_keys=True) + "\n")
    sys.exit(not program.result.wasSuccessful())
