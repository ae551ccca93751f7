"""Files that pretrain writes and reads later. Beside each is one more, FILE.sum, with its version, length and checksum."""

import json
import os
import sys
import zlib
from pathlib import Path

VERSION = 1
_BLOCK = 1 << 24


def sync(path):
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _sum_path(file):
    return Path(f"{file}.sum")


def _checksum(file):
    found = 0
    with open(file, "rb") as data:
        while block := data.read(_BLOCK):
            found = zlib.crc32(block, found)
    return f"{found:08x}"


def seal(file):
    """For a file that is complete: writes its length and checksum, and both to disk."""
    sync(file)
    values = {"version": VERSION, "bytes": os.path.getsize(file), "crc32": _checksum(file)}
    _sum_path(file).write_text(json.dumps(values) + "\n", encoding="utf-8")
    sync(_sum_path(file))


def problem(file):
    """What is wrong with it, or None."""
    try:
        values = json.loads(_sum_path(file).read_text(encoding="utf-8"))
        version, size, checksum = values["version"], values["bytes"], values["crc32"]
    except FileNotFoundError:
        return f"{_sum_path(file).name} is missing" if os.path.exists(file) else "it is missing"
    except (OSError, ValueError, KeyError, TypeError):
        return f"{_sum_path(file).name} is damaged"
    if version != VERSION:
        return f"it is of version {version}; this program reads version {VERSION}"
    try:
        found = os.path.getsize(file)
        if found != size:
            return f"it is cut: {found} of {size} bytes are left" if found < size else f"it has {found - size} bytes too many"
        return None if _checksum(file) == checksum else "it has been changed: its checksum differs"
    except OSError as failed:
        return f"it cannot be read: {failed.strerror}"


if __name__ == "__main__":  # python3 checked.py FILE...: for files that are known to be complete, of a version without sums
    for name in sys.argv[1:]:
        seal(name)
