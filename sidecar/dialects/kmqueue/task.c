#include "dialects/kmqueue/task.h"

#include "base/json/json.h"

enum {
    MAX_RETRY = INT32_MAX, // an int in Java
    MAX_MARKER = 512,      // bytes at most of a marker without its list's name; fastjson writes 192, with an id of 36
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
           task_read_number(&fields[RETRY], &out->retry) && out->retry >= 0 && out->retry <= MAX_RETRY;
}

bool kmqueue_text_is(slice_t text, slice_t wanted) {
    if (text.len == 0 || !memchr(text.data, '\\', text.len)) return slice_equal(text, wanted);
    if (text.len > JSON_ESCAPED_BYTE * wanted.len) return false;
    buffer_t decoded = {0};
    bool same = json_decode(text, &decoded) && slice_equal((slice_t){decoded.data, decoded.len}, wanted);
    buffer_free(&decoded);
    return same;
}

void kmqueue_task_rewrite(const kmqueue_task_t *task, slice_t bytes, int64_t retry, const char *state, int64_t gen,
                          buffer_t *out) {
    char retries[24], date[24];
    snprintf(retries, sizeof retries, "%lld", (long long)retry);
    snprintf(date, sizeof date, "%lld", (long long)gen);
    json_cut_t cuts[] = {
        {task->retry_text, slice_text(retries)}, {task->state, slice_text(state)}, {task->gen_text, slice_text(date)}};
    // Values of one object do not overlap, so json_splice always succeeds.
    if (!json_splice(bytes, cuts, gen == task->gen ? 2 : 3, out)) buffer_add(out, bytes.data, bytes.len);
}

static bool task_text_is(const json_pick_t *pick, slice_t wanted) {
    return task_has(pick, JSON_STRING) && kmqueue_text_is(pick->value.raw, wanted);
}

bool kmqueue_is_marker(slice_t entry, const char *backup) {
    static const char type[] = "\"marker\"";
    slice_t name = slice_text(backup);
    if (entry.len < sizeof type || entry.len > MAX_MARKER + JSON_ESCAPED_BYTE * name.len) return false;
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
