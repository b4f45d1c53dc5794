"""What one client may hold of the server: the size of a message, and the time of a silent connection."""

import asyncio
from typing import Any

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

DRAINED = 30
"""Times the legal size of a body that is read, and thrown away, before it is answered."""


class Limits:
    """ASGI middleware: a body that is too large is 413, one that stalls is 408; a silent WebSocket is closed.

    Args:
        app: The application.
        size: Bytes of a body, characters of a message.
        silence: Seconds without a message.
    """

    def __init__(self, app: ASGIApp, size: int, silence: float) -> None:
        self.app, self.size, self.silence = app, size, silence

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes messages on, up to the limits."""
        wrap = {"http": self._body, "websocket": self._messages}.get(scope["type"])
        await self.app(scope, wrap(receive) if wrap else receive, send)

    def _body(self, receive: Receive) -> Receive:
        taken, more = 0, True

        async def bounded() -> Message:
            nonlocal taken, more
            while True:
                try:  # after the body, what comes is that the client went, at any time
                    async with asyncio.timeout(self.silence if more else None):
                        message = await receive()
                except TimeoutError:
                    raise HTTPException(408, f"no more of the body in {self.silence:g} seconds") from None
                more = message.get("more_body", False)
                taken += len(message.get("body", b""))
                if taken <= self.size:
                    return message
                if not more or taken > DRAINED * self.size:  # a client that still writes does not read the answer
                    raise HTTPException(413, f"the body has more than {self.size} bytes")

        return bounded

    def _messages(self, receive: Receive) -> Receive:
        async def bounded() -> Any:
            try:
                async with asyncio.timeout(self.silence):
                    message = await receive()
            except TimeoutError:
                return {"type": "websocket.disconnect", "code": 1001, "reason": "silent"}
            if len(message.get("text") or message.get("bytes") or "") > self.size:
                return {"type": "websocket.disconnect", "code": 1009, "reason": "message too large"}
            return message

        return bounded
