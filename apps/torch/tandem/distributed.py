"""Registers the back-end "tandem" with torch.distributed, and takes over "nccl" or "gloo" where that is asked for."""

import atexit
import datetime
import functools
import os
import re
import threading
import warnings

NAME = "tandem"
DEVICES = ["cpu", "cuda"]
PLAIN_SINCE = (2, 15)  # back-ends in Python can be coalesced, aborted and split since then

_lock = threading.Lock()
_module = None
_jobs_made = 0
_shown = NAME    # the name that the group that is being made has for its script


def loaded():
    global _module
    with _lock:
        if _module is None:
            import torch

            from . import glue
            if is_plain(glue.torch_version(torch)):
                from . import plain
                _module = plain.load()
            else:
                _module = glue.load()
        return _module


def is_plain(version):
    """Whether the back-end for that version of PyTorch is in Python (plain/) instead of compiled (backend/)."""
    asked = os.environ.get("TANDEM_GLUE", "")
    if asked not in ("", "compiled"):
        raise ValueError(f"tandem: TANDEM_GLUE={asked}: the only value is compiled")
    return version >= PLAIN_SINCE and asked != "compiled"


def create(options, backend_options=None):
    """Makes the back-end of a process group: called by torch.distributed. `backend_options`, those of another
    back-end where "nccl" was taken over, are ignored."""
    global _jobs_made
    glue = loaded()
    members = list(options.global_ranks_in_group)
    world = glue.world()
    if members and world is not None:
        return world.create_group(members, options.group_id, options.timeout)
    if not members:
        _jobs_made += 1
    name = f"tandem/{options.group_id}/{_jobs_made if not members else 'part'}"
    return glue.create_job(options.store, options.group_rank, options.group_size, options.timeout, name, not members, _shown,
                           _gpu(), members)


def _gpu():
    """The GPU that this rank works on, if any: what the plan is made for."""
    import torch

    return torch.cuda.current_device() if torch.cuda.is_available() else -1


@atexit.register
def _leave():
    """Leaves all jobs in an orderly way, so that the other ranks do not take this one for lost."""
    if _module is not None:
        _module.leave_all()


def _allow_monitored_barrier(dist):
    """torch.distributed refuses it for any back-end but gloo."""
    from torch.distributed import distributed_c10d as c10d

    original = c10d.monitored_barrier

    @functools.wraps(original)
    def monitored_barrier(group=None, timeout=None, wait_all_ranks=False):
        if c10d._rank_not_in_group(group) or dist.get_backend(group) != NAME:
            return original(group, timeout, wait_all_ranks)
        used = c10d._get_default_group() if group is None else group
        if timeout is None:
            timeout = c10d._get_default_timeout(dist.get_backend(group))
        elif isinstance(timeout, float):
            timeout = datetime.timedelta(seconds=timeout)
        return used.monitored_barrier(timeout, wait_all_ranks=wait_all_ranks)

    c10d.monitored_barrier = dist.monitored_barrier = monitored_barrier


def _let_timeouts_change(c10d):
    """Before 2.14 torch.distributed passes a changed timeout to the back-ends that it knows only."""
    if hasattr(c10d, "set_timeout"):
        return
    original = c10d._set_pg_timeout

    @functools.wraps(original)
    def set_pg_timeout(timeout, group=None):
        used = c10d._get_default_group() if group is None else group
        own = [] if c10d._rank_not_in_group(used) else [
            made for made in map(used._get_backend, used._device_types) if type(made).__module__ == "_tandem_backend"]
        with warnings.catch_warnings():
            if own:  # it warns that the back-end is none of them
                warnings.simplefilter("ignore")
            original(timeout, group)
        for made in own:
            made._set_default_timeout(timeout)

    c10d._set_pg_timeout = set_pg_timeout


