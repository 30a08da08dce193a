#!/bin/bash
# The images and compose.yaml for real: builds, starts, gives work, kills, stops, starts again; says what it saw.
#
#   tests/deploy/containers.sh                       with Docker, its Compose plugin and a registry
#   tests/deploy/containers.sh --stand-in FOLDER     without a registry, as root: Debian's Python and PostgreSQL under the
#                                                    bases' names, from root file systems that FOLDER keeps (1 GB, made by
#                                                    debootstrap where they aren't there)
#
# It works in a clone of what is committed, under a project name and on ports of its own, takes a quarter of an hour and 5 GB, and
# removes what it made; the engine's build cache stays.
#
# PIP_INDEX_URL, PIP_CERT   where set, go into the stand-in's pip.conf
set -euo pipefail

checkout=$(cd "$(dirname "$0")/../.." && pwd -P)
python_base=python:3.12.11-slim-bookworm
postgres_base=postgres:17.6-bookworm
project=farm-containers-$$
stop_s=20 # a container that was told to end has ended after these

say() { printf 'containers: %s\n' "$*"; }

die() {
    say "$*" >&2
    exit 1
}

stand_in=
case ${1:-} in
'') ;;
--stand-in) stand_in=${2:?--stand-in wants a folder} ;;
*) die "want nothing or --stand-in FOLDER, got '$1'" ;;
esac
for tool in docker git openssl curl; do
    command -v "$tool" >/dev/null || die "no $tool here"
done
docker version >/dev/null 2>&1 || die "no engine answers: $(docker version 2>&1 | tail -n 1)"
docker compose version >/dev/null 2>&1 || die "the engine has no Compose plugin"

home=$(mktemp -d)
clone=$home/clone
log=$home/log
imported=()

leave() {
    local status=$?
    [ "$status" = 0 ] || say "what was said is in $home/log" >&2
    docker rm --force "$project-outside" "$project-idle" >/dev/null 2>&1 || true
    [ ! -e "$clone/deploy/.env" ] || compose down --volumes --timeout 5 >/dev/null 2>&1 || true
    docker image rm "$project-head" "$project-compose" "$project-worker:cuda12" "$project-worker:cuda13" "$project-context" \
        "${imported[@]}" >/dev/null 2>&1 || true
    if [ "$status" = 0 ]; then rm -rf "$home"; else rm -rf "$clone"; fi
}
trap leave EXIT

compose() { (cd "$clone" && docker compose -f deploy/compose.yaml "$@"); }

farm() { compose exec -T head farm "$@"; }

# expect STATUS PATTERN COMMAND…: what it prints must have a line that fits, and it must end so; STATUS may be a glob.
expect() {
    local status=0 began=$SECONDS
    "${@:3}" >"$home/said" 2>&1 </dev/null || status=$?
    { printf '$ %s\n' "${*:3}" && cat "$home/said"; } >>"$log"
    took_s=$((SECONDS - began))
    # shellcheck disable=SC2053 # a glob
    if [[ $status != $1 ]] || ! grep -qE -- "$2" "$home/said"; then
        tail -n 20 "$home/said" >&2
        die "FAILED: ${*:3}: exit $status, wanted $1 and a line like '$2'"
    fi
    local words=${*:3}
    say "ok: ${words%%$'\n'*} ($took_s s, exit $status): $(grep -E -- "$2" "$home/said" | head -n 1 | cut -c 1-150)"
}

only_line() { [ "$(wc -l <"$home/said")" = 1 ] || die "FAILED: more than one line: $(cat "$home/said")"; }

# absent WHAT PATTERN COMMAND…: what it prints has no line that fits, and it prints something.
absent() {
    "${@:3}" >"$home/said" 2>>"$log" </dev/null || die "FAILED: no answer where $1 was looked for"
    [ -s "$home/said" ] || die "FAILED: nothing to look for $1 in"
    ! grep -qaE -- "$2" "$home/said" || die "FAILED: $1 is in the output of ${*:3}"
    say "ok: no $1 in $(wc -c <"$home/said") bytes of: ${*:3}"
}

