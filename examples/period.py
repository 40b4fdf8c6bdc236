"""Once per period: an invoice per customer and month, whoever asks and however often."""

from __future__ import annotations

from calandria import Failure, Halt, Lock, Period, Reactor, Runtime, Step, Success, fail, step

sent: list[str] = []


class SendInvoice(Step):
    customer: str

    # With a lock it is strictly once: without, two that begin together both find no mark.
    coordination = [Period("invoice:{customer}", every="month"), Lock("invoice:{customer}")]

    def run(self) -> str:
        sent.append(self.customer)
        return f"invoice for {self.customer}"

    def undo(self, result: str) -> None:
        sent.remove(self.customer)


class CloseMonth(Reactor):
    customer: str
    ledger: str = "open"

    invoice = step(SendInvoice)

    @step
    def book(*, invoice: str | None, ledger: str) -> str:
        if ledger == "closed":
            fail("the ledger is closed")
        return invoice or "invoiced before"


class Report(Reactor):
    """On a reactor: a second run ends before its first step."""

    coordination = [Period("report", every="day")]

    @step
    def write() -> str:
        return "report"


def main() -> None:
    # A failure later on undoes the invoice, and takes the mark away with it.
    failed = CloseMonth.run(customer="ada", ledger="closed")
    assert isinstance(failed, Failure) and sent == []

    first = CloseMonth.run(customer="ada")
    # The step is skipped, the run goes on.
    second = CloseMonth.run(customer="ada")
    print(first, second, sent)
    assert first == Success("invoice for ada")
    assert second == Success("invoiced before")
    assert sent == ["ada"]

    assert Report.run() == Success("report")
    again = Report.run()
    print(again)
    assert again == Halt("period")

    # Undone by hand, it may be done once more in this period.
    assert first.run_id is not None
    CloseMonth.undo(first.run_id)
    assert CloseMonth.run(customer="ada") == Success("invoice for ada")


if __name__ == "__main__":
    with Runtime(storage="memory://"):
        main()
