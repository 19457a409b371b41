#include "dialects/bull/internal.h"

#include <stdlib.h>
#include <string.h>

void bull_key(conn_t *conn, const queue_keys_t *at, const char *word) {
    char *key = mem_printf("%s:%s", bull_config(at->config)->base, word);
    request_text(conn, key);
    free(key);
}

void bull_job_key(conn_t *conn, const queue_keys_t *at, slice_t id, const char *suffix) {
    buffer_t key = {0};
    buffer_printf(&key, "%s:", bull_config(at->config)->base);
    buffer_add(&key, id.data, id.len);
    buffer_str(&key, suffix);
    request_bytes(conn, key.data, key.len);
    buffer_free(&key);
}

void bull_own_key(conn_t *conn, const queue_keys_t *at, const char *word) {
    char *key = mem_printf("sidecar:%s:%s", at->config->name, word);
    request_text(conn, key);
    free(key);
}

const char *const bullmq_words[BULLMQ_KEYS] = {"events", "marker", "prioritized", "pc"};

void bullmq_append_keys(conn_t *conn, const queue_keys_t *at) {
    for (size_t i = 0; i < BULLMQ_KEYS; i++) bull_key(conn, at, bullmq_words[i]);
}

outcome_t bull_wrong_type(redis_error_t *error, const char *script, const char *what, const char *found) {
    for (size_t i = 0; i < BULLMQ_KEYS; i++) {
        const char *word = strrchr(what, ':');
        if (word && strcmp(word + 1, bullmq_words[i]) == 0)
            return redis_error_set(error, OUTCOME_REFUSED,
                                   "%s holds a %s: the queue belongs to BullMQ, and dialect bull serves Bull 4", what, found);
    }
    return redis_error_set(error, OUTCOME_REFUSED, "%s: %s holds a %s", script, what, found);
}
