#!/bin/bash
# ./run on a fresh machine: a bare Debian root, python3 in it and no compiler; a clean clone; then what a new user would type.
#
#   tests/deploy/bare.sh              from no venv module to a printed matrix, and again from a mirror; as root
#   tests/deploy/bare.sh --tests ...  and then ./run test ... in it
#
# BARE_ROOT   folder of the roots, with some 3 GB free   default: a new one, removed at the end; a named one is kept,
#             and its base root, which takes minutes to make, is used again
# BARE_GB     memory that everything in the root may have together   default: 8
# PIP_INDEX_URL, PIP_CERT   where set, go into the root's pip.conf
set -euo pipefail

checkout=$(cd "$(dirname "$0")/../.." && pwd -P)
gb=${BARE_GB:-8}
# shellcheck source=/dev/null
release=$(. /etc/os-release && printf %s "${VERSION_CODENAME:-}")
group=farm-bare-$$
port=18081

say() { printf 'bare: %s\n' "$*"; }

die() {
    say "$*" >&2
    exit 1
}

[ "$(id -u)" = 0 ] || die "a root file system is made and entered by root"
for tool in debootstrap unshare chroot ip git; do
    command -v "$tool" >/dev/null || die "no $tool here (Debian: apt-get install debootstrap util-linux iproute2 git)"
done

keep=${BARE_ROOT:-}
home=${BARE_ROOT:-$(mktemp -d)}
mkdir -p "$home"
home=$(cd "$home" && pwd -P)
root=$home/root
log=$home/log
: >"$log"
mirror=

leave() {
    [ -z "$mirror" ] || kill "$mirror" 2>/dev/null || true
    sleep 0.5 # what was in the group has to be gone first
    rmdir "/sys/fs/cgroup/memory/$group" "/sys/fs/cgroup/$group" 2>/dev/null || true
    [ -n "$keep" ] || rm -rf "$home"
}
trap leave EXIT

# A control group of both versions' kinds, or a limit for each process, which is less: says which.
limit_memory() {
    if mkdir "/sys/fs/cgroup/memory/$group" 2>/dev/null; then
        cgroup=/sys/fs/cgroup/memory/$group
        inside=/sys/fs/cgroup/memory
        printf '%s' $((gb << 30)) >"$cgroup/memory.limit_in_bytes"
        say "memory: $gb GiB for all of it together, by a control group (version 1)"
    elif mkdir "/sys/fs/cgroup/$group" 2>/dev/null && [ -e "/sys/fs/cgroup/$group/memory.max" ]; then
        cgroup=/sys/fs/cgroup/$group
        inside=/sys/fs/cgroup
        printf '%s' $((gb << 30)) >"$cgroup/memory.max"
        say "memory: $gb GiB for all of it together, by a control group (version 2)"
    else
        cgroup='' inside=''
        ulimit -v $((gb << 20))
        say "memory: $gb GiB for each process, by ulimit; no control group can be made here"
    fi
}

peak_mb() {
    [ -n "$cgroup" ] || return 0
    local peak
    peak=$(cat "$cgroup/memory.max_usage_in_bytes" "$cgroup/memory.peak" 2>/dev/null | head -n 1 || true)
    say "memory: at most $((peak >> 20)) MiB at a time, the cache of files included"
}

# enter [--net] COMMAND: by a shell in the clone, with the environment of a login and nothing of ours.
enter() {
    local own=
    [ "$1" != --net ] || { own=--net && shift; }
    (
        [ -z "$cgroup" ] || echo $BASHPID >"$cgroup/cgroup.procs"
        export root cgroup inside own
        # shellcheck disable=SC2016 # the other shell's own
        exec unshare --mount --pid --fork --kill-child $own bash -ec '
            mount -t proc proc "$root/proc"
            mount --rbind /dev "$root/dev"
            mount -t tmpfs tmpfs "$root/dev/shm"
            mount -t tmpfs tmpfs "$root/sys"
            if [ -n "$cgroup" ]; then
                mkdir -p "$root$inside"
                mount --bind "$cgroup" "$root$inside"
            fi
            [ -z "$own" ] || ip link set lo up
            chroot "$root" env -i HOME=/root TERM=dumb LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
                PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
                bash -c "cd /root/kernel-farm || exit; $1" || exit
            exit 0 # as first process of its namespace this shell has stayed and reaped what others left' bash "$1" </dev/null
    )
}

# expect STATUS PATTERN COMMAND: what it prints must have a line that fits, and it must end so.
expect() {
    local status=0 began=$SECONDS
    enter "${@:3}" >"$home/said" 2>&1 || status=$?
    { printf '$ %s\n' "${*:3}" && cat "$home/said"; } >>"$log"
    took_s=$((SECONDS - began))
    if [ "$status" != "$1" ] || ! grep -qE "$2" "$home/said"; then
        tail -n 20 "$home/said" >&2
        die "FAILED: ${*:3}: exit $status, wanted $1 and a line like '$2'"
    fi
    say "ok: ${*:3} ($took_s s, exit $status): $(grep -E "$2" "$home/said" | head -n 1 | cut -c 1-150)"
}

# The same, on the way from a bare root to a matrix: its seconds are added up.
total_s=0
leg() {
    expect "$@"
    total_s=$((total_s + took_s))
}

