#include "redis/known/certificates.h"

#include <pthread.h>

#include "base/buffer.h"

typedef struct peer_certificate {
    const void *peer;
    int64_t end;
} peer_certificate_t;

struct certificates {
    pthread_mutex_t mutex; // guards all that follows
    peer_certificate_t *peers;
    size_t count;
};

certificates_t *certificates_new(void) {
    certificates_t *certificates = mem_alloc(sizeof *certificates);
    pthread_mutex_init(&certificates->mutex, NULL);
    return certificates;
}

void certificates_free(certificates_t *certificates) {
    if (!certificates) return;
    pthread_mutex_destroy(&certificates->mutex);
    free(certificates->peers);
    free(certificates);
}

// Call it with the mutex held.
static peer_certificate_t *certificates_of(certificates_t *certificates, const void *peer) {
    for (size_t i = 0; i < certificates->count; i++)
        if (certificates->peers[i].peer == peer) return &certificates->peers[i];
    certificates->peers = mem_grown(certificates->peers, certificates->count, sizeof *certificates->peers);
    certificates->peers[certificates->count] = (peer_certificate_t){.peer = peer};
    return &certificates->peers[certificates->count++];
}

void certificates_note(certificates_t *certificates, const void *peer, int64_t end, metric_t *metric) {
    int64_t first = 0;
    pthread_mutex_lock(&certificates->mutex);
    certificates_of(certificates, peer)->end = end;
    for (size_t i = 0; i < certificates->count; i++) {
        int64_t one = certificates->peers[i].end;
        if (one && (!first || one < first)) first = one;
    }
    metric_set(metric, first);
    pthread_mutex_unlock(&certificates->mutex);
}
