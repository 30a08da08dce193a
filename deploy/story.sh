#!/bin/bash
# What a farm does in a day, in two minutes: run by local.sh, it asks the farm that is up for everything once.
set -euo pipefail

say() { printf 'story: %s\n' "$*"; }
backend=${FARM_BACKEND:-host}

say "a campaign, shared by the head's own worker and the one that pulls"
farm submit --op silu_mul --op rmsnorm --backend "$backend" --json >campaign.json

say "a bundle of a machine that has no network"
FARM_STATE=$PWD/alone python -m workers run --kernel silu_mul/flat --shape 257 --backend "$backend" --bundle alone.jsonl
farm import alone.jsonl

say "the matrix, as text and as a page"
farm export --output matrix.md
farm export --format html --output matrix.html

say "docs that can't lie"
printf '# What runs\n\n<!-- farm:matrix -->\n<!-- farm:end -->\n' >docs.md
farm docs write docs.md
farm docs check docs.md

say "the dashboard, as programs see it"
python - "$FARM_WEB" <<'PY'
import json
import sys
from urllib.request import urlopen

with urlopen(f"{sys.argv[1]}/api/overview", timeout=30) as answer:
    print(f"story: the dashboard knows {len(json.load(answer)['campaigns'])} campaigns")
PY
farm status
say "done"
