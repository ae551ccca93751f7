"""The Python part of the back-end: names that are taken over, and what goes wrong."""

import os
import subprocess
import sys
import tempfile
import unittest
import warnings
from pathlib import Path
from unittest import mock

import torch
from tandem import distributed, glue

DEFAULTS = {"cpu": "gloo", "cuda": "nccl"}


class Names(unittest.TestCase):
    def renamed(self, backend, *names):
        return distributed.renamed(backend, set(names), DEFAULTS)

    def test_only_what_is_taken_over_is_renamed(self):
        self.assertEqual(self.renamed("nccl", "nccl"), "tandem")
        self.assertEqual(self.renamed("NCCL", "nccl"), "tandem")
        self.assertEqual(self.renamed("gloo", "nccl"), "gloo")
        self.assertEqual(self.renamed("mpi", "nccl", "gloo"), "mpi")
        self.assertEqual(self.renamed("tandem", "nccl"), "tandem")

    def test_a_back_end_for_each_device(self):
        self.assertEqual(self.renamed("cpu:gloo,cuda:nccl", "nccl"), "cpu:gloo,cuda:tandem")
        self.assertEqual(self.renamed("cpu:gloo,cuda:nccl", "nccl", "gloo"), "tandem")
        self.assertEqual(self.renamed("cuda:nccl", "gloo"), "cuda:nccl")

    def test_no_name_means_the_defaults_of_the_devices(self):
        self.assertEqual(self.renamed(None, "nccl"), "cpu:gloo,cuda:tandem")
        self.assertEqual(self.renamed("undefined", "gloo"), "cpu:tandem,cuda:nccl")
        self.assertIsNone(distributed.renamed(None, {"nccl"}, {"cpu": "gloo"}))

    def test_a_word_that_is_no_back_end(self):
        with mock.patch.dict(os.environ, {"TANDEM_TAKE_OVER": "nccl, glo"}):
            with self.assertRaisesRegex(ValueError, "TANDEM_TAKE_OVER=nccl, glo: only nccl and gloo .* not glo"):
                distributed.taken_over()
        with mock.patch.dict(os.environ, {"TANDEM_TAKE_OVER": "NCCL,gloo"}):
            self.assertEqual(distributed.taken_over(), {"nccl", "gloo"})


class Glue(unittest.TestCase):
    def test_pytorch_that_is_too_old(self):
        old = mock.Mock(__version__="2.5.1+cpu")
        with self.assertRaisesRegex(glue.Unusable, "PyTorch 2.5.1.* is too old: install 2.6 or later"):
            glue.compiled(old)

    def in_empty_cache(self, **variables):
        folder = tempfile.TemporaryDirectory(prefix="tandem-glue-")
        self.addCleanup(folder.cleanup)
        change = mock.patch.dict(os.environ, {"TANDEM_CACHE": folder.name, **variables})
        change.start()
        self.addCleanup(change.stop)
        return Path(folder.name)

    def test_no_compiler(self):
        self.in_empty_cache(PATH="/nowhere", CXX="")
        with self.assertRaisesRegex(glue.Unusable, "no C\\+\\+ compiler.*install g\\+\\+, or set CXX"):
            glue.compiled(torch)

    def test_a_compiler_that_fails(self):
        self.in_empty_cache(CXX="false")
        with self.assertRaisesRegex(glue.Unusable, "false could not compile the back-end.*compiler.log"):
            glue.compiled(torch)

    def test_a_cached_file_that_was_cut_is_compiled_again(self):
        cache = self.in_empty_cache()
        compiler = cache / "compiler"
        compiler.write_text(f"#!/bin/sh\necho x >> {cache}/runs\nwhile [ $1 != -o ]; do shift; done\necho compiled > $2\n")
        compiler.chmod(0o700)
        with mock.patch.dict(os.environ, {"CXX": str(compiler)}):
            made = glue.compiled(torch)
            glue.compiled(torch)
            self.assertEqual((cache / "runs").read_text(), "x\n")
            for damage in (lambda: made.write_text("comp"), lambda: made.write_text("compilad\n"), made.with_suffix(".sum").unlink,
                           lambda: made.with_suffix(".sum").write_text("tandem")):
                (cache / "runs").unlink()
                damage()
                self.assertEqual(glue.compiled(torch).read_text(), "compiled\n")
                self.assertEqual((cache / "runs").read_text(), "x\n")

    def test_a_cache_that_cannot_be_written(self):
        cache = self.in_empty_cache()
        (cache / "torch").write_text("a file")
        with self.assertRaisesRegex(glue.Unusable, "cannot be made.*set TANDEM_CACHE"):
            glue.compiled(torch)

    def test_a_library_that_does_not_exist(self):
        with mock.patch.dict(os.environ, {"TANDEM_LIBRARY": "/nowhere/libtandem_c.so.1"}):
            with self.assertRaisesRegex(glue.Unusable, "/nowhere/libtandem_c.so.1 does not exist: TANDEM_LIBRARY"):
                glue.load()


