// Keeps the number of entries of every labelled ConfigMap in an annotation of it.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reconciler.h"

#define LABEL "key-counter.example.com/count"
#define ANNOTATION "key-counter.example.com/keys"

typedef reconciler_string_t text;
typedef pilothouse_controller_types_refusal_t refusal;

static const char DESCRIPTOR[] =
    "{\"apiVersion\":\"pilothouse.dev/describe/v1alpha1\",\"name\":\"key-counter\","
    "\"watches\":[{\"version\":\"v1\",\"kind\":\"ConfigMap\",\"labelSelector\":\"" LABEL "=true\"}],"
    "\"permissions\":["
    "{\"groups\":[\"\"],\"resources\":[\"configmaps\"],"
    "\"verbs\":[\"get\",\"list\",\"watch\",\"create\",\"patch\"],\"namespaces\":[\"*\"]},"
    "{\"groups\":[\"\"],\"resources\":[\"events\"],\"verbs\":[\"create\"],\"namespaces\":[\"*\"]}]}";

// Handles that are good for as long as the instance, made at the first call: no import can be called before.
static pilothouse_controller_kinds_own_kind_t config_map;
static pilothouse_controller_metrics_own_metric_t writes;
static bool ready;

// A text that the callee only reads.
static text lent(const char *s) {
    text t = {(uint8_t *)s, strlen(s)};
    return t;
}

bool exports_pilothouse_controller_descriptor_describe(reconciler_list_u8_t *config, reconciler_list_u8_t *ret,
                                                       text *err) {
    (void)err;
    reconciler_list_u8_free(config);
    ret->len = sizeof DESCRIPTOR - 1;
    ret->ptr = malloc(ret->len);
    if (ret->ptr == NULL) abort();
    memcpy(ret->ptr, DESCRIPTOR, ret->len);
    return true;
}

// The number of fields of the JSON object in `t`, which the host wrote: it is well-formed.
static size_t fields(text t) {
    size_t depth = 0, colons = 0;
    bool quoted = false;
    for (size_t i = 0; i < t.len; i++) {
        char c = (char)t.ptr[i];
        if (quoted) {
            if (c == '\\') i++;
            else if (c == '"') quoted = false;
        } else if (c == '"') quoted = true;
        else if (c == '{' || c == '[') depth++;
        else if (c == '}' || c == ']') depth--;
        else if (c == ':' && depth == 1) colons++;
    }
    return colons;
}

static bool prepare(refusal *err) {
    if (ready) return true;
    text group = lent(""), version = lent("v1"), kind = lent("ConfigMap");
    if (!pilothouse_controller_kinds_resolve(0, &group, &version, &kind, &config_map, err)) return false;
    text name = lent("writes_total"), help = lent("Annotations written."), label = lent("namespace");
    reconciler_list_string_t labels = {&label, 1};
    reconciler_list_f64_t none = {NULL, 0};
    ready = pilothouse_controller_metrics_declare(PILOTHOUSE_CONTROLLER_METRICS_METRIC_KIND_COUNTER, &name, &help,
                                                  &labels, &none, &writes, err);
    return ready;
}

// Writes the annotation by server-side apply.
static bool apply(text *namespace, text *name, const char *keys, pilothouse_controller_client_client_error_t *err) {
    static const char BODY[] =
        "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"namespace\":\"%.*s\",\"name\":\"%.*s\","
        "\"annotations\":{\"" ANNOTATION "\":\"%s\"}}}";
    // A namespace has at most 63 bytes, a name 253, and neither has a character that JSON escapes.
    char body[sizeof BODY + 63 + 253 + 20];
    int len = snprintf(body, sizeof body, BODY, (int)namespace->len, (char *)namespace->ptr, (int)name->len,
                       (char *)name->ptr, keys);
    if (len < 0 || (size_t)len >= sizeof body) abort();
    reconciler_list_u8_t bytes = {(uint8_t *)body, (size_t)len};

    pilothouse_controller_client_own_options_t options;
    err->tag = PILOTHOUSE_CONTROLLER_TYPES_CLIENT_ERROR_REFUSED;
    if (!pilothouse_controller_client_static_options_new(&options, &err->val.refused)) return false;
    pilothouse_controller_client_borrow_options_t borrowed = pilothouse_controller_client_borrow_options(options);
    pilothouse_controller_client_method_options_force(borrowed);
    pilothouse_controller_client_own_object_t written;
    bool ok = pilothouse_controller_client_patch(pilothouse_controller_kinds_borrow_kind(config_map), namespace, name,
                                                 PILOTHOUSE_CONTROLLER_CLIENT_PATCH_KIND_APPLY, &bytes, &borrowed,
                                                 &written, err);
    pilothouse_controller_client_options_drop_own(options);
    if (ok) pilothouse_controller_objects_object_drop_own(written);
    return ok;
}

static void say(pilothouse_controller_log_level_t level, const char *message, const char *name, text value) {
    text said = lent(message);
    reconciler_tuple2_string_string_t field = {lent(name), value};
    reconciler_list_tuple2_string_string_t fields = {&field, 1};
    pilothouse_controller_log_write(level, &said, &fields);
}

