"""_io/prompt_asyncio.py: what goes on in the turn that reads an answer, and else in a later one."""

import asyncio

import pytest

from fencelock._io.prompt_asyncio import Answer, PromptFlow


def begin(flow):
    """Begin a flow; return its task."""
    loop = asyncio.get_running_loop()
    prompt = PromptFlow(loop, flow)
    prompt.go_on()
    task = loop.create_task(prompt.rest())
    task.add_done_callback(prompt.end)
    return task


def asked():
    """Return what a connection is to answer."""
    return Answer(asyncio.get_running_loop())


def read(answer, reply):
    """Do what a connection does with an answer."""
    if answer.set_result(reply):
        answer.wake()


def test_it_begins_at_once_and_goes_on_with_the_answer():
    async def work():
        seen, answer = [], asked()

        async def flow():
            seen.append("begun")
            seen.append(await answer)

        task = begin(flow())
        assert seen == ["begun"]
        read(answer, "answer")
        assert seen == ["begun", "answer"]
        await task

    asyncio.run(work())


def test_silence_reaches_it_in_a_turn_of_its_own():
    """What tells of it may be going through its table of requests."""

    async def work():
        seen, answer = [], asked()

        async def flow():
            with pytest.raises(ZeroDivisionError):
                await answer
            seen.append("silent")

        task = begin(flow())
        answer.set_exception(ZeroDivisionError())
        assert seen == []
        await task
        assert seen == ["silent"]

    asyncio.run(work())


@pytest.mark.parametrize("turns", [0, 1], ids=["before it began", "under way"])
def test_with_its_task_it_is_cancelled(turns):
    async def work():
        seen, answer = [], asked()

        async def flow():
            try:
                await answer
            except BaseException as error:
                seen.append(type(error))
                raise

        task = begin(flow())
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert seen == [asyncio.CancelledError if turns else GeneratorExit]
        if not answer.done():
            read(answer, "late")
        await asyncio.sleep(0)
        assert len(seen) == 1

    asyncio.run(work())


def test_a_task_goes_on_at_once_and_with_silence_or_a_cancellation_in_a_turn_of_its_own():
    async def work():
        seen = []

        async def ask(answer):
            try:
                seen.append(await answer)
            except BaseException as error:
                seen.append(type(error))
                raise

        for end, word in (
            (lambda answer, _: read(answer, "answer"), "answer"),
            (lambda answer, _: answer.set_exception(ZeroDivisionError()), ZeroDivisionError),
            (lambda _, task: task.cancel("why"), asyncio.CancelledError),
        ):
            answer = asked()
            task = asyncio.create_task(ask(answer))
            await asyncio.sleep(0)
            asyncio.get_running_loop().call_soon(end, answer, task)
            await asyncio.wait([task])
            assert seen.pop() == word
            assert answer.done()
            assert not answer.cancel()
            assert task.cancelled() == (word is asyncio.CancelledError)

    asyncio.run(work())


def test_where_a_task_runs_the_one_that_is_answered_waits_for_its_turn():
    """So it is in a loop that runs inside another one's task."""

    async def work():
        answer = asked()

        async def ask():
            return await answer

        task = asyncio.create_task(ask())
        await asyncio.sleep(0)
        read(answer, "answer")
        assert not task.done()
        assert await task == "answer"

    asyncio.run(work())


def test_what_ends_the_program_ends_the_loop_and_not_what_reads_the_answer():
    async def work():
        answer = asked()

        async def leave():
            await answer
            raise SystemExit(3)

        task = asyncio.create_task(leave())
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_soon(read, answer, "answer")
        try:
            await asyncio.Event().wait()
        finally:
            assert isinstance(task.exception(), SystemExit)

    with pytest.raises(SystemExit):
        asyncio.run(work())