# until_line SECONDS PATTERN COMMAND…: again and again, until it prints a line that fits.
until_line() {
    local began=$SECONDS
    until "${@:3}" >"$home/said" 2>&1 </dev/null && grep -qE -- "$2" "$home/said"; do
        [ $((SECONDS - began)) -lt "$1" ] || { tail -n 20 "$home/said" >&2 && die "FAILED: no '$2' in $1 s from: ${*:3}"; }
        sleep 1
    done
    took_s=$((SECONDS - began))
    say "ok: after $took_s s: $(grep -E -- "$2" "$home/said" | head -n 1 | cut -c 1-150)"
}

at_most() { [ "$took_s" -le "$1" ] || die "FAILED: it took $took_s s, and may take $1"; }

free_port() {
    local port=$1
    while (: <>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do port=$((port + 1)); done
    printf %s "$port"
}

# root NAME RELEASE PACKAGES: $stand_in/NAME, where it isn't there yet; from this machine's own mirror if it has one.
root() {
    [ ! -d "$stand_in/$1" ] || return 0
    local from
    # shellcheck disable=SC2016 # apt-get's own
    from=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 2>/dev/null | grep -m 1 '/debian/$' || true)
    say "making a root of $2 with $3"
    rm -rf "${stand_in:?}/$1.part"
    debootstrap --variant=minbase --include="$3" "$2" "$stand_in/$1.part" ${from:+"$from"} >>"$log" 2>&1 ||
        die "debootstrap could not make a root of $2; see $log"
    find "$stand_in/$1.part/var/cache/apt/archives" -name '*.deb' -delete
    mv "$stand_in/$1.part" "$stand_in/$1"
}

# import_as NAME FOLDER CHANGE…: unless the engine has an image of that name.
import_as() {
    if docker image inspect "$1" >/dev/null 2>&1; then
        say "the engine has $1 already, which is taken"
        return
    fi
    local words=() change
    for change in "${@:3}"; do words+=(--change "$change"); done
    tar -C "$2" -c . | docker import "${words[@]}" - "$1" >>"$log"
    imported+=("$1")
    say "$1 is a stand-in: $(sed -n 's/^PRETTY_NAME=//p' "$2/etc/os-release")"
}

make_bases() {
    [ "$(id -u)" = 0 ] || die "a root file system is made by root"
    command -v debootstrap >/dev/null || die "no debootstrap here (Debian: apt-get install debootstrap)"
    mkdir -p "$stand_in"
    stand_in=$(cd "$stand_in" && pwd -P)
    root python bookworm python3,python3-venv,ca-certificates
    root postgres trixie postgresql-17,libnss-wrapper
    local path=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
    ln -sf /usr/bin/python3 "$stand_in/python/usr/local/bin/python"
    local conf="[global]"
    [ -z "${PIP_INDEX_URL:-}" ] || conf+=$'\n'"index-url = $PIP_INDEX_URL"
    if [ -n "${PIP_CERT:-}" ]; then
        cp "$PIP_CERT" "$stand_in/python/etc/pip.pem"
        conf+=$'\ncert = /etc/pip.pem'
    fi
    printf '%s\n' "$conf" >"$stand_in/python/etc/pip.conf"
    import_as "$python_base" "$stand_in/python" "ENV PATH=$path LANG=C.UTF-8" 'CMD ["python"]'

    install -d -m 1777 "$stand_in/postgres/var/lib/postgresql/data"
    install -d -m 3777 "$stand_in/postgres/run/postgresql"
    sed -i "s/^#listen_addresses = 'localhost'/listen_addresses = '*'/" \
        "$stand_in/postgres/usr/share/postgresql/17/postgresql.conf.sample"
    postgres_entrypoint >"$stand_in/postgres/usr/local/bin/entrypoint"
    chmod 755 "$stand_in/postgres/usr/local/bin/entrypoint"
    import_as "$postgres_base" "$stand_in/postgres" "ENV PATH=$path:/usr/lib/postgresql/17/bin LANG=C.UTF-8" \
        'ENTRYPOINT ["entrypoint"]' 'CMD ["postgres"]' 'STOPSIGNAL SIGINT' 'VOLUME /var/lib/postgresql/data'
}

