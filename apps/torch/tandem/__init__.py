"""Tandem for PyTorch: the back-end "tandem" of torch.distributed.

`import torch` loads it (entry point torch.backends), so a script only has to name it:

    torch.distributed.init_process_group("tandem")

or not even that: with TANDEM_TAKE_OVER=nccl (or gloo, or both: "nccl,gloo") it carries the process groups of scripts
that name those.
"""
