"""Tables of the results of bench/pretrain."""

import tables

MODELS = {"llama-8b": "LLaMA-8B", "qwen2-7b": "Qwen2-7B", "llama-1b": "LLaMA of 1.1 B"}
SCHEDULES = {"one_f_one_b": "1F1B", "zb_h1": "ZB-H1", "zb_v": "ZB-V", "v_uneven": "uneven V"}
LINKS = {"nccl": "NCCL", "tandem-direct": "Tandem, device to device", "tandem-forwarding": "Tandem, shared pinned memory",
         "tandem-forwarding:shared-staging=0": "Tandem, host memory", "tandem-tcp": "Tandem, TCP", "gloo": "gloo, staged by the program"}


FORWARDED = "Tandem, direct asked for, forwarded"
BEFORE_SHARED_PAGES = {"pretrain", "pretrain-tcp", "pretrain-four"}


def link_of(record):
    """What has carried the messages: in the first series memory of PyTorch's expandable segments could not be shared between
    processes, and so was forwarded. All series were measured with those before records named the allocator."""
    is_direct = record["link"].split(":")[0] == "tandem-direct" and record["op"] in BEFORE_SHARED_PAGES
    if is_direct and "expandable_segments:True" in record.get("allocator", "expandable_segments:True"):
        return FORWARDED
    return LINKS[record["link"]]


def timed(records):
    return [r for r in records if not r["deterministic"]]


def pretrain(records, _ranks=2):
    """TFLOP/s of each model, length and schedule over each link, and its part of NCCL's in 1F1B with that model and length."""
    rows = [["model", "tokens", "schedule", "link", "TFLOP/s per GPU", "lowest to highest", "of NCCL", "step, s", "GiB a GPU"]]
    reference = None
    for r in timed(records):
        if r["link"] == "nccl":
            reference = r
        rows.append([MODELS[r["model"]], str(r["sequence"]), SCHEDULES[r["schedule"]], link_of(r), f"{r['tflops_per_gpu']:.1f}",
                     f"{r['lowest']:.1f} to {r['highest']:.1f}", f"{r['tflops_per_gpu'] / reference['tflops_per_gpu']:.3f}",
                     tables.number(r["seconds"]), f"{r['memory_bytes'] / 2**30:.2f}"])
    return rows


def short(records, _ranks=2):
    """A row for each link, a column for each model and length."""
    own = timed(records)
    columns = list(dict.fromkeys((r["model"], r["sequence"]) for r in own))
    rates = {}
    for r in own:
        rates.setdefault(link_of(r), {})[r["model"], r["sequence"]] = r["tflops_per_gpu"]
    references = rates[LINKS["nccl"]]
    rows = [["pipeline of two GPUs, TFLOP/s per GPU and part of NCCL's", *(f"{MODELS[m]}, {tokens} tokens" for m, tokens in columns)]]
    for link, of in rates.items():
        rows.append([link, *(f"{of[c]:.1f} ({of[c] / references[c]:.3f})" for c in columns)])
    return rows


def bits(records, _ranks=2):
    """Losses with deterministic kernels."""
    rows = [["model", "data", "steps", "link", "losses"]]
    for r in records:
        if r["deterministic"]:
            rows.append([MODELS[r["model"]], r["data"], str(r["steps"]), link_of(r),
                         "same bits in every step" if r["same_bits"] else "differ"])
    return rows


def four(records, _ranks=4):
    """TFLOP/s on four GPUs by layout, and the part of NCCL's."""
    rows = [["model", "layout", "link between islands", "TFLOP/s per GPU", "lowest to highest", "of NCCL", "step, s"]]
    references = {(r["model"], r["layout"]): r["tflops_per_gpu"] for r in timed(records) if r["link"] == "nccl"}
    for r in timed(records):
        rows.append([MODELS[r["model"]], layout_text(r), link_of(r), f"{r['tflops_per_gpu']:.1f}", f"{r['lowest']:.1f} to {r['highest']:.1f}",
                     f"{r['tflops_per_gpu'] / references[r['model'], r['layout']]:.3f}", tables.number(r["seconds"])])
    return rows


def layout_text(record):
    parts = [item.split("=") for item in record["layout"].split(",")]
    return ", ".join(f"{name} {count}" for name, count in parts if count != "1")


def four_bits(records, _ranks=4):
    rows = [["model", "layout", "steps", "link between islands", "losses"]]
    for r in records:
        if r["deterministic"]:
            rows.append([MODELS[r["model"]], layout_text(r), str(r["steps"]), link_of(r),
                         "same bits in every step" if r["same_bits"] else "differ"])
    return rows


TABLES = {"pretrain-links": ("pretrain-links", 2, pretrain), "pretrain-links-bits": ("pretrain-links", 2, bits), "pretrain-four": ("pretrain-four", 4, four), "pretrain-four-bits": ("pretrain-four", 4, four_bits), "pretrain": ("pretrain", 2, pretrain), "pretrain-short": ("pretrain-links", 2, short), "pretrain-bits": ("pretrain", 2, bits),
          "pretrain-tcp": ("pretrain-tcp", 2, pretrain), "pretrain-schedules": ("pretrain-schedules", 2, pretrain),
          "pretrain-text": ("pretrain-text", 2, bits)}
