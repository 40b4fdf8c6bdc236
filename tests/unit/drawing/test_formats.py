from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calandria.plan.drawing import draw
from calandria.plan.drawing.scene import TIMES, cells
from calandria.plan.model import Plan
from calandria.statuses import StepRollback, StepStatus
from tests.unit.drawing.plans import THREE, TRIP, chain_to_last, node, plan, plans

SVG = "{http://www.w3.org/2000/svg}"
FORMATS = ("text", "mermaid", "svg")
NASTY = "a\"<b>&'\\]]> #1; `x` \n\t\x00\ud800\u202e"


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def card_class(svg: str, path: str) -> set[str]:
    for group in ElementTree.fromstring(svg).iter(f"{SVG}g"):
        title = group.find(f"{SVG}title")
        if title is not None and (title.text or "").split(" · ")[0] == path:
            return set(group.attrib["class"].split())
    raise AssertionError(f"no card for {path}")


def test_text_shows_three_steps_from_top_to_bottom() -> None:
    assert draw(THREE, "text") == TEXT_OF_THREE


TEXT_OF_THREE = """\
shop:Checkout

                    ┌───────────────┐
                    │   validate    │
                    │ ValidateOrder │
                    └─────┬───┬─────┘
                          │   ┊
                 ┌────────┘   └┄┄┄┄┄┄┄┐
                 ▼                    ┊
┌─────────────────────────────────┐   ┊
│             charge              │   ┊
│ 3 attempts · compensate · undo  │   ┊
└────────────────┬────────────────┘   ┊
                 │                    ┊
                 └─────────┐          ┊
                           ├┄┄┄┄┄┄┄┄┄┄┘
                           ▼
                      ┌┄┄┄┄┄┄┄┄┄┐
                      ┊ receipt ┊
                      ┊  when   ┊
                      └┄┄┄┄┄┄┄┄┄┘
"""


def test_svg_shows_what_each_step_is_and_can_do() -> None:
    found = texts(draw(THREE, "svg"))
    assert found[:3] == ["shop:Checkout", "validate", "ValidateOrder"]
    assert "3 attempts · compensate · undo" in found
    assert found[-2:] == ["receipt", "when"]


def test_conditional_boxes_and_edges_without_data_are_dashed() -> None:
    svg = draw(THREE, "svg")
    assert svg.count('class="box dashed"') == 1
    assert svg.count('class="edge dashed"') == 2  # one link, past one layer
    assert "n0 -.-> n2" in draw(THREE, "mermaid")
    assert "n1 --> n2" in draw(THREE, "mermaid")


def test_nested_reactors_stand_inside_their_box() -> None:
    svg = ElementTree.fromstring(draw(TRIP, "svg"))
    nested = [g for g in svg.iter(f"{SVG}g") if "nested" in g.attrib.get("class", "")]
    assert len(nested) == 2
    for group in nested:
        assert {"search", "confirm"} <= {t.text for t in group.iter(f"{SVG}text")}
    assert draw(TRIP, "mermaid").count("subgraph") == 2


def test_maps_are_stacked_and_marked() -> None:
    svg = draw(TRIP, "svg")
    assert f"lines {TIMES} n" in texts(svg) and f"fees {TIMES} n" in texts(svg)
    assert svg.count('class="box"') == 1 + 1 + 3 + 3 + 1 + 4  # three sheets each for two maps
    text = draw(TRIP, "text")
    assert text.count("╔") == 2
    assert f'[["<b>fees {TIMES} n</b>' in draw(TRIP, "mermaid")


@pytest.mark.parametrize("status", [*StepStatus, *(s for s in StepRollback if s.value != "none")])
def test_every_status_shows_as_a_word_and_a_colour(status: StepStatus | StepRollback) -> None:
    statuses = {"charge": status.value}
    word = status.value.replace("_", " ")
    svg = draw(THREE, "svg", statuses)
    assert any(text.endswith(f" {word}") for text in texts(svg))
    assert not card_class(svg, "charge") & {"plain"}
    assert re.search(rf"[✓✗▶↻■↶!…-] {word}", draw(THREE, "text", statuses))
    mermaid = draw(THREE, "mermaid", statuses)
    tone = re.search(r"class n1 (\w+)", mermaid)
    assert tone and f"classDef {tone[1]} " in mermaid


def test_statuses_go_by_path() -> None:
    statuses = {"booking": "failed", "booking/search": "undone", "booking/confirm": "compensated"}
    svg = draw(TRIP, "svg", statuses)
    assert "failed" in card_class(svg, "booking")
    assert "reversed" in card_class(svg, "booking/search")
    assert "quiet" in card_class(svg, "lines[]/search")


