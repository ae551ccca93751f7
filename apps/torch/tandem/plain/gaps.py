"""What PyTorch does not pass on to a back-end in Python, made up for in its classes."""

import functools

from torch.distributed import ProcessGroup, _Work

from .backend import Backend
from .work import asking


def _behind(handle):
    """The Work of this package behind a handle of PyTorch, or None. Found through `get_future`, which hands out itself."""
    asking.is_on, asking.found = True, None
    try:
        handle.get_future()
    except RuntimeError:  # other back-ends may have none
        pass
    finally:
        asking.is_on = False
    return asking.found


def let_handles_answer():
    """PyTorch wraps every Work in a handle of its own, which passes on `wait` and `get_future` only."""
    for name in ("is_completed", "is_success", "exception", "result", "synchronize", "source_rank", "_source_rank"):
        original = getattr(_Work, name)

        @functools.wraps(original)
        def method(self, original=original, name=name):
            behind = _behind(self) if type(self) is _Work else None
            return original(self) if behind is None else getattr(behind, name)()

        setattr(_Work, name, method)


def let_ranks_stay_out_of_splits():
    """On ranks outside the new group a back-end has none to return, which PyTorch cannot take from Python: it crashes."""
    original = ProcessGroup.split_group

    @functools.wraps(original)
    def split_group(self, new_ranks, *arguments, **named):
        backends = {device: self._get_backend(device) for device in self._device_types}
        if self.rank() in new_ranks or not any(isinstance(backend, Backend) for backend in backends.values()):
            return original(self, new_ranks, *arguments, **named)
        for device, backend in backends.items():
            # NCCL's splits are calls of all ranks.
            if not isinstance(backend, Backend) and hasattr(backend, "perform_nocolor_split"):
                backend.perform_nocolor_split(device)
        return None

    ProcessGroup.split_group = split_group
