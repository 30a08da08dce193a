"""Who may see and who may act: hosts, tokens, cookies, and what a browser is told not to do."""

from __future__ import annotations

import hmac
import os
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from fastapi import Request, Response

from farm.web import style
from kernels.errors import FarmError

COOKIE = "farm_web"
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' {styles}; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # none at all makes browsers send `Origin: null` with our own forms
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
STATIC = "/static/"
KEPT = "max-age=31536000, immutable"  # of what changes its address when it changes
OPEN_PATHS = ("/login", STATIC)  # without a token, where one is asked for


class Forbidden(FarmError):
    """Not for this visitor; the page says how to log in."""


@dataclass(frozen=True)
class Door:
    """What the server asks of its visitors."""

    secret: str
    private: bool  # true off loopback: nothing is shown without the token
    hosts: tuple[str, ...]  # names that a browser may call it by; empty: any

    def knows(self, request: Request) -> bool:
        """Whether the visitor has the token, in a cookie or as Authorization: Bearer."""
        scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
        given = (request.cookies.get(COOKIE, ""), bearer if scheme.lower() == "bearer" else "")
        return any(map(self.is_secret, given))

    def is_secret(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self.secret.encode())

    def demand_actor(self, request: Request) -> None:
        """Forbidden unless the visitor has the token and the page that asks is ours."""
        if not self.knows(request):
            raise Forbidden("this needs the token in .farm/web.token; log in first")
        origin = request.headers.get("origin")
        if origin is not None and origin != f"{request.url.scheme}://{request.headers.get('host', '')}":
            raise Forbidden("this page was called from another one")

    def refuses(self, request: Request) -> str:
        """Why a request gets nothing; empty if it may go on."""
        host = request.headers.get("host", "").rpartition(":")[0] or request.headers.get("host", "")
        if self.hosts and host not in self.hosts:
            return f"called by the name {host[:80]!r}; want one of {', '.join(self.hosts)}"
        is_open = any(request.url.path.startswith(path) for path in OPEN_PATHS)
        if self.private and not is_open and not self.knows(request):
            return "log in at /login with the token in .farm/web.token"
        return ""


def web_token(home: Path) -> str:
    """The token of this state folder, made on first use, readable by its owner alone."""
    path = home / "web.token"
    home.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(32))
    if path.stat().st_mode & 0o077:
        raise FarmError(f"{path} can be read by others; delete it, the next start makes a new one")
    return path.read_text(encoding="ascii").strip()


def guard(door: Door) -> Callable[[Request, Callable[[Request], Awaitable[Response]]], Awaitable[Response]]:
    """The middleware: refuses strangers, and tells browsers what not to do."""

    async def middleware(request: Request, call: Callable[[Request], Awaitable[Response]]) -> Response:
        if reason := door.refuses(request):
            response = Response(f"farm: {reason}\n", 403, media_type="text/plain")
        else:
            response = await call(request)
        draws = response.headers.get("x-farm-charts") == "1"
        styles = "'unsafe-inline'" if draws else style.allowed()  # plotly sets styles itself
        del response.headers["x-farm-charts"]
        response.headers["Content-Security-Policy"] = POLICY.format(styles=styles)
        if request.url.path.startswith(STATIC) and response.status_code == 200:
            response.headers["Cache-Control"] = KEPT
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        return response

    return middleware
