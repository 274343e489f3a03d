"""The report as a picture: one small bar chart per workload, drawn by hand so that nothing else is needed."""

from collections.abc import Mapping
from html import escape
from typing import Any

WIDTH, LABEL, BAR, ROW, GAP, COLUMNS = 460, 190, 170, 18, 28, 2
STYLE = """
text { font: 12px system-ui, sans-serif; fill: #333 }
.title { font-weight: 600 } .bar { fill: #9db4c8 } .own { fill: #0c7a5b } .floor { fill: #d8d8d8 }
@media (prefers-color-scheme: dark) { text { fill: #ddd } .floor { fill: #555 } }
"""


def picture(report: Mapping[str, Any]) -> str:
    """Return the picture as SVG text."""
    heights = [0.0] * COLUMNS
    parts: list[str] = []
    for workload in report["workloads"].values():
        column = heights.index(min(heights))
        drawn, height = _chart(workload, report, column * WIDTH, heights[column])
        parts += drawn
        heights[column] += height + GAP
    size = f'width="{WIDTH * COLUMNS}" height="{max(heights):.0f}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="djqueue and its peers">'
    return "\n".join([head, f"<style>{STYLE}</style>", *parts, "</svg>"]) + "\n"


def _chart(workload: Mapping[str, Any], report: Mapping[str, Any], x: float, y: float) -> tuple[list[str], float]:
    entries = workload["contenders"]
    most = max((entry["value"]["median"] for entry in entries.values()), default=1) or 1
    hint = ", lower is better" if workload["better"] == "lower" else ""
    parts = [_text(x, y + 14, f"{workload['title']}, {workload['unit']}{hint}", "title")]
    for number, (name, entry) in enumerate(entries.items()):
        top = y + 24 + number * ROW
        value = entry["value"]["median"]
        kind = "own" if name == "djqueue" else "floor" if name in ("bare", "copy") else "bar"
        label = report["taking part"][name]["label"].partition(":")[0]
        length = max(1.0, BAR * value / most)
        parts += [
            _text(x, top + 12, "floor, COPY" if name == "copy" else label, ""),
            f'<rect class="{kind}" x="{x + LABEL}" y="{top + 2}" width="{length:.1f}" height="{ROW - 5}" rx="2"/>',
            _text(x + LABEL + length + 6, top + 12, f"{value:,.0f}" if value >= 100 else f"{value:.3g}", ""),
        ]
    return parts, 24 + len(entries) * ROW


def _text(x: float, y: float, words: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{escape(words)}</text>'
