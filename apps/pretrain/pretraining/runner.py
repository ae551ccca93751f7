"""Runs a schedule: forwards and backwards of this rank's stages, and the messages between them."""

import torch
from tandem.pipelines import BACKWARD, BACKWARD_INPUT, BACKWARD_WEIGHTS, FORWARD


class Runner:
    """`stages`: those of this rank, by chunk."""

    def __init__(self, stages, schedule, position, pipes, record):
        self._stages, self._schedule, self._position, self._record = stages, schedule, position, record
        self.pipes = pipes
        self._numbers = [schedule.stage_of(position, chunk) for chunk in range(schedule.chunks)]

    def step(self, tokens):
        """`tokens`: of each micro-batch, one more than the sequence is long. The gradients are then those of the mean over all
        micro-batches; returns the sum of their losses, on the device."""
        self._tokens, self._saved, self._put_off, self._here = tokens, {}, {}, {}
        self._loss = torch.zeros((), device=tokens.device)
        self.pipes.start(self._schedule)
        for what, chunk, micro_batch in self._schedule.orders[self._position]:
            if what == FORWARD:
                self._forward(chunk, micro_batch)
            elif what in (BACKWARD, BACKWARD_INPUT):
                self._backward(chunk, micro_batch, what)
            else:
                with self._record.span(BACKWARD_WEIGHTS, chunk, micro_batch):
                    self._stages[chunk].gradients.run(self._put_off.pop((chunk, micro_batch)))
        with self._record.span("send wait", 0, -1):
            self.pipes.finish()
        return self._loss

    def _forward(self, chunk, micro_batch):
        stage, number, tokens = self._stages[chunk], self._numbers[chunk], self._tokens[micro_batch]
        inputs = tokens[:, :-1]
        if not stage.is_first:
            inputs = self._take(("activations", number - 1), chunk, micro_batch).requires_grad_()
        with self._record.span(FORWARD, chunk, micro_batch):
            outputs = stage(inputs, tokens[:, 1:] if stage.is_last else None)
            if stage.is_last:
                self._loss += outputs.detach()
        self._saved[chunk, micro_batch] = inputs, outputs
        if not stage.is_last:
            self._give(("activations", number), micro_batch, outputs.detach())

    def _backward(self, chunk, micro_batch, what):
        stage, number = self._stages[chunk], self._numbers[chunk]
        gradient = None if stage.is_last else self._take(("gradients", number), chunk, micro_batch)
        inputs, outputs = self._saved.pop((chunk, micro_batch))
        with self._record.span(what, chunk, micro_batch):
            stage.gradients.is_deferred = what == BACKWARD_INPUT
            if stage.is_last:
                gradient = torch.full_like(outputs, 1 / len(self._tokens))
            torch.autograd.backward(outputs, gradient)
            if what == BACKWARD_INPUT:
                self._put_off[chunk, micro_batch] = stage.gradients.take()
        if not stage.is_first:
            self._give(("gradients", number - 1), micro_batch, inputs.grad)

    def _give(self, key, micro_batch, tensor):
        if key in self.pipes.outgoing:
            self.pipes.outgoing[key].send(tensor.contiguous())
        else:  # both stages are on this rank
            self._here[key, micro_batch] = tensor

    def _take(self, key, chunk, micro_batch):
        if key not in self.pipes.incoming:
            return self._here.pop((key, micro_batch)).detach()
        with self._record.span("receive wait", chunk, micro_batch):
            return self.pipes.incoming[key].take(micro_batch)
