"""Proofs over HTTP, with Ray Serve.

    rigel cluster serve --port 8000

| request | answer |
|---|---|
| `POST /jobs`, the job as the body | 202 and `{"id": ..}` |
| `GET /jobs/ID` | its state: waiting, running with progress, done with its report, failed, cancelled |
| `GET /jobs/ID/proof` | the result's bytes; 409 if it is not done, 410 if there is none |
| `DELETE /jobs/ID` | 202; a job that has not begun never will |
| `GET /status` | workers and the latest jobs |
| `GET /` | a page that shows them |

With a token, every request but the page needs `Authorization: Bearer TOKEN`. Jobs and results are kept in memory.
"""

import asyncio
import hmac
import ipaddress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from ._cluster import _ray
from ._desk import Desk, Refused
from ._job import ClusterError

_PAGE = Path(__file__).with_name("page.html")
_NAME = "rigel"
#: Whether this process has started Ray Serve, and not only the application.
_started = False


def is_loopback(host):
    """Whether only this machine reaches an address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Front:
    """Speaks HTTP. Stateless: there may be several."""

    def __init__(self, desk, token, most_bytes, body_seconds):
        self._desk = desk
        self._token = token
        self._most_bytes = most_bytes
        self._body_seconds = body_seconds
        self._page = _PAGE.read_text()

    async def __call__(self, request):
        from starlette.responses import HTMLResponse, JSONResponse

        try:
            if request.url.path == "/" and request.method == "GET":
                return HTMLResponse(self._page)
            self._admit(request)
            return await self._answer(request)
        except Refused as refusal:
            return JSONResponse({"error": str(refusal)}, refusal.code)

    def _admit(self, request):
        if self._token is None:
            self._admit_from_here(request)
            return
        given = request.headers.get("authorization", "")
        if not hmac.compare_digest(given.encode(), f"Bearer {self._token}".encode()):
            raise Refused(401, "the token is missing or wrong; send Authorization: Bearer TOKEN")

    @staticmethod
    def _admit_from_here(request):
        """Without a token: a page of another site, open in a browser on this machine, must not submit jobs."""
        host = urlsplit(f"//{request.headers.get('host', '')}")
        if not is_loopback(host.hostname or ""):
            raise Refused(403, f"{host.netloc} is not this machine's own name; other names need RIGEL_CLUSTER_TOKEN")
        origin = request.headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != host.netloc:
            raise Refused(403, f"a page of {origin} may not use this server without a token")

    async def _answer(self, request):
        from starlette.responses import JSONResponse, Response

        match request.method, request.url.path.strip("/").split("/"):
            case "POST", ["jobs"]:
                return JSONResponse({"id": await self._call("submit", await self._body(request))}, 202)
            case "GET", ["jobs", name]:
                return JSONResponse(await self._call("describe", name))
            case "GET", ["jobs", name, "proof"]:
                return Response(await self._call("fetch", name), media_type="application/octet-stream")
            case "DELETE", ["jobs", name]:
                await self._call("cancel", name)
                return JSONResponse({"id": name}, 202)
            case "GET", ["status"]:
                return JSONResponse(await self._call("status"))
        raise Refused(404, f"{request.method} {request.url.path} is not served; see GET /")

    async def _call(self, method, *arguments):
        from ray.exceptions import RayTaskError

        try:
            return await getattr(self._desk, method).remote(*arguments)
        except RayTaskError as error:
            if isinstance(error.cause, Refused):
                raise error.cause from None
            raise

    async def _body(self, request):
        """The body, if it is not too long and comes in time."""
        too_long = Refused(413, f"a job has at most {self._most_bytes} bytes")
        stated = request.headers.get("content-length", "0")
        if not stated.isdigit() or int(stated) > self._most_bytes:
            raise too_long
        body = bytearray()

        async def read():
            async for part in request.stream():
                body.extend(part)
                if len(body) > self._most_bytes:
                    raise too_long

        try:
            await asyncio.wait_for(read(), self._body_seconds)
        except asyncio.TimeoutError:
            raise Refused(408, f"the job did not come within {self._body_seconds:g} s") from None
        if not body:
            raise Refused(400, "the request has no body; it should be a job")
        return bytes(body)


class Application(NamedTuple):
    """A Ray Serve application, and whether it asks for a token."""

    bound: object
    token: bool


def application(
    command,
    *,
    gpus=1,
    cpus=1,
    workers=None,
    environment=None,
    token=None,
    most_bytes=64 << 20,
    most_waiting=1000,
    most_waiting_bytes=1 << 30,
    most_kept=1000,
    most_kept_bytes=4 << 30,
    retries=2,
    timeout=3600.0,
    body_seconds=30.0,
    fronts=4,
):
    """An application for `start`. Its HTTP servers scale from 1 to `fronts` by Ray Serve's own rules."""
    _ray()
    from ray import serve

    kind = {
        "command": (command,) if isinstance(command, str) else tuple(map(str, command)),
        "gpus": gpus,
        "cpus": cpus,
        "workers": workers,
        "environment": tuple(sorted((environment or {}).items())),
    }
    light = {"num_cpus": 0}
    desk = serve.deployment(Desk, ray_actor_options=light, max_ongoing_requests=1000).bind(
        kind,
        most_waiting=most_waiting,
        most_waiting_bytes=most_waiting_bytes,
        most_kept=most_kept,
        most_kept_bytes=most_kept_bytes,
        retries=retries,
        timeout=timeout,
    )
    scaling = {"min_replicas": 1, "max_replicas": fronts, "target_ongoing_requests": 100}
    front = serve.deployment(Front, ray_actor_options=light, autoscaling_config=scaling, max_ongoing_requests=1000)
    return Application(front.bind(desk, token, most_bytes, body_seconds), bool(token))


def start(application, *, host="127.0.0.1", port=8000):
    """Serves until `stop`. Ray Serve has one address for all applications of a cluster: if it runs with another one,
    this is refused."""
    from ray import serve

    if not application.token and not is_loopback(host):
        raise ClusterError(
            f"{host} can be reached from other machines: set a token (RIGEL_CLUSTER_TOKEN), or serve on 127.0.0.1"
        )
    global _started
    running = _proxy_options()
    if running is not None and running != (host, port):
        raise ClusterError(
            f"Ray Serve runs in this cluster already, on {running[0]}:{running[1]} and not on {host}:{port}; serve "
            "there, or in a cluster of its own"
        )
    _started = running is None
    if _started:
        serve.start(http_options={"host": host, "port": port})
    elif _NAME in serve.status().applications:
        raise ClusterError("this cluster serves Rigel already; end that server first, or serve in a cluster of its own")
    serve.run(application.bound, name=_NAME, route_prefix="/")


def stop():
    """Ends the server and its workers; Ray Serve itself only if `start` has started it."""
    from ray import serve

    if _started:
        serve.shutdown()
    else:
        serve.delete(_NAME)


def _proxy_options():
    """The address that Ray Serve listens on, if it runs."""
    from ray.serve.context import _get_global_client

    client = _get_global_client(raise_if_no_controller_running=False)
    if client is None:
        return None
    options = client.http_config
    return options.host, options.port
