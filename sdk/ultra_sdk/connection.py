"""One websocket to one server: a reader task that sorts what arrives into mailboxes."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, get_args

import msgspec

from .errors import (
    ConnectError,
    ConnectionLost,
    EngineError,
    InvalidRequest,
    ProtocolError,
    StreamTruncated,
    Unauthorized,
    from_wire,
)
from .events import Unknown
from .mailbox import Mailbox
from .protocol import (
    PROTOCOL_VERSION,
    SUBPROTOCOL,
    ClientMessage,
    Create,
    Fault,
    Goaway,
    Hello,
    Pong,
    ServerMessage,
)

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

PATH = "/v1"

_decode = msgspec.json.Decoder(ServerMessage).decode
_encode = msgspec.json.Encoder().encode


class _Envelope(msgspec.Struct):
    """What every message of a request has, also those of a type we do not know."""

    type: str
    id: str | None = None
    seq: int | None = None


_KNOWN = frozenset(kind.__struct_config__.tag for kind in get_args(ServerMessage))
_peek = msgspec.json.Decoder(_Envelope).decode


class Address(msgspec.Struct, frozen=True):
    """Where to dial: a Unix socket's path, or a ``ws://`` URL."""

    token: str
    unix: str | None = None
    url: str | None = None
    name: str | None = None
    """What the server was asked to serve, if a runtime file says so."""

    def __str__(self) -> str:
        return f"unix:{self.unix}" if self.unix else str(self.url)

    def __repr__(self) -> str:
        return f"Address({self})"


class Connection:
    """An open connection. Made by `open`; ends by itself when the server goes, or by `close`."""

    def __init__(self, socket: ClientConnection, hello: Hello, address: Address) -> None:
        self.hello = hello
        self.address = address
        self.leaving = False
        """The server said goaway: what runs may end, nothing new is accepted."""
        self._closing = False
        self._socket = socket
        self._mailboxes: dict[str, Mailbox] = {}
        self._reader = asyncio.create_task(self._read(), name=f"ultra reader {address}")

    @classmethod
    async def open(cls, address: Address, timeout: float) -> Connection:
        """Dial, authenticate and await the server's hello, all within ``timeout`` seconds.

        Raises `ConnectError`, `Unauthorized` or `ProtocolError`; leaves nothing open then.
        """
        try:
            async with asyncio.timeout(timeout):
                socket = await _dial(address, timeout)
                try:
                    hello = await _greeting(socket)
                except BaseException:
                    socket.transport.abort()
                    raise
        except TimeoutError as error:
            raise ConnectError(f"{address} did not answer within {timeout:g} s") from error
        return cls(socket, hello, address)

    @property
    def usable(self) -> bool:
        """Whether a new request may be sent on it."""
        return not self.leaving and not self._reader.done()

    def register(self, request_id: str) -> Mailbox:
        if request_id in self._mailboxes:
            raise InvalidRequest(
                f"a request with the id {request_id} is running", code="duplicate_id", request_id=request_id
            )
        mailbox = self._mailboxes[request_id] = Mailbox(request_id)
        return mailbox

    def forget(self, request_id: str) -> None:
        """Ignore whatever still arrives for this request."""
        self._mailboxes.pop(request_id, None)

    async def send(self, message: ClientMessage) -> None:
        """Send one message. Raises `InvalidRequest` if it is too long for the server, `ConnectionLost`."""
        request_id = message.id if isinstance(message, Create) else None
        try:
            data = _encode(message)
        except UnicodeEncodeError as error:  # half of a surrogate pair
            problem = f"the request holds text that is not valid Unicode: {error}"
            raise InvalidRequest(problem, code="invalid_request", request_id=request_id) from error
        limit = self.hello.limits.max_message_bytes
        if len(data) > limit:
            raise InvalidRequest(
                f"the request has {len(data)} bytes, the server takes at most {limit}",
                code="message_too_large",
                request_id=request_id,
            )
        await self.send_raw(data)

    async def send_raw(self, data: bytes) -> None:
        """Send one text frame as it is."""
        from websockets.exceptions import ConnectionClosed

        try:
            await self._socket.send(data, text=True)
        except ConnectionClosed as error:
            raise ConnectionLost(f"the connection to {self.address} is closed") from error

    async def close(self) -> None:
        """Close the socket and end the reader; idempotent."""
        self._closing = True
        try:
            # asyncio's transport.abort() fails so when the transport has closed by itself after draining.
            with contextlib.suppress(AttributeError):
                await self._socket.close()
        finally:
            self._reader.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reader

    # --- the reader task ----------------------------------------------------------------------------

    async def _read(self) -> None:
        from websockets.exceptions import ConnectionClosed, ConnectionClosedOK

        failure: type[EngineError] = ConnectionLost
        reason = "the client was closed"
        try:
            while True:
                self._sort(await self._socket.recv(decode=False))
        except ConnectionClosedOK as error:
            failure, reason = StreamTruncated, f"the server closed the connection {_why(error)}"
        except ConnectionClosed as error:
            reason = f"the connection to {self.address} broke {_why(error)}"
        except ProtocolError as error:
            failure, reason = ProtocolError, str(error)
            self._socket.transport.abort()
        finally:
            if self._closing:
                failure, reason = ConnectionLost, "the client was closed"
            for mailbox in self._mailboxes.values():
                mailbox.fail(failure(reason))

    def _sort(self, data: bytes) -> None:
        try:
            message = _decode(data)
        except msgspec.DecodeError as error:
            self._sort_unknown(data, error)
            return
        if isinstance(message, Fault):
            if message.ref in self._mailboxes:
                self._mailboxes[message.ref].fail(from_wire(message.error, message.ref))
        elif isinstance(message, Goaway):
            self.leaving = True
        elif not isinstance(message, (Hello, Pong)):
            mailbox = self._mailboxes.get(message.id)
            if mailbox is not None:
                mailbox.put(message)

    def _sort_unknown(self, data: bytes, error: msgspec.DecodeError) -> None:
        """A newer server may send types that we do not know; they keep their place in ``seq``."""
        try:
            envelope = _peek(data)
        except msgspec.DecodeError:
            raise ProtocolError(f"the server sent something that is no message: {error}") from error
        if envelope.type in _KNOWN:
            raise ProtocolError(f"the server sent a malformed {envelope.type}: {error}") from error
        mailbox = self._mailboxes.get(envelope.id or "")
        if mailbox is not None and envelope.seq is not None:
            mailbox.put(Unknown(envelope.type, mailbox.request_id, envelope.seq, data))


