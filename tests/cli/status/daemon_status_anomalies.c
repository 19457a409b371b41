/* What only the owner of a queue can mend is found by `status`, and no longer when it is gone. */
#include "cluster.h"
#include "tempdir.h"
#include "text.h"

static cluster_t s;
SUITE(daemon_status_anomalies, s = cluster_begin(NULL), cluster_end(&s));

static bool finds(const char *config, const char *code) {
    return has(daemon_run("status", "-c", config, "-o", "json")->out, kept_printf("\"code\":\"%s\"", code));
}

/* The job of a dead worker, which no scan can give back. */
Test(daemon_status_anomalies, a_job_larger_than_max_payload_is_named_until_it_is_gone) {
    const sidecar_t spec = {
        .ttl = "1s", .queues = "{ name = \"q\"; max_payload = \"1KiB\"; protected_timeout = \"100ms\"; roles = [\"monitor\"]; }"};
    char large[2049] = {0};
    memset(large, 'L', sizeof large - 1);
    redis_ok(s.r, "LPUSH q:backup %s", large);
    cluster_sidecar_up(&s, spec);
    char *config = cluster_config_file(&s, spec);
    cr_assert(wait_for(finds(config, "large_in_progress"), 10000));
    const daemon_output_t *run = daemon_run("status", "-c", config);
    cr_assert(run->code == 1 && has(run->out, "such as 2048 bytes,") && has(run->out, "in q:backup"), "%s", run->out);
    redis_ok(s.r, "DEL q:backup");
    cr_assert(wait_for(!finds(config, "large_in_progress"), 10000));
}
