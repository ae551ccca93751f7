"""Which part of the model and of the batch each rank has."""

from dataclasses import dataclass

from . import BadInput


@dataclass(frozen=True)
class Layout:
    """Neighbours in tensor are neighbours in rank; pipelines have the largest distance, as the slowest links need."""

    pipeline: int
    data: int = 1
    tensor: int = 1

    @property
    def ranks(self):
        return self.pipeline * self.data * self.tensor

    def place(self, rank):
        """(position in the pipeline, replica, tensor part)."""
        return rank // (self.data * self.tensor), rank // self.tensor % self.data, rank % self.tensor

    def rank(self, position, replica, part):
        return (position * self.data + replica) * self.tensor + part

    def data_groups(self):
        return [[self.rank(p, d, t) for d in range(self.data)] for p in range(self.pipeline) for t in range(self.tensor)]

    def tensor_groups(self):
        return [[self.rank(p, d, t) for t in range(self.tensor)] for p in range(self.pipeline) for d in range(self.data)]

    def text(self):
        return f"pipeline={self.pipeline},data={self.data},tensor={self.tensor}"


def parse(text, ranks):
    """The layout of `--layout`; all ranks are one pipeline without it."""
    if text is None:
        return Layout(ranks)
    sizes = {}
    for item in text.split(","):
        name, _, number = item.partition("=")
        if name not in ("pipeline", "data", "tensor") or not number.isdigit() or int(number) < 1 or name in sizes:
            raise BadInput(f"--layout {text}: {item} is not understood; write pipeline=2,data=1,tensor=1")
        sizes[name] = int(number)
    made = Layout(sizes.get("pipeline", 1), sizes.get("data", 1), sizes.get("tensor", 1))
    if made.ranks != ranks:
        raise BadInput(f"--layout {text}: it is for {made.ranks} rank{'s' if made.ranks > 1 else ''}, but there "
                       f"{'are' if ranks > 1 else 'is'} {ranks}")
    return made


def check_tensor(layout, members):
    heads = members["num_attention_heads"]
    for name, number in (("attention heads", heads), ("heads of keys and values", members.get("num_key_value_heads") or heads),
                         ("columns of the feed-forward layer", members["intermediate_size"]), ("words", members["vocab_size"])):
        if number % layout.tensor:
            raise BadInput(f"--layout {layout.text()}: {number} {name} cannot be divided by tensor={layout.tensor}")
