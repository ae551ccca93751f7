"""Launchers under test: `tandem run` of a shell, and the processes that are left of its job.

Every process of a job has a mark in its environment, by which it is found.
"""

import os
import secrets
import signal
import time

from jobs import Process, check

END_S = 20  # limit for what ends within a second on an idle machine
MARK = "FAULT_TEST_MARK"
STUBBORN = "trap '' TERM INT HUP QUIT; "
FOREVER = "while :; do sleep 1000; done"
STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)


def default_signals():
    """The signal actions of an interactive shell: a test in the background would inherit ignored signals."""
    for number in (*STOPS, signal.SIGPIPE, signal.SIGCHLD, signal.SIGTSTP):
        signal.signal(number, signal.SIG_DFL)


class Job(Process):
    """A launcher, and the processes of its job."""

    def __init__(self, command, preexec=default_signals, **more):
        self.mark = secrets.token_hex(8)
        super().__init__(command, environment={MARK: self.mark}, preexec=preexec, **more)

    def processes(self):
        """Living processes with the mark, except the launcher: {pid: (name, state)}."""
        return {pid: what for pid, what in marked(self.mark).items() if pid != self.pid}

    def expect_none_left(self):
        left = eventually(lambda: not self.processes())
        check(left, "left behind:", self.processes(), self.output())

    def end(self):
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        super().end()


def marked(mark):
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/environ", "rb") as environ:
                if f"{MARK}={mark}".encode() not in environ.read().split(b"\0"):
                    continue
            with open(f"/proc/{name}/stat") as stat:
                text = stat.read()
        except OSError:
            continue
        state = text[text.rindex(")") + 2]
        if state not in "ZX":
            found[int(name)] = (text[text.index("(") + 1:text.rindex(")")], state)
    return found


def eventually(holds, limit_s=END_S):
    """True as soon as `holds()` is true, False if the limit passes before."""
    end = time.monotonic() + limit_s
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


def run(tandem, script, *options, ranks=2, **more):
    """Runs `tandem run` with a shell script; waits until each rank has printed "up"."""
    job = Job([tandem, "run", "-n", ranks, *options, "--", "bash", "-c", script], **more)
    check(eventually(lambda: job.output().count("up") == ranks), "ranks did not come up:", job.output())
    return job


def expect_end(job, status, text=""):
    found = job.wait(END_S)
    check(found == status, f"status {found}, not {status}:", job.output())
    check(text in job.output(), f"did not print '{text}':", job.output())
    job.expect_none_left()
