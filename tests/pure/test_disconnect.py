"""contrib/asgi/disconnect.py: when a client that has gone ends the work for it."""

import asyncio

import pytest

from fencelock.contrib.asgi.disconnect import CancelOnDisconnect

REQUEST, GONE = {"type": "http.request", "body": b""}, {"type": "http.disconnect"}
START, BODY = {"type": "http.response.start"}, {"type": "http.response.body"}
PART = BODY | {"more_body": True}


def ends(asked, answers):
    """Return how work ends that sends these answers, and then goes on while its client goes.

    The client goes once the answers are sent; work that is not cancelled ends by itself.
    """
    ended = []

    async def exchange():
        incoming, sent = asyncio.Queue(), []
        for message in asked:
            incoming.put_nowait(message)

        async def app(_scope, receive, send):
            try:
                while (await receive()).get("more_body", False):
                    pass
                for each in answers:
                    await send(each)
                incoming.put_nowait(GONE)
                told = await receive()  # it says so when the client has gone
                for _ in range(20):
                    await asyncio.sleep(0)
                ended.append(told["type"])
            except asyncio.CancelledError:
                ended.append("cancelled")
                raise

        async def send(message):
            sent.append(message)

        await asyncio.wait_for(
            CancelOnDisconnect(app)({"type": "http"}, incoming.get, send), timeout=8
        )
        assert sent == answers

    asyncio.run(exchange())
    (how,) = ended
    return how


@pytest.mark.parametrize(
    "asked", [[REQUEST], [REQUEST | {"more_body": True}, REQUEST], [REQUEST | {"more_body": False}]]
)
@pytest.mark.parametrize("answers", [[], [START], [START, PART]])
def test_work_without_a_whole_answer_is_cancelled(asked, answers):
    assert ends(asked, answers) == "cancelled"


def test_work_after_the_whole_answer_goes_on():
    assert ends([REQUEST], [START, PART, BODY]) == "http.disconnect"
