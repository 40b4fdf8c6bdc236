"""Contracts: pydantic checks inputs before and results after; `Redacted` keeps secrets out."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

from calandria import Failure, Reactor, Redacted, Runtime, Step, Success, runs, step


class Address(BaseModel):
    street: str
    zip_code: Annotated[str, Field(pattern=r"^\d{5}$")]


class Register(Step):
    name: str
    address: Address
    age: Annotated[int, Field(ge=18)] = 18
    password: Redacted[str]

    # The return annotation is a contract too.
    def run(self) -> Annotated[str, Field(max_length=20)]:
        return f"{self.name} of {self.address.street}"


class SignUp(Reactor):
    name: str
    address: Address
    password: Redacted[str]

    register = step(Register)


def main() -> None:
    home = Address(street="Main St", zip_code="12345")
    result = SignUp.run(name="Ada", address=home, password="swordfish")
    assert result == Success("Ada of Main St")

    # Invalid inputs of a reactor are a failure without a run: nothing is recorded.
    result = SignUp.run(name="Ada", address={"street": "Main St"}, password=42)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    print(result)
    assert isinstance(result, Failure) and result.run_id is None
    assert sorted(result.validation_errors) == ["address", "password"]
    assert len(list(runs(reactor=SignUp))) == 1

    # A result that breaks its contract fails the step, and the run rolls back.
    result = SignUp.run(name="Ada the Countess", address=home, password="swordfish")
    print(result)
    assert isinstance(result, Failure) and result.step == "register"

    # The secret is in the journal, to be able to go on after a crash, and nowhere else.
    print(result.inputs)
    assert result.inputs["password"] == "[REDACTED]"
    assert "swordfish" not in repr(result)


if __name__ == "__main__":
    with Runtime(storage="memory://"):
        main()
