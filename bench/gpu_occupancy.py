#!/usr/bin/env python3
"""What multiplications of matrices lose beside kernels that only occupy multiprocessors, on one GPU: what a collective of as many
blocks, which lasts as long, would cost at least. Run by hand; needs PyTorch and CuPy. Prints JSON lines, in % of the time alone."""

import argparse
import json
import statistics

import cupy
import torch

HOLD = cupy.RawKernel(r"""
extern "C" __global__ void hold(long long ns) {
  long long start, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
  do {
    __nanosleep(200);
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  } while (now - start < ns);
}""", "hold")
MULTIPLICATIONS, WIDTH = 20, 8192


class Multiplications:
    def __init__(self):
        self.a, self.b = (torch.randn(WIDTH, WIDTH, device="cuda", dtype=torch.bfloat16) for _ in range(2))
        self.into = torch.empty_like(self.a)
        self.beside = torch.cuda.Stream()

    def run(self, blocks=0, threads=0, duration_us=0):
        """Milliseconds, with such a kernel at the beginning of each."""
        torch.cuda.synchronize()
        begin, end = torch.cuda.Event(True), torch.cuda.Event(True)
        begin.record()
        self.beside.wait_stream(torch.cuda.current_stream())
        for _ in range(MULTIPLICATIONS):
            if blocks:
                with cupy.cuda.ExternalStream(self.beside.cuda_stream):
                    HOLD((blocks,), (threads,), (cupy.int64(duration_us * 1000),))
            torch.mm(self.a, self.b, out=self.into)
        end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--blocks", nargs="+", default=["64x576", "32x1024", "24x1024"], metavar="BLOCKSxTHREADS")
    parser.add_argument("--us", nargs="+", type=int, default=[216, 350, 450])
    options = parser.parse_args()
    work = Multiplications()
    for _ in range(5):
        work.run()
    found = {}
    for _ in range(options.rounds):
        for each in options.blocks:
            for us in options.us:
                before, beside, after = work.run(), work.run(*map(int, each.split("x")), us), work.run()
                found.setdefault((each, us), []).append((2 * beside / (before + after) - 1) * 100)
    for (each, us), more in found.items():
        print(json.dumps({"op": "gpu-occupancy", "device": torch.cuda.get_device_name(), "blocks": each, "us": us,
                          "more_percent": round(statistics.median(more), 2), "least": round(min(more), 2), "most": round(max(more), 2)}))


if __name__ == "__main__":
    main()
