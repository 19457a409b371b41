"""Draws charts as SVG: plot.py FILE.json... DIR

Each FILE holds {"charts": [chart, ...]}; a chart becomes DIR/<name>.svg:

    {"name": "growth_delayed", "title": "Promotion beside delayed jobs", "kind": "line",
     "x": {"label": "delayed jobs", "log": true}, "y": {"label": "jobs/s"},
     "series": [{"name": "sidecar", "points": [[10000, 480000], [100000, 470000]]}]}

    {"name": "peers_rate", "title": "Promotion of 200,000 due jobs", "kind": "bar", "y": {"label": "jobs/s", "log": true},
     "categories": ["sidecar", "asynq"], "series": [{"name": "rate", "values": [480000, 150000]}]}

A label ends with its unit. A value of null leaves a gap. "marked" may name a category that stands out. The picture follows the
viewer's light or dark theme.
"""
import html
import json
import math
import pathlib
import sys

WIDTH, HEIGHT = 760, 380
LEFT, RIGHT, TOP, BOTTOM = 86, 20, 64, 62
DASHES = ("none", "7 4", "2 3", "10 3 2 3", "4 2", "1 2")
SERIES = 6  # then the colors begin again
LIGHT = {"bg": "#ffffff", "ink": "#1f2328", "dim": "#59636e", "grid": "#d1d9e0", "c0": "#0b63c5", "c1": "#bc4c00",
         "c2": "#1a7f37", "c3": "#8250df", "c4": "#9a6700", "c5": "#bf3989"}
DARK = {"bg": "#0d1117", "ink": "#f0f6fc", "dim": "#9198a1", "grid": "#3d444d", "c0": "#58a6ff", "c1": "#f0883e",
        "c2": "#3fb950", "c3": "#bc8cff", "c4": "#d29922", "c5": "#f778ba"}


def colors(theme):
    """Rules for class="c0" (filled) and class="line c0". Plain colors, because not every viewer of SVG knows variables."""
    return " ".join(f".{name} {{ fill: {color}; }} .line.{name} {{ fill: none; stroke: {color}; }}" for name, color in theme.items())


STYLE = f"""
{colors(LIGHT)}
@media (prefers-color-scheme: dark) {{ {colors(DARK)} }}
text {{ font: 13px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; }}
.title {{ font-size: 16px; font-weight: 600; }}
.dim {{ font-size: 12px; }}
.mark {{ font-size: 12px; font-weight: 700; }}
"""


