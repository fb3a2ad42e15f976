#!/usr/bin/env python3
"""utils/packaging/container/kubernetes.yaml: YAML that a Kubernetes server could read, by the rules that are checked here,
and pods that ask for nothing. No server is there, so only the syntax is known. Last line: `N objects, M mistakes`.
"""

import pathlib
import re
import sys

import yaml

PAGE = pathlib.Path(__file__).resolve().parents[2] / "utils/packaging/container/kubernetes.yaml"
NAME = re.compile(r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")
POD_KEYS = {"restartPolicy", "securityContext", "containers", "volumes", "hostname", "subdomain"}
CONTAINER_KEYS = {"name", "image", "command", "args", "env", "securityContext", "resources", "volumeMounts", "ports"}


def mistakes_of_container(container, volumes):
    for key in container.keys() - CONTAINER_KEYS:
        yield f"a container with {key}"
    context = container.get("securityContext", {})
    if context.get("capabilities", {}).get("drop") != ["ALL"] or "add" in context.get("capabilities", {}):
        yield f"{container['name']}: keeps capabilities"
    if context.get("allowPrivilegeEscalation") is not False or context.get("privileged"):
        yield f"{container['name']}: may gain privileges"
    if any("/" in key for key in container.get("resources", {}).get("limits", {})):
        yield f"{container['name']}: demands a device plugin"
    for mount in container.get("volumeMounts", []):
        if mount["name"] not in volumes or not mount["mountPath"].startswith("/"):
            yield f"{container['name']}: mounts {mount}"


def mistakes_of_pod(spec):
    for key in spec.keys() - POD_KEYS:  # hostNetwork, hostPID and others
        yield f"a pod with {key}"
    if not spec.get("securityContext", {}).get("runAsNonRoot"):
        yield "a pod that may run as root"
    volumes = {}
    for volume in spec.get("volumes", []):
        kinds = volume.keys() - {"name"}
        if kinds != {"emptyDir"}:
            yield f"a volume of kind {kinds}"
        volumes[volume["name"]] = volume
    for container in spec["containers"]:
        yield from mistakes_of_container(container, volumes)


def mistakes_of(thing):
    if thing.get("apiVersion") != "v1" or thing.get("kind") not in ("Pod", "Service"):
        yield f"{thing.get('apiVersion')} {thing.get('kind')}"
        return
    if not NAME.match(thing["metadata"]["name"]):
        yield f"a bad name: {thing['metadata']['name']}"
    if thing["kind"] == "Pod":
        yield from mistakes_of_pod(thing["spec"])
    elif thing["spec"].get("clusterIP") not in (None, "None"):
        yield "a service with an address of its own"


def main():
    things = list(yaml.safe_load_all(PAGE.read_text(encoding="utf-8")))
    found = [mistake for thing in things for mistake in mistakes_of(thing)]
    labels = [thing["metadata"].get("labels", {}) for thing in things if thing["kind"] == "Pod"]
    for thing in things:
        if thing["kind"] == "Service" and not any(thing["spec"]["selector"].items() <= pod.items() for pod in labels):
            found.append(f"no pod for the service {thing['metadata']['name']}")
    for mistake in found:
        print(f"{PAGE.name}: {mistake}", file=sys.stderr)
    print(f"{len(things)} objects, {len(found)} mistakes")
    return 1 if found or len(things) < 3 else 0


if __name__ == "__main__":
    sys.exit(main())
