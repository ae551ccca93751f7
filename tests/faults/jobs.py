"""Ranks as processes, for tests of failures around them.

Every script of this folder defines functions `case_<name>(programs...)` and ends with `run_cases(globals())`. A case fails by
raising (`check`), and skips by raising `Skipped` with the reason. Exit status: 1 one failed, 77 all skipped, 0 otherwise.
"""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback

SKIPPED = 77
START_S = 20  # limit for a rank to start on a busy machine


class Skipped(Exception):
    pass


class Failed(Exception):
    pass


def check(holds, *what):
    """Fails the case, with `what`, unless `holds`."""
    if not holds:
        raise Failed(" ".join(str(part) for part in what))


def free_port():
    """A reserved port: no process listens on it, and a listener may share it while this process lives."""
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind(("127.0.0.1", 0))
    _reserved.append(reserved)
    return reserved.getsockname()[1]


_reserved = []


class Process:
    """A process in a session of its own; both output streams go to one file, which grows while it runs."""

    def __init__(self, command, environment=None, prefix=(), preexec=None, cwd=None):
        self.log = tempfile.NamedTemporaryFile(prefix="tandem-fault-")
        self.started = time.monotonic()
        self.process = subprocess.Popen([*prefix, *map(str, command)], env=os.environ | (environment or {}),
                                        stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT,
                                        start_new_session=True, preexec_fn=preexec, cwd=cwd)
        _running.append(self)

    @property
    def pid(self):
        return self.process.pid

    def output(self):
        with open(self.log.name, errors="replace") as log:
            return log.read()

    def wait_for(self, text, limit_s=START_S):
        """Waits until its output contains `text`; fails the case if it ends or the limit passes before."""
        end = time.monotonic() + limit_s
        while text not in self.output():
            ended = self.process.poll() is not None
            if text in self.output():
                break
            check(not ended, f"ended with {self.process.returncode} before it printed '{text}':", self.output())
            check(time.monotonic() < end, f"did not print '{text}' within {limit_s} s:", self.output())
            time.sleep(0.005)

    def wait(self, limit_s):
        """Its exit status, negative for a signal; fails the case past the limit."""
        try:
            return self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            raise Failed(f"still runs after {limit_s} s; its output: {self.output()}") from None

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)

    def end(self):
        """Kills it and all processes left in its session."""
        for kill in (lambda: os.killpg(self.pid, signal.SIGKILL), self.process.kill):
            try:
                kill()
            except ProcessLookupError:
                pass
        self.process.wait()


_running = []


def start_ranks(command, size, environment=None, port=None, each=None, address="127.0.0.1", **more):
    """Starts `size` ranks of `command`, rank 0 first. `each(rank)` returns additional environment variables of a rank."""
    common = {"WORLD_SIZE": str(size), "LOCAL_WORLD_SIZE": str(size), "MASTER_ADDR": address,
              "MASTER_PORT": str(port or free_port())} | (environment or {})
    return [Process(command, common | {"RANK": str(rank), "LOCAL_RANK": str(rank)} | (each(rank) if each else {}), **more)
            for rank in range(size)]


def two_hosts(rates):
    """`hosts.Hosts` with rails of these rates; skips the case where this machine does not allow it."""
    sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "network"))
    import hosts
    try:
        return hosts.Hosts(rates)
    except SystemExit:
        raise Skipped("no network namespaces here") from None


def run_cases(names, argv=None):
    """Runs each `case_*` of `names`, or those named after the programs' paths, and exits."""
    arguments = sys.argv[1:] if argv is None else argv
    programs = [word for word in arguments if "/" in word]
    wanted = [word for word in arguments if "/" not in word]
    cases = {name[5:]: value for name, value in names.items() if name.startswith("case_")}
    unknown = [word for word in wanted if word not in cases]
    if unknown or not cases:
        print(f"no case {', '.join(unknown)}; there are {', '.join(cases)}")
        sys.exit(2)
    failed, skipped, passed = [], [], []
    for name in wanted or cases:
        began = time.monotonic()
        try:
            cases[name](*programs)
            passed.append(name)
            word = "ok"
        except Skipped as why:
            skipped.append(name)
            word = f"skipped: {why}"
        except Failed as what:
            failed.append(name)
            word = f"FAILED: {what}"
        except Exception:  # an error of the script itself is a failure, too
            failed.append(name)
            word = f"FAILED: {traceback.format_exc()}"
        finally:
            while _running:
                _running.pop().end()
        print(f"{name}: {word} ({time.monotonic() - began:.1f} s)", flush=True)
    sys.exit(1 if failed else SKIPPED if not passed and skipped else 0)
