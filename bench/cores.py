"""Detects core migration by the hypervisor, from the cache-line latency that bench/shared_line.cpp measures.

A cache line takes four times as long between cores that share no cache, and every program of two processes then takes
two to six times as long. A hypervisor migrates its virtual machines' cores every few seconds or minutes, so only runs with the
usual latency are compared; the others are kept and marked.
"""

import os
import statistics
import subprocess
import sys
import time

FAR = 1.5  # largest ratio to the usual latency, in either direction
CALIBRATION_S = 25
WAIT_S = 30


class Cores:
    """`usual_ns`: the lower quartile of the latency. On a machine of one core every latency counts as usual."""

    def __init__(self, program):
        self.program = program
        self.usual_ns = 0.0
        self.alone = os.cpu_count() < 2
        if self.alone:
            return
        times, end = [], time.monotonic() + CALIBRATION_S
        while time.monotonic() < end:
            times.append(self.ask())
            time.sleep(0.2)
        self.usual_ns = statistics.quantiles(times, n=4)[0]
        print(f"cache-line latency: {self.usual_ns:.0f} ns, at most {max(times):.0f} ns", file=sys.stderr, flush=True)

    def ask(self):
        if self.alone:
            return 0.0
        done = subprocess.run([self.program], capture_output=True, text=True, timeout=60)
        if done.returncode:
            raise SystemExit(f"{self.program}: exit status {done.returncode}: {done.stderr.strip()}")
        return float(done.stdout)

    def usual(self, line_ns):
        return self.usual_ns / FAR <= line_ns <= self.usual_ns * FAR

    def wait(self):
        """Waits for the usual latency, for at most WAIT_S. Returns the last latency measured."""
        end = time.monotonic() + WAIT_S
        line_ns = self.ask()
        while not self.usual(line_ns) and time.monotonic() < end:
            time.sleep(0.3)
            line_ns = self.ask()
        return line_ns
