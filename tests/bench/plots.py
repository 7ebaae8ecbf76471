"""Line and bar plots as SVG files of their own: shapes, text and a style sheet that suits light and
dark, nothing from elsewhere. Needs nothing but Python."""

import html
import math

WIDTH, HEIGHT = 460, 300
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 12, 44
LEGEND_LINE = 18
COLOURS = ("#3b82c4", "#e07b39", "#3f9e5f", "#c9485b", "#8a6fc8", "#8f6d50", "#d070b0", "#7d8794")
STYLE = """<style>
svg{background:#fff;--dim:#5c5c5c;--line:#d8d8d8}
@media(prefers-color-scheme:dark){svg{background:#161616;--dim:#a8a8a8;--line:#3c3c3c}}
svg text{font:11px system-ui,sans-serif;fill:var(--dim)}
.grid{stroke:var(--line);stroke-width:.6}.axis{stroke:var(--dim);fill:none}
</style>
"""


def tick_step(low, high, count):
    """1, 2 or 5 times a power of ten, about `count` of them in the range."""
    rough = (high - low) / count
    power = 10 ** math.floor(math.log10(rough))
    return next((factor * power for factor in (1, 2, 5) if rough <= factor * power * 1.0001),
                10 * power)


def ticks(low, high, count):
    """(value, text) of each."""
    step = tick_step(low, high, count)
    digits = min(6, max(0, math.ceil(-math.log10(step) - 1e-9)))
    first, last = math.ceil(low / step - 1e-6), math.floor(high / step + 1e-6)
    return [(i * step, f"{i * step:.{digits}f}") for i in range(first, last + 1)]


def text(x, y, content, anchor="middle", more=""):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>'
            f"{html.escape(content)}</text>\n")


class Axes:
    def __init__(self, x_range, y_range):
        self.ranges = [(low, high) if high - low > 1e-9 * (1 + abs(high)) else
                       (low - 0.5, high + 0.5) for low, high in (x_range, y_range)]

    def x(self, value):
        low, high = self.ranges[0]
        return LEFT + (value - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    def y(self, value):
        low, high = self.ranges[1]
        return HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    def draw_x(self, label):
        out = text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, label)
        for value, name in ticks(*self.ranges[0], 6):
            x = self.x(value)
            out += f'<path class="grid" d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}"/>'
            out += text(x, HEIGHT - BOTTOM + 16, name)
        return out

    def draw_y(self, label):
        middle = (TOP + HEIGHT - BOTTOM) / 2
        out = text(12, middle, label, more=f' transform="rotate(-90 12 {middle:.1f})"')
        for value, name in ticks(*self.ranges[1], 5):
            y = self.y(value)
            out += f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>'
            out += text(LEFT - 6, y + 4, name, anchor="end")
        return out


def svg_file(height, label, content):
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
            f'aria-label="{html.escape(label)}">\n{STYLE}{content}'
            f'<path class="axis" d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}"/>\n</svg>\n')


def line_plot(x_label, y_label, series):
    """`series`: {name: [(x, y), ...]}."""
    xs, ys = ([point[i] for points in series.values() for point in points] or [0, 1]
              for i in (0, 1))
    axes = Axes((min(xs), max(xs)), (min(ys), max(ys)))
    out = axes.draw_x(x_label) + axes.draw_y(y_label)
    for i, (name, points) in enumerate(series.items()):
        colour = COLOURS[i % len(COLOURS)]
        places = [(axes.x(x), axes.y(y)) for x, y in points]
        for (x, y), (px, py) in zip(places, points):
            out += (f'<circle fill="{colour}" cx="{x:.1f}" cy="{y:.1f}" r="2.5">'
                    f"<title>{html.escape(name)}: {px:.4g}, {py:.4g}</title></circle>\n")
        path = " L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        if path:
            out += f'<path fill="none" stroke-width="1.8" stroke="{colour}" d="M{path}"/>\n'
        x = LEFT + i % 2 * (WIDTH - LEFT) / 2
        y = HEIGHT + i // 2 * LEGEND_LINE + 4
        out += f'<rect fill="{colour}" x="{x:.1f}" y="{y + 2}" width="14" height="4"/>'
        out += text(x + 20, y + 9, name, anchor="start")
    return svg_file(HEIGHT + (len(series) + 1) // 2 * LEGEND_LINE + 6, y_label, out)


def bar_plot(y_label, bars):
    """`bars`: [(name, value from 0 on), ...]."""
    axes = Axes((0, max(len(bars), 1)), (0, 1.1 * max([value for _, value in bars] or [1]) or 1))
    out = axes.draw_y(y_label)
    for i, (name, value) in enumerate(bars):
        left, middle, right, top = axes.x(i + 0.2), axes.x(i + 0.5), axes.x(i + 0.8), axes.y(value)
        out += text(middle, HEIGHT - BOTTOM + 16, name)
        out += (f'<rect fill="{COLOURS[i % len(COLOURS)]}" x="{left:.1f}" y="{top:.1f}" '
                f'width="{right - left:.1f}" height="{HEIGHT - BOTTOM - top:.1f}"/>')
        out += text(middle, top - 4, f"{value:.3g}")
    return svg_file(HEIGHT, y_label, out)
