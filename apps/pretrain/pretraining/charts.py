"""Charts as SVG."""

import html
import math

WIDTH, RIGHT, TOP, BOTTOM = 1000, 16, 14, 46
ACTIVITIES = ("forward", "backward", "backward_input", "backward_weights", "receive wait", "send wait", "all-reduce", "update")


def ticks(low, high, wanted):
    span = high - low or max(abs(high), 1.0)
    power = 10 ** math.floor(math.log10(span / wanted))
    step = next((factor * power for factor in (1, 2, 5) if factor * power >= span / wanted * 0.999), 10 * power)
    first = math.floor(low / step)
    return [n * step for n in range(first, first + 3 * wanted + 3) if (n - 1) * step < high - 1e-9 * step]


def number(value):
    return "0" if abs(value) < 1e-300 else f"{value:.4g}"


def text(x, y, anchor, words, style=""):
    return f"<text x='{x:.1f}' y='{y:.1f}' text-anchor='{anchor}'{f' class={style!r}' if style else ''}>{html.escape(words)}</text>"


def curve(title, label, first, values, from_zero=False):
    """`values` of consecutive steps, from step `first` on."""
    if not values:
        return "<p class='quiet'>nothing was measured</p>"
    height, left, right = 300, 70, WIDTH - RIGHT
    bottom = height - BOTTOM
    marks = ticks(0 if from_zero else min(values), max(values), 5)
    low, high = min(marks[0], *values), max(marks[-1], *values)

    def y(value):
        return bottom - (value - low) / (high - low or 1) * (bottom - TOP)

    def x(index):
        return left + (index / (len(values) - 1) if len(values) > 1 else 0.5) * (right - left)

    svg = f"<svg viewBox='0 0 {WIDTH} {height}' role='img' aria-label='{html.escape(title)}'>"
    for mark in marks:
        svg += f"<path class='grid' d='M{left} {y(mark):.1f}H{right}'/>" + text(left - 8, y(mark) + 4, "end", number(mark))
    svg += (f"<text class='axis' transform='translate({left - 56} {(TOP + bottom) / 2:.1f}) rotate(-90)' text-anchor='middle'>"
            f"{html.escape(label)}</text><path class='frame' d='M{left} {bottom}H{right}'/>")
    for mark in ticks(first, first + len(values) - 1, 8):
        if mark == int(mark) and first <= mark < first + len(values):
            svg += text(x(mark - first), bottom + 18, "middle", number(mark))
    svg += text((left + right) / 2, height - 6, "middle", "step", "axis")
    points = "L".join(f"{x(k):.1f} {y(value):.1f}" for k, value in enumerate(values))
    return svg + f"<path class='curve joint' d='M{points}{'h0' if len(values) == 1 else ''}'/></svg>"


def legend(used):
    return "<p class='legend'>" + "".join(
        f"<span><svg class='key' viewBox='0 0 28 10'><rect class='a{k}' width='28' height='10'/></svg>{name.replace('_', ', ')}</span>"
        for k, name in enumerate(ACTIVITIES) if name in used) + "</p>"


def timeline(rows):
    """(name, place, spans) of each rank; spans as record.Record.take gives them."""
    spans = [span for _, _, of_rank in rows for span in of_rank]
    if not spans:
        return "<p class='quiet'>no step was recorded</p>"
    row_height, bar, left = 46, 26, 150
    begin, end = min(span[3] for span in spans), max(span[4] for span in spans)
    height = TOP + row_height * len(rows) + BOTTOM
    unit = (WIDTH - left - RIGHT) / (end - begin or 1)
    svg = f"<svg viewBox='0 0 {WIDTH} {height}' role='img' aria-label='activity of each rank over time'>"
    for mark in ticks(0, (end - begin) * 1e3, 10):
        if mark <= (end - begin) * 1e3:
            at = left + mark / 1e3 * unit
            svg += f"<path class='grid' d='M{at:.1f} {TOP}V{height - BOTTOM}'/>"
            svg += text(at, height - BOTTOM + 18, "middle", number(mark))
    svg += text(left + (WIDTH - left - RIGHT) / 2, height - 6, "middle", "time, ms", "axis")
    for k, (name, place, of_rank) in enumerate(rows):
        y = TOP + k * row_height
        svg += text(0, y + 17, "start", name, "strong") + text(0, y + 32, "start", place)
        svg += f"<rect class='idle' x='{left}' y='{y + 8}' width='{WIDTH - left - RIGHT}' height='{bar}'/>"
        for what, chunk, micro_batch, begun, ended in of_rank:
            detail = f", chunk {chunk}, micro-batch {micro_batch}" if micro_batch >= 0 else ""
            svg += (f"<rect class='a{ACTIVITIES.index(what)}' x='{left + (begun - begin) * unit:.2f}' y='{y + 8}' "
                    f"width='{max(0.3, (ended - begun) * unit):.2f}' height='{bar}'><title>{html.escape(name)}: {what}{detail}, "
                    f"{(ended - begun) * 1e3:.2f} ms</title></rect>")
    return svg + "</svg>" + legend({span[0] for span in spans})
