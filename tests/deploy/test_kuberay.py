"""kuberay.yaml: pods against Kubernetes' own schema, the RayCluster around them against KubeRay's v1 fields.

KubeRay's CRD is in no package registry: its fields are listed here, as read in its raycluster_types.go.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from tests.deploy.tools import DEPLOY, document

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
    replicas=COUNT, minReplicas=COUNT, maxReplicas=COUNT, numOfHosts=COUNT,
    scaleStrategy={"type": "object"},
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
    ),
)


@pytest.fixture
def cluster() -> dict[str, Any]:
    return copy.deepcopy(document(FILE))


def groups(cluster: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield cluster["spec"]["headGroupSpec"]
    yield from cluster["spec"]["workerGroupSpecs"]


def check_cluster(cluster: dict[str, Any]) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.validate(cluster, CLUSTER)


def check_pod(group: dict[str, Any]) -> None:
    name = "kubernetes_validate"
    validator = pytest.importorskip(name, reason=f"no {name} here: pip install -r requirements-deploy.txt")
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "ray"}, **group["template"]}
    validator.validate(pod, KUBERNETES, strict=True)


def test_the_cluster_has_kuberays_fields(cluster: dict[str, Any]) -> None:
    check_cluster(cluster)
    for group in cluster["spec"]["workerGroupSpecs"]:
        assert group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]


def test_its_pods_are_kubernetes_pods(cluster: dict[str, Any]) -> None:
    for group in groups(cluster):
        check_pod(group)


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


def test_the_head_names_no_backend_which_would_be_that_of_every_node(cluster: dict[str, Any]) -> None:
    (head,) = cluster["spec"]["headGroupSpec"]["template"]["spec"]["containers"]
    assert "farm up --foreground" in head["args"][0]
    assert "--backend" not in head["args"][0]


def test_the_ray_named_is_the_one_locked(cluster: dict[str, Any]) -> None:
    lock = (DEPLOY.parent / "requirements.txt").read_text()
    assert f"\nray=={cluster['spec']['rayVersion']} ;" in lock
