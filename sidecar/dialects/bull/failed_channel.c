#include "dialects/bull/failed_channel.h"

#include "base/json/json.h"
#include "base/log.h"
#include "dialects/bull/internal.h"
#include "queue/elsewhere.h"

enum {
    MESSAGE_BYTES_MAX = 4 << 20,
    SHARING_S = 3600, // after another database has lost its queue: messages of that queue may be under way
    EXPECTED_S = 60,  // a later message is about another failure
};

static void messages_remove(bull_messages_t *messages, size_t index) {
    bull_message_t *message = messages->all[index];
    messages->count--;
    memmove(&messages->all[index], &messages->all[index + 1], (messages->count - index) * sizeof *messages->all);
    messages->bytes -= message->id.len + message->error.len;
    buffer_free(&message->bytes);
    free(message);
}

void bull_messages_pop(bull_messages_t *messages) {
    if (messages->count) messages_remove(messages, 0);
}

void bull_messages_rotate(bull_messages_t *messages) {
    bull_message_t *first = messages->all[0];
    memmove(messages->all, &messages->all[1], (messages->count - 1) * sizeof *messages->all);
    messages->all[messages->count - 1] = first;
}

bool bull_messages_drop(bull_messages_t *messages, slice_t id) {
    size_t i = 0;
    while (i < messages->count && !slice_equal(messages->all[i]->id, id)) i++;
    if (i == messages->count) return false;
    messages_remove(messages, i);
    return true;
}

void bull_messages_clear(bull_messages_t *messages) {
    while (messages->count) messages_remove(messages, messages->count - 1);
    memset(messages->expected, 0, sizeof messages->expected);
}

// Appends a string decoded, and any other value except null as it is.
static void message_add_value(buffer_t *out, const json_pick_t *pick) {
    bool there = pick->found == JSON_FOUND && pick->value.type != JSON_NULL;
    if (there && (pick->value.type != JSON_STRING || !json_decode(pick->value.raw, out)))
        buffer_add(out, pick->value.raw.data, pick->value.raw.len);
}

bool bull_messages_add(bull_messages_t *messages, slice_t text) {
    json_pick_t picks[] = {{.pointer = "/jobId"}, {.pointer = "/val"}, {.pointer = "/by"}};
    size_t before = messages->count;
    if (!json_pick(text, picks, 3) || picks[0].found != JSON_FOUND) return true;
    if (picks[2].found == JSON_FOUND && slice_is(picks[2].value.raw, "queue-sidecar")) return true;
    while (messages->count && (messages->count >= BULL_MESSAGES_MAX || messages->bytes + text.len > MESSAGE_BYTES_MAX))
        bull_messages_pop(messages);
    bool room = messages->count == before;
    bull_message_t *message = mem_alloc(sizeof *message);
    message_add_value(&message->bytes, &picks[0]);
    size_t id_len = message->bytes.len;
    message_add_value(&message->bytes, &picks[1]);
    message->id = (slice_t){buffer_text(&message->bytes), id_len};
    message->error = (slice_t){buffer_text(&message->bytes) + id_len, message->bytes.len - id_len};
    messages->all[messages->count++] = message;
    messages->bytes += message->id.len + message->error.len;
    return room;
}

void bull_messages_expect(bull_messages_t *messages, slice_t id, mono_t now) {
    messages->expected[messages->expected_next].id = digest_of(id.data, id.len);
    messages->expected[messages->expected_next].at = now;
    messages->expected_next = (messages->expected_next + 1) % BULL_EXPECTED_MAX;
}

size_t bull_messages_expected(const bull_messages_t *messages, slice_t id, mono_t now) {
    digest_t digest = digest_of(id.data, id.len);
    size_t count = 0;
    for (size_t i = 0; i < BULL_EXPECTED_MAX; i++) {
        mono_t at = messages->expected[i].at;
        if (!at.ns || mono_diff(now, at) > EXPECTED_S * NS_PER_S) continue;
        if (memcmp(&messages->expected[i].id, &digest, sizeof digest) == 0) count++;
    }
    return count;
}

void bull_messages_take_expected(bull_messages_t *messages, slice_t id) {
    digest_t digest = digest_of(id.data, id.len);
    for (size_t n = 0; n < BULL_EXPECTED_MAX; n++) { // the oldest first
        size_t i = (messages->expected_next + n) % BULL_EXPECTED_MAX;
        if (!messages->expected[i].at.ns || memcmp(&messages->expected[i].id, &digest, sizeof digest) != 0) continue;
        messages->expected[i].at = (mono_t){0};
        return;
    }
}

// ---- Other databases.

static void sharing_update(bull_sharing_t *sharing, const side_task_call_t *step, const char *why) {
    const char *queue = call_queue(&step->redis)->config->name;
    if (!*why && !mono_reached(sharing->until, step->now)) return;
    condition_change_t change = condition_update_reason(&sharing->why, why);
    if (change == CONDITION_BEGAN)
        log_warn("monitor", queue, "failures of jobs that Bull removes at once are not recorded", F_STR("reason", why));
    else if (change == CONDITION_ENDED)
        log_info("monitor", queue, "failures of jobs that Bull removes at once are recorded again");
}

outcome_t bull_sharing_look(bull_sharing_t *sharing, const side_task_call_t *step) {
    const call_t *call = &step->redis;
    const char *base = bull_config(call_queue(call)->config)->base;
    char *const names[] = {mem_printf("%s:id", base), mem_printf("%s:failed", base)}; // Bull never deletes `id`
    char why[sizeof call->error->text + 64] = "";
    elsewhere_t found;
    outcome_t outcome = elsewhere_find(call->conn, call->keys, (const char *const *)names, 2, &found, call->error);
    free(names[0]);
    free(names[1]);
    if (outcome == OUTCOME_REFUSED)
        snprintf(why, sizeof why, "redis does not tell about other databases: %s", call->error->text);
    else if (outcome != OUTCOME_OK)
        return outcome;
    else if (found.database >= 0)
        snprintf(why, sizeof why, "database %" PRId64 " holds a Bull queue of this name, and messages tell no database",
                 found.database);
    if (outcome == OUTCOME_OK && found.database >= 0) sharing->until = mono_add(step->now, SHARING_S * NS_PER_S);
    *call->error = (redis_error_t){0};
    sharing_update(sharing, step, why);
    return OUTCOME_OK;
}
