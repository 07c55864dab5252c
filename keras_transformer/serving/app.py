"""The server's addresses: the REST interface, metrics, and the page."""

from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.routing import Route

from keras_transformer.serving.api import Api, to_json
from keras_transformer.serving.limits import Limits
from keras_transformer.serving.rest import RestError

JSON = "application/json"
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")

PAGE = Path(__file__).parent / "page"
PAGE_FILES = {
    "/": ("index.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
# The page loads nothing from elsewhere, and the browser holds it to that.
PAGE_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; "
    "style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "cache-control": "no-cache",
    "x-content-type-options": "nosniff",
}


def make_app(servable, limits=None):
    """The server as an ASGI application.

    Args:
        servable: A `Servable`.
        limits: `Limits`.
    """
    api = Api(servable, limits or Limits())

    async def answer(request):
        return Response(await api.answer(request), media_type=JSON)

    async def metrics(request):
        return Response(api.metrics.text(), media_type="text/plain")

    async def description(request):
        return Response(api.describe(), headers=PAGE_HEADERS, media_type=JSON)

    app = Starlette(
        routes=[
            *(
                Route(address, _file_endpoint(*file))
                for address, file in PAGE_FILES.items()
            ),
            Route("/page.json", description),
            Route("/monitoring/prometheus/metrics", metrics),
            Route("/v1/{path:path}", answer, methods=METHODS),
        ],
        middleware=[Middleware(_CloseWhenStopping)],
        exception_handlers={
            RestError: _refusal,
            HTTPException: _not_found,
            Exception: _failure,
        },
    )
    app.state.stopping = False
    return app


def _file_endpoint(name, media_type):
    content = (PAGE / name).read_bytes()

    async def endpoint(request):
        return Response(content, headers=PAGE_HEADERS, media_type=media_type)

    return endpoint


class _CloseWhenStopping:
    """Tells clients to send no more on a connection that is about to close."""

    def __init__(self, app):
        self._app = app

    async def __call__(self, scope, receive, send):
        async def send_or_close(message):
            is_start = message["type"] == "http.response.start"
            if is_start and scope["app"].state.stopping:
                message["headers"].append((b"connection", b"close"))
            await send(message)

        await self._app(scope, receive, send_or_close)


async def _refusal(request, error):
    headers = {"retry-after": "1"} if error.status == 503 else None
    return _error(error.status, str(error), headers)


async def _not_found(request, error):
    where = f"{request.method} {request.scope['path']}"
    return _error(error.status_code, f"{error.detail}: {where}")


async def _failure(request, error):
    return _error(500, f"{type(error).__name__}: {error}")


def _error(status, sentence, headers=None):
    return Response(to_json({"error": sentence}), status, headers, JSON)
