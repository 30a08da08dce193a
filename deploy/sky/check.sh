#!/bin/bash
# Has SkyPilot itself read the tasks beside this file, hold them against what each market can do, and place them, alone and with what
# `farm plan` would add, by tables of nobody's prices; and the names in farm/prices.toml. Starts nothing, rents nothing.
#
# FARM_SKY_VENV   SkyPilot's environment, made on first use and renewed when its lock changes; default build/sky in the checkout
# FARM_PYTHON     what makes it; default python3
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd -P)
root=$(cd "$here/../.." && pwd -P)
venv=${FARM_SKY_VENV:-$root/build/sky}
python=${FARM_PYTHON:-python3}

die() {
    printf 'check.sh: %s\n' "$*" >&2
    exit 1
}

if ! cmp -s "$here/requirements.txt" "$venv/lock"; then
    printf 'check.sh: installing SkyPilot into %s: about 90 MB to download, less what is cached\n' "$venv" >&2
    if command -v uv >/dev/null; then
        uv venv --quiet --clear --python "$python" "$venv" &&
            uv pip install --quiet --python "$venv/bin/python" --require-hashes --no-deps -r "$here/requirements.txt"
    else
        "$python" -m venv --clear "$venv" &&
            "$venv/bin/python" -m pip install --quiet --require-hashes --no-deps -r "$here/requirements.txt"
    fi || die "SkyPilot can't be installed here; the tasks were not read"
    cp "$here/requirements.txt" "$venv/lock"
fi

# Its state goes beside it, and neither its own server nor anybody's usage statistics hear of it.
cd "$root"
[ $# -gt 0 ] || set -- "$here" farm/prices.toml
HOME=$venv/home SKYPILOT_DISABLE_USAGE_COLLECTION=1 "$venv/bin/python" "$here/check.py" "$@"
