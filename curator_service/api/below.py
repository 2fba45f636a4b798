"""A curator below a path of a host that has other services, too: ``https://hospital.example/curator``.

Everything within is written as if it were at the root. Here alone addresses are taken apart and put together: of a
request the path is taken off, whether a proxy has done so already or not; of an answer it is put before each address
that begins with ``/``, in headers, in attributes of pages, and in the script of the interface's description.
"""

import re

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

PATH = "curator.path"
"""Member of a scope: the path below which the curator is; absent at the root."""
_LED_TO = ("location", "hx-redirect")
_ADDRESS = re.compile(rb"""((?:\s(?:href|src|action|formaction|hx-get)="|\burl: '))(?=/(?!/))""")
"""What stands before an address of ours in a page. People's words are escaped, so none of them looks like it."""


class Below:
    """Middleware that serves an application below a path.

    Parameters
    ----------
    app : ASGI application
    path : str
        Such as ``/curator``: with a slash before it, and none behind.
    """

    def __init__(self, app: ASGIApp, path: str) -> None:
        self.app, self.path = app, path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        asked, raw = scope["path"], scope.get("raw_path") or b""
        if asked == self.path or asked.startswith(f"{self.path}/"):
            scope = {**scope, "path": asked[len(self.path) :] or "/", "raw_path": raw[len(self.path) :] or b"/"}
        begun: Message | None = None
        page = bytearray()

        async def place(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                headers = MutableHeaders(raw=message["headers"])
                for name in _LED_TO:
                    if headers.get(name, "").startswith("/"):
                        headers[name] = self.path + headers[name]
                if headers.get("content-type", "").startswith("text/html"):
                    begun = message
                    return
            elif begun is not None:
                page.extend(message.get("body", b""))
                if message.get("more_body"):
                    return
                placed = _ADDRESS.sub(rb"\1" + self.path.encode(), bytes(page))
                MutableHeaders(raw=begun["headers"])["content-length"] = str(len(placed))
                await send(begun)
                message = {**message, "body": placed}
            await send(message)

        await self.app({**scope, PATH: self.path}, receive, place)
