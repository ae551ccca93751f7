"""apps/torch/tandem/pipelines.py against the library that TANDEM_LIBRARY names; needs no PyTorch."""

import _ctypes
import os
import subprocess
import sys
import unittest

from tandem import pipelines
from tandem.pipelines import BACKWARD, BACKWARD_INPUT, BACKWARD_WEIGHTS, FORWARD


class Pipelines(unittest.TestCase):
    def test_every_kind_computes_everything_once_and_in_order(self):
        for kind in pipelines.KINDS:
            chunks = 2 if kind in pipelines.TWO_CHUNKS else 1
            for ranks in (1, 2, 3):
                for micro_batches in (0, 1, 5):
                    with self.subTest(kind=kind, ranks=ranks, micro_batches=micro_batches):
                        of_ranks = pipelines.schedule(kind, ranks, micro_batches)
                        self.assertEqual(len(of_ranks), ranks)
                        for steps in of_ranks:
                            for chunk in range(chunks):
                                for kinds in ((FORWARD,), (BACKWARD, BACKWARD_INPUT), (BACKWARD, BACKWARD_WEIGHTS)):
                                    found = [step.micro_batch for step in steps if step.chunk == chunk and step.what in kinds]
                                    self.assertEqual(found, list(range(micro_batches)))
                        stages = [pipelines.stage_of(kind, rank, ranks, chunk) for rank in range(ranks) for chunk in range(chunks)]
                        self.assertEqual(sorted(stages), list(range(ranks * chunks)))

    def test_steps_and_placement(self):
        self.assertEqual(pipelines.schedule("zb_h1", 2, 1)[1],
                         [(FORWARD, 0, 0), (BACKWARD_INPUT, 0, 0), (BACKWARD_WEIGHTS, 0, 0)])
        self.assertEqual([pipelines.stage_of("zb_v", rank, 4, 1) for rank in range(4)], [7, 6, 5, 4])
        self.assertEqual(pipelines.stage_of("interleaved", 1, 4, 2, chunks=3), 9)

    def test_predictions(self):
        found = pipelines.predict("one_f_one_b", 4, 8)
        self.assertEqual([rank.peak_stash for rank in found], [4, 3, 2, 1])
        self.assertAlmostEqual(found[0].bubble, 3 / 11)
        uneven = [(1, 1, 1), (2, 2, 2), (2, 2, 2), (1, 1, 1)]
        self.assertEqual(pipelines.predict("v_uneven", 2, 8, costs=uneven)[1].busy_slots, 96)
        self.assertNotEqual(pipelines.schedule("v_uneven", 2, 8, costs=uneven), [])

    def test_bad_input_is_refused(self):
        for arguments, text in ((("gpiep", 2, 2), "there is no pipeline schedule 'gpiep'"), (("zb_v", 2, 2, 3), "3 chunks"),
                                (("gpipe", 0, 2), "no rank 0 of 0"), (("gpipe", 2, -1), "-1 micro-batches")):
            with self.assertRaisesRegex(ValueError, text):
                pipelines.schedule(*arguments)
        with self.assertRaisesRegex(ValueError, "1 costs for 4 stages"):
            pipelines.schedule("v_uneven", 2, 2, costs=[(1, 1, 1)])
        with self.assertRaisesRegex(ValueError, "no chunk 1 of 1"):
            pipelines.stage_of("gpipe", 0, 2, 1)

    def test_a_library_that_cannot_be_used(self):
        for path, text in (("/nowhere/libtandem_c.so.1", "does not exist: TANDEM_LIBRARY names it"),
                           (__file__, "cannot be loaded"),
                           (_ctypes.__file__, "undefined symbol: tandem_abi_version")):
            with self.subTest(path=path):
                done = subprocess.run([sys.executable, "-c", "from tandem import pipelines; pipelines.schedule('gpipe', 1, 1)"],
                                      env=os.environ | {"TANDEM_LIBRARY": path}, capture_output=True, text=True, check=False)
                last = done.stderr.strip().splitlines()[-1]
                self.assertTrue(last.startswith(f"tandem.glue.Unusable: tandem: {path} ") and text in last, done.stderr)


if __name__ == "__main__":
    unittest.main()