def test_elements_of_a_map_are_counted_by_state_worst_first() -> None:
    statuses = {"lines": "undoing", "lines[0]": "undone", "lines[1]": "undo_failed"}
    statuses |= {f"lines[{number}]/search": "completed" for number in range(12)}
    found = texts(draw(TRIP, "svg", statuses))
    assert "… undoing: 1 undo failed · 1 undone" in found
    assert "✓ 12 completed" in found


def test_an_unknown_or_empty_status_is_no_obstacle() -> None:
    statuses = {"validate": "", "charge": "brand_new", "not/there[3]": "failed"}
    assert "? brand new" in texts(draw(THREE, "svg", statuses))
    assert "? brand new" in draw(THREE, "text", statuses)


def test_a_run_that_reached_nothing_is_quieter_than_a_plan_without_a_run() -> None:
    assert "plain" in card_class(draw(THREE, "svg"), "charge")
    assert "quiet" in card_class(draw(THREE, "svg", {}), "charge")


@given(st.text(max_size=60), st.text(max_size=60), st.text(max_size=60))
def test_svg_is_well_formed_whatever_the_names(name: str, target: str, status: str) -> None:
    odd = plan(node(name, target=target), reactor=target)
    root = ElementTree.fromstring(draw(odd, "svg", {name: status}))
    assert root.tag == f"{SVG}svg"
    assert draw(odd, "text").encode()


def test_mermaid_names_cannot_break_out_of_their_label() -> None:
    odd = Plan(NASTY, (node(NASTY, target=NASTY), node("plain")), "plain")
    lines = draw(odd, "mermaid", {NASTY: NASTY}).splitlines()
    label = next(line for line in lines if line.strip().startswith("n0["))
    inside = label.strip().removeprefix('n0["').removesuffix('"]')
    assert not set(re.sub(r"#\d+;|</?b>|<br/>", "", inside)) & set('"#<>`[];')
    assert lines[0] == "flowchart TD"
    assert lines[1].startswith('    accTitle: a"<b>') and not set("#;") & set(lines[1])


@pytest.mark.parametrize("format", FORMATS)
def test_long_and_wide_names_are_cut_to_fit(format: str) -> None:
    long = plan(node("x" * 500), node("長" * 300), reactor="y" * 400)
    picture = draw(long, format)  # type: ignore[arg-type]
    if format == "svg":
        assert all(cells(text) <= 80 for text in texts(picture))
        assert "x" * 500 in picture  # whole in the tooltip


@settings(max_examples=60)
@given(plans())
def test_svg_text_stays_inside_its_box(drawn: Plan) -> None:
    root = ElementTree.fromstring(draw(drawn, "svg", {"s0": "completed", "s1[0]": "failed"}))
    for group in root.iter(f"{SVG}g"):
        if "card" not in group.attrib.get("class", ""):
            continue
        box = group.findall(f"{SVG}rect")[-1].attrib
        left, top = float(box["x"]), float(box["y"])
        right, bottom = left + float(box["width"]), top + float(box["height"])
        for text in group.findall(f"{SVG}text"):
            advance = 8.0 if text.attrib["class"] == "name" else 6.7
            width = cells(text.text or "") * advance
            start = float(text.attrib["x"]) - (width / 2 if "text-anchor" in text.attrib else 0)
            assert left <= start and start + width <= right
            assert top + 10 < float(text.attrib["y"]) < bottom - 4


@settings(max_examples=60)
@given(plans())
def test_text_boxes_hold_every_name_unbroken(drawn: Plan) -> None:
    text = draw(drawn, "text")
    lines = text.splitlines()
    assert all(line == line.rstrip() for line in lines)
    for step in drawn.nodes:
        heading = rf"\b{step.name}{f' {TIMES} n' if step.kind.value == 'map' else ''}(?= |$)"
        assert any(re.search(heading, line) for line in lines[1:])


@settings(max_examples=40)
@given(plans(), st.sampled_from(FORMATS))
def test_the_same_plan_is_drawn_the_same(drawn: Plan, format: str) -> None:
    assert draw(drawn, format) == draw(drawn, format)  # type: ignore[arg-type]


@pytest.mark.parametrize("format", FORMATS)
def test_an_empty_plan_and_a_thousand_steps_can_be_drawn(format: str) -> None:
    assert "shop:Checkout" in draw(plan(), format)  # type: ignore[arg-type]
    picture = draw(chain_to_last(1000), format)  # type: ignore[arg-type]
    assert "s999" in picture and len(picture) < 2_000_000


def test_plans_too_wide_for_boxes_become_a_list_by_layer() -> None:
    wide = plan(*(node(f"step_number_{n}") for n in range(30)), node("end", "step_number_29"))
    lines = draw(wide, "text", {"end": "completed"}).splitlines()
    assert max(len(line) for line in lines) <= 120
    assert any(re.search(r"✓ end +completed +after step_number_29$", line) for line in lines)


def test_another_format_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"format='png'.*'text', 'mermaid', 'svg'"):
        draw(THREE, "png")  # type: ignore[arg-type]
