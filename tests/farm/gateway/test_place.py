"""Where a gateway may listen."""

from __future__ import annotations

from pathlib import Path

import pytest
import trustme

from farm.gateway.place import Place, is_loopback, place_at
from kernels.errors import FarmError, UsageError


@pytest.mark.parametrize(
    ("host", "is_it"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("10.0.0.1", False), ("farm", False)],
)
def test_loopback(host: str, is_it: bool) -> None:
    assert is_loopback(host) is is_it
    if not is_it:
        with pytest.raises(UsageError, match="must not cross a network unencrypted"):
            Place(host, 0).refuse_plain()


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("127.0.0.1:8443", "http://127.0.0.1:8443"),
        ("localhost:0", "http://localhost:0"),
        ("[::1]:8443", "http://[::1]:8443"),
    ],
)
def test_an_address_is_a_place(address: str, url: str) -> None:
    place = place_at(address, "", "", False)
    assert place.url(place.port) == url


@pytest.mark.parametrize(
    "address", ["", "127.0.0.1", ":8443", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:65536", "a:" + "1" * 5000]
)
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match="not HOST:PORT"):
        place_at(address, "", "", False)


def test_a_public_address_without_a_certificate_is_refused() -> None:
    with pytest.raises(UsageError, match="must not cross a network unencrypted"):
        place_at("10.0.0.5:8443", "", "", False)
    assert place_at("10.0.0.5:8443", "", "", True).behind_proxy


def test_files_of_which_no_tls_comes_are_refused_before_anything_listens(tmp_path: Path) -> None:
    issued, other = trustme.CA().issue_cert("localhost"), trustme.CA().issue_cert("localhost")
    cert, key, strange = (str(tmp_path / name) for name in ("cert", "key", "strange"))
    issued.cert_chain_pems[0].write_to_path(cert)
    issued.private_key_pem.write_to_path(key)
    other.private_key_pem.write_to_path(strange)
    place_at("10.0.0.5:8443", cert, key, False)
    for pair in ((key, key), (cert, strange), (cert, cert)):
        with pytest.raises(FarmError, match="are no certificate with its key: ") as refused:
            place_at("127.0.0.1:8443", *pair, False)
        assert "\n" not in str(refused.value)
