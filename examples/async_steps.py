"""Async: `arun` from async code, `run` from sync code, sync and async steps mixed in both."""

from __future__ import annotations

import asyncio

from calandria import Failure, Reactor, Runtime, Step, Success, fail, step

diary: list[str] = []


class Fetch(Step):
    url: str

    async def run(self) -> str:
        await asyncio.sleep(0)
        diary.append(f"fetched {self.url}")
        return f"page of {self.url}"

    async def undo(self, result: str) -> None:
        await asyncio.sleep(0)
        diary.append(f"forgot {result}")


class Parse(Step):
    """A sync step: under `arun` it runs in a thread, and does not block the loop."""

    page: str

    def run(self) -> str:
        diary.append("parsed off the loop" if not _on_a_loop() else "parsed on the loop")
        if "bad" in self.page:
            fail("the page cannot be parsed")
        return self.page.upper()


class Crawl(Reactor):
    url: str

    fetch = step(Fetch)
    parse = step(Parse, page=fetch)


def _on_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def main_async() -> None:
    # Runs in flight share the loop and take no thread each.
    results = await asyncio.gather(*(Crawl.arun(url=f"site-{n}") for n in range(5)))
    assert results[4] == Success("PAGE OF SITE-4")

    diary.clear()
    result = await Crawl.arun(url="bad-site")
    print(result, diary)
    assert isinstance(result, Failure) and result.step == "parse"
    assert diary == ["fetched bad-site", "parsed off the loop", "forgot page of bad-site"]


def main() -> None:
    asyncio.run(main_async())

    diary.clear()
    result = Crawl.run(url="site")
    print(result, diary)
    assert result == Success("PAGE OF SITE")


if __name__ == "__main__":
    with Runtime(storage="memory://"):
        main()
