"""The colours of the tones, on light and on dark; Mermaid uses the light ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from calandria.plan.drawing.states import Tone


@dataclass(frozen=True)
class Paint:
    """The fill, outline and text colour of a tone."""

    fill: str
    stroke: str
    text: str


LIGHT: Mapping[Tone, Paint] = {
    Tone.PLAIN: Paint("#ffffff", "#64748b", "#0f172a"),
    Tone.DONE: Paint("#dcfce7", "#15803d", "#14532d"),
    Tone.ACTIVE: Paint("#dbeafe", "#1d4ed8", "#1e3a8a"),
    Tone.WAITING: Paint("#fef3c7", "#b45309", "#78350f"),
    Tone.FAILED: Paint("#fee2e2", "#b91c1c", "#7f1d1d"),
    Tone.REVERSED: Paint("#ede9fe", "#6d28d9", "#4c1d95"),
    Tone.QUIET: Paint("#f1f5f9", "#94a3b8", "#475569"),
}

DARK: Mapping[Tone, Paint] = {
    Tone.PLAIN: Paint("#1e293b", "#94a3b8", "#f1f5f9"),
    Tone.DONE: Paint("#14361f", "#4ade80", "#dcfce7"),
    Tone.ACTIVE: Paint("#172c54", "#60a5fa", "#dbeafe"),
    Tone.WAITING: Paint("#422c0b", "#fbbf24", "#fef3c7"),
    Tone.FAILED: Paint("#451a1d", "#f87171", "#fee2e2"),
    Tone.REVERSED: Paint("#2e1f57", "#a78bfa", "#ede9fe"),
    Tone.QUIET: Paint("#1b2432", "#64748b", "#a8b5c7"),
}

_SHAPES = """
.calandria-plan text{font-size:11px;font-family:\
ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
.calandria-plan .name{font-size:13px;font-weight:600}
.calandria-plan .heading{font-size:13px;font-weight:700}
.calandria-plan .target{opacity:.8}
.calandria-plan .box{stroke-width:1.4}
.calandria-plan .edge{fill:none;stroke-width:1.4}
.calandria-plan .dashed{stroke-dasharray:5 4}
.calandria-plan .far{stroke-dasharray:1 4}
"""


def style_sheet() -> str:
    """Return the style sheet of an SVG picture; it applies to nothing else on the page."""
    light = _rules(LIGHT, page="#ffffff", edge="#64748b", ground="#f8fafc")
    dark = _rules(DARK, page="#0f172a", edge="#94a3b8", ground="#152036")
    return f"{_SHAPES}{light}\n@media (prefers-color-scheme:dark){{\n{dark}\n}}\n"


def _rules(paints: Mapping[Tone, Paint], *, page: str, edge: str, ground: str) -> str:
    rules = [
        f".calandria-plan .page{{fill:{page}}}",
        f".calandria-plan .heading{{fill:{paints[Tone.PLAIN].text}}}",
        f".calandria-plan .edge{{stroke:{edge}}}",
        f".calandria-plan .head{{fill:{edge}}}",
    ]
    for tone, paint in paints.items():
        card = f".calandria-plan .{tone.value}"
        rules.append(f"{card}>.box{{fill:{paint.fill};stroke:{paint.stroke}}}")
        rules.append(f"{card}>text{{fill:{paint.text}}}")
        # what is inside a nested box must stand out from it
        rules.append(f"{card}.nested>.box{{fill:{ground}}}")
    rules.append(f".calandria-plan .plain.nested>text{{fill:{paints[Tone.PLAIN].text}}}")
    return "\n".join(rules)