class Plain(unittest.TestCase):
    def test_which_versions_need_no_compiler(self):
        with mock.patch.dict(os.environ, {"TANDEM_GLUE": ""}):
            self.assertEqual([distributed.is_plain(version) for version in ((2, 6), (2, 14), (2, 15), (3, 0))],
                             [False, False, True, True])
        with mock.patch.dict(os.environ, {"TANDEM_GLUE": "compiled"}):
            self.assertFalse(distributed.is_plain((2, 15)))
        with mock.patch.dict(os.environ, {"TANDEM_GLUE": "none"}):
            with self.assertRaisesRegex(ValueError, "TANDEM_GLUE=none: the only value is compiled"):
                distributed.is_plain((2, 15))

    def needs_plain(self):
        if not distributed.is_plain(glue.torch_version(torch)):
            self.skipTest(f"PyTorch {torch.__version__} needs the compiled back-end")

    def test_a_group_without_a_compiler(self):
        self.needs_plain()
        text = ("import torch, torch.distributed as d; d.init_process_group('tandem', store=d.HashStore(), rank=0, world_size=1); "
                "t = torch.ones(2); d.all_reduce(t); print(t.sum().item())")
        with tempfile.TemporaryDirectory(prefix="tandem-plain-") as folder:
            done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False,
                                  env=os.environ | {"PATH": "/nowhere", "CXX": "false", "TANDEM_CACHE": folder})
            self.assertEqual((done.returncode, done.stdout), (0, "2.0\n"), done.stderr)
            self.assertEqual(os.listdir(folder), [])

    def test_a_library_of_something_else(self):
        self.needs_plain()
        from tandem import plain
        with tempfile.NamedTemporaryFile(prefix="tandem-plain-", suffix=".so") as file:
            with mock.patch.dict(os.environ, {"TANDEM_LIBRARY": file.name}):
                with self.assertRaisesRegex(glue.Unusable, f"{file.name} cannot be loaded"):
                    plain.load()


class Import(unittest.TestCase):
    def import_torch(self, **variables):
        return subprocess.run([sys.executable, "-c", "import torch; print(torch.ones(2).sum().item())"],
                              env=os.environ | variables, capture_output=True, text=True, check=False)

    def test_importing_torch_never_fails_because_of_the_back_end(self):
        done = self.import_torch(TANDEM_TAKE_OVER="ncl")
        self.assertEqual((done.returncode, done.stdout), (0, "2.0\n"), done.stderr)
        self.assertIn("only nccl and gloo can be taken over, not ncl", done.stderr)
        for wrong in ({"TANDEM_LIBRARY": "/nowhere", "CXX": "false"},
                      {"TANDEM_LIBRARY": __file__, "TANDEM_RAILS": "nosuch0", "TANDEM_EAGER_BYTES": "many"}):
            done = self.import_torch(**wrong)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "2.0\n", ""))

    def test_a_group_that_cannot_be_made_says_why_in_one_line(self):
        text = "import torch.distributed as d; d.init_process_group('tandem', store=d.HashStore(), rank=0, world_size=1)"
        done = subprocess.run([sys.executable, "-c", text], env=os.environ | {"TANDEM_LIBRARY": "/nowhere"},
                              capture_output=True, text=True, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("tandem: /nowhere does not exist", done.stderr.strip().splitlines()[-1])


if __name__ == "__main__":
    warnings.simplefilter("error")
    unittest.main()
