"""The links by name: a back-end of torch.distributed, Tandem's settings that choose how device memory travels, and how many
receives are posted ahead."""

import contextlib
import os

from . import BadInput

AHEAD = {"nccl": 0}  # a receive of NCCL is a kernel that takes multiprocessors until its message has come
FORWARDING = {"TANDEM_VENDOR_LIBRARY": "0", "TANDEM_PEER_COPIES": "0", "TANDEM_GPUDIRECT": "0"}
# Each rank is a host of its own.
TCP = {"TANDEM_SHARED_STAGING": "0", "TANDEM_RAILS": "lo", "TANDEM_HOST": f"rank-{os.environ.get('RANK', 0)}"}
EVERYWHERE = "gloo-everywhere"  # inside of islands, too: the baseline of the paper on joint training (2602.18007)
LINKS = {
    "tandem": ("tandem", {}),
    "tandem-direct": ("tandem", {"TANDEM_VENDOR_LIBRARY": "0", "TANDEM_PEER_COPIES": "1", "TANDEM_GPUDIRECT": "1"}),
    "tandem-forwarding": ("tandem", FORWARDING),
    "tandem-tcp": ("tandem", FORWARDING | TCP),
    "nccl": ("nccl", {}),
    "gloo": ("gloo", {}),
    EVERYWHERE: ("gloo", {}),
}


def parse(link):
    """(back-end, settings) of a link's name; settings that follow it take precedence: tandem-forwarding:shared-staging=0."""
    name, *given = link.split(":")
    if name not in LINKS:
        raise BadInput(f"--link {link}: no such link; choose {', '.join(LINKS)}")
    backend, settings = LINKS[name]
    for item in given:
        setting, is_set, value = item.partition("=")
        if setting == "ahead":
            if not value.isdecimal():
                raise BadInput(f"--link {link}: ahead is a number of receives; write nccl:ahead=1")
            continue
        if backend != "tandem" or not is_set or not setting or not value:
            raise BadInput(f"--link {link}: {item} is no setting of Tandem; write tandem-forwarding:shared-staging=0")
        settings = settings | {f"TANDEM_{setting.upper().replace('-', '_')}": value}
    return backend, settings


def ahead_of(link):
    """Receives of each direction that are posted before they are needed."""
    return next((int(item.removeprefix("ahead=")) for item in link.split(":")[1:] if item.startswith("ahead=")),
                AHEAD.get(backend_of(link), 2))


def backend_of(link):
    return parse(link)[0]


def is_everywhere(link):
    """Whether it carries the groups inside of islands, too."""
    return link.split(":")[0] == EVERYWHERE


def check(link, on_gpus):
    if backend_of(link) == "nccl" and not on_gpus:
        raise BadInput("--link nccl: NCCL carries the memory of GPUs only; choose tandem or gloo for processors")


@contextlib.contextmanager
def settings_of(link, options, on_gpu):
    """Tandem reads its settings where a job is joined, so each link's groups can have their own."""
    backend, of_link = parse(link)
    wanted = {}
    if backend == "tandem":
        wanted["TANDEM_STREAM_WAITS"] = "1" if on_gpu and options.stream_waits else "0"
        if options.emulate_islands:
            wanted["TANDEM_VENDOR_LIBRARY"] = "0"
        if options.shared_staging is not None:
            wanted["TANDEM_SHARED_STAGING"] = str(options.shared_staging)
    wanted |= of_link
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
