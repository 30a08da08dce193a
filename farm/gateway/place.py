"""Where a gateway listens, and who encrypts what it hears."""

from __future__ import annotations

import ipaddress
import re
import ssl
from dataclasses import dataclass
from pathlib import Path

from kernels.errors import FarmError, UsageError


@dataclass(frozen=True)
class Place:
    """Where the gateway listens, and who makes its HTTPS."""

    host: str
    port: int  # 0: any
    cert: str = ""  # PEM; empty where there is no TLS here
    key: str = ""
    behind_proxy: bool = False  # which ends TLS

    def refuse_plain(self) -> None:
        """UsageError where tokens would cross a network unencrypted."""
        if bool(self.cert) != bool(self.key):
            raise UsageError("--cert and --key go together")
        if not (self.cert or self.behind_proxy or is_loopback(self.host)):
            raise UsageError(
                f"{self.host} is no loopback address, and tokens must not cross a network unencrypted; "
                "give --cert and --key, or --behind-proxy where a proxy ends TLS"
            )
        for path in filter(None, (self.cert, self.key)):
            if not Path(path).is_file():
                raise FarmError(f"{path}: no such file; openssl or your certificate authority makes one")
        if self.cert:
            _demand_pair(self.cert, self.key)

    def url(self, port: int) -> str:
        """What a worker is told to call, on the port that was got."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.cert else 'http'}://{host}:{port}"


def place_at(address: str, cert: str, key: str, behind_proxy: bool) -> Place:
    """The place that HOST:PORT means; UsageError where it is none, or tokens would go unencrypted."""
    host, _, port = address.rpartition(":")
    if not (host and re.fullmatch(r"[0-9]{1,5}", port) and int(port) <= 65535):
        raise UsageError(
            f"--gateway {address!r}: not HOST:PORT with a port of at most 65535, as 10.0.0.5:8443"
        )
    place = Place(host.strip("[]"), int(port), cert, key, behind_proxy)
    place.refuse_plain()
    return place


def _demand_pair(cert: str, key: str) -> None:
    """FarmError where no TLS comes of the two files: a server would only notice when it is called."""
    try:
        # Asked for, a passphrase would be read from the terminal, which a head doesn't have.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key, password=lambda: "")
    except (OSError, ValueError) as error:
        raise FarmError(
            f"{cert} and {key} are no certificate with its key: {getattr(error, 'reason', None) or error}; "
            "want PEM files that belong together, the key without a passphrase"
        ) from None


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
