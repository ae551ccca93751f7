"""Pretraining of transformers' LLaMA and Qwen2 models in pipeline stages, over one link or several compared."""


class BadInput(Exception):
    """What the user can correct: shown as one line."""
