#include "dialects/kmqueue/task.h"

#include <stdio.h>
#include <string.h>

#include "base/json/json.h"
#include "base/json/write.h"

enum {
    RETRY_MOST = INT32_MAX, // an int in Java
    MARKER_MOST = 512, // bytes of a marker without the name of its list: fastjson's marker has 192; an id of KMQueue's own has 36
    ESCAPED_BYTE = 6,  // \u00XX
};

enum { QUEUE, ID, TYPE, UNIQUE, STATE, GEN, EXC, RETRY, FIELDS };

static bool task_has(const json_pick_t *pick, json_type_t type) { return pick->found == JSON_FOUND && pick->value.type == type; }

static bool task_lacks(const json_pick_t *pick) { return pick->found == JSON_MISSING || task_has(pick, JSON_NULL); }

static bool task_read_number(const json_pick_t *pick, int64_t *out) {
    return task_has(pick, JSON_NUMBER) && json_integer(pick->value.raw, out);
}

bool kmqueue_task_read(slice_t bytes, kmqueue_task_t *out) {
    json_pick_t fields[FIELDS] = {
        [QUEUE] = {.pointer = "/queue"},
        [ID] = {.pointer = "/id"},
        [TYPE] = {.pointer = "/type"},
        [UNIQUE] = {.pointer = "/unique"},
        [STATE] = {.pointer = "/taskStatus/state"},
        [GEN] = {.pointer = "/taskStatus/genTimestamp"},
        [EXC] = {.pointer = "/taskStatus/excTimestamp"},
        [RETRY] = {.pointer = "/taskStatus/retry"},
    };
    if (!json_pick(bytes, fields, FIELDS)) return false;
    if (!task_has(&fields[QUEUE], JSON_STRING) || !task_has(&fields[ID], JSON_STRING) || !task_has(&fields[UNIQUE], JSON_BOOL) ||
        !task_has(&fields[STATE], JSON_STRING))
        return false;
    bool untyped = task_lacks(&fields[TYPE]);
    if (!untyped && !task_has(&fields[TYPE], JSON_STRING)) return false;
    *out = (kmqueue_task_t){
        .queue = fields[QUEUE].value.raw,
        .id = fields[ID].value.raw,
        .type = untyped ? (slice_t){NULL, 0} : fields[TYPE].value.raw,
        .unique = *fields[UNIQUE].value.raw.data == 't',
        .state = fields[STATE].value.raw,
        .retry_text = fields[RETRY].value.raw,
        .gen_text = fields[GEN].value.raw,
    };
    return task_read_number(&fields[GEN], &out->gen) && task_read_number(&fields[EXC], &out->exc) &&
           task_read_number(&fields[RETRY], &out->retry) && out->retry >= 0 && out->retry <= RETRY_MOST;
}

static bool text_is_plain(slice_t text) { return text.len == 0 || !memchr(text.data, '\\', text.len); }

bool kmqueue_text_is(slice_t text, slice_t wanted) {
    if (text_is_plain(text)) return slice_equal(text, wanted);
    if (text.len > ESCAPED_BYTE * wanted.len) return false;
    buffer_t decoded = {0};
    bool same = json_decode(text, &decoded) && slice_equal((slice_t){decoded.data, decoded.len}, wanted);
    buffer_free(&decoded);
    return same;
}

bool kmqueue_text_copy(slice_t text, char *out, size_t most) {
    buffer_t decoded = {0};
    slice_t found = text;
    bool good = text.len <= ESCAPED_BYTE * most;
    if (good && !text_is_plain(text)) {
        good = json_decode(text, &decoded);
        found = (slice_t){decoded.data, decoded.len};
    }
    good = good && found.len > 0 && found.len <= most && !memchr(found.data, '\0', found.len);
    if (good) {
        memcpy(out, found.data, found.len);
        out[found.len] = '\0';
    }
    buffer_free(&decoded);
    return good;
}

static void task_splice(slice_t bytes, json_cut_t *cuts, size_t count, buffer_t *out) {
    // Values of one object neither overlap nor touch, so this is never refused.
    if (!json_splice(bytes, cuts, count, out)) buffer_add(out, bytes.data, bytes.len);
}

void kmqueue_task_retry(const kmqueue_task_t *task, slice_t bytes, buffer_t *out) {
    char retry[24];
    snprintf(retry, sizeof retry, "%lld", (long long)task->retry + 1);
    json_cut_t cuts[] = {{task->retry_text, slice_text(retry)}, {task->state, slice_text("retry")}};
    task_splice(bytes, cuts, 2, out);
}

void kmqueue_task_requeue(const kmqueue_task_t *task, slice_t bytes, int64_t now_ms, buffer_t *out) {
    char now[24];
    snprintf(now, sizeof now, "%lld", (long long)now_ms);
    json_cut_t cuts[] = {
        {task->retry_text, slice_text("0")}, {task->state, slice_text("normal")}, {task->gen_text, slice_text(now)}};
    task_splice(bytes, cuts, 3, out);
}

static bool task_text_is(const json_pick_t *pick, slice_t wanted) {
    return task_has(pick, JSON_STRING) && kmqueue_text_is(pick->value.raw, wanted);
}

bool kmqueue_is_marker(slice_t entry, const char *backup) {
    static const char type[] = "\"marker\"";
    slice_t name = slice_text(backup);
    if (entry.len < sizeof type || entry.len > MARKER_MOST + ESCAPED_BYTE * name.len) return false;
    if (!memmem(entry.data, entry.len, type, sizeof type - 1)) return false;
    json_pick_t fields[] = {
        {.pointer = "/queue"}, {.pointer = "/type"}, {.pointer = "/data"}, {.pointer = "/taskStatus/excTimestamp"}};
    return json_pick(entry, fields, 4) && task_text_is(&fields[0], name) && task_text_is(&fields[1], slice_text("marker")) &&
           task_lacks(&fields[2]) && task_has(&fields[3], JSON_NUMBER) && slice_is(fields[3].value.raw, "0");
}

void kmqueue_marker(const char *backup, const char *random, int64_t now_ms, buffer_t *out) {
    static const char variants[] = "89ab";
    char variant = variants[random[16] & 3];
    buffer_printf(out, "{\"id\":\"%.8s-%.4s-4%.3s-%c%.3s-%.12s\",\"queue\":", random, random + 8, random + 13, variant,
                  random + 17, random + 20);
    json_write_string(out, slice_text(backup));
    buffer_printf(out,
                  ",\"taskStatus\":{\"excTimestamp\":0,\"genTimestamp\":%lld,\"retry\":0,\"state\":\"normal\"},"
                  "\"type\":\"marker\",\"unique\":false}",
                  (long long)now_ms);
}
