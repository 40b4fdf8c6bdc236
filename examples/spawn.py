"""Spawned units: dispatched once, on their own; a step that uses their result waits for it."""

from __future__ import annotations

from calandria import Dispatched, Failure, Reactor, Runtime, Success, fail, spawn, step

mails: list[str] = []


def send_mail(to: str) -> str:
    if "@" not in to:
        fail(f"{to} is no address")
    mails.append(to)
    return f"sent to {to}"


class ScoreRisk(Reactor):
    customer: str

    @step
    def score(*, customer: str) -> int:
        if customer == "unknown":
            fail("nobody knows this customer")
        return 7 * len(customer)


class SignUp(Reactor):
    customer: str
    to: str

    # Nobody reads its result: whatever becomes of it, the sign-up goes on.
    mail = spawn(send_mail)
    risk = spawn(ScoreRisk)

    # Reads the result, so it waits: it gets the value, or the failure itself.
    @step
    def decide(*, risk: int | Failure) -> str:
        if isinstance(risk, Failure):
            return f"to be looked at: {risk.error}"
        return "welcome" if risk < 50 else "refused"

    background = True


def outcome(customer: str, to: str) -> tuple[object, list[str]]:
    """Return what the run came to, and the statuses of the units it spawned."""
    dispatched = SignUp.run(customer=customer, to=to)
    assert isinstance(dispatched, Dispatched)
    run = SignUp.find(dispatched.run_id)
    result = run.wait(timeout=10)
    for unit in run.children:
        unit.wait(timeout=10)
    return result, sorted(unit.status.value for unit in run.children)


def main(runtime: Runtime) -> None:
    worker = runtime.start_worker(threads=2)

    result, units = outcome("Ada", "ada@example.com")
    print(result, units)
    assert (result, units) == (Success("welcome"), ["completed", "completed"])
    assert mails == ["ada@example.com"]

    # A unit that fails is a value to who reads it, and nothing to its parent.
    result, units = outcome("unknown", "nowhere")
    print(result, units)
    assert result == Success("to be looked at: nobody knows this customer")
    assert units == ["failed", "failed"]
    assert mails == ["ada@example.com"]
    assert worker.stop(timeout=10)


if __name__ == "__main__":
    with Runtime(storage="memory://") as runtime:
        main(runtime)
