"""What the failure of a step that was called on its own tells: where, on what, how often."""

from __future__ import annotations

from typing import Any

from calandria import Failure, Redacted, Step, fail

SECRET = "tok-4711-secret"


class Charge(Step):
    amount: int
    token: Redacted[str]
    how: str = "fail"

    def run(self) -> int:
        if self.how == "fail":
            fail(f"refused {self.token}", retryable=False)
        if self.how == "raise":
            raise ValueError(f"refused {self.token}")
        return "many"  # type: ignore[return-value]

    def undo(self, result: object) -> None:
        raise LookupError(f"cannot void {self.token}")


class Around(Step):
    def run(self) -> Any:
        return self.context.call(Charge, amount=1, token=SECRET)


def told(result: object) -> tuple[str | None, dict[str, Any], int]:
    assert isinstance(result, Failure)
    assert SECRET not in result.error
    assert not any(SECRET in line for line in result.traceback)
    return result.step, dict(result.inputs), result.attempts


def test_a_failed_call_names_its_step_its_inputs_and_its_one_attempt() -> None:
    for how in ("fail", "raise", "return"):
        inputs = {"amount": 1, "token": "[REDACTED]", "how": how}
        assert told(Charge.call(amount=1, token=SECRET, how=how)) == ("Charge", inputs, 1)


def test_invalid_inputs_are_told_redacted_and_count_no_attempt() -> None:
    inputs = {"amount": "many", "token": "[REDACTED]"}
    found = Charge.call(amount="many", token=SECRET)  # type: ignore[arg-type]
    assert told(found) == ("Charge", inputs, 0)


def test_a_failed_undo_on_its_own_is_told_like_a_run() -> None:
    inputs = {"amount": 1, "token": "[REDACTED]", "how": "fail"}
    found = Charge.call_undo(None, amount=1, token=SECRET)
    assert told(found) == ("Charge", inputs, 1)
    assert isinstance(found, Failure) and found.error == "cannot void [REDACTED]"


def test_a_failure_handed_on_keeps_the_step_it_began_in() -> None:
    inputs = {"amount": 1, "token": "[REDACTED]", "how": "fail"}
    found = Around.call()
    assert told(found) == ("Charge", inputs, 1)
    assert isinstance(found, Failure) and not found.retryable