def short(value):
    """A number of a scale, such as 10k or 0.5."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"


class Scale:
    """Maps the values of one axis to a range of pixels."""

    def __init__(self, values, log, pixels, zero):
        self.log = log
        self.first, self.last = pixels
        low, high = min(values), max(values)
        if log and low <= 0:
            raise ValueError("a logarithmic axis needs values above 0")
        if log:
            self.low, self.high = math.floor(math.log10(low) + 1e-9), math.ceil(math.log10(high) - 1e-9)
            self.high = max(self.high, self.low + 1)
            decades = range(self.low, self.high + 1)
            self.ticks = [10.0**power for power in decades[:: max(1, len(decades) // 8)]]
            return
        low = min(low, 0) if zero else low
        step = 10 ** math.floor(math.log10((high - low or abs(high) or 1) / 4))
        step *= next(factor for factor in (1, 2, 5, 10) if (high - low) / (step * factor) <= 6)
        self.low = math.floor(low / step + 1e-9) * step
        self.high = max(math.ceil(high / step - 1e-9) * step, self.low + step)
        self.ticks = [self.low + i * step for i in range(round((self.high - self.low) / step) + 1)]

    def at(self, value):
        place = math.log10(value) if self.log else value
        return self.first + (place - self.low) / (self.high - self.low) * (self.last - self.first)


class Picture:
    def __init__(self, chart):
        self.parts = []
        self.chart = chart

    def text(self, x, y, text, anchor="start", kind="ink", turn=False):
        turn = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turn else ""
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}"{turn}>{html.escape(text)}</text>')

    def line(self, x1, y1, x2, y2, color="grid", width=1.0, dash="none"):
        self.parts.append(
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke-width="{width}" '
            f'stroke-dasharray="{dash}" class="line {color}"/>'
        )

    def axis_y(self, scale):
        for tick in scale.ticks:
            self.line(LEFT, scale.at(tick), WIDTH - RIGHT, scale.at(tick))
            self.text(LEFT - 8, scale.at(tick) + 4, short(tick), "end", "dim")
        self.text(22, (TOP + HEIGHT - BOTTOM) / 2, self.chart["y"]["label"], "middle", turn=True)

    def legend(self):
        x = LEFT
        for i, series in enumerate(self.chart["series"]):
            if len(self.chart["series"]) == 1:
                return
            self.line(x, 46, x + 24, 46, f"c{i % SERIES}", 3, DASHES[i % SERIES] if self.chart["kind"] == "line" else "none")
            self.text(x + 30, 50, series["name"])
            x += 52 + 7.2 * len(series["name"])

    def svg(self):
        title = html.escape(self.chart["title"])
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
            f'role="img" aria-label="{title}">\n<title>{title}</title>\n<style>{STYLE}</style>\n'
            f'<rect width="{WIDTH}" height="{HEIGHT}" class="bg"/>\n' + "\n".join(self.parts) + "\n</svg>\n"
        )


def draw_line(picture):
    chart = picture.chart
    points = [point for series in chart["series"] for point in series["points"] if point[1] is not None]
    x = Scale([point[0] for point in points], chart["x"].get("log"), (LEFT, WIDTH - RIGHT - 12), False)
    y = Scale([point[1] for point in points], chart["y"].get("log"), (HEIGHT - BOTTOM, TOP), True)
    picture.axis_y(y)
    for tick in x.ticks:
        picture.line(x.at(tick), HEIGHT - BOTTOM, x.at(tick), HEIGHT - BOTTOM + 5, "dim")
        picture.text(x.at(tick), HEIGHT - BOTTOM + 20, short(tick), "middle", "dim")
    picture.text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 14, chart["x"]["label"], "middle")
    for i, series in enumerate(chart["series"]):
        places = [(x.at(a), y.at(b)) for a, b in series["points"] if b is not None]
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in places)
        picture.parts.append(
            f'<polyline points="{path}" stroke-width="2.5" stroke-dasharray="{DASHES[i % SERIES]}" '
            f'class="line c{i % SERIES}"/>'
        )
        for a, b in places:
            picture.parts.append(f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3.5" class="c{i % SERIES}"/>')


def draw_bar(picture):
    chart = picture.chart
    values = [value for series in chart["series"] for value in series["values"] if value is not None]
    y = Scale(values, chart["y"].get("log"), (HEIGHT - BOTTOM, TOP), True)
    picture.axis_y(y)
    room = (WIDTH - LEFT - RIGHT) / len(chart["categories"])
    width = min(70.0, 0.76 * room / len(chart["series"]))
    base = y.at(y.ticks[0] if y.log else max(0, y.low))
    for c, category in enumerate(chart["categories"]):
        middle = LEFT + (c + 0.5) * room
        kind = "mark c0" if category == chart.get("marked") else "dim"
        for line, word in enumerate(category.split()):
            picture.text(middle, HEIGHT - BOTTOM + 20 + 16 * line, word, "middle", kind)
        for i, series in enumerate(chart["series"]):
            value = series["values"][c]
            if value is None:
                continue
            left, top = middle + (i - len(chart["series"]) / 2) * width, y.at(value)
            picture.parts.append(
                f'<rect x="{left + 1:.1f}" y="{min(top, base):.1f}" width="{width - 2:.1f}" '
                f'height="{max(abs(base - top), 1):.1f}" class="c{i % SERIES}"/>'
            )
            picture.text(left + width / 2, min(top, base) - 5, short(float(f"{value:.3g}")), "middle", "dim")


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    out = pathlib.Path(sys.argv[-1])
    out.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[1:-1]:
        for chart in json.loads(pathlib.Path(name).read_text(encoding="utf-8"))["charts"]:
            picture = Picture(chart)
            picture.text(LEFT, 26, chart["title"], kind="ink title")
            (draw_line if chart["kind"] == "line" else draw_bar)(picture)
            picture.legend()
            (out / f"{chart['name']}.svg").write_text(picture.svg(), encoding="utf-8")


if __name__ == "__main__":
    main()
