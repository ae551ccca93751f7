"""The page of --report: loss, speed, the timeline of one step, what each link carried, and the configuration."""

import html
from pathlib import Path

from . import charts


def section(heading, description, body):
    return f"<section><h2>{html.escape(heading)}</h2>\n<p class='quiet'>{html.escape(description)}</p>\n{body}\n</section>\n"


def table(head, rows):
    lines = ["<tr>" + "".join(f"<th>{html.escape(word)}</th>" for word in head) + "</tr>"]
    lines += ["<tr>" + "".join(f"<td>{html.escape(str(word))}</td>" for word in row) + "</tr>" for row in rows]
    return "<div class='wide'><table>" + "\n".join(lines) + "</table></div>"


def layers_text(rank):
    return "; ".join(f"{numbers[0]} to {numbers[-1]}" if numbers else "none" for numbers in rank["layers"])


def bytes_text(count):
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{count / size:.2f} {unit}"
    return f"{count} B"


def activities(ranks):
    """Shares of the recorded step's time, of each rank."""
    spans = [span for rank in ranks for span in rank["spans"]]
    if not spans:
        return ""
    total = max(span[4] for span in spans) - min(span[3] for span in spans) or 1
    used = [name for name in charts.ACTIVITIES if any(span[0] == name for span in spans)]
    rows = []
    for rank in ranks:
        shares = [sum(s[4] - s[3] for s in rank["spans"] if s[0] == name) / total for name in used]
        rows.append([rank["rank"], rank["device"], layers_text(rank), bytes_text(rank["memory_bytes"])] +
                    [f"{100 * share:.1f} %" for share in shares] + [f"{100 * max(0.0, 1 - sum(shares)):.1f} %"])
    return table(["rank", "device", "layers", "memory"] + [name.replace("_", ", ") for name in used] + ["other"], rows)


def page(facts, steps, ranks):
    unit = "GPU" if not facts["device"].startswith("processor") else "rank"
    title = f"{facts['model']} on {facts['ranks']} rank{'s' if facts['ranks'] > 1 else ''}"
    result = (f"final loss {facts['final_loss']:.6f}, {facts['tflops_per_gpu']:.4g} TFLOP/s per {unit}, "
              f"{facts['tokens_per_s']:.0f} tokens/s")
    rows = [(f"rank {rank['rank']}", "pipeline {}, data {}, tensor {}".format(*rank["place"]), rank["spans"]) for rank in ranks]
    first = steps[0]["step"]
    body = section("Loss", "Mean cross-entropy of each step's batch.",
                   charts.curve("loss by step", "loss, nats per token", first, [one["loss"] for one in steps]))
    body += section(f"TFLOP/s per {unit}", "Causal attention counts in full, recomputed activations do not count. The first step "
                    "connects and loads kernels.",
                    charts.curve("TFLOP/s by step", "TFLOP/s", first, [one["tflops_per_gpu"] for one in steps], True))
    clock = "CUDA events" if unit == "GPU" else "the clock"
    body += section("Timeline", f"The last step, by {clock}. Waits show how long the rank's computation was blocked by messages; "
                    "transfers beside computation are not shown. Hosts' clocks are taken to agree.", charts.timeline(rows))
    body += section("Time per activity", "Shares of the recorded step.", activities(ranks))
    links = [(one["from"], "its group" if one["to"] is None else one["to"], one["what"], one["carrier"],
              bytes_text(one["bytes_per_step"])) for one in facts["links"]]
    body += section("Links", "Bytes of one step, by sender; of all-reduces, the bytes that are summed.",
                    table(["from rank", "to rank", "what", "carried by", "bytes"], links))
    rows = "".join(f"<tr><th scope='row'>{html.escape(key.replace('_', ' '))}</th><td>{html.escape(str(value))}</td></tr>\n"
                   for key, value in facts.items() if key != "links" and value is not None)
    body += section("Configuration", "Model, data, layout and links of this run.", f"<table class='summary'>{rows}</table>")
    folder = Path(__file__).resolve().parent
    style = "".join(sheet.read_text(encoding="utf-8") for sheet in (folder.parents[1] / "style" / "page.css", folder / "report.css"))
    return (f"<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>\n<meta name='viewport' content='width=device-width, "
            f"initial-scale=1'>\n<meta name='color-scheme' content='light dark'>\n<title>{html.escape(title)}</title>\n"
            f"<style>{style}</style></head>\n<body><main>\n<h1>{html.escape(title)}</h1>\n<p class='result'>{html.escape(result)}</p>"
            f"\n{body}</main></body></html>\n")
