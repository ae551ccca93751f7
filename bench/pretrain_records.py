#!/usr/bin/env python3
"""Records in the format of bench/results from what bench/pretrain wrote.

usage: pretrain_records.py [--op NAME] COMMIT FILE.jsonl... >bench/results/pretrain-TIME.jsonl

Of a run that has ended early, as by gloo's need of memory, each link that was measured has a record.
"""

import json
import statistics
import sys

FACTS = ("model", "sequence", "schedule", "micro_batches", "layers", "deterministic", "data", "type", "emulated_islands", "torch",
         "device", "rounds", "layout", "allocator")
RESULTS = ("tflops_per_gpu", "lowest", "highest", "seconds", "tokens_per_s", "memory_bytes", "device_used_bytes", "same_bits",
           "carrier")


def results_of(blocks, config):
    """Of a link, from what its rounds have measured."""
    rates = [rate for one in blocks for rate in one["tflops_per_gpu"]]
    seconds = statistics.median(s for one in blocks for s in one["seconds"])
    tokens = config["batch"] * config["sequence"] if "batch" in config else None
    return {"tflops_per_gpu": statistics.median(rates), "lowest": min(rates), "highest": max(rates), "seconds": seconds,
            "tokens_per_s": tokens and tokens / seconds, "memory_bytes": max(one["memory_bytes"] for one in blocks),
            "device_used_bytes": max(one["device_used_bytes"] for one in blocks), "same_bits": None, "carrier": None}


def records(lines, commit, op):
    """A record for each link of each comparison: a run's lines begin with its configuration."""
    events = [json.loads(line) for line in lines]
    config = next(one for one in events if one["event"] == "config")
    facts = {name: config[name] for name in FACTS if name in config}
    blocks = {}
    for one in events:
        if one["event"] == "block":
            blocks.setdefault(one["link"], []).append(one)
    ended = {one["link"]: {name: one[name] for name in RESULTS} for one in events if one["event"] == "link"}
    for link, of in blocks.items():
        yield ({"op": op, "ranks": config["ranks"], "link": link, "commit": commit, "steps": config["steps"]} | facts |
               {"torch": of[0]["torch"], "device": of[0]["device"]} | ended.get(link, results_of(of, config)))


def main():
    words = sys.argv[1:]
    op = "pretrain"
    if words[0] == "--op":
        op, words = words[1], words[2:]
    commit, *files = words
    for name in files:
        with open(name, encoding="utf-8") as lines:
            for record in records(lines, commit, op):
                print(json.dumps(record))


if __name__ == "__main__":
    main()