only_line() { [ "$(wc -l <"$home/said")" = 1 ] || die "FAILED: more than one line: $(cat "$home/said")"; }

make_base() {
    [ -n "$release" ] || die "no VERSION_CODENAME in /etc/os-release; this is for Debian"
    local from
    # shellcheck disable=SC2016 # apt-get's own
    from=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' |
        awk -v release="$release" '$2 == release { print $1; exit }')
    say "making a root of $release"
    rm -rf "$home/base.part"
    debootstrap --variant=minbase --include=python3 "$release" "$home/base.part" "$from" >>"$log" 2>&1 ||
        die "debootstrap could not make a root; see $log"
    rm -rf "$home/base.part/var/cache/apt/archives" && mkdir -p "$home/base.part/var/cache/apt/archives/partial"
    mv "$home/base.part" "$home/base"
}

make_root() {
    rm -rf "$root"
    cp -a "$home/base" "$root"
    cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
    local conf="[global]"
    [ -z "${PIP_INDEX_URL:-}" ] || conf+=$'\n'"index-url = $PIP_INDEX_URL"
    if [ -n "${PIP_CERT:-}" ]; then
        cp "$PIP_CERT" "$root/etc/pip.pem"
        conf+=$'\ncert = /etc/pip.pem'
    fi
    printf '%s\n' "$conf" >"$root/etc/pip.conf"
    git clone --quiet --no-hardlinks "$checkout" "$root/root/kernel-farm"
}

without_venv() {
    expect 1 'apt-get install python3-venv' './run farm --help'
    only_line
    leg 0 'Setting up python3.*-venv' 'apt-get update && apt-get install -y python3-venv'
}

without_compiler() {
    leg 0 '^Usage: farm' './run farm --help'
    expect 1 '^missing backend host +there is no C\+\+ compiler' './run farm doctor'
    expect 1 'apt-get install g\+\+' './run farm submit --all-kinds'
    only_line
    local words
    expect 0 'PASS' './run farm submit --op silu_mul --backend twin --local'
    for words in kernels kinds devices toolchains status 'db check' 'plan --budget 1' cost; do
        expect 0 . "./run farm $words"
    done
    expect 0 'PASS' './run farm run silu_mul/flat 257 --backend twin'
    expect 0 'PASS' './run farm export'
    expect 0 '"cells"' './run farm export --format json'
    expect 0 . 'FARM_STATE=/tmp/alone ./run python -m workers run --kernel silu_mul/flat --backend twin --bundle /tmp/b'
    expect 0 . './run farm import /tmp/b'
    enter 'rm -rf .farm'
}

with_compiler() {
    leg 0 'Setting up g\+\+' 'apt-get install -y g++'
    leg 0 'matvec/coalesced.* PASS' './run farm submit --all-kinds && ./run farm status'
    say "from a bare root to a printed matrix: $total_s s (to be: at most 300)"
}

# What pip.conf names is all that there is: the root has a network of its own, loopback, and a server in it.
from_a_mirror() {
    enter '.venv/bin/python -m pip download -q --require-hashes --no-deps -r requirements.txt -d /srv/files' >>"$log" 2>&1 ||
        die "FAILED: pip download; see $log"
    local debian python
    debian=$(du -cm "$root/var/cache/apt/archives" "$root/var/lib/apt/lists" | tail -n 1 | cut -f 1)
    python=$(du -sm "$root/srv/files" | cut -f 1)
    say "downloaded: $debian MB of Debian's, its lists unpacked, and $python MB of Python's; to be: at most 700"
    # shellcheck disable=SC2016 # the root's own
    enter 'for file in /srv/files/*; do
        name=${file##*/} && name=${name%%-[0-9]*} && name=${name//[._]/-}
        mkdir -p "/srv/simple/${name,,}" && mv "$file" "/srv/simple/${name,,}"
    done
    rm -rf .venv /root/.cache'
    mv "$root/etc/pip.conf" "$root/etc/pip.conf.kept"
    printf '[global]\nindex-url = http://127.0.0.1:%s/simple/\n' "$port" >"$root/etc/pip.conf"
    expect 0 '^Usage: farm' --net "python3 -m http.server --bind 127.0.0.1 --directory /srv $port >/tmp/asked 2>&1 &
        ./run farm --help"
    mv "$root/etc/pip.conf.kept" "$root/etc/pip.conf"
    local wanted asked
    wanted=$(grep -c '^[a-zA-Z].*==' "$root/root/kernel-farm/requirements.txt")
    asked=$(grep -oE 'GET /simple/[^ ]+\.(whl|tar\.gz)' "$root/tmp/asked" | sort -u | wc -l)
    say "ok: without any other network, pip.conf's mirror gave $asked files; the lock names $wanted, some for other machines"
}

run_tests() {
    expect 0 '[0-9]+ passed' "./run test $*"
    say "./run test: $(tail -n 1 "$home/said")"
}

main() {
    [ -d "$home/base" ] || make_base
    make_root
    limit_memory
    without_venv
    without_compiler
    with_compiler
    from_a_mirror
    [ "${1:-}" != --tests ] || run_tests "${@:2}"
    peak_mb
    say "done"
}

main "$@"
