"""Models by name or config.json, their floating-point operations, and how layers are cut into stages."""

import json

from . import BadInput

# The members of transformers' LlamaConfig and Qwen2Config that differ from the class's defaults.
BUILT_IN = {
    "llama-8b": {"model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
                 "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256,
                 "max_position_embeddings": 8192, "rms_norm_eps": 1e-5,
                 "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0}},
    "qwen2-7b": {"model_type": "qwen2", "num_hidden_layers": 28, "hidden_size": 3584, "num_attention_heads": 28,
                 "num_key_value_heads": 4, "intermediate_size": 18944, "vocab_size": 152064,
                 "max_position_embeddings": 32768, "rms_norm_eps": 1e-6,
                 "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0}},
    "llama-1b": {"model_type": "llama", "num_hidden_layers": 16, "hidden_size": 2048, "num_attention_heads": 32,
                 "num_key_value_heads": 8, "intermediate_size": 8192, "vocab_size": 32000,
                 "max_position_embeddings": 8192, "rms_norm_eps": 1e-5},
    "llama-small": {"model_type": "llama", "num_hidden_layers": 8, "hidden_size": 256, "num_attention_heads": 8,
                    "num_key_value_heads": 4, "intermediate_size": 688, "vocab_size": 4096, "max_position_embeddings": 2048},
    "qwen2-small": {"model_type": "qwen2", "num_hidden_layers": 8, "hidden_size": 256, "num_attention_heads": 8,
                    "num_key_value_heads": 4, "intermediate_size": 688, "vocab_size": 4096, "max_position_embeddings": 2048},
    "llama-tiny": {"model_type": "llama", "num_hidden_layers": 4, "hidden_size": 64, "num_attention_heads": 4,
                   "num_key_value_heads": 2, "intermediate_size": 160, "vocab_size": 512, "max_position_embeddings": 512},
    "qwen2-tiny": {"model_type": "qwen2", "num_hidden_layers": 4, "hidden_size": 64, "num_attention_heads": 4,
                   "num_key_value_heads": 2, "intermediate_size": 160, "vocab_size": 512, "max_position_embeddings": 512},
}
TYPES = ("llama", "qwen2")


def members_of(model):
    """The members of the configuration that `--model` names, before transformers is imported."""
    if model in BUILT_IN:
        return BUILT_IN[model]
    if not model.endswith(".json"):
        raise BadInput(f"--model {model}: no such model; choose {', '.join(BUILT_IN)}, or a config.json file")
    try:
        with open(model, encoding="utf-8") as file:
            members = json.load(file)
    except (OSError, ValueError) as failed:
        raise BadInput(f"--model {model}: cannot be read: {failed}") from None
    if not isinstance(members, dict) or members.get("model_type") not in TYPES:
        raise BadInput(f"--model {model}: its model_type is not {' or '.join(TYPES)}")
    lacking = [name for name in ("num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size", "vocab_size")
               if name not in members]
    if lacking:
        raise BadInput(f"--model {model}: it has no {', '.join(lacking)}")
    if members.get("tie_word_embeddings"):
        raise BadInput(f"--model {model}: tied word embeddings are on two stages at once, which is not supported")
    return members


def load(members):
    """transformers' configuration."""
    from transformers import LlamaConfig, Qwen2Config

    known = {name: value for name, value in members.items() if name not in ("architectures", "torch_dtype", "dtype")}
    kind = {"llama": LlamaConfig, "qwen2": Qwen2Config}[known.pop("model_type")]
    config = kind(**known)
    config._attn_implementation = "sdpa"
    return config


def shape_of(members):
    """(hidden h, queries q, keys and values kv, feed-forward ffn, vocabulary V, layers L), in elements."""
    hidden, heads = members["hidden_size"], members["num_attention_heads"]
    head = members.get("head_dim") or hidden // heads
    return (hidden, heads * head, (members.get("num_key_value_heads") or heads) * head, members["intermediate_size"],
            members["vocab_size"], members["num_hidden_layers"])


def matrix_elements(members):
    """Elements of the matrices of one layer, and of the head."""
    h, q, kv, ffn, words, _ = shape_of(members)
    return h * (q + 2 * kv) + q * h + 3 * h * ffn, h * words


def flops_per_token(members, sequence, causal_half=False):
    """Of forward and backward, without recomputation. Causal attention counts in full, as the paper's baselines do, or in half,
    as Megatron-LM does since 2023."""
    _, q, _, _, _, layers = shape_of(members)
    layer, head = matrix_elements(members)
    return 6 * (layers * layer + head) + (6 if causal_half else 12) * layers * q * sequence


def cut(members, stages, sequence, given=None):
    """The number of layers of each stage. Without `given`, so that the slowest stage is as fast as it can be, with the head's
    cost counted in layers."""
    layers = members["num_hidden_layers"]
    if given is not None:
        if len(given) != stages:
            raise BadInput(f"--layers {','.join(map(str, given))}: {len(given)} numbers for {stages} stages")
        if sum(given) != layers:
            raise BadInput(f"--layers {','.join(map(str, given))}: they add up to {sum(given)}, but the model has {layers} layers")
        if min(given) < 0 or 0 in given[1:-1]:
            raise BadInput(f"--layers {','.join(map(str, given))}: only the first and the last stage can have no layer")
        return list(given)
    if stages > layers:
        raise BadInput(f"--layout: {stages} stages, but the model has {layers} layers only")
    head = _head_in_layers(members, sequence)
    counts = [1] * stages
    for _ in range(layers - stages):  # each next layer goes where it costs least, of equals to the first
        costs = [count + (head if s == stages - 1 else 0) for s, count in enumerate(counts)]
        counts[costs.index(min(costs))] += 1
    return counts


def _head_in_layers(members, sequence):
    layer, head = matrix_elements(members)
    return head / (layer + shape_of(members)[1] * sequence)  # causal attention computes half of its products


def costs(members, layers, sequence):
    """(forward, input part, weight part) of each stage, in hundredths of a layer's forward."""
    head = [0] * (len(layers) - 1) + [_head_in_layers(members, sequence)]
    return [(max(1, round(100 * (count + extra))),) * 3 for count, extra in zip(layers, head)]
