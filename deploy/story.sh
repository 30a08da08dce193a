#!/bin/bash
# What a farm does in a day, in two minutes: run by local.sh, it asks the farm that is up for everything once.
set -euo pipefail

say() { printf 'story: %s\n' "$*"; }
backend=${FARM_BACKEND:-host}

say "both workers pass their exam: one alone could do all before the other begins"
until [ "$(grep -c '"exam passed"' .farm/log/coordinator.jsonl)" -ge 2 ]; do
    [ "$SECONDS" -lt 180 ] || { say "no two exams were passed within 180 s" >&2 && exit 1; }
    sleep 0.2
done

say "a campaign, shared by the head's own worker and the one that pulls"
farm submit --op silu_mul --op rmsnorm --seed 0 --seed 1 --seed 2 --seed 3 --backend "$backend" --json >campaign.json

say "whose work it was"
python - <<'PY'
import os
import sys

import sqlalchemy as sa

from db.session import open_existing
from db.tables import attempt, evidence

query = (
    sa.select(attempt.c.worker_id, evidence.c.trust, sa.func.count())
    .join_from(evidence, attempt)
    .where(attempt.c.state == "done", evidence.c.verdict == "PASS")
    .group_by(attempt.c.worker_id, evidence.c.trust)
)
with open_existing(os.environ["FARM_DB"]).reading() as s:
    found = s.execute(query).all()
for worker, trust, passed in found:
    print(f"story: worker {worker} passed {passed} cases, {trust}")
if missing := {"own", "rented"} - {trust for _, trust, _ in found}:
    sys.exit(f"story: no {' and no '.join(sorted(missing))} worker ran a case: own comes by Ray, rented by the gateway")
PY

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
