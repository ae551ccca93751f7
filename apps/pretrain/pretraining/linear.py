"""Linear layers whose weight gradients can be computed later than those of their inputs, and layers split over ranks."""

import torch
import torch.distributed as dist
from torch import nn


class WeightGradients:
    """Adds up the gradients of matrices: at once, or kept until `run`. In both cases a matrix's micro-batches are added in the
    order of their backwards, in one multiplication each, so that all schedules give the same bits."""

    def __init__(self):
        self.is_deferred = False
        self._kept = []

    def add(self, weight, bias, inputs, gradient):
        if self.is_deferred:
            self._kept.append((weight, bias, inputs, gradient))
        else:
            _accumulate(weight, bias, inputs, gradient)

    def take(self):
        """What one backward has deferred."""
        kept, self._kept = self._kept, []
        return kept

    @staticmethod
    def run(kept):
        while kept:
            _accumulate(*kept.pop(0))  # each entry's memory is free for the next one


@torch.no_grad()
def _accumulate(weight, bias, inputs, gradient):
    inputs, gradient = inputs.reshape(-1, inputs.shape[-1]), gradient.reshape(-1, gradient.shape[-1])
    if weight.grad is None:
        weight.grad = gradient.t() @ inputs
    else:
        weight.grad.addmm_(gradient.t(), inputs)
    if bias is not None:
        total = gradient.sum(0)
        bias.grad = total if bias.grad is None else bias.grad.add_(total)


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(kept, inputs, weight, bias, gradients):
        kept.save_for_backward(inputs)
        kept.layer = weight, bias, gradients
        return nn.functional.linear(inputs, weight, bias)

    @staticmethod
    def backward(kept, gradient):
        (inputs,), (weight, bias, gradients) = kept.saved_tensors, kept.layer
        of_inputs = gradient @ weight if kept.needs_input_grad[0] else None
        gradients.add(weight, bias, inputs, gradient)
        return of_inputs, None, None, None


class Linear(nn.Module):
    """`nn.Linear` with the same parameters, whose weight gradients go to `gradients`."""

    def __init__(self, like, gradients):
        super().__init__()
        self.weight, self.bias, self._gradients = like.weight, like.bias, gradients

    def forward(self, inputs):
        return _Product.apply(inputs, self.weight, self.bias, self._gradients)


class _Enter(torch.autograd.Function):
    """Into layers of which each rank has a part of the outputs: their input gradients are summed."""

    @staticmethod
    def forward(kept, inputs, group):
        kept.group = group
        return inputs.view_as(inputs)

    @staticmethod
    def backward(kept, gradient):
        gradient = gradient.contiguous()
        dist.all_reduce(gradient, group=kept.group)
        return gradient, None


class _Leave(torch.autograd.Function):
    """Out of layers of which each rank has a part of the inputs: their outputs are summed."""

    @staticmethod
    def forward(kept, outputs, group):
        outputs = outputs.contiguous()
        kept.mark_dirty(outputs)
        dist.all_reduce(outputs, group=group)
        return outputs

    @staticmethod
    def backward(kept, gradient):
        return gradient, None


class Entered(nn.Module):
    """A module, and then the way into a part that is split over the ranks of a group."""

    def __init__(self, module, part):
        super().__init__()
        self.module, self._part = module, part

    def forward(self, inputs):
        return _Enter.apply(self.module(inputs), self._part.group)


class Left(nn.Module):
    """The last module of a part that is split, and the way out of it."""

    def __init__(self, module, part):
        super().__init__()
        self.module, self._part = module, part

    def forward(self, inputs):
        return _Leave.apply(self.module(inputs), self._part.group)
