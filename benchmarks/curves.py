"""Line charts as SVG, one panel a subject, that need no colour to be read.

A panel draws its own lines black, told apart by dashes and by marks, and its neighbours' grey
behind them; a band is the range over repetitions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

Points = Sequence[tuple[float, float]]

PANEL_WIDTH, PANEL_HEIGHT = 300, 210
LEFT, RIGHT, TOP, BOTTOM = 50, 14, 26, 38
TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)
DASHES = ("", "6 3", "2 3", "9 3 2 3")
LEGEND_LINE = 16


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a panel.

    Attributes:
        label: what the legend calls it.
        points: (x, y) in the order of x, y from 0 to 1.
        band: (x, lowest y, highest y) in the order of x; empty draws none.
    """

    label: str
    points: Points
    band: Sequence[tuple[float, float, float]] = ()


@dataclass(frozen=True, slots=True)
class Panel:
    """One chart among several of the same scale.

    Attributes:
        title: what it is of.
        lines: drawn black, the first solid, the others dashed.
    """

    title: str
    lines: Sequence[Line]


def over_repetitions(label: str, curves: Sequence[Points]) -> Line:
    """The mean of several curves with their range, where all of them have been measured.

    Between its points a curve is taken as straight; the mean stands at every x of any curve.

    Args:
        label: of the line.
        curves: one a repetition, each in the order of x.
    """
    curves = [curve for curve in curves if curve]
    if len(curves) < 2:
        return Line(label, curves[0] if curves else ())
    first, last = max(c[0][0] for c in curves), min(c[-1][0] for c in curves)
    places = sorted({x for curve in curves for x, _ in curve if first <= x <= last})
    heights = [[_height(curve, x) for curve in curves] for x in places]
    return Line(
        label,
        [(x, sum(ys) / len(ys)) for x, ys in zip(places, heights, strict=True)],
        [(x, min(ys), max(ys)) for x, ys in zip(places, heights, strict=True)],
    )


def chart(
    panels: Sequence[Panel], *, title: str, x_label: str, y_label: str, columns: int = 3
) -> str:
    """The panels as one picture, all with the same axes.

    Args:
        panels: at least one.
        title: says above them what is seen.
        x_label: of the horizontal axes, with the unit.
        y_label: of the vertical ones, which go from 0 to 1.
        columns: panels side by side.
    """
    columns = max(1, min(columns, len(panels)))
    labels = list(dict.fromkeys(line.label for panel in panels for line in panel.lines))
    rows = -(-len(panels) // columns)
    head = 30 + LEGEND_LINE * len(labels)
    width, height = columns * PANEL_WIDTH, head + rows * PANEL_HEIGHT
    most = max((x for p in panels for line in p.lines for x, _ in line.points), default=1.0) or 1.0
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'font-family="sans-serif" font-size="11"><title>{escape(title)}</title>',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{LEFT}" y="20" font-size="14">{escape(title)}</text>',
    ]
    for number, label in enumerate(labels):
        y = 36 + LEGEND_LINE * number
        parts.append(_stroke([(LEFT, y), (LEFT + 34, y)], number))
        parts.append(_mark(LEFT + 17, y, number))
        parts.append(f'<text x="{LEFT + 42}" y="{y + 4}">{escape(label)}</text>')
    for number, panel in enumerate(panels):
        row, column = divmod(number, columns)
        others = [one.lines[0] for one in panels if one is not panel and one.lines]
        parts.append(
            f'<g transform="translate({column * PANEL_WIDTH},{head + row * PANEL_HEIGHT})">'
        )
        parts += _axes(panel.title, x_label, y_label, most)
        parts += [_stroke(_placed(line.points, most), 0, "#d0d0d0", 1.0) for line in others]
        for line in panel.lines:
            parts += _line(line, labels.index(line.label), most)
        parts.append("</g>")
    return "\n".join([*parts, "</svg>"]) + "\n"


def _height(curve: Points, x: float) -> float:
    """The curve at x, which lies between its ends."""
    before = max(point for point in curve if point[0] <= x)
    after = min(point for point in curve if point[0] >= x)
    if after[0] == before[0]:
        return before[1]
    return before[1] + (after[1] - before[1]) * (x - before[0]) / (after[0] - before[0])


def _placed(points: Points, most: float) -> list[tuple[float, float]]:
    width, height = PANEL_WIDTH - LEFT - RIGHT, PANEL_HEIGHT - TOP - BOTTOM
    return [(LEFT + width * x / most, PANEL_HEIGHT - BOTTOM - height * y) for x, y in points]


def _axes(title: str, x_label: str, y_label: str, most: float) -> list[str]:
    parts = [f'<text x="{LEFT}" y="{TOP - 9}" font-weight="bold">{escape(title)}</text>']
    for tick in TICKS:
        (_, y), (right, _) = _placed([(0.0, tick), (most, tick)], most)
        parts.append(
            f'<line x1="{LEFT}" x2="{right:.1f}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e8e8e8"/>'
            f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{tick:.2f}</text>'
        )
    step = _round_step(most)
    for number in range(int(most / step + 1e-9) + 1):
        ((x, low),) = _placed([(number * step, 0.0)], most)
        shown = _short(number * step)
        parts.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{low:.1f}" y2="{low + 4:.1f}" stroke="#444"/>'
            f'<text x="{x:.1f}" y="{low + 15:.1f}" text-anchor="middle">{shown}</text>'
        )
    middle = (LEFT + PANEL_WIDTH - RIGHT) / 2
    upright = (TOP + PANEL_HEIGHT - BOTTOM) / 2
    parts.append(
        f'<text x="{middle}" y="{PANEL_HEIGHT - 7}" text-anchor="middle">{escape(x_label)}</text>'
        f'<text transform="translate(12,{upright}) rotate(-90)" text-anchor="middle">'
        f"{escape(y_label)}</text>"
    )
    return parts


def _line(line: Line, style: int, most: float) -> list[str]:
    parts = []
    if line.band:
        lower = _placed([(x, low) for x, low, _ in line.band], most)
        upper = _placed([(x, high) for x, _, high in line.band], most)
        edge = " ".join(f"{x:.1f},{y:.1f}" for x, y in (*lower, *upper[::-1]))
        parts.append(f'<polygon points="{edge}" fill="#000" fill-opacity="0.13"/>')
    placed = _placed(line.points, most)
    parts.append(_stroke(placed, style))
    return parts + [_mark(x, y, style) for x, y in placed]


def _stroke(
    points: Sequence[tuple[float, float]], style: int, colour: str = "#000", width: float = 1.6
) -> str:
    dash = DASHES[style % len(DASHES)]
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return (
        f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}"{dashed}/>'
    )


def _mark(x: float, y: float, style: int) -> str:
    match style % len(DASHES):
        case 0:
            return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.2"/>'
        case 1:
            return (
                f'<rect x="{x - 2.2:.1f}" y="{y - 2.2:.1f}" width="4.4" height="4.4" '
                'fill="white" stroke="#000"/>'
            )
        case 2:
            return f'<path d="M{x:.1f},{y - 3:.1f} l3,5 h-6 z"/>'
    return f'<path d="M{x - 2.5:.1f},{y - 2.5:.1f} l5,5 m0,-5 l-5,5" stroke="#000"/>'


def _round_step(most: float) -> float:
    """A distance of ticks that people count in: three to six of them up to ``most``."""
    size = 10.0 ** math.floor(math.log10(most / 4))
    return next(size * factor for factor in (1, 2, 5, 10) if size * factor >= most / 5)


def _short(value: float) -> str:
    return f"{value / 1000:.3g}k" if value >= 1000 else f"{value:.3g}"
