"""The routes. Everything that can be refused is refused before the engine hears of it."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from ...face import EngineInfo
from ...request import Delta, Done, Failed, SampleDone
from ..bridge import Bridge
from ..gate import Gate, Head
from .asked import Asked, read_chat, read_completion
from .errors import ApiError, from_event
from .fields import Fields, parse
from .job import Job
from .render import DONE, Renderer, event_line

PATHS = frozenset({"/v1/models", "/v1/chat/completions", "/v1/completions"})
MAX_BODY_BYTES = 8 * 2**20

Read = Callable[[Fields, str, EngineInfo], Asked]


def make_app(bridge: Bridge, gate: Gate) -> ASGIApp:
    """The ASGI application: the gate around the routes."""
    started = int(time.time())

    async def models(request: HttpRequest) -> Response:
        model = {"id": bridge.info.model, "object": "model", "created": started, "owned_by": "ultra"}
        return JSONResponse({"object": "list", "data": [model]})

    async def chat(request: HttpRequest) -> Response:
        return await _complete(request, bridge, read_chat)

    async def completions(request: HttpRequest) -> Response:
        return await _complete(request, bridge, read_completion)

    routes = [
        Route("/v1/models", models),
        Route("/v1/chat/completions", chat, methods=["POST"]),
        Route("/v1/completions", completions, methods=["POST"]),
    ]
    handlers = {ApiError: _refuse, HTTPException: _refuse_http, Exception: _apologise}
    return Gatekeeper(Starlette(routes=routes, exception_handlers=handlers), gate)  # type: ignore[arg-type]


class Gatekeeper:
    """Asks the gate about every HTTP request before anything else sees it."""

    def __init__(self, app: ASGIApp, gate: Gate) -> None:
        self._app = app
        self._gate = gate
        self._running = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http", "uvicorn runs without lifespan and websockets"
        answer = self._gate.check(_head(scope), self._running)
        if answer is not None:
            await _answer(answer.status, answer.text)(scope, receive, send)
            return
        self._running += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._running -= 1


def _head(scope: Scope) -> Head:
    found: dict[bytes, list[str]] = {b"host": [], b"origin": [], b"authorization": []}
    for name, value in scope["headers"]:
        if name in found:
            found[name].append(value.decode("latin-1"))
    return Head(scope["path"], found[b"host"], found[b"origin"], found[b"authorization"])


def _answer(status: int, text: str) -> Response:
    if status == 200:
        return PlainTextResponse(text)
    kind = "authentication_error" if status == 401 else "invalid_request_error"
    code = "invalid_api_key" if status == 401 else None
    return JSONResponse(ApiError(text, kind=kind, code=code).body(), status)


async def _refuse(request: HttpRequest, error: ApiError) -> Response:
    wait = {"Retry-After": "1"} if error.status in (429, 503) else None
    return JSONResponse(error.body(), error.status, wait)


async def _refuse_http(request: HttpRequest, error: HTTPException) -> Response:
    return JSONResponse(ApiError(error.detail).body(), error.status_code, error.headers)


async def _apologise(request: HttpRequest, error: Exception) -> Response:
    sorry = ApiError("the server failed on this request", kind="server_error", code="engine_failed")
    return JSONResponse(sorry.body(), 500)


async def _body(request: HttpRequest) -> bytes:
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_BODY_BYTES:
            raise ApiError(f"the body has more than {MAX_BODY_BYTES} bytes", status=413)
    return bytes(body)


async def _complete(request: HttpRequest, bridge: Bridge, read: Read) -> Response:
    request_id = secrets.token_hex(12)
    asked = read(parse(await _body(request)), f"http/{request_id}", bridge.info)
    render = Renderer(asked, bridge.info.model, request_id)
    if asked.stream:
        job = Job(bridge, asked.request)
        return await _while_listening(request, _open_stream(job, render))
    return await _while_listening(request, _whole(Job(bridge, asked.request), render))


async def _while_listening(request: HttpRequest, work: Awaitable[Response]) -> Response:
    """Do the work unless the client hangs up first; then it is cancelled, and with it the engine's."""
    working = asyncio.ensure_future(work)
    hung_up = asyncio.create_task(_hung_up(request.receive))
    try:
        await asyncio.wait([working, hung_up], return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        return Response(status_code=499)  # nobody reads it
    finally:
        for task in (working, hung_up):
            task.cancel()
        await asyncio.gather(working, hung_up, return_exceptions=True)


async def _hung_up(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _whole(job: Job, render: Renderer) -> Response:
    deltas: list[Delta] = []
    finishes: dict[int, str] = {}
    async with job:
        async for event in job:
            match event:
                case Delta():
                    deltas.append(event)
                case SampleDone():
                    finishes[event.sample] = event.finish
                case Failed():
                    raise from_event(event)
                case Done():
                    return JSONResponse(render.answer(deltas, finishes, event))
    raise AssertionError("a job ends in Done or Failed")


async def _open_stream(job: Job, render: Renderer) -> Response:
    """The response's head waits for the request to leave the queue: only then is its status known."""
    await job.__aenter__()
    try:
        failed = await job.start()
    except BaseException:
        await job.__aexit__(None, None, None)
        raise
    if failed is not None:
        raise from_event(failed)
    return EventStream(job, render)


class EventStream(Response):
    """Server-sent events until the job ends or the client hangs up."""

    media_type = "text/event-stream"

    def __init__(self, job: Job, render: Renderer) -> None:
        super().__init__(headers={"Cache-Control": "no-store"})
        del self.headers["content-length"]
        self._job = job
        self._render = render

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending = asyncio.create_task(self._send(send))
        hung_up = asyncio.create_task(_hung_up(receive))
        try:
            await asyncio.wait([sending, hung_up], return_when=asyncio.FIRST_COMPLETED)
        finally:
            hung_up.cancel()
            if not sending.done():
                sending.cancel()
            with contextlib.suppress(asyncio.CancelledError, OSError):  # OSError: it hung up while we sent
                await sending
            await self._job.__aexit__(None, None, None)

    async def _send(self, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        async for line in self._lines():
            await send({"type": "http.response.body", "body": line, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _lines(self) -> AsyncIterator[bytes]:
        for opening in self._render.opening():
            yield opening
        async for event in self._job:
            line: bytes | None = None
            match event:
                case Delta():
                    line = self._render.delta(event)
                case SampleDone():
                    line = self._render.sample_done(event)
                case Failed():
                    yield event_line(from_event(event).body())
                    return  # without [DONE]: a client must not take this for an end
                case Done():
                    line = self._render.usage(event.stats)
            if line is not None:
                yield line
        yield DONE