# Of what the image's own entrypoint does that which compose.yaml asks for: a first start makes the cluster.
postgres_entrypoint() {
    cat <<'SH'
#!/bin/bash
set -eu
printf 'farm:x:%s:%s::/:/bin/sh\n' "$(id -u)" "$(id -g)" >/tmp/passwd
export LD_PRELOAD=libnss_wrapper.so NSS_WRAPPER_PASSWD=/tmp/passwd NSS_WRAPPER_GROUP=/etc/group
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    initdb --username="$POSTGRES_USER" --pwfile="$POSTGRES_PASSWORD_FILE" --auth-local=trust --auth-host=scram-sha-256
    printf 'host all all all scram-sha-256\n' >>"$PGDATA/pg_hba.conf"
    pg_ctl --wait --options="-c listen_addresses=''" start
    psql --username="$POSTGRES_USER" --dbname=postgres --command="CREATE DATABASE \"$POSTGRES_DB\""
    pg_ctl --wait --mode=fast stop
fi
unset LD_PRELOAD
exec "$@"
SH
}

make_clone() {
    git clone --quiet --no-hardlinks "$checkout" "$clone"
    outside=$(docker network inspect bridge --format '{{(index .IPAM.Config 0).Gateway}}')
    FARM_GATEWAY_PORT=$(free_port 18443)
    FARM_WEB_PORT=$(free_port 18765)
    export COMPOSE_PROJECT_NAME=$project FARM_IMAGE=$project-compose FARM_GATEWAY_PORT FARM_WEB_PORT
    expect '[1-9]*' 'run deploy/secrets.sh first' compose config
    only_line
    expect 0 'has what compose.yaml reads' "$clone/deploy/secrets.sh" "$outside"
    only_line
    password=$(cat "$clone/deploy/secrets/db.password")
    [ "${#password}" = 64 ] || die "FAILED: the database's password has ${#password} digits"
}

# What a build is sent: of a checkout with a state folder, an environment and secrets nothing but what is copied.
look_at_context() {
    mkdir -p "$clone/.farm" "$clone/kernels/.farm" "$clone/.venv"
    tee "$clone/.farm/token" "$clone/kernels/.farm/token" "$clone/.venv/pyvenv.cfg" "$clone/bench.token" <<<"$password" >/dev/null
    printf 'FROM %s\nCOPY . /context\n' "$python_base" >"$home/context.Dockerfile"
    expect 0 . docker build --quiet -f "$home/context.Dockerfile" -t "$project-context" "$clone"
    expect 0 '/context/kernels/ops' docker run --rm "$project-context" find /context
    absent "secrets, state or history" '/(\.farm|\.git|\.venv|\.env|secrets|.*\.token|tests|__pycache__)(/|$)' \
        docker run --rm "$project-context" find /context
}

# image NAME: its size, and that it starts as a user without rights on a root that can't be written.
look_at_image() {
    say "$1: $(($(docker image inspect --format '{{.Size}}' "$1") / 1000000)) MB; layers, base last:" \
        "$(docker history --format '{{.Size}}' "$1" | grep -v '^0B$' | tr '\n' ' ')"
    expect 0 '^uid=10001' docker run --rm --entrypoint id "$1"
    expect 0 '^uid=4242' docker run --rm --user 4242:4242 --entrypoint id "$1"
    absent "word of a secret" '(TOKEN|PASSWORD|SECRET)' docker image inspect --format '{{json .Config}}' "$1"
    absent "password" "$password" docker image save "$1"
}

build_images() {
    local cuda
    expect 0 . docker build --quiet --no-cache -f "$clone/deploy/docker/head.Dockerfile" -t "$project-head" "$clone"
    look_at_image "$project-head"
    expect 0 '^farm, version' docker run --rm --read-only "$project-head" --version
    for cuda in 12 13; do
        expect 0 . docker build --quiet --no-cache -f "$clone/deploy/docker/worker.Dockerfile" --build-arg "CUDA=$cuda" \
            -t "$project-worker:cuda$cuda" "$clone"
        look_at_image "$project-worker:cuda$cuda"
        worker_without_a_board "$project-worker:cuda$cuda"
    done
}

