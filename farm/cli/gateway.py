"""Lets workers in that don't join Ray: the agent's four calls over HTTPS, a token for each worker."""

from __future__ import annotations

import click

from db.session import open_database
from farm.cli import options
from farm.drive import only_farm_on
from farm.gateway.place import Place
from kernels.errors import FarmError


@click.command("gateway", short_help=__doc__)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8443, show_default=True, help="0: any.")
@click.option("--cert", type=options.FILE, default="", help="PEM certificate chain.")
@click.option("--key", type=options.FILE, default="", help="PEM private key.")
@click.option("--behind-proxy", is_flag=True, help="A proxy ends TLS in front of this.")
@options.database
def gateway(host: str, port: int, cert: str, key: str, behind_proxy: bool, url: str) -> None:
    """Lets workers in that don't join Ray: the agent's four calls over HTTPS, a token for each worker.

    \b
    farm token new bench-3090 --device rtx-3090 --output bench.token
    farm gateway --host 10.0.0.5 --cert farm.pem --key farm.key
    farm submit --all-kinds --detach

    and on the worker, which needs no Ray and no open port:

    \b
    python -m workers pull https://10.0.0.5:8443 --token-file bench.token --ca farm.pem

    Where a head is up on this database, give `farm up` a --gateway instead.

    Evidence that comes this way is marked rented. Ctrl-C ends it; leases are taken over at the next start.
    """
    place = Place(host, port, cert, key, behind_proxy)
    try:
        from farm.gateway.server import serve
    except ModuleNotFoundError as error:
        raise FarmError(f"{error.name} is not installed; pip install 'kernel-farm[web]'") from None
    database = open_database(url)
    with only_farm_on(database):
        serve(database, place, _say)


def _say(address: str, epoch: int) -> None:
    click.echo(f"farm: gateway at {address}, epoch {epoch}; Ctrl-C ends it", err=True)


COMMAND = gateway
