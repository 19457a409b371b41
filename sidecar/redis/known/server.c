#include "redis/known/server.h"

#include <pthread.h>

#include "base/buffer.h"

struct known_server {
    outage_t *outage;      // owned
    pthread_mutex_t mutex; // guards all that follows
    char id[SERVER_ID_SIZE];
    unsigned epoch;
    mono_t since;
};

known_server_t *known_server_new(void) {
    known_server_t *known = mem_alloc(sizeof *known);
    known->outage = outage_new();
    pthread_mutex_init(&known->mutex, NULL);
    return known;
}

void known_server_free(known_server_t *known) {
    if (!known) return;
    outage_free(known->outage);
    pthread_mutex_destroy(&known->mutex);
    free(known);
}

outage_t *known_server_outage(const known_server_t *known) { return known->outage; }

mono_t known_server_note(known_server_t *known, unsigned epoch, const char *id) {
    pthread_mutex_lock(&known->mutex);
    bool same = *id && strcmp(known->id, id) == 0 && known->epoch == epoch;
    if (!same) known->since = mono_now();
    snprintf(known->id, sizeof known->id, "%s", id);
    known->epoch = epoch;
    mono_t since = known->since;
    pthread_mutex_unlock(&known->mutex);
    return since;
}
