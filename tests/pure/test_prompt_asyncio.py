"""_io/prompt_asyncio.py: a flow goes on in the turn that reads an answer, and else in a task."""

import asyncio

import pytest

from fencelock._io.prompt_asyncio import AtOnce, PromptFlow


class Connection:
    """Attaches to the futures that it made; ``answer`` is what reading bytes does."""

    def __init__(self):
        self.slots = {}

    def ask(self):
        future = asyncio.get_running_loop().create_future()
        self.slots[future] = None
        return future

    def attach(self, waited, resume):
        if waited not in self.slots:
            return False
        self.slots[waited] = AtOnce(waited, resume)
        return True

    def begin(self, flow):
        prompt = PromptFlow(asyncio.get_running_loop(), flow, self.attach)
        prompt.go_on()
        task = asyncio.create_task(prompt.rest())
        task.add_done_callback(prompt.end)
        return task

    @property
    def slot(self):
        (slot,) = self.slots.values()
        return slot


def test_it_begins_at_once_and_goes_on_with_the_answer():
    async def work():
        seen, connection = [], Connection()

        async def flow():
            seen.append("begun")
            seen.append(await connection.ask())

        task = connection.begin(flow())
        assert seen == ["begun"]
        connection.slot.set_result("answer")
        assert seen == ["begun", "answer"]
        await task

    asyncio.run(work())


def test_silence_reaches_it_in_a_turn_of_its_own():
    """What tells of it may be going through its table of requests."""

    async def work():
        seen, connection = [], Connection()

        async def flow():
            with pytest.raises(ZeroDivisionError):
                await connection.ask()
            seen.append("silent")

        task = connection.begin(flow())
        connection.slot.set_exception(ZeroDivisionError())
        assert seen == []
        await task
        assert seen == ["silent"]

    asyncio.run(work())


@pytest.mark.parametrize("turns", [0, 1], ids=["before it began", "under way"])
def test_with_its_task_it_is_cancelled(turns):
    async def work():
        seen, connection = [], Connection()

        async def flow():
            try:
                await connection.ask()
            except BaseException as error:
                seen.append(type(error))
                raise

        task = connection.begin(flow())
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert seen == [asyncio.CancelledError if turns else GeneratorExit]
        if not connection.slot.done():
            connection.slot.set_result("late")
        await asyncio.sleep(0)
        assert len(seen) == 1

    asyncio.run(work())