worker_without_a_board() {
    [ -e /proc/driver/nvidia ] || {
        expect 1 'cuda is unavailable because there is no NVIDIA driver' docker run --rm --read-only "$1" selftest
        only_line
        docker run --detach --name "$project-idle" --entrypoint sleep "$1" 600 >>"$log"
        expect 1 "healthy: the driver doesn't answer" docker exec "$project-idle" python /opt/healthy.py boards
        docker rm --force "$project-idle" >>"$log"
    }
}

look_at_services() {
    local name
    for name in db head web worker; do
        expect 0 "^$name .*\(healthy\)" compose ps --format '{{.Service}} {{.Status}}' "$name"
        expect 0 '^CapEff:.0000000000000000$' compose exec -T "$name" cat /proc/1/status
        grep -qE '^NoNewPrivs:.1$' "$home/said" || die "FAILED: $name may gain privileges"
        ! grep -qE '^Uid:.0' "$home/said" || die "FAILED: $name runs as root"
    done
    for name in head web worker; do
        expect 1 'Read-only file system' compose exec -T "$name" python -c 'open("/new", "w")'
    done
    absent "password" "$password" docker inspect "$project-db-1" "$project-head-1" "$project-web-1" "$project-worker-1"
    say "memory: $(docker stats --no-stream --format '{{.Name}} {{.MemUsage}}' |
        sed -n "s|^$project-\(.*\)-1 \(.*\) / .*|\1 \2,|p" | tr '\n' ' ')"
}

# What can be reached: from outside two ports of loopback, from the worker one port of the head, all others tried.
look_at_networks() {
    docker ps --filter "label=com.docker.compose.project=$project" --format '{{.Ports}}' | grep -oE '[0-9.:]+->[0-9]+' |
        sort >"$home/ports"
    printf '127.0.0.1:%s->8443\n127.0.0.1:%s->8765\n' "$FARM_GATEWAY_PORT" "$FARM_WEB_PORT" | sort | diff - "$home/ports" ||
        die "FAILED: other ports are published"
    say "ok: published is $(tr '\n' ' ' <"$home/ports")and nothing else"
    expect 0 '^head \[8443\]$' opened_to_worker head 1 65535
    local address
    for address in $(docker inspect --format '{{range .NetworkSettings.Networks}}{{.IPAddress}} {{end}}' \
        "$project-db-1" "$project-web-1"); do
        expect 0 "^$address \[\]$" opened_to_worker "$address" 5432 5432
        expect 0 "^$address \[\]$" opened_to_worker "$address" 8765 8765
    done
}

# opened_to_worker HOST FIRST LAST: prints HOST and the ports there that the worker can reach.
opened_to_worker() {
    compose exec -T worker python -c 'import socket, sys
host, first, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
found = []
for port in range(first, last + 1):
    with socket.socket() as sock:
        sock.settimeout(1)
        if sock.connect_ex((host, port)) == 0:
            found.append(port)
print(host, found)' "$@"
}

# all_passed CAMPAIGN SECONDS: all of its jobs passed.
all_passed() { until_line "$2" "^campaign $1: ([0-9,]+) jobs? in [^:]*: \1 PASS \(" farm status; }

give_work() {
    expect 0 'campaign 1 is stored' farm submit --op matvec --kind Q4_K --detach
    all_passed 1 120
    expect 0 'matvec/block \| Q4_K \| PASS' farm export
    # shellcheck disable=SC2016 # the container's own
    expect 0 'PASS' compose exec -T head sh -ec 'FARM_STATE=/farm/alone python -m workers run --kernel silu_mul/flat \
        --shape 257 --backend host --bundle /farm/alone.jsonl'
    expect 0 ' 0 were here already' farm import /farm/alone.jsonl
    absent "board without a price" 'without a price' farm cost
}

look_at_dashboard() {
    local page=https://localhost:$FARM_WEB_PORT ca=$clone/deploy/secrets/gateway.pem token
    token=$(compose exec web cat /farm/state/web.token)
    expect 0 '^403$' curl --silent --cacert "$ca" --output /dev/null --write-out '%{http_code}\n' "$page/api/overview"
    printf 'header = "Authorization: Bearer %s"\n' "$token" >"$home/curl"
    expect 0 '"campaigns":\[\{"id":' curl --silent --cacert "$ca" --config "$home/curl" "$page/api/overview"
}

