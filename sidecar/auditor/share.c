#include "auditor/share.h"

#include "role/role.h"

audit_share_t *audit_share_new(const config_t *config, metrics_t *metrics, const atomic_bool *stop) {
    audit_share_t *share = mem_alloc(sizeof *share);
    const audit_limits_t limits = {
        .retain_ms = config->audit.retain_ms, .rows = config->audit.retain_rows, .bytes = config->audit.retain_bytes};
    pthread_mutex_init(&share->mutex, NULL);
    audit_writer_init(&share->writer, config->audit.path, &limits, metrics, stop);
    share->writer.to_keep = config;
    return share;
}

void audit_share_finish(audit_share_t *share) {
    pthread_mutex_lock(&share->mutex);
    audit_writer_finish(&share->writer);
    pthread_mutex_unlock(&share->mutex);
}

void audit_share_free(audit_share_t *share) {
    if (!share) return;
    audit_writer_finish(&share->writer);
    pthread_mutex_destroy(&share->mutex);
    free(share);
}

void audit_share_lock(audit_share_t *share) {
    struct timespec until;
    do {
        role_extend_tick(0);
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec++;
    } while (pthread_mutex_timedlock(&share->mutex, &until) == ETIMEDOUT);
}

void audit_share_add(audit_share_t *share, struct auditor *auditor) {
    pthread_mutex_lock(&share->mutex);
    if (share->auditor_count < AUDIT_SHARE_MAX) share->auditors[share->auditor_count++] = auditor;
    pthread_mutex_unlock(&share->mutex);
}

void audit_share_remove(audit_share_t *share, struct auditor *auditor) {
    pthread_mutex_lock(&share->mutex);
    for (size_t i = 0; i < share->auditor_count; i++)
        if (share->auditors[i] == auditor) share->auditors[i--] = share->auditors[--share->auditor_count];
    pthread_mutex_unlock(&share->mutex);
}