def taken_over():
    """The back-ends that TANDEM_TAKE_OVER names."""
    names = {name for name in re.split(r"[\s,]+", os.environ.get("TANDEM_TAKE_OVER", "").lower()) if name}
    unknown = names - {"nccl", "gloo"}
    if unknown:
        raise ValueError(f"tandem: TANDEM_TAKE_OVER={os.environ['TANDEM_TAKE_OVER']}: only nccl and gloo can be taken over, "
                         f"not {', '.join(sorted(unknown))}")
    return names


def renamed(backend, names, defaults):
    """The back-end as a script names it, with those that are taken over replaced: "nccl", "cpu:gloo,cuda:nccl"; None or
    "undefined" stands for the defaults of each device."""
    text = str(backend).lower() if backend is not None else "undefined"
    if text == "undefined":
        if not names & set(defaults.values()):
            return backend
        text = ",".join(f"{device}:{name}" for device, name in defaults.items())
    replaced = ",".join(":".join(NAME if part in names else part for part in item.split(":")) for item in text.split(","))
    if "," in replaced and {item.split(":")[-1] for item in replaced.split(",")} == {NAME}:
        return NAME
    return replaced if replaced != text else backend


def _show_as(c10d, group, name):
    """Scripts that ask which back-end a group has get the name that they know."""
    if group not in c10d._world.pg_map:
        return
    # Not in C++, where PyTorch takes a group that is called gloo for an object of its own class (reducer's logger.cpp).
    c10d._world.pg_map[group] = (c10d.Backend(str(name)), c10d._world.pg_map[group][1])


def _let_debugging_hash_objects(c10d):
    """With TORCH_DISTRIBUTED_DEBUG=DETAIL torch.distributed hashes what a group called nccl sends of objects, as memory of a
    GPU: there they are, then. Otherwise they are in host memory."""
    original = getattr(c10d, "_get_object_coll_device", None)
    if original is None:
        return

    @functools.wraps(original)
    def device(group=None):
        found = original(group)
        is_hashed = c10d.get_debug_level() == c10d.DebugLevel.DETAIL and c10d.get_backend(group) == "nccl"
        return "cuda" if found == "cpu" and is_hashed and _gpu() >= 0 else found

    c10d._get_object_coll_device = device


def _take_over(dist, names):
    from torch.distributed import distributed_c10d as c10d

    _let_debugging_hash_objects(c10d)
    make = c10d._new_process_group_helper

    @functools.wraps(make)
    def helper(group_size, group_rank, global_ranks_in_group, backend, *rest, **named):
        global _shown
        defaults = {device: name for device, name in c10d.Backend.default_device_backend_map.items()
                    if device in DEVICES}
        used = renamed(backend, names, defaults)
        if used is backend:
            return make(group_size, group_rank, global_ranks_in_group, backend, *rest, **named)
        asked = str(backend).lower() if backend is not None else "undefined"
        _shown = next((name for name in ("nccl", "gloo") if name in names and (name in asked or asked == "undefined")), NAME)
        try:
            group, store = make(group_size, group_rank, global_ranks_in_group,
                                c10d.Backend(used) if ":" not in used else used, *rest, **named)
            _show_as(c10d, group, backend if ":" not in asked and asked != "undefined" else _shown)
        finally:
            _shown = NAME
        return group, store

    c10d._new_process_group_helper = helper


def register():
    """Makes the name "tandem" known. Idempotent."""
    import torch.distributed as dist

    if not dist.is_available() or NAME.upper() in dist.Backend._plugins:
        return
    dist.Backend.register_backend(NAME, create, extended_api=True, devices=DEVICES)
    _allow_monitored_barrier(dist)
    _let_timeouts_change(dist.distributed_c10d)
    names = taken_over()
    if names:
        _take_over(dist, names)


def autoload():
    """The entry point of torch.backends. `import torch` must not fail because of this package."""
    try:
        register()
    except Exception as failed:  # noqa: BLE001
        warnings.warn(f"tandem: the back-end is not available: {failed}", stacklevel=2)
