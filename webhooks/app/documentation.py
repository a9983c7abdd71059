"""The API documentation, a FastAPI application: ``/docs`` for people, and ``/openapi.json``.

The pages need no access to the internet, which a cluster may not have.
"""

from collections.abc import Iterable
from importlib import resources
from typing import Any

from fastapi import FastAPI, Request
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse, Response
from starlette.exceptions import HTTPException
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from webhooks.app.openapi import describe
from webhooks.http.responses import error_response


class Documentation(FastAPI):
    """The documentation of review endpoints.

    Args:
        paths: the paths of the endpoints, which may change.
        max_body: the maximum size of a body in bytes.
    """

    def __init__(self, paths: Iterable[str], max_body: int) -> None:
        super().__init__(title="cluster-webhooks", docs_url=None, redoc_url=None)
        self._paths = paths
        self._max_body = max_body
        self._described_paths: tuple[str, ...] = ()
        static = resources.files("fastapi_offline") / "static"
        self.router.routes.append(Route("/docs", self._show_page))
        self.router.routes.append(Mount("/docs/static", StaticFiles(directory=str(static))))
        self.add_exception_handler(HTTPException, _respond_error)

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document."""
        paths = tuple(self._paths)
        if self.openapi_schema is None or paths != self._described_paths:
            self.openapi_schema, self._described_paths = describe(self.title, paths, self._max_body), paths
        return self.openapi_schema

    async def _show_page(self, request: Request) -> HTMLResponse:
        root = request.scope.get("root_path", "")
        return get_swagger_ui_html(
            title=self.title,
            openapi_url=f"{root}{self.openapi_url}",
            swagger_js_url=f"{root}/docs/static/swagger-ui-bundle.js",
            swagger_css_url=f"{root}/docs/static/swagger-ui.css",
            swagger_favicon_url=f"{root}/docs/static/favicon.png",
        )


async def _respond_error(_: Request, exception: Exception) -> Response:
    assert isinstance(exception, HTTPException)
    response = error_response(exception.status_code, exception.detail)
    return Response(response.body, response.code, headers=exception.headers, media_type="application/json")
