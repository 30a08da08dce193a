"""Carries an agent's calls to a gateway over HTTPS; needs no Ray and no open port."""

from __future__ import annotations

import ipaddress
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import requests

from kernels.errors import FarmError, UsageError
from workers.protocol import Unreachable

ANSWER_S = 60.0
CONNECT_S = 10.0
SECRET_MODE = 0o077  # bits that a token's file must not have
AWAY = (429, 502, 503, 504)  # the gateway is there or comes back: ask again
DENIED = (401, 403)
# The other end went away while keys were exchanged: it was killed, or a network was cut.
TORN = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)


def read_token(path: Path) -> str:
    """The secret in a file that its owner alone can read; FarmError otherwise."""
    try:
        mode, text = path.stat().st_mode & 0o777, path.read_text(encoding="utf8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise FarmError(f"{path}: {getattr(error, 'strerror', None) or 'not a text file'}") from None
    if mode & SECRET_MODE:
        raise FarmError(f"{path} has mode {mode:o} and can be read by others; chmod 600 {path}")
    if not text or not text.isascii() or any(character.isspace() for character in text):
        raise FarmError(f"{path} holds no token; farm token new prints one")
    return text


def demand_https(url: str) -> str:
    """The URL without a slash at its end; UsageError where a token would cross a network unencrypted."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"{url!r} is no gateway's address; want https://HOST:PORT")
    if parts.scheme == "http" and not _is_loopback(parts.hostname):
        raise UsageError(f"{url} would send the token unencrypted; want https://")
    return url.rstrip("/")


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def carrier(url: str, secret: str, ca: str = "") -> Callable[[str, str], str]:
    """Carries one call: Unreachable where the gateway is away, FarmError where it refuses.

    `ca` is a PEM file that the gateway's certificate is checked against, instead of the system's.
    """
    address = demand_https(url)
    here = threading.local()  # a connection serves one thread

    def carry(call: str, text: str) -> str:
        if not hasattr(here, "session"):
            here.session = requests.Session()
            here.session.trust_env = not ca  # else a variable of the environment would take its place
            here.session.headers["Authorization"] = f"Bearer {secret}"
            here.session.verify = ca or True
        try:
            said = here.session.post(
                f"{address}/v1/{call}",
                data=text.encode(),
                headers={"Content-Type": "application/json"},
                timeout=(CONNECT_S, ANSWER_S),
                allow_redirects=False,
            )
        except requests.exceptions.SSLError as error:
            raise _insecure(address, error) from None
        except (requests.exceptions.ConnectionError, requests.exceptions.Timeout) as error:
            raise Unreachable(f"{address}: {_last(error)}") from None
        except (requests.exceptions.RequestException, OSError) as error:
            raise FarmError(f"{address}: {_last(error)}") from None
        return _answer(address, call, said)

    return carry


def _insecure(address: str, error: requests.exceptions.SSLError) -> FarmError:
    bottom = _bottom(error)
    if isinstance(bottom, TORN):
        return Unreachable(f"{address}: {_last(bottom)}")
    if isinstance(bottom, ssl.SSLCertVerificationError):
        return FarmError(f"{address}: the certificate isn't trusted: {_last(bottom)}; see --ca")
    return FarmError(
        f"{address} doesn't speak TLS as it should: {_last(bottom)}; is that the gateway's port?"
    )


def _answer(address: str, call: str, said: requests.Response) -> str:
    if said.status_code == 200:
        return said.text
    line = " ".join(said.text.split())[:300] or said.reason
    if said.status_code in AWAY:
        raise Unreachable(f"{address}: {line}")
    if said.status_code in DENIED:
        raise FarmError(f"{address} refuses this worker: {line}")
    raise FarmError(f"{address} can't answer {call} ({said.status_code}): {line}")


def _bottom(error: BaseException) -> BaseException:
    """What an error is about, without the wrappings of each library above it."""
    while within := next((one for one in _within(error) if isinstance(one, BaseException)), None):
        error = within
    return error


def _within(error: BaseException) -> tuple[object, ...]:
    return (getattr(error, "reason", None), *error.args)


def _last(error: BaseException) -> str:
    """An error's words in one line, of a length that can be printed."""
    return " ".join(str(error).split())[:200] or type(error).__name__
