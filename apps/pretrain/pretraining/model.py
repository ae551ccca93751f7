"""A stage: consecutive layers of a model, with the embedding on the first stage, and the norm and the head on the last."""

import functools

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from .linear import Entered, Left, Linear, WeightGradients
from .loss import cross_entropy

DRAWN_ON_PROCESSORS = 1024  # models of at most this width begin with the same values on every device
SPLIT_OUTPUTS = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj")
SPLIT_INPUTS = ("o_proj", "down_proj")


class TensorPart:
    """A rank's part of the layers that are split over the ranks of a group, which is another one for another link."""

    def __init__(self, group=None, index=0, count=1):
        self.group, self.index, self.count = group, index, count


class Stage(nn.Module):
    """`layers`: their numbers in the model. Its parameters have the same values in every cut and layout."""

    def __init__(self, config, layers, is_first, is_last, kind, device, seed, part=None, recomputed=0, is_compiled=False):
        super().__init__()
        self._is_compiled = is_compiled
        self.part, self.recomputed, self.is_first, self.is_last = part or TensorPart(), recomputed, is_first, is_last
        self.gradients = WeightGradients()
        self.hidden = config.hidden_size
        self._config, self._seed, self._device, self._kind = config, seed, device, kind
        self._positions = {}
        with torch.device("meta"):
            self.layers = nn.ModuleList(_layer_class(config)(config, number) for number in layers)
            self.words = nn.Embedding(config.vocab_size, config.hidden_size) if is_first else None
            self.norm = nn.RMSNorm(config.hidden_size, config.rms_norm_eps) if is_last else None
            self.head = nn.Linear(config.hidden_size, config.vocab_size, bias=False) if is_last else None
        for number, layer in zip(layers, self.layers):
            layer.number = number
            self._prepare(layer)
        if is_last:
            self._split(self, "head", 0)
            if self.part.count > 1:
                self.norm = Entered(self.norm, self.part)
        self.reset()

    def _prepare(self, layer):
        """PyTorch's fused norms instead of transformers', weight gradients that can wait, and this rank's part."""
        for name in ("input_layernorm", "post_attention_layernorm"):
            with torch.device("meta"):
                norm = nn.RMSNorm(self.hidden, self._config.rms_norm_eps)
            setattr(layer, name, Entered(norm, self.part) if self.part.count > 1 else norm)
        if self._is_compiled:
            _compile_rotary(self._config.model_type)
            layer.mlp.act_fn, layer.mlp.forward = None, functools.partial(_feed_forward, layer.mlp)
        for inner in (layer.self_attn, layer.mlp):
            for name, _ in list(inner.named_children()):
                if name in SPLIT_OUTPUTS:
                    self._split(inner, name, 0)
                elif name in SPLIT_INPUTS:
                    self._split(inner, name, 1)

    def _split(self, inner, name, dimension):
        full = getattr(inner, name)
        full.weight.whole_shape, full.weight.cut_dimension = full.weight.shape, dimension
        if full.bias is not None:
            full.bias.whole_shape, full.bias.cut_dimension = full.bias.shape, 0
        made = Linear(full, self.gradients)
        setattr(inner, name, Left(made, self.part) if dimension == 1 and self.part.count > 1 else made)

    @torch.no_grad()
    def reset(self):
        """The values that training begins with."""
        for layer in self.layers:
            self._fill(layer, 1 + layer.number)
        if self.is_first:
            self._fill(self.words, 0)
        if self.is_last:
            self._fill(self.norm, 1 + self._config.num_hidden_layers)
            self._fill(self.head, 2 + self._config.num_hidden_layers)

    def _fill(self, module, number):
        # Each kind of device has numbers of its own; a processor takes too long for a large model.
        drawn_on = self._device if self._config.hidden_size > DRAWN_ON_PROCESSORS else torch.device("cpu")
        random = torch.Generator(drawn_on).manual_seed(self._seed * 100_003 + number)
        for name, parameter in list(module.named_parameters()):
            shape, dimension = getattr(parameter, "whole_shape", parameter.shape), getattr(parameter, "cut_dimension", None)
            if name.endswith("bias"):
                values = torch.zeros(shape, device=self._device)
            elif len(shape) == 1:
                values = torch.ones(shape, device=self._device)
            else:
                values = torch.empty(shape, device=drawn_on).normal_(0, self._config.initializer_range, generator=random)
                values = values.to(self._device)
            if dimension is not None:
                values = values.chunk(self.part.count, dimension)[self.part.index]
            if parameter.is_meta:
                made = nn.Parameter(values.to(self._kind).contiguous())
                if dimension is not None:
                    made.whole_shape, made.cut_dimension = shape, dimension
                owner = module.get_submodule(name.rpartition(".")[0])
                setattr(owner, name.rpartition(".")[2], made)
            else:
                parameter.copy_(values)

    def parts(self):
        """(number, parameters) of each layer, of the embedding (0), and of the norm and the head: the same numbers in every cut.
        Parameters that are split over ranks have a member `cut_dimension`."""
        last = 1 + self._config.num_hidden_layers
        found = [(0, self.words)] if self.is_first else []
        found += [(1 + layer.number, layer) for layer in self.layers]
        found += [(last, self.norm), (last + 1, self.head)] if self.is_last else []
        return [(number, list(module.parameters())) for number, module in found]

    def _position_embeddings(self, length):
        if length not in self._positions:
            rotary = _rotary_class(self._config)(self._config)
            cos, sin = rotary(torch.empty(0, dtype=torch.float32), torch.arange(length).unsqueeze(0))
            self._positions[length] = cos.to(self._device, self._kind), sin.to(self._device, self._kind)
        return self._positions[length]

    def forward(self, inputs, targets=None):
        """The hidden states for the next stage; on the last one, the mean loss of the micro-batch."""
        positions = self._position_embeddings(inputs.shape[1])
        hidden = self.words(inputs) if self.is_first else inputs
        for index, layer in enumerate(self.layers):
            if index < self.recomputed:
                hidden = checkpoint(layer, hidden, position_embeddings=positions, attention_mask=None, use_reentrant=False,
                                    preserve_rng_state=False)
            else:
                hidden = layer(hidden, position_embeddings=positions, attention_mask=None)
        if not self.is_last:
            return hidden
        logits = self.head(self.norm(hidden))
        part = self.part
        return cross_entropy(logits, targets, part.index * logits.shape[-1], part.group if part.count > 1 else None)


@functools.cache
def _gated():
    return torch.compile(lambda gate, up: nn.functional.silu(gate) * up, dynamic=False)


def _feed_forward(mlp, inputs):
    return mlp.down_proj(_gated()(mlp.gate_proj(inputs), mlp.up_proj(inputs)))


@functools.cache
def _compile_rotary(kind):
    from transformers.models.llama import modeling_llama
    from transformers.models.qwen2 import modeling_qwen2
    module = {"llama": modeling_llama, "qwen2": modeling_qwen2}[kind]
    module.apply_rotary_pos_emb = torch.compile(module.apply_rotary_pos_emb, dynamic=False)


def _layer_class(config):
    from transformers.models.llama.modeling_llama import LlamaDecoderLayer
    from transformers.models.qwen2.modeling_qwen2 import Qwen2DecoderLayer
    return {"llama": LlamaDecoderLayer, "qwen2": Qwen2DecoderLayer}[config.model_type]


def _rotary_class(config):
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
    from transformers.models.qwen2.modeling_qwen2 import Qwen2RotaryEmbedding
    return {"llama": LlamaRotaryEmbedding, "qwen2": Qwen2RotaryEmbedding}[config.model_type]
