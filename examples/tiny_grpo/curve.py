"""A run's reward curve as a small SVG picture."""

from collections.abc import Sequence

WIDTH, HEIGHT, MARGIN = 640, 280, 40
CHANCE = 0.25
SMOOTHED_OVER = 5
_INK, _FAINT, _LINE = "#334155", "#cbd5e1", "#2563eb"


def draw_curve(rewards: Sequence[float], *, title: str) -> str:
    """Mean reward of each step as dots, its mean over the last `SMOOTHED_OVER` steps as a line."""
    smooth = [_mean(rewards[max(0, i + 1 - SMOOTHED_OVER) : i + 1]) for i in range(len(rewards))]
    n = max(len(rewards) - 1, 1)
    line = " ".join(f"{_x(i, n):.1f},{_y(value):.1f}" for i, value in enumerate(smooth))
    dots = "".join(f'<circle cx="{_x(i, n):.1f}" cy="{_y(v):.1f}" r="1.5"/>' for i, v in enumerate(rewards))
    marks = "".join(_mark(value, label) for value, label in ((0.0, "0"), (CHANCE, "chance"), (0.5, "0.5"), (1.0, "1")))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">'
        f'<rect width="100%" height="100%" fill="white"/><g font-size="11" fill="{_INK}">{marks}'
        f'<text x="{WIDTH / 2}" y="{HEIGHT - 10}" text-anchor="middle">step (0 to {len(rewards) - 1})</text>'
        f'<text x="{WIDTH / 2}" y="18" text-anchor="middle" font-size="13">{title}</text></g>'
        f'<g fill="{_FAINT}">{dots}</g>'
        f'<polyline points="{line}" fill="none" stroke="{_LINE}" stroke-width="2"/></svg>\n'
    )


def _mark(value: float, label: str) -> str:
    y = _y(value)
    return (
        f'<line x1="{MARGIN}" x2="{WIDTH - 10}" y1="{y}" y2="{y}" stroke="{_FAINT}" stroke-dasharray="3 3"/>'
        f'<text x="{MARGIN - 6}" y="{y + 4}" text-anchor="end">{label}</text>'
    )


def _x(index: int, last: int) -> float:
    return MARGIN + (WIDTH - 10 - MARGIN) * index / last


def _y(value: float) -> float:
    return HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * value


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
