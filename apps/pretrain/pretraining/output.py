"""What a run writes: standard output, and the files of --json and --report."""

import contextlib
import os
import secrets
import sys
from pathlib import Path

from . import checked

_lost = []  # why some of standard output was lost


def show(text):
    """A line on standard output. A pipe that its reader has closed ends the run; after any other failure the rest is dropped, and
    `finish` fails: a full disk must not end the training."""
    if _lost:
        return
    try:
        if sys.stdout is None:
            raise OSError(0, "it is closed")
        print(text, flush=True)
    except OSError as failed:
        _lost.append(failed.strerror)
        sys.stdout = None  # or the interpreter would write the rest when it ends
        if isinstance(failed, BrokenPipeError):
            finish()


def finish():
    if _lost:
        raise RuntimeError(f"standard output: {_lost[0]}; some of it was lost")


def is_special(path):
    """A pipe, a device, or standard output by its name: it is written to, and never replaced."""
    return path.startswith(("/dev/", "/proc/")) or (os.path.exists(path) and not os.path.isfile(path))


@contextlib.contextmanager
def _named(what, path):
    try:
        yield
    except OSError as failed:
        raise RuntimeError(f"{what} {path}: cannot be written: {failed.strerror}") from None


def _begun_beside(path):
    """A new hidden file in the same folder, with the mode of the old one."""
    part = path.parent / f".{path.name[:200]}.{secrets.token_hex(4)}"
    file = open(part, "x", encoding="utf-8")  # noqa: SIM115
    if path.exists():
        part.chmod(path.stat().st_mode & 0o7777)
    return part, file


def write_file(what, path, text):
    """Replaces an ordinary file whole or not at all; symbolic links are followed, and stay."""
    with _named(what, path):
        if is_special(path):
            with open(path, "a", encoding="utf-8") as file:
                file.write(text)
            return
        there = Path(os.path.realpath(path))
        part, file = _begun_beside(there)
        try:
            with file:
                file.write(text)
            checked.sync(part)
            part.replace(there)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        checked.sync(there.parent)


class Lines:
    """A file that gets a line for each event. An old file is replaced by one with the first line; with `append`, that of a run that
    goes on, it is kept."""

    def __init__(self, what, path, is_on, append=False):
        self._what, self._path, self._file = what, path, None
        if path and is_on:
            with _named(what, path):
                self._file, self._replace = self._opened(append or is_special(path))

    def _opened(self, append):
        if append:
            return open(self._path, "a", encoding="utf-8"), None
        there = Path(os.path.realpath(self._path))
        part, file = _begun_beside(there)
        return file, (part, there)

    def write(self, text):
        if not self._file:
            return
        with _named(self._what, self._path):
            self._file.write(text + "\n")
            self._file.flush()
            if self._replace:
                part, there = self._replace
                part.replace(there)
                self._replace = None
