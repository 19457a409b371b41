#include "redis/known/secret.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/buffer.h"
#include "base/digest.h"

struct secret {
    _Atomic uint64_t newest;
    atomic_uint changes;
    pthread_mutex_t mutex;
    condition_t refused; // guarded by the mutex
};

secret_t *secret_new(void) {
    secret_t *secret = mem_alloc(sizeof *secret);
    pthread_mutex_init(&secret->mutex, NULL);
    return secret;
}

void secret_free(secret_t *secret) {
    if (!secret) return;
    condition_free(&secret->refused);
    pthread_mutex_destroy(&secret->mutex);
    free(secret);
}

uint64_t secret_tag(const char *password) {
    digest_t digest = digest_of(password, strlen(password));
    uint64_t tag;
    memcpy(&tag, digest.bytes, sizeof tag);
    return tag ? tag : 1;
}

unsigned secret_changes(const secret_t *secret) { return atomic_load(&secret->changes); }

bool secret_is_old(const secret_t *secret, uint64_t tag, unsigned changes) {
    return secret_changes(secret) != changes && atomic_load(&secret->newest) != tag;
}

bool secret_note(secret_t *secret, const char *password) {
    uint64_t tag = secret_tag(password), before = atomic_exchange(&secret->newest, tag);
    if (before != tag) atomic_fetch_add(&secret->changes, 1);
    return before && before != tag;
}

condition_change_t secret_note_refusal(secret_t *secret, const char *refusal) {
    pthread_mutex_lock(&secret->mutex);
    condition_change_t change = condition_update_reason(&secret->refused, refusal);
    pthread_mutex_unlock(&secret->mutex);
    return change;
}
