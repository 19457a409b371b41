#include "dialects/bull/failed_channel.h"

#include <stdlib.h>
#include <string.h>

#include "base/json/json.h"
#include "base/json/pick.h"

enum {
    WAITING_MOST = 4096,  // messages
    BYTES_MOST = 4 << 20, // of them
    ANSWERED_S = 60,      // a message that comes later is of another failure
};

void bull_heard_begin(bull_heard_t *heard) { heard->last = &heard->first; }

static void remove_at(bull_heard_t *heard, bull_told_t **at) {
    bull_told_t *told = *at;
    *at = told->next;
    if (!told->next) heard->last = at;
    heard->count--;
    heard->bytes -= told->id.len + told->error.len;
    buffer_free(&told->bytes);
    free(told);
}

void bull_heard_pop(bull_heard_t *heard) {
    if (heard->first) remove_at(heard, &heard->first);
}

void bull_heard_turn(bull_heard_t *heard) {
    bull_told_t *told = heard->first;
    if (!told || !told->next) return;
    heard->first = told->next;
    told->next = NULL;
    *heard->last = told;
    heard->last = &told->next;
}

bool bull_heard_drop(bull_heard_t *heard, slice_t id) {
    for (bull_told_t **at = &heard->first; *at; at = &(*at)->next)
        if (slice_equal((*at)->id, id)) {
            remove_at(heard, at);
            return true;
        }
    return false;
}

void bull_heard_clear(bull_heard_t *heard) {
    while (heard->first) bull_heard_pop(heard);
    memset(heard->answered, 0, sizeof heard->answered);
}

// Appends a string decoded, another value as it stands, nothing of null.
static void add_value(buffer_t *out, const json_pick_t *pick) {
    bool there = pick->found == JSON_FOUND && pick->value.type != JSON_NULL;
    if (there && (pick->value.type != JSON_STRING || !json_decode(pick->value.raw, out)))
        buffer_add(out, pick->value.raw.data, pick->value.raw.len);
}

bool bull_heard_add(bull_heard_t *heard, slice_t message) {
    json_pick_t picks[] = {{.key = "jobId"}, {.key = "val"}, {.key = "by"}};
    size_t before = heard->count;
    if (!json_pick(message, picks, 3) || picks[0].found != JSON_FOUND) return true;
    if (picks[2].found == JSON_FOUND && slice_is(picks[2].value.raw, "queue-sidecar")) return true;
    while (heard->count && (heard->count >= WAITING_MOST || heard->bytes + message.len > BYTES_MOST)) bull_heard_pop(heard);
    bool room = heard->count == before;
    bull_told_t *told = mem_alloc(sizeof *told);
    add_value(&told->bytes, &picks[0]);
    size_t id_len = told->bytes.len;
    add_value(&told->bytes, &picks[1]);
    told->id = (slice_t){buffer_text(&told->bytes), id_len};
    told->error = (slice_t){buffer_text(&told->bytes) + id_len, told->bytes.len - id_len};
    *heard->last = told;
    heard->last = &told->next;
    heard->count++;
    heard->bytes += told->id.len + told->error.len;
    return room;
}

void bull_heard_answered(bull_heard_t *heard, slice_t id, mono_t now) {
    heard->answered[heard->answered_next].id = digest_of(id.data, id.len);
    heard->answered[heard->answered_next].at = now;
    heard->answered_next = (heard->answered_next + 1) % BULL_ANSWERED_MOST;
}

size_t bull_heard_answers(const bull_heard_t *heard, slice_t id, mono_t now) {
    digest_t digest = digest_of(id.data, id.len);
    size_t count = 0;
    for (size_t i = 0; i < BULL_ANSWERED_MOST; i++) {
        mono_t at = heard->answered[i].at;
        if (!at.ns || mono_diff(now, at) > ANSWERED_S * NS_PER_S) continue;
        if (memcmp(&heard->answered[i].id, &digest, sizeof digest) == 0) count++;
    }
    return count;
}

void bull_heard_take_answer(bull_heard_t *heard, slice_t id) {
    digest_t digest = digest_of(id.data, id.len);
    for (size_t n = 0; n < BULL_ANSWERED_MOST; n++) { // the oldest first
        size_t i = (heard->answered_next + n) % BULL_ANSWERED_MOST;
        if (!heard->answered[i].at.ns || memcmp(&heard->answered[i].id, &digest, sizeof digest) != 0) continue;
        heard->answered[i].at = (mono_t){0};
        return;
    }
}