async def _dial(address: Address, timeout: float) -> ClientConnection:
    from websockets.asyncio.client import connect
    from websockets.exceptions import InvalidHandshake, InvalidStatus, InvalidURI
    from websockets.typing import Subprotocol

    class Dial(connect):
        def process_redirect(self, exc: Exception) -> Exception | str:
            return exc  # following one would hand our token to another server

    settings: dict[str, Any] = {"unix": True, "path": address.unix} if address.unix else {}
    try:
        return await Dial(
            f"ws://localhost{PATH}" if address.unix else str(address.url),
            subprotocols=[Subprotocol(SUBPROTOCOL)],
            additional_headers={"Authorization": f"Bearer {address.token}"},
            compression=None,
            proxy=None,
            open_timeout=timeout,
            close_timeout=2,
            max_size=None,
            **settings,
        )
    except InvalidStatus as error:
        status = error.response.status_code
        if status == 401:
            raise Unauthorized(f"{address} does not accept the token", code="unauthorized") from error
        raise ConnectError(f"{address} refused the connection: HTTP {status}") from error
    except (InvalidHandshake, InvalidURI, ValueError) as error:
        raise ConnectError(f"{address} is no Ultra server: {error}") from error
    except OSError as error:
        raise ConnectError(f"{address} cannot be reached: {error.strerror or error}") from error


async def _greeting(socket: ClientConnection) -> Hello:
    from websockets.exceptions import ConnectionClosed

    try:
        message = _decode(await socket.recv(decode=False))
    except ConnectionClosed as error:
        raise ConnectError(f"the server closed the connection at once {_why(error)}") from error
    except msgspec.DecodeError as error:
        raise ProtocolError(f"the server's first message is no hello: {error}") from error
    if not isinstance(message, Hello):
        raise ProtocolError(f"the server's first message is {type(message).__name__}, not hello")
    if message.protocol != PROTOCOL_VERSION:
        raise ProtocolError(f"the server speaks protocol {message.protocol}, we speak {PROTOCOL_VERSION}")
    return message


def _why(error: Any) -> str:
    close = error.rcvd or error.sent
    if close is None:
        return "without a word"
    return f"({close.code}{': ' + close.reason if close.reason else ''})"
