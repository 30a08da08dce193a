#!/bin/bash
# Makes what compose.yaml reads: a database's password, a certificate for the gateway and the dashboard, and deploy/.env.
#
#   deploy/secrets.sh [HOST…]       HOST: names and addresses by which workers elsewhere reach this machine
#
# FARM_SECRETS   where: default deploy/secrets, which git and images ignore. What is there is kept.
#
# deploy/.env names this machine and the owner of deploy/secrets, as whom all runs there. PostgreSQL doesn't run as root: what
# root makes here is handed to 10001, the images' own user.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd -P)
folder=${FARM_SECRETS:-$root/deploy/secrets}

die() {
    printf 'secrets.sh: %s\n' "$*" >&2
    exit 1
}

command -v openssl >/dev/null || die "no openssl (Debian, Ubuntu: apt-get install openssl)"
umask 077
mkdir -p "$folder"

names=DNS:head,DNS:web,DNS:localhost,IP:127.0.0.1
for host in "$@"; do
    case $host in
    *[!A-Za-z0-9.:-]* | '') die "HOST is '$host'; want a name or an address" ;;
    *:* | *[0-9].*[0-9].*[0-9].*[0-9]) names+=,IP:$host ;;
    *) names+=,DNS:$host ;;
    esac
done

if [ ! -s "$folder/db.password" ]; then
    openssl rand -hex 32 >"$folder/db.password"
    printf 'db:5432:*:farm:%s\n' "$(<"$folder/db.password")" >"$folder/db.pgpass"
fi
if [ ! -s "$folder/gateway.pem" ]; then
    said=$(openssl req -x509 -newkey rsa:3072 -noenc -days 365 -subj "/CN=kernel farm" -addext "subjectAltName=$names" \
        -keyout "$folder/gateway.key" -out "$folder/gateway.pem" 2>&1) || die "openssl made no certificate: ${said##*$'\n'}"
fi
if [ -z "${FARM_SECRETS:-}" ] && [ ! -s "$root/deploy/.env" ]; then
    [ "$(stat -c %u "$folder")" != 0 ] || chown -R 10001:10001 "$folder"
    stat -c $'FARM_UID=%u\nFARM_GID=%g' "$folder" >"$root/deploy/.env"
    printf 'FARM_HOST=%s\n' "$(uname -n)" >>"$root/deploy/.env"
fi
printf 'secrets.sh: %s has what compose.yaml reads; copy gateway.pem to workers elsewhere, and nothing else\n' "$folder" >&2
