"""Where the hypervisor has this machine's cores just now, by what bench/shared_line.cpp measures.

A line of the cache takes four times as long between cores that share no cache, and every program of two processes
takes two to six times as long then. A hypervisor moves its guests' cores every few seconds or minutes, so that runs
are compared only with the cores where they usually are; the others are kept and marked.
"""

import os
import statistics
import subprocess
import sys
import time

FAR = 1.5  # times the usual, either way
LOOK_S = 25
PATIENCE_S = 30


class Cores:
    """`usual_ns`: what a quarter of the time, or more of it, is not longer. A machine of one core has no such thing:
    all is usual there."""

    def __init__(self, program):
        self.program = program
        self.usual_ns = 0.0
        self.alone = os.cpu_count() < 2
        if self.alone:
            return
        times, end = [], time.monotonic() + LOOK_S
        while time.monotonic() < end:
            times.append(self.ask())
            time.sleep(0.2)
        self.usual_ns = statistics.quantiles(times, n=4)[0]
        print(f"a line of the cache takes {self.usual_ns:.0f} ns, at times {max(times):.0f}", file=sys.stderr, flush=True)

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
        """Until they are where they usually are, or patience is over. The last time asked."""
        end = time.monotonic() + PATIENCE_S
        line_ns = self.ask()
        while not self.usual(line_ns) and time.monotonic() < end:
            time.sleep(0.3)
            line_ns = self.ask()
        return line_ns
