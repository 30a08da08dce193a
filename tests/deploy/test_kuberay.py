"""kuberay.yaml: pods against Kubernetes' own schema, the RayCluster around them against KubeRay's v1 fields.

KubeRay's CRD is in no package registry: its fields are listed here, as read in its 1.4 (raycluster_types.go);
the file uses none of those that 1.5 brought.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.tools import DEPLOY, ROOT, said

FILE = DEPLOY / "kuberay.yaml"
KUBERNETES = "1.29"
COUNT = {"type": "integer", "minimum": 0}
WORDS = {"type": "object", "additionalProperties": {"type": "string"}}
GROUP = {"rayStartParams": WORDS, "template": {"type": "object", "required": ["spec"]}}


def closed(required: tuple[str, ...], **properties: Any) -> dict[str, Any]:
    return {
        "type": "object", "additionalProperties": False, "required": list(required), "properties": properties
    }  # fmt: skip


HEAD = closed(
    ("rayStartParams", "template"),
    **GROUP,
    serviceType={"enum": ["ClusterIP", "NodePort", "LoadBalancer"]},
    headService={"type": "object"},
    enableIngress={"type": "boolean"},
)
WORKER = closed(
    ("groupName", "minReplicas", "maxReplicas", "rayStartParams", "template"),
    **GROUP,
    groupName={"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"},
    replicas=COUNT, minReplicas=COUNT, maxReplicas=COUNT, numOfHosts=COUNT, idleTimeoutSeconds=COUNT,
    scaleStrategy={"type": "object"}, suspend={"type": "boolean"},
)  # fmt: skip
CLUSTER = closed(
    ("apiVersion", "kind", "metadata", "spec"),
    apiVersion={"const": "ray.io/v1"},
    kind={"const": "RayCluster"},
    metadata={"type": "object", "required": ["name"]},
    spec=closed(
        ("headGroupSpec",),
        headGroupSpec=HEAD,
        workerGroupSpecs={"type": "array", "items": WORKER},
        rayVersion={"type": "string"},
        enableInTreeAutoscaling={"type": "boolean"},
        autoscalerOptions={"type": "object"},
        headServiceAnnotations=WORDS,
        suspend={"type": "boolean"},
        managedBy={"enum": ["ray.io/kuberay-operator", "kueue.x-k8s.io/multikueue"]},
        gcsFaultToleranceOptions={"type": "object", "required": ["redisAddress"]},
    ),
)


@pytest.fixture
def cluster() -> dict[str, Any]:
    return copy.deepcopy(documents()["RayCluster"])


def documents() -> dict[str, dict[str, Any]]:
    """By kind."""
    return {each["kind"]: each for each in yaml.safe_load_all(FILE.read_text(encoding="utf8"))}


def groups(cluster: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield cluster["spec"]["headGroupSpec"]
    yield from cluster["spec"]["workerGroupSpecs"]


def check_cluster(cluster: dict[str, Any]) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.validate(cluster, CLUSTER)


def check_pod(group: dict[str, Any]) -> None:
    check_object({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "ray"}, **group["template"]})


def check_object(each: dict[str, Any]) -> None:
    name = "kubernetes_validate"
    validator = pytest.importorskip(name, reason=f"no {name} here: pip install -r requirements-deploy.txt")
    validator.validate(each, KUBERNETES, strict=True)


def test_the_cluster_has_kuberays_fields(cluster: dict[str, Any]) -> None:
    check_cluster(cluster)
    for group in cluster["spec"]["workerGroupSpecs"]:
        assert group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]


def test_its_pods_are_kubernetes_pods(cluster: dict[str, Any]) -> None:
    for group in groups(cluster):
        check_pod(group)


def test_rays_ports_are_for_the_clusters_own_pods(cluster: dict[str, Any]) -> None:
    policy = documents()["NetworkPolicy"]
    check_object(policy)
    own = {"podSelector": {"matchLabels": {"ray.io/cluster": cluster["metadata"]["name"]}}}
    assert policy["metadata"]["namespace"] == cluster["metadata"]["namespace"]
    assert policy["spec"] == {**own, "policyTypes": ["Ingress"], "ingress": [{"from": [own]}]}


def test_a_wrong_field_of_either_is_seen(cluster: dict[str, Any]) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    worker = cluster["spec"]["workerGroupSpecs"][0]
    worker["template"]["spec"]["containers"][0]["imagePullPollicy"] = "Always"
    with pytest.raises(Exception, match="imagePullPollicy"):  # the validator's own class
        check_pod(worker)
    worker["replica"] = 1
    with pytest.raises(jsonschema.ValidationError, match="replica"):
        check_cluster(cluster)


def test_a_group_is_one_class_of_gpu(cluster: dict[str, Any]) -> None:
    names = []
    for group in cluster["spec"]["workerGroupSpecs"]:
        pod = group["template"]["spec"]
        names.append((group["groupName"], pod["nodeSelector"]["nvidia.com/gpu.product"]))
        assert pod["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert len({name for name, _ in names}) == len({product for _, product in names}) == len(names) > 1


def test_pods_are_locked_down_and_take_secrets_from_files(cluster: dict[str, Any]) -> None:
    for group in groups(cluster):
        pod = group["template"]["spec"]
        (container,) = pod["containers"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["automountServiceAccountToken"] is False
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        }
        assert "envFrom" not in container
        assert not any("valueFrom" in each for each in container.get("env", []))
        assert {"readinessProbe", "livenessProbe"} <= set(container)
        mounts = {each["name"] for each in container["volumeMounts"]}
        assert mounts == {each["name"] for each in pod["volumes"]}
    assert cluster["metadata"]["annotations"] == {"ray.io/overwrite-container-cmd": "true"}
    assert all("database" not in str(group) for group in cluster["spec"]["workerGroupSpecs"])


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0, "up --foreground --no-worker postgresql://farm@db/farm"),
        (1, "join head.svc:6379 --token-file {farm}/head.token --minutes 30 "),
    ],
)
def test_a_pods_command_starts_the_farm_with_a_token_of_its_owner(
    cluster: dict[str, Any], tmp_path: Path, number: int, words: str
) -> None:
    secrets, farm = tmp_path / "secrets", tmp_path / "farm"
    for path, text in (("token/token", "0" * 64), ("database/url", "postgresql://farm@db/farm")):
        (secrets / path).parent.mkdir(parents=True)
        (secrets / path).write_text(text)
    farm.mkdir()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/farm").write_text(f'#!/bin/sh\necho "$* $FARM_DB" >{farm}/words\n')
    (tmp_path / "bin/farm").chmod(0o755)
    (container,) = list(groups(cluster))[number]["template"]["spec"]["containers"]
    script = container["args"][0].replace("/run/secrets", str(secrets)).replace("/farm/", f"{farm}/")
    done = said(*container["command"], script, PATH=f"{tmp_path}/bin:/usr/bin:/bin", FQ_RAY_IP="head.svc")
    assert done.returncode == 0, done.stderr
    assert (farm / "words").read_text().strip() == words.format(farm=farm).strip()
    (token,) = farm.rglob("*token")
    assert (token.stat().st_mode & 0o777, token.read_text()) == (0o600, "0" * 64)


def test_what_is_typed_into_the_head_names_its_database() -> None:
    """A shell there has none of what the container's command exports."""
    (line,) = [line for line in FILE.read_text().splitlines() if "kubectl -n farm exec" in line]
    assert "sh -c 'FARM_DB=$(cat /run/secrets/database/url) farm submit" in line


def test_images_are_those_that_the_dockerfiles_make(cluster: dict[str, Any]) -> None:
    text, version = (
        FILE.read_text(),
        (ROOT / "pyproject.toml").read_text().split('\nversion = "')[1].split('"')[0],
    )
    for group in groups(cluster):
        (container,) = group["template"]["spec"]["containers"]
        assert f" -t {container['image']} ." in text
        assert container["image"].partition(":")[2].startswith(version)


def test_the_head_names_no_backend_which_would_be_that_of_every_node(cluster: dict[str, Any]) -> None:
    (head,) = cluster["spec"]["headGroupSpec"]["template"]["spec"]["containers"]
    assert "farm up --foreground" in head["args"][0]
    assert "--backend" not in head["args"][0]


def test_the_ray_named_is_the_one_locked(cluster: dict[str, Any]) -> None:
    lock = (DEPLOY.parent / "requirements.txt").read_text()
    assert f"\nray=={cluster['spec']['rayVersion']} ;" in lock
