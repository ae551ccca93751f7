"""This process as a rank: its device, the islands, and the process groups."""

import datetime
import os

import torch
import torch.distributed as dist

from . import BadInput, link_settings


class Job:
    def __init__(self, options, plan):
        self.rank, self.ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.local_rank = int(os.environ.get("LOCAL_RANK", self.rank))
        self.layout, self._options = plan.layout, options
        self.device = self._device_of(plan.devices)
        if self.is_on_gpu:  # before Tandem asks which one it is
            torch.cuda.set_device(self.device)
            self._choose_kernels()
        self._timeout = datetime.timedelta(seconds=options.timeout)
        # A job of Tandem reports a lost rank to all others. Links that are compared have jobs of their own.
        self._is_tandem = link_settings.backend_of(plan.links[0]) == "tandem" and len(plan.links) == 1
        if any(link_settings.backend_of(name) == "tandem" for name in plan.links):
            self._register()
        with link_settings.settings_of(plan.links[0], options, self.is_on_gpu):
            dist.init_process_group("tandem" if self._is_tandem else "gloo", timeout=self._timeout)
        self.vendors = [round(v) for v in self.sums([self._vendor() if r == self.rank else 0 for r in range(self.ranks)])]
        self.are_on_gpus = all(self.vendors)
        for name in plan.links:
            link_settings.check(name, self.are_on_gpus)
        self._groups = {}

    @property
    def is_on_gpu(self):
        return self.device.type == "cuda"

    @staticmethod
    def _register():
        """`import torch` has done it where the package is installed, and not where only its folder is in the path."""
        try:
            from tandem import distributed
        except ImportError:
            raise BadInput("--link tandem: the package tandem is not installed; tests/torch/install build/torch") from None
        distributed.register()

    def _choose_kernels(self):
        backends, wanted = torch.backends.cuda, self._options.attention
        if wanted != "auto":  # and an error where it is not possible, instead of a slow one
            backends.enable_flash_sdp(wanted == "flash")
            backends.enable_cudnn_sdp(wanted == "cudnn")
            backends.enable_mem_efficient_sdp(False)
            backends.enable_math_sdp(False)
        if self._options.deterministic:
            torch.use_deterministic_algorithms(True)
            torch.utils.deterministic.fill_uninitialized_memory = False

    def _device_of(self, devices):
        first, here = self.rank - self.local_rank, int(os.environ.get("LOCAL_WORLD_SIZE", self.ranks))
        local = devices[first:first + here]
        if devices[self.rank] == "auto":
            return torch.device("cuda", self.local_rank) if torch.cuda.device_count() >= here else torch.device("cpu")
        if devices[self.rank] == "cpu":
            return torch.device("cpu")
        number = local[:self.local_rank].count("cuda")
        if number >= torch.cuda.device_count():
            raise BadInput(f"--devices: rank {self.rank} is to have GPU {number}, but this host has {torch.cuda.device_count()}")
        return torch.device("cuda", number)

    def _vendor(self):
        if not self.is_on_gpu:
            return 0
        return 2 if torch.version.hip else 1

    def island(self, rank):
        half = rank >= self.ranks // 2 if self._options.emulate_islands else 0
        return self.vendors[rank], half

    def backend_between(self, link, one, other):
        """The link's between islands, and everywhere if there is one island only; inside of one the vendor's library."""
        islands = {self.island(rank) for rank in range(self.ranks)}
        if len(islands) == 1 or self.island(one) != self.island(other):
            return link_settings.backend_of(link)
        return self._inside(link, [one, other])

    def _inside(self, link, ranks):
        """Tandem uses the vendor's library itself, unless its settings keep it from that."""
        if link_settings.is_everywhere(link):
            return link_settings.backend_of(link)
        has_own = link.split(":")[0] == "tandem" and not self._options.emulate_islands
        return "nccl" if all(self.vendors[r] for r in ranks) and not has_own else link_settings.backend_of(link)

    def new_group(self, ranks, backend, link):
        """Called by all ranks, in the same order."""
        with link_settings.settings_of(link, self._options, self.is_on_gpu):
            return dist.new_group(ranks, backend=backend, timeout=self._timeout)

    def inner_groups(self, link):
        """This rank's groups for data and tensor parallelism, or None. The first link's serve all, but for one that is everywhere.
        Called by all ranks, in the same order."""
        kind = link_settings.is_everywhere(link)
        if kind not in self._groups:
            self._groups[kind] = [self._mine(of, link) for of in (self.layout.data_groups(), self.layout.tensor_groups())]
        return self._groups[kind]

    def _mine(self, groups, link):
        mine = None
        for ranks in groups:
            if len(ranks) > 1:
                made = self.new_group(ranks, self._inside(link, ranks), link)
                mine = made if self.rank in ranks else mine
        return mine

    def describe(self, group):
        """What carries a group of Tandem, in its words."""
        try:
            return group._get_backend(self.device).describe()
        except (AttributeError, RuntimeError):
            return dist.get_backend(group)

    # Through host memory and the default group, outside of the steps.

    def sums(self, values):
        data = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(data)
        return data.tolist()

    def largest(self, values):
        data = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(data, op=dist.ReduceOp.MAX)
        return data.tolist()

    def barrier(self):
        self.sums([0])

    def texts(self, mine):
        """Each rank's text, on every rank."""
        data = torch.tensor(list(mine.encode()), dtype=torch.uint8)
        length = int(self.largest([len(data)])[0])
        padded = torch.full((length,), 32, dtype=torch.uint8)
        padded[:len(data)] = data
        gathered = [torch.empty(length, dtype=torch.uint8) for _ in range(self.ranks)]
        dist.all_gather(gathered, padded)
        return [bytes(one.tolist()).decode().rstrip(" ") for one in gathered]