// Records an Event. One that is refused, as too many are, is no reason to reconcile again.
static void record(pilothouse_controller_objects_borrow_object_t about, const char *note) {
    text reason = lent("Counted"), noted = lent(note);
    pilothouse_controller_events_own_event_t event;
    refusal err;
    bool ok = pilothouse_controller_events_static_event_about(about, PILOTHOUSE_CONTROLLER_EVENTS_EVENT_TYPE_NORMAL,
                                                              &reason, &noted, &event, &err);
    if (ok) {
        ok = pilothouse_controller_events_method_event_record(pilothouse_controller_events_borrow_event(event), &err);
        pilothouse_controller_events_event_drop_own(event);
    }
    if (ok) return;
    say(PILOTHOUSE_CONTROLLER_LOG_LEVEL_WARN, "no Event", "reason", err.message);
    pilothouse_controller_types_refusal_free(&err);
}

// Counts, logs and records what was written.
static bool report(pilothouse_controller_objects_borrow_object_t object, text *namespace, const char *keys,
                   refusal *err) {
    pilothouse_controller_metrics_label_values_t values = {namespace, 1};
    pilothouse_controller_metrics_borrow_metric_t counter = pilothouse_controller_metrics_borrow_metric(writes);
    if (!pilothouse_controller_metrics_method_metric_add(counter, &values, 1, err)) return false;
    say(PILOTHOUSE_CONTROLLER_LOG_LEVEL_INFO, "counted", "keys", lent(keys));
    char note[32];
    snprintf(note, sizeof note, "%s keys", keys);
    record(object, note);
    return true;
}

// What to do about one object. A call that the host alone answers fails as a live call does that it refused.
static bool count(pilothouse_controller_objects_borrow_object_t object, text *namespace, text *name,
                  pilothouse_controller_client_client_error_t *err) {
    text pointers[] = {lent("/data"), lent("/binaryData")};
    reconciler_list_string_t list = {pointers, 2};
    reconciler_list_option_string_t maps;
    err->tag = PILOTHOUSE_CONTROLLER_TYPES_CLIENT_ERROR_REFUSED;
    if (!pilothouse_controller_objects_method_object_get_many(object, &list, &maps, &err->val.refused)) return false;
    size_t sum = 0;
    for (size_t i = 0; i < maps.len; i++)
        if (maps.ptr[i].is_some) sum += fields(maps.ptr[i].val);
    reconciler_list_option_string_free(&maps);

    char keys[21];
    int len = snprintf(keys, sizeof keys, "%zu", sum);
    text annotation = lent(ANNOTATION), now;
    if (pilothouse_controller_objects_method_object_annotation(object, &annotation, &now)) {
        bool same = now.len == (size_t)len && memcmp(now.ptr, keys, now.len) == 0;
        reconciler_string_free(&now);
        if (same) return true;
    }
    if (!apply(namespace, name, keys, err)) return false;
    err->tag = PILOTHOUSE_CONTROLLER_TYPES_CLIENT_ERROR_REFUSED;
    return report(object, namespace, keys, &err->val.refused);
}

static bool reconcile(text *namespace, text *name, pilothouse_controller_client_client_error_t *err) {
    err->tag = PILOTHOUSE_CONTROLLER_TYPES_CLIENT_ERROR_REFUSED;
    if (!prepare(&err->val.refused)) return false;
    pilothouse_controller_cache_option_own_object_t found;
    pilothouse_controller_kinds_borrow_kind_t kind = pilothouse_controller_kinds_borrow_kind(config_map);
    if (!pilothouse_controller_cache_get(kind, namespace, name, &found, &err->val.refused)) return false;
    if (!found.is_some) return true;
    bool ok = count(pilothouse_controller_objects_borrow_object(found.val), namespace, name, err);
    pilothouse_controller_objects_object_drop_own(found.val);
    return ok;
}

bool exports_pilothouse_controller_reconcile_reconcile(
    uint32_t cluster, text *namespace, text *name, uint32_t attempt,
    exports_pilothouse_controller_reconcile_reasons_t reasons, int32_t priority,
    exports_pilothouse_controller_reconcile_outcome_t *ret, exports_pilothouse_controller_reconcile_failure_t *err) {
    (void)cluster, (void)attempt, (void)reasons, (void)priority;
    pilothouse_controller_client_client_error_t error;
    bool ok = reconcile(namespace, name, &error);
    reconciler_string_free(namespace);
    reconciler_string_free(name);
    if (ok) {
        ret->tag = PILOTHOUSE_CONTROLLER_TYPES_OUTCOME_DONE;
        return true;
    }
    bool api = error.tag == PILOTHOUSE_CONTROLLER_TYPES_CLIENT_ERROR_API;
    text *message = api ? &error.val.api.message : &error.val.refused.message;
    reconciler_string_dup_n(&err->message, (char *)message->ptr, message->len);
    err->retry = PILOTHOUSE_CONTROLLER_TYPES_RETRY_TRANSIENT;
    err->retry_after.is_some = false;
    pilothouse_controller_client_client_error_free(&error);
    return false;
}
