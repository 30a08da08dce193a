#!/bin/bash
# A private network between a head and machines elsewhere, with WireGuard: makes keys and configurations, and changes no network.
#
#   deploy/wireguard.sh head HOST[:PORT]     once, on the head: the network's own configuration; HOST: where peers reach it
#   deploy/wireguard.sh peer NAME            adds a machine; its configuration goes to stdout, which must not be a terminal
#   deploy/wireguard.sh forget NAME          takes it out again
#   deploy/wireguard.sh firewall PORT        nftables' rules that keep Ray on the network; PORT: the head's, 6379 unless farm up was told
#
# Then, as root on the head: wg-quick up FOLDER/farm.conf (after a change: wg syncconf farm <(wg-quick strip FOLDER/farm.conf)),
# and on a machine: install -m 600 NAME.conf /etc/wireguard/farm.conf && wg-quick up farm. Peers reach the head and not each other:
# Ray's nodes have to, so allow it on the head: sysctl -w net.ipv4.ip_forward=1
#
# Ray listens on every interface, and a machine answers for 10.66.0.1 on any of them. So on the head and on each peer, as root:
# deploy/wireguard.sh firewall 6379 | nft -f -     (again after a reboot; nft delete table inet farm takes them away)
#
# FARM_WIREGUARD  the folder; default .farm/wireguard, mode 0700
# FARM_NET        the network's first three numbers; default 10.66.0
set -euo pipefail

folder=${FARM_WIREGUARD:-.farm/wireguard}
net=${FARM_NET:-10.66.0}
port=51820

die() {
    printf 'wireguard.sh: %s\n' "$1" >&2
    exit "${2:-1}"
}

usage() { die "want head HOST[:PORT], peer NAME, forget NAME or firewall PORT" 2; }

made() { [ -s "$folder/head.key" ] || die "no network in $folder; wireguard.sh head HOST makes one"; }

# The head's configuration, from what lies in the folder: a peer is a file NAME.peer with its number and public key.
write_head() {
    local number key peer
    {
        printf '[Interface]\nAddress = %s.1/24\nListenPort = %s\nPrivateKey = %s\n' "$net" "$(<"$folder/port")" "$(<"$folder/head.key")"
        for peer in "$folder"/*.peer; do
            [ -e "$peer" ] || continue
            read -r number key <"$peer"
            peer=${peer##*/}
            printf '\n# %s\n[Peer]\nPublicKey = %s\nAllowedIPs = %s.%s/32\n' "${peer%.peer}" "$key" "$net" "$number"
        done
    } >"$folder/farm.conf.new"
    mv "$folder/farm.conf.new" "$folder/farm.conf"
}

# The first number that no peer has.
free_number() {
    local number
    for ((number = 2; number < 255; number++)); do
        grep -qs "^$number " "$folder"/*.peer || break
    done
    [ "$number" -lt 255 ] || die "253 peers are there already; forget one"
    printf '%s\n' "$number"
}

head_of() {
    [ ! -e "$folder/head.key" ] || die "$folder has a network already"
    case $1 in
    *:*[!0-9]* | *:) die "'$1' is no HOST or HOST:PORT" 2 ;;
    *:*) port=${1##*:} ;;
    esac
    wg genkey >"$folder/head.key"
    printf '%s:%s\n' "${1%:*}" "$port" >"$folder/endpoint"
    printf '%s\n' "$port" >"$folder/port"
    write_head
    printf 'wireguard.sh: %s/farm.conf; let UDP %s in, and nothing else\n' "$folder" "$port" >&2
}

peer_of() {
    local key number
    [ ! -t 1 ] || die "a private key would be shown; redirect: wireguard.sh peer $1 >$1.conf" 2
    made
    [ ! -e "$folder/$1.peer" ] || die "a peer named $1 is there already; forget it first"
    number=$(free_number)
    key=$(wg genkey)
    printf '%s %s\n' "$number" "$(wg pubkey <<<"$key")" >"$folder/$1.peer"
    write_head
    printf '[Interface]\nAddress = %s.%s/24\nPrivateKey = %s\n\n' "$net" "$number" "$key"
    printf '[Peer]\nPublicKey = %s\nEndpoint = %s\nAllowedIPs = %s.0/24\nPersistentKeepalive = 25\n' \
        "$(wg pubkey <"$folder/head.key")" "$(<"$folder/endpoint")" "$net"
    printf 'wireguard.sh: %s is %s.%s; its private key is kept nowhere here\n' "$1" "$net" "$number" >&2
}

# Ray's ports (farm/cluster/ray_ports.py) are for this machine and for the network; what is forwarded stays within the network.
# The table is declared first so that it can be flushed: loading it twice changes nothing.
firewall() {
    case $1 in *[!0-9]* | ??????*) die "'$1' is no port; want a number up to 65535" 2 ;; esac
    if [ "$1" -lt 1 ] || [ "$1" -gt 65535 ]; then die "'$1' is no port; want a number up to 65535" 2; fi
    cat <<END
table inet farm
delete table inet farm
table inet farm {
    chain input {
        type filter hook input priority filter; policy accept;
        iifname != { "lo", "farm" } tcp dport $1 reject with tcp reset
        iifname != { "lo", "farm" } tcp dport 10002-10999 reject with tcp reset
    }
    chain forward {
        type filter hook forward priority filter; policy accept;
        iifname "farm" oifname != "farm" drop
        iifname != "farm" oifname "farm" meta l4proto tcp reject with tcp reset
        iifname != "farm" oifname "farm" drop
    }
}
END
}

if [ $# -ne 2 ] || [ -z "$2" ]; then usage; fi
case $2 in *[!A-Za-z0-9._:-]* | .*) die "'$2': want letters, digits and . _ : -" 2 ;; esac
if [ "$1" = firewall ]; then
    firewall "$2"
    exit
fi
command -v wg >/dev/null || die "no wg (Debian, Ubuntu: apt-get install wireguard-tools)"
umask 077
mkdir -p "$folder"
case $1 in
head) head_of "$2" ;;
peer) peer_of "$2" ;;
forget)
    made
    [ -e "$folder/$2.peer" ] || die "no peer named $2"
    rm "$folder/$2.peer"
    write_head
    ;;
*) usage ;;
esac
