"""Several runs of apps/pretrain in the same processes, which saves the time to load PyTorch.

usage, as a rank: pretrain_ranks.py COMMAND_LINE...

Rank 0 prints a line of losses, exactly, for each.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "apps" / "pretrain"))

from pretraining import main, options as command_line  # noqa: E402


def run(line, number, folder):
    results = f"{folder}/{number}.json"
    options = command_line.parser().parse_args(line.split())
    options.json = options.json or results
    main.run_rank(options, command_line.Plan(options, int(os.environ["WORLD_SIZE"])))
    if int(os.environ["RANK"]) == 0 and options.json == results:
        lines = [json.loads(text) for text in Path(results).read_text(encoding="utf-8").splitlines()]
        blocks = [one["loss_bits"] for one in lines if one["event"] == "block"]
        steps = [one["loss_bits"] for one in lines if one["event"] == "step"]
        for losses in blocks or [steps]:
            print(f"losses {number} " + " ".join(losses), flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="tandem-pretrain-") as made:
        # A port for each, since a store keeps what the job before has written.
        for k, (text, port) in enumerate(zip(sys.argv[1:], os.environ["TEST_PORTS"].split(","), strict=True)):
            os.environ["MASTER_PORT"] = port
            run(text, k, made)
