#include "monitor/scan/workers.h"

#include "base/utf8.h"

// The values of a keymap are numbers, so a pointer is stored as a number.
union worker_name {
    int64_t number;
    char *text;
};

static char *workers_text(int64_t value) { return (union worker_name){.number = value}.text; }

void workers_note(workers_t *workers, const digest_t *job, slice_t name) {
    if (name.len == 0) return;
    if (workers->names.count >= WORKERS_MAX && !keymap_find(&workers->names, job->bytes)) return;
    buffer_t text = {0};
    utf8_escape(&text, name.data, name.len, "");
    int64_t *at = keymap_put(&workers->names, job->bytes);
    free(workers_text(*at));
    *at = (union worker_name){.text = text.data}.number;
}

const char *workers_name(const workers_t *workers, const digest_t *job) {
    const int64_t *at = keymap_find(&workers->names, job->bytes);
    return at && *at ? workers_text(*at) : "";
}

void workers_forget(workers_t *workers, const digest_t *job) {
    int64_t *at = keymap_find(&workers->names, job->bytes);
    if (!at) return;
    free(workers_text(*at));
    *at = 0;
}

typedef struct keep {
    bool (*fn)(void *self, const uint8_t key[KEY_BYTES]);
    void *self;
} keep_t;

static bool workers_keep_one(void *self, const uint8_t key[KEY_BYTES], int64_t *value) {
    const keep_t *keep = self;
    if (*value && keep->fn(keep->self, key)) return true;
    free(workers_text(*value));
    return false;
}

void workers_filter(workers_t *workers, bool (*keep)(void *self, const uint8_t key[KEY_BYTES]), void *self) {
    if (workers->names.count) keymap_filter(&workers->names, workers_keep_one, &(keep_t){keep, self});
}

void workers_free(workers_t *workers) {
    for (size_t i = 0; i < workers->names.room; i++) free(workers_text(workers->names.slots[i].value));
    keymap_free(&workers->names);
}
