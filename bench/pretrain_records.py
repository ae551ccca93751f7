#!/usr/bin/env python3
"""Records in the format of bench/results from what bench/pretrain wrote.

usage: pretrain_records.py COMMIT FILE.jsonl... >bench/results/pretrain-TIME.jsonl
"""

import json
import sys

FACTS = ("model", "sequence", "schedule", "micro_batches", "layers", "deterministic", "data", "type", "emulated_islands", "torch",
         "device", "rounds")
RESULTS = ("tflops_per_gpu", "lowest", "highest", "seconds", "tokens_per_s", "memory_bytes", "device_used_bytes", "same_bits",
           "carrier")


def records(lines, commit):
    """A record for each link of each comparison: a run's lines begin with its configuration."""
    config = None
    for one in map(json.loads, lines):
        if one["event"] == "config":
            config = one
        elif one["event"] == "link":
            yield ({"op": "pretrain", "ranks": config["ranks"], "link": one["link"], "commit": commit, "steps": config["steps"]}
                   | {name: config[name] for name in FACTS if name in config} | {name: one[name] for name in RESULTS})


def main():
    commit, *files = sys.argv[1:]
    for name in files:
        with open(name, encoding="utf-8") as lines:
            for record in records(lines, commit):
                print(json.dumps(record))


if __name__ == "__main__":
    main()
