"""Two hosts in network namespaces, connected by a control link and any number of rails, each shaped by tbf.

Where namespaces cannot be created: prints the reason and exits with 77, which ctest shows as skipped.
"""

import atexit
import json
import os
import secrets
import signal
import subprocess
import sys
import time

SKIPPED = 77
CONTROL = 90  # 10.90.0.0/24; rail i is 10.90.i.0/24


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIPPED)


def ip(*words, check=True):
    return subprocess.run(["ip", *map(str, words)], check=check, capture_output=True, text=True)


class Hosts:
    made = 0

    def __init__(self, rates):
        """`rates`: for each rail, as in tc ("1gbit"); None: not shaped."""
        self.rates = list(rates)
        number = Hosts.made = Hosts.made + 1  # a process may make several, one after the other
        self.names = [f"tandem-{os.getpid()}-{number}-{side}" for side in "ab"]
        self.running = []
        atexit.register(self.close)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: sys.exit(1))
        try:
            for name in self.names:
                ip("netns", "add", name)
                ip("-n", name, "link", "set", "lo", "up")
            for rail in range(len(self.rates) + 1):
                self._connect(rail)
        except FileNotFoundError:
            skip("no ip command; cmake/packages test installs iproute2")
        except subprocess.CalledProcessError as refused:
            skip(f"may not make network namespaces: {refused.stderr.strip() or refused}")
        for rail in range(1, len(self.rates) + 1):
            for side in (0, 1):
                self.restore(rail, side)

    def _connect(self, rail):
        ip("-n", self.names[0], "link", "add", f"r{rail}", "type", "veth", "peer", "name", f"r{rail}",
           "netns", self.names[1])
        for side in (0, 1):
            ip("-n", self.names[side], "address", "add", f"{self.address(rail, side)}/24", "dev", f"r{rail}")
            ip("-n", self.names[side], "link", "set", f"r{rail}", "up")

    @staticmethod
    def address(rail, side):
        return f"10.{CONTROL}.{rail}.{side + 1}"

    def _tc(self, side, *words):
        found = subprocess.run(["tc", "-n", self.names[side], *map(str, words)], capture_output=True, text=True)
        if found.returncode != 0:
            skip(f"tc cannot shape here: {found.stderr.strip()}")

    def shape(self, rail, rate):
        """Changes a rail's rate, both ways."""
        self.rates[rail - 1] = rate
        for side in (0, 1):
            self.restore(rail, side)

    def restore(self, rail, side):
        """Shapes what `side` sends on a rail to the rail's rate, and ends `drop_silently`."""
        rate = self.rates[rail - 1]
        if rate is None:
            subprocess.run(["tc", "-n", self.names[side], "qdisc", "del", "dev", f"r{rail}", "root"],
                           capture_output=True)
        else:
            self._tc(side, "qdisc", "replace", "dev", f"r{rail}", "root", "tbf", "rate", rate, "burst", "128kb",
                     "latency", "10ms")

    def drop_silently(self, rail, side):
        """Drops silently what `side` sends on a rail, acknowledgements included."""
        self._tc(side, "qdisc", "replace", "dev", f"r{rail}", "root", "blackhole")

    def down(self, rail, side=0):
        ip("-n", self.names[side], "link", "set", f"r{rail}", "down")

    def up(self, rail, side=0):
        ip("-n", self.names[side], "link", "set", f"r{rail}", "up")

    def reset(self, rail):
        """Resets the connections of a rail, as a middlebox does. False where the kernel cannot."""
        killed = subprocess.run(["ip", "netns", "exec", self.names[0], "ss", "-K", "-t", "dst", self.address(rail, 1)],
                                capture_output=True, text=True)
        return killed.returncode == 0 and len(killed.stdout.splitlines()) > 1

    def received_bytes(self, rail, side):
        """Of all that `side` has received on a rail."""
        shown = json.loads(ip("-n", self.names[side], "-s", "-j", "link", "show", "dev", f"r{rail}").stdout)
        return shown[0]["stats64"]["rx"]["bytes"]

    def await_traffic(self, least_bytes, limit_s=30):
        """Until every rail has carried that many bytes both ways: the ranks are connected. False after the limit."""
        end = time.monotonic() + limit_s
        rails = [(rail, side) for rail in range(1, len(self.rates) + 1) for side in (0, 1)]
        while time.monotonic() < end:
            if all(self.received_bytes(*each) >= least_bytes for each in rails):
                return True
            time.sleep(0.05)
        return False

    def start(self, command, size=2, **variables):
        """Starts a rank on each host; returns the processes, rank 0 first."""
        common = {"WORLD_SIZE": str(size), "MASTER_ADDR": self.address(0, 0), "MASTER_PORT": "29500",
                  "TANDEM_SECRET": secrets.token_hex(32), "TANDEM_RAILS": "r*,^r0"} | variables
        ranks = []
        for side in (0, 1):
            env = os.environ | common | {"RANK": str(side), "LOCAL_RANK": "0"}
            ranks.append(subprocess.Popen(["ip", "netns", "exec", self.names[side], *map(str, command)], env=env,
                                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        self.running += ranks
        return ranks

    def close(self):
        for process in self.running:
            if process.poll() is None:
                process.kill()
        for name in self.names:
            ip("netns", "del", name, check=False)


def results(ranks, limit_s):
    """The last line of JSON of each rank, with its exit status and standard error."""
    found = []
    for rank in ranks:
        try:
            out, errors = rank.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            rank.kill()
            out, errors = rank.communicate()
            errors += f"\nkilled after {limit_s} s"
        lines = [line for line in out.splitlines() if line.startswith("{")]
        one = json.loads(lines[-1]) if lines else {}
        one["status"] = rank.returncode
        one["errors"] = errors.strip()
        found.append(one)
    return found