kill_the_worker() {
    expect 0 'campaign 2 is stored' farm submit --all-kinds --detach
    until_line 300 '^campaign 2: .* [0-9]+,[0-9]{3} PASS, .*still to run' farm status
    expect 0 . docker kill "$project-worker-1"
    expect 0 '^campaign 2: .*still to run' farm status
    expect 0 'Healthy' compose up --detach --wait
    all_passed 2 1200
}

worker_board() { compose logs --no-log-prefix worker | sed -n 's/.*at work for \([^;]*\);.*/\1/p' | tail -n 1; }

# At the end of a stop everything has ended by itself: 137 would be by force.
stop_and_start() {
    local board
    board=$(worker_board)
    expect 0 'campaign 3 is stored' farm submit --op matvec --detach
    until_line 120 '^campaign 3: .* [0-9]+,[0-9]{3} PASS, .*still to run' farm status
    expect 0 Stopped compose stop
    at_most "$stop_s"
    absent "exit by force" ' [1-9][0-9]*$' compose ps --all --format '{{.Service}} {{.ExitCode}}'
    expect 0 Removed compose down
    expect 0 'Healthy' compose up --detach --wait
    say "up with images and rows there: $took_s s"
    all_passed 3 600
    expect 0 '^campaign 1: .* PASS \(' farm status
    [ "$(worker_board)" = "$board" ] || die "FAILED: the worker came back as $(worker_board), and was $board"
    say "ok: the worker is $board again"
}

worker_from_outside() {
    export FARM_GATEWAY_ADDRESS=0.0.0.0
    expect 0 'Healthy' compose up --detach --wait
    # This machine has no address in the worker's network, though the gateway now listens on all that it has.
    expect 0 '\[\]$' opened_to_worker "$(docker network inspect "${project}_work" \
        --format '{{(index .IPAM.Config 0).Gateway}}')" "$FARM_GATEWAY_PORT" "$FARM_GATEWAY_PORT"
    expect 0 '\[\]$' opened_to_worker "$outside" "$FARM_GATEWAY_PORT" "$FARM_GATEWAY_PORT"
    compose stop worker >>"$log" 2>&1
    (umask 077 && farm token new outside --device 'cpu-*' >"$home/token")
    cp "$clone/deploy/secrets/gateway.pem" "$home/ca.pem"
    chown "$(id -u):$(id -g)" "$home/ca.pem"
    chmod 755 "$home"
    docker run --detach --name "$project-outside" --read-only --tmpfs /farm:exec,mode=1777 --tmpfs /tmp \
        --user "$(id -u):$(id -g)" --volume "$home/token:/token:ro" --volume "$home/ca.pem:/ca.pem:ro" \
        --entrypoint python "$project-head" -m workers pull "https://$outside:$FARM_GATEWAY_PORT" \
        --token-file /token --ca /ca.pem --backend host >>"$log"
    until_line 60 'at work for cpu-' docker logs "$project-outside"
    expect 0 'campaign 4 is stored' farm submit --op rmsnorm --seed 4 --detach
    all_passed 4 120
    farm token revoke outside || die "FAILED: the token could not be revoked"
    until_line 60 '[1-9]' docker inspect --format '{{.State.Status}} {{.State.ExitCode}}' "$project-outside"
    say "the outside worker's last word: $(docker logs "$project-outside" 2>&1 | tail -n 1)"
}

end_all() {
    expect 0 Removed compose down --volumes
    at_most "$stop_s"
    [ -z "$(docker volume ls --quiet --filter "label=com.docker.compose.project=$project")" ] || die "FAILED: volumes are left"
    [ -z "$(docker network ls --quiet --filter "label=com.docker.compose.project=$project")" ] || die "FAILED: networks are left"
    say "ok: no container, volume or network is left"
}

main() {
    say "engine $(docker version --format '{{.Server.Version}}'), Compose $(docker compose version --short), $(nproc) cores"
    [ -z "$stand_in" ] || make_bases
    make_clone
    look_at_context
    build_images
    expect 0 'Healthy' compose up --build --detach --wait
    say "up --build from the build cache, first start: $took_s s"
    look_at_services
    look_at_networks
    give_work
    look_at_dashboard
    kill_the_worker
    stop_and_start
    worker_from_outside
    end_all
    say "done in $SECONDS s"
}

main
