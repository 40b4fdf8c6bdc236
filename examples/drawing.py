"""Pictures: a reactor as text, Mermaid or SVG, and a run with its statuses."""

from __future__ import annotations

import tempfile
from pathlib import Path

from calandria import Reactor, Runtime, Step, compose, element, fail, inputs, map_each, step


class Reserve(Step):
    line: str

    def run(self) -> str:
        return self.line

    def undo(self, result: str) -> None:
        pass


class Pay(Reactor):
    amount: int

    @step
    def charge(*, amount: int) -> str:
        if amount > 100:
            fail("declined")
        return "paid"


class Checkout(Reactor):
    lines: list[str]
    amount: int

    reserve = map_each(Reserve, over=inputs.lines, line=element)
    payment = compose(Pay).after(reserve)

    @step
    def ship(*, payment: str, reserve: object) -> str:
        return "shipped"


def main(folder: Path) -> None:
    text = Checkout.draw("text")
    print(text)
    assert all(name in text for name in ("reserve", "payment", "charge", "ship"))

    mermaid = Checkout.draw("mermaid")
    assert mermaid.startswith("flowchart")

    result = Checkout.run(lines=["tea", "salt"], amount=500)
    assert not result.ok and result.run_id is not None
    run = Checkout.find(result.run_id)
    print(run.draw("text"))  # now with what became of each step

    picture = folder / "checkout.svg"
    picture.write_text(run.draw("svg"), encoding="utf-8")
    assert picture.read_text(encoding="utf-8").startswith("<svg")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary, Runtime(storage="memory://"):
        main(Path(temporary))
