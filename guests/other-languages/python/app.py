"""Keeps the number of entries of every labelled ConfigMap in an annotation of it."""

import json

from componentize_py_types import Err
from wit_world import exports
from wit_world.imports import cache, client, events, kinds, log, metrics, objects, types

LABEL = "key-counter.example.com/count"
ANNOTATION = "key-counter.example.com/keys"

# Handles that are good for as long as the instance, made at the first call: no import can be called before.
config_map: kinds.Kind | None = None
writes: metrics.Metric | None = None


def handles() -> tuple[kinds.Kind, metrics.Metric]:
    global config_map, writes
    if config_map is None or writes is None:
        config_map = kinds.resolve(0, "", "v1", "ConfigMap")
        help = "Annotations written."
        writes = metrics.declare(metrics.MetricKind.COUNTER, "writes_total", help, ["namespace"], [])
    return config_map, writes


class Descriptor(exports.Descriptor):
    def describe(self, config: bytes) -> bytes:
        document = {
            "apiVersion": "pilothouse.dev/describe/v1alpha1",
            "name": "key-counter",
            "watches": [{"version": "v1", "kind": "ConfigMap", "labelSelector": f"{LABEL}=true"}],
            "permissions": [
                {
                    "groups": [""],
                    "resources": ["configmaps"],
                    "verbs": ["get", "list", "watch", "create", "patch"],
                    "namespaces": ["*"],
                },
                {"groups": [""], "resources": ["events"], "verbs": ["create"], "namespaces": ["*"]},
            ],
        }
        return json.dumps(document).encode()


def record(about: objects.Object, note: str) -> None:
    """Records an Event. One that is refused, as too many are, is no reason to reconcile again."""
    try:
        with events.Event.about(about, events.EventType.NORMAL, "Counted", note) as event:
            event.record()
    except Err as error:
        log.write(log.Level.WARN, "no Event", [("reason", error.value.message)])


def count(namespace: str, name: str) -> None:
    kind, written = handles()
    found = cache.get(kind, namespace, name)
    if found is None:
        return
    maps = found.get_many(["/data", "/binaryData"])
    keys = str(sum(len(json.loads(text) or {}) for text in maps if text is not None))
    if found.annotation(ANNOTATION) == keys:
        return
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"namespace": namespace, "name": name, "annotations": {ANNOTATION: keys}},
    }
    with client.Options.new() as options:
        options.force()
        client.patch(kind, namespace, name, client.PatchKind.APPLY, json.dumps(body).encode(), options)
    written.add([namespace], 1.0)
    log.write(log.Level.INFO, "counted", [("keys", keys)])
    record(found, f"{keys} keys")


class Reconcile(exports.Reconcile):
    def reconcile(
        self, cluster: int, namespace: str, name: str, attempt: int, reasons: types.Reasons, priority: int
    ) -> types.Outcome:
        try:
            count(namespace, name)
        except Err as error:
            # The reason is either the host's (a refusal) or the API server's (a status).
            raise Err(types.Failure(repr(error.value), types.Retry.TRANSIENT, None))
        return types.Outcome_Done()
