"""Tokens: of real text, with a tokenizer that is trained on it, or random. Samples depend on the seed and the step only."""

import hashlib
import os
import sysconfig
from pathlib import Path

from . import BadInput, checked

MAX_BYTES = 16 << 20      # of text that is used
TRAINED_BYTES = 2 << 20   # of it that the tokenizer is trained on
MAX_WORDS = 16384         # of the tokenizer


def default_cache():
    return str(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tandem" / "pretrain")


def check(path):
    if path and path != "random" and not os.path.exists(path):
        raise BadInput(f"--data {path}: no such file or folder")


def files_of(path):
    """Sorted, so that every host with the same files has the same text."""
    root = Path(path or sysconfig.get_paths()["stdlib"])
    if root.is_file():
        return [root]
    names = [Path(folder, name) for folder, _, found in os.walk(root) if "site-packages" not in folder for name in found
             if name.endswith((".txt", ".md", ".py", ".rst", ".cpp", ".hpp"))]
    return sorted(names)


class RandomTokens:
    name, words, tokens = "random tokens", None, None

    def __init__(self, words):
        self.words = words

    def samples(self, random, count, length):
        import torch
        return torch.randint(self.words, (count, length), generator=random)


class TextTokens:
    def __init__(self, name, words, all_tokens):
        self.name, self.words, self._all = name, words, all_tokens
        self.tokens = len(all_tokens)

    def samples(self, random, count, length):
        import torch
        begins = torch.randint(len(self._all) - length + 1, (count,), generator=random)
        return torch.stack([self._all[begin:begin + length] for begin in begins.tolist()]).long()


def batch(source, seed, step, count, length):
    """The sequences of a step, one token longer than they are used."""
    import torch
    return source.samples(torch.Generator().manual_seed(seed * 1_000_003 + step), count, length + 1)


def prepare(path, cache, model_words, is_maker, barrier, sequence):
    """`is_maker`: on one rank of each host, which trains the tokenizer if it is not in the cache; the others wait."""
    if path == "random":
        return RandomTokens(model_words)
    files, words = files_of(path), min(model_words, MAX_WORDS)
    key = hashlib.sha256(repr([(str(f), f.stat().st_size, f.stat().st_mtime_ns) for f in files] + [words]).encode()).hexdigest()[:16]
    made = Path(cache) / f"tokens-{key}.int32"
    if is_maker and checked.problem(made):  # a cache: what is wrong with it does not matter
        _tokenize(files, words, made)
    barrier()
    import torch
    count = made.stat().st_size // 4
    if count < sequence + 2:
        raise BadInput(f"--data {path or 'standard library'}: {count} tokens of text, too few for sequences of {sequence}")
    return TextTokens(path or "Python's standard library", words, torch.from_file(str(made), size=count, dtype=torch.int32))


def _texts(files):
    left = MAX_BYTES
    for file in files:
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        yield text[:left]
        left -= len(text)
        if left <= 0:
            return


def _tokenize(files, words, made):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=words, special_tokens=["<end>"], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    texts, sample, size = list(_texts(files)), [], 0
    for text in texts:
        if size < TRAINED_BYTES:
            sample.append(text[:TRAINED_BYTES - size])
            size += len(text)
    tokenizer.train_from_iterator(sample, trainer)
    end = tokenizer.token_to_id("<end>")
    import array
    tokens = array.array("i")
    for encoded in tokenizer.encode_batch(texts):
        tokens.extend(encoded.ids)
        tokens.append(end)
    made.parent.mkdir(parents=True, exist_ok=True)
    part = made.with_suffix(f".{os.getpid()}")
    part.write_bytes(tokens.tobytes())
    checked.seal(part)
    tokenizer.save(str(made.with_suffix(".json")))
    for name in ("", ".sum"):
        os.replace(f"{part}{name}", f"{made}{name}")
