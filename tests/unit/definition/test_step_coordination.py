"""Wrong declarations of coordination are found when a step's class is made, and name it."""

from __future__ import annotations

import pytest

from calandria import DefinitionError, Lock, Redacted, Semaphore, Step


def test_a_key_of_an_unknown_input_is_refused() -> None:
    with pytest.raises(DefinitionError, match=r"Charge: .*no input 'account'") as found:

        class Charge(Step):
            coordination = [Lock("k:{account}")]

            def run(self) -> None: ...

    assert found.value.step == "Charge"


def test_a_key_of_a_redacted_input_is_refused() -> None:
    with pytest.raises(DefinitionError, match=r"Charge: .*'token' is redacted"):

        class Charge(Step):
            token: Redacted[str]
            coordination = [Lock("k:{token}")]

            def run(self) -> None: ...


def test_one_key_as_a_lock_and_a_semaphore_is_refused() -> None:
    with pytest.raises(DefinitionError, match=r"Charge: .*both a lock's and a semaphore's"):

        class Charge(Step):
            coordination = [Lock("k"), Semaphore("k", 2)]

            def run(self) -> None: ...


def test_a_base_without_run_may_leave_the_inputs_of_its_keys_to_subclasses() -> None:
    class Guarded(Step):
        coordination = [Lock("k:{account}")]

    class Charge(Guarded):
        account: str

        def run(self) -> str:
            return self.account

    assert Charge.coordination == [Lock("k:{account}")]
