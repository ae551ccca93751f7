"""Cross entropy with one copy of the logits, whose memory its gradient takes over, and whose words may be split over ranks."""

import torch
import torch.distributed as dist

ROWS = 1024  # that are in float32 at once


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(kept, logits, targets, first_word, group):
        inside = (targets >= first_word) & (targets < first_word + logits.shape[-1])
        local = torch.where(inside, targets - first_word, 0)
        highest = torch.cat([part.amax(-1).float() for part in logits.split(ROWS)])
        if group is not None:
            dist.all_reduce(highest, op=dist.ReduceOp.MAX, group=group)
        sums = torch.cat([(part.float() - top.unsqueeze(-1)).exp_().sum(-1)
                          for part, top in zip(logits.split(ROWS), highest.split(ROWS))])
        chosen = torch.where(inside, logits.gather(-1, local.unsqueeze(-1)).squeeze(-1).float(), 0.0)
        if group is not None:
            both = torch.stack([sums, chosen])
            dist.all_reduce(both, group=group)
            sums, chosen = both
        log_sums = highest + sums.log()
        # Not saved for backward: it writes the gradient over them.
        kept.logits, kept.rest = logits, (inside, local, log_sums)
        return (log_sums - chosen).mean()

    @staticmethod
    def backward(kept, gradient):
        logits, (inside, local, log_sums) = kept.logits, kept.rest
        kept.logits = None
        scale = gradient / logits.shape[0]
        columns, words = torch.arange(logits.shape[-1], device=logits.device), torch.where(inside, local, -1)
        for part, word, sums in zip(logits.split(ROWS), words.split(ROWS), log_sums.split(ROWS)):
            share = (part.float() - sums.unsqueeze(-1)).exp_()
            # A scatter would not be deterministic on GPUs.
            share.sub_((columns == word.unsqueeze(-1)).to(share.dtype))
            part.copy_(share.mul_(scale))
        return logits, None, None, None


def cross_entropy(logits, targets, first_word=0, group=None):
    """The mean over all targets. `logits` are used up. With a group, each of its ranks has the words from `first_word` on."""
    return _CrossEntropy.apply(logits.view(-1, logits.shape[-1]), targets.reshape(-1), first_word, group)
