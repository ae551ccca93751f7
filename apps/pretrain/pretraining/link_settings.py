"""The links by name: a back-end of torch.distributed, and Tandem's settings that choose how device memory travels."""

import contextlib
import os

from . import BadInput

LINKS = {
    "tandem": ("tandem", {}),
    "tandem-direct": ("tandem", {"TANDEM_VENDOR_LIBRARY": "0", "TANDEM_PEER_COPIES": "1", "TANDEM_GPUDIRECT": "1"}),
    "tandem-forwarding": ("tandem", {"TANDEM_VENDOR_LIBRARY": "0", "TANDEM_PEER_COPIES": "0", "TANDEM_GPUDIRECT": "0"}),
    "nccl": ("nccl", {}),
    "gloo": ("gloo", {}),
}


def check(link, on_gpus):
    if link not in LINKS:
        raise BadInput(f"--link {link}: no such link; choose {', '.join(LINKS)}")
    if link == "nccl" and not on_gpus:
        raise BadInput("--link nccl: NCCL carries the memory of GPUs only; choose tandem or gloo for processors")


@contextlib.contextmanager
def settings_of(link, options, on_gpu):
    """Tandem reads its settings where a job is joined, so each link's groups can have their own."""
    wanted = dict(LINKS[link][1])
    if wanted or link == "tandem":
        wanted["TANDEM_STREAM_WAITS"] = "1" if on_gpu and options.stream_waits else "0"
    if options.emulate_islands and wanted:
        wanted["TANDEM_VENDOR_LIBRARY"] = "0"
    if options.shared_staging is not None:
        wanted["TANDEM_SHARED_STAGING"] = str(options.shared_staging)
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
