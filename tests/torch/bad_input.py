#!/usr/bin/env python3
"""What goes wrong before training begins: every rank must say so within the timeout, in one line that says what to do.

usage: bad_input.py [NAME...]
"""

import ctypes
import datetime
import multiprocessing
import os
import queue
import re
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist

TIMEOUT_S = 5
CLONE_NEWNET = 0x40000000


class Skipped(Exception):
    pass


def only_line(failed):
    """Without the stack that PyTorch appends to some errors."""
    text = str(failed).split("\nException raised from")[0]
    assert "\n" not in text and text.startswith("tandem: "), text
    return text


def join(rank, size, folder, environment, network, report):
    os.environ.update(environment)
    begun = time.monotonic()
    try:
        if network:
            network(rank, folder)
        begun = time.monotonic()
        dist.init_process_group("tandem", init_method=f"file://{folder}/meet", rank=rank, world_size=size,
                                timeout=datetime.timedelta(seconds=TIMEOUT_S))
        dist.all_reduce(torch.ones(3))
        report.put((rank, 0, "no error"))
        dist.destroy_process_group()
    except (Skipped, Exception) as failed:  # noqa: BLE001
        text = f"skipped: {failed}" if isinstance(failed, Skipped) else str(failed).split("\nException raised from")[0]
        report.put((rank, time.monotonic() - begun, text))


def errors_of(environments, network=None):
    """The error of each rank, which joins with its environment and, if given, in a network that is made for it."""
    context, size = multiprocessing.get_context("fork"), len(environments)
    with tempfile.TemporaryDirectory(prefix="tandem-input-") as folder:
        report = context.Queue()
        ranks = [context.Process(target=join, args=(r, size, folder, environments[r], network, report))
                 for r in range(size)]
        for process in ranks:
            process.start()
        found = {}
        try:
            for _ in ranks:
                rank, seconds, text = report.get(timeout=60)
                found[rank] = text
                print(f"  rank {rank}, {seconds:.1f} s: {text}", flush=True)
                assert seconds < TIMEOUT_S + 2, "too late"
        except queue.Empty:
            raise AssertionError(f"only ranks {sorted(found)} have ended") from None
        finally:
            for process in ranks:
                process.join(10)
                process.kill()
    texts = [found[r] for r in range(size)]
    for text in texts:
        if text.startswith("skipped: "):
            raise Skipped(text.removeprefix("skipped: "))
        assert "\n" not in text and text.startswith("tandem: "), text
    return texts


