// Keeps the number of entries of every labelled ConfigMap in an annotation of it.

import { get } from "pilothouse:controller/cache@0.2.1";
import { Options, patch } from "pilothouse:controller/client@0.2.1";
import { Event } from "pilothouse:controller/events@0.2.1";
import { resolve } from "pilothouse:controller/kinds@0.2.1";
import { write } from "pilothouse:controller/log@0.2.1";
import { declare } from "pilothouse:controller/metrics@0.2.1";

const LABEL = "key-counter.example.com/count";
const ANNOTATION = "key-counter.example.com/keys";

const encode = (value) => new TextEncoder().encode(JSON.stringify(value));

// Handles that are good for as long as the instance, made at the first call: no import can be called before.
let configMap, writes;

export const descriptor = {
  describe() {
    return encode({
      apiVersion: "pilothouse.dev/describe/v1alpha1",
      name: "key-counter",
      watches: [{ version: "v1", kind: "ConfigMap", labelSelector: `${LABEL}=true` }],
      permissions: [
        {
          groups: [""],
          resources: ["configmaps"],
          verbs: ["get", "list", "watch", "create", "patch"],
          namespaces: ["*"],
        },
        { groups: [""], resources: ["events"], verbs: ["create"], namespaces: ["*"] },
      ],
    });
  },
};

// Records an Event. One that is refused, as too many are, is no reason to reconcile again.
function record(about, note) {
  try {
    Event.about(about, "normal", "Counted", note).record();
  } catch (error) {
    write("warn", "no Event", [["reason", error.payload?.message ?? String(error)]]);
  }
}

function count(namespace, name) {
  configMap ??= resolve(0, "", "v1", "ConfigMap");
  writes ??= declare("counter", "writes_total", "Annotations written.", ["namespace"], []);
  const found = get(configMap, namespace, name);
  if (found === undefined) return;
  const maps = found.getMany(["/data", "/binaryData"]).map((text) => JSON.parse(text ?? "null") ?? {});
  const keys = String(maps.reduce((sum, map) => sum + Object.keys(map).length, 0));
  if (found.annotation(ANNOTATION) === keys) return;

  const annotations = { [ANNOTATION]: keys };
  const body = { apiVersion: "v1", kind: "ConfigMap", metadata: { namespace, name, annotations } };
  const options = Options.new();
  options.force();
  patch(configMap, namespace, name, "apply", encode(body), options);
  writes.add([namespace], 1);
  write("info", "counted", [["keys", keys]]);
  record(found, `${keys} keys`);
}

export const reconcile = {
  reconcile(cluster, namespace, name) {
    try {
      count(namespace, name);
    } catch (error) {
      // What imports throw has the reason as `payload`, either the host's (a refusal) or the API server's (a status).
      throw { message: JSON.stringify(error.payload ?? String(error)), retry: "transient" };
    }
    return { tag: "done" };
  },
};