def ip(command):
    try:
        done = subprocess.run(["ip", *command.split()], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise Skipped("no ip command; cmake/packages test installs iproute2") from None
    if done.returncode != 0:
        raise Skipped(f"ip {command}: {done.stderr.strip()}")


def own_network(*addresses):
    """A network namespace for this process, with an interface for each address, none of which leads anywhere."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) != 0:
        raise Skipped(f"may not make network namespaces: {os.strerror(ctypes.get_errno())}")
    ip("link set lo up")
    for number, address in enumerate(addresses):
        ip(f"link add pair{number} type veth peer name end{number}")
        ip(f"addr add {address}/24 dev pair{number}")
        ip(f"link set pair{number} up")
        ip(f"link set end{number} up")


def wait_until(what):
    until = time.monotonic() + 20
    while not what():
        if time.monotonic() > until:
            raise Skipped("another rank has made no network")
        time.sleep(0.01)


def around_rank_0(rank, folder):
    """Rank 0 has a network with each of the others, which know no way to each other."""
    if rank == 0:
        own_network("10.251.1.1", "10.251.2.1")
        for other in (1, 2):
            wait_until((Path(folder) / f"pid{other}").exists)
            ip(f"link set end{other - 1} netns {(Path(folder) / f'pid{other}').read_text()}")
        return
    own_network()
    written = Path(folder) / f"pid{rank}.part"
    written.write_text(str(os.getpid()))
    written.rename(Path(folder) / f"pid{rank}")
    wait_until(lambda: f"end{rank - 1}" in [name for _, name in socket.if_nameindex()])
    ip(f"addr add 10.251.{rank}.2/24 dev end{rank - 1}")
    ip(f"link set end{rank - 1} up")
    if rank == 2:
        ip("route add 10.251.1.1/32 via 10.251.2.1")


def a_library_of_another_version(folder):
    """The library in use, with another number."""
    from tandem import glue
    library = ctypes.CDLL(str(glue.library()))
    library.tandem_version.restype = ctypes.c_char_p
    version = library.tandem_version().split()[0]
    other = re.sub(rb"\d", b"9", version)
    made = Path(folder) / "libtandem_c.so.1"
    # The library's own text begins anywhere, but ends with a zero.
    made.write_bytes(glue.library().read_bytes().replace(version + b"\0", other + b"\0"))
    return made, version.decode(), other.decode()


def ranks_with_different_versions():
    with tempfile.TemporaryDirectory(prefix="tandem-version-") as folder:
        library, version, other = a_library_of_another_version(folder)
        texts = errors_of([{}, {}, {"TANDEM_LIBRARY": str(library)}])
    for text in texts[:2]:
        assert f"rank 2 has Tandem {other}, this rank {version}" in text, text
    assert f"rank 0 has Tandem {version}, this rank {other}" in texts[2], texts[2]
    assert all("install the same version of Tandem on every host" in text for text in texts)


HOSTS = [{"TANDEM_HOST": f"host{r}"} for r in range(3)]


def hosts_without_a_common_network():
    texts = errors_of(HOSTS[:2], lambda rank, _: own_network(f"10.251.{rank + 1}.1"))
    assert "rank 1 did not join" in texts[0] and "check that it can reach 10.251.1.1" in texts[0], texts[0]
    assert "rank 0 is unreachable at 10.251.1.1" in texts[1] and "check the routes to it" in texts[1], texts[1]


def hosts_that_reach_rank_0_only():
    for text in errors_of(HOSTS, around_rank_0):
        assert re.search("Network is unreachable .*check the routes to it \\(ip route get 10.251.[12].2\\)", text), text


def a_host_without_a_network():
    for text in errors_of(HOSTS[:2], lambda rank, _: own_network(*["10.251.2.1"][:rank])):
        assert "this host has no address for ranks of other hosts; bring a network interface up" in text, text


def network_interfaces_that_do_not_exist():
    for text in errors_of([{"TANDEM_RAILS": "nosuch0"}] * 2):
        assert "nosuch0" in text, text


def settings_that_mean_nothing():
    for text in errors_of([{"TANDEM_EAGER_BYTES": "many"}] * 2):
        assert "TANDEM_EAGER_BYTES" in text and "many" in text, text


def files_that_are_no_library():
    for text in errors_of([{"TANDEM_LIBRARY": __file__}] * 2):
        assert f"{__file__} cannot be loaded" in text and "TANDEM_LIBRARY names it" in text, text


def tensors_on_devices_that_are_not_supported():
    """PyTorch keeps most calls with "meta" tensors from back-ends, and does nothing; so these ask the back-end itself."""
    with tempfile.TemporaryDirectory(prefix="tandem-input-") as folder:
        dist.init_process_group("tandem", init_method=f"file://{folder}/meet", rank=0, world_size=1)
        own, there, here = dist.group.WORLD._get_backend(torch.device("cpu")), torch.ones(4, device="meta"), torch.ones(4)
        for call in (lambda: own.allreduce([there]), lambda: own.allreduce_coalesced([here, there]),
                     lambda: own.broadcast([there]), lambda: own.reduce([there]),
                     lambda: own.allgather([[there]], [here]), lambda: own.allgather([[here]], [there]),
                     lambda: own._allgather_base(here, there), lambda: own.reduce_scatter([here], [[there]]),
                     lambda: own._reduce_scatter_base(there, here), lambda: own.alltoall_base(here, there, [], []),
                     lambda: own.alltoall([here], [there]), lambda: own.send([there], 0, 0),
                     lambda: own.recv([there], 0, 0), lambda: dist.all_gather([there], here)):
            try:
                call()
            except ValueError as refused:
                text = only_line(refused)
                assert "the tensor is on meta; move it to the CPU or to a GPU" in text, text
            else:
                raise AssertionError("not refused")
        dist.all_reduce(here)
        dist.destroy_process_group()


TESTS = [ranks_with_different_versions, hosts_without_a_common_network, hosts_that_reach_rank_0_only, a_host_without_a_network,
         network_interfaces_that_do_not_exist, settings_that_mean_nothing, files_that_are_no_library,
         tensors_on_devices_that_are_not_supported]


def main():
    for test in TESTS:
        if sys.argv[1:] and test.__name__ not in sys.argv[1:]:
            continue
        print(f"{test.__name__}:", flush=True)
        try:
            test()
        except Skipped as reason:
            print(f"  skipped: {reason}")


if __name__ == "__main__":
    main()
