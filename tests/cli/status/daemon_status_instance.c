/* `status` and the instance on its machine: the facts that it reads, and the rights that it needs. */
#include "base/buffer.h"
#include "http/http_fixture.h"
#include "rights.h"
#include "text.h"

static cluster_t s;
SUITE(daemon_status_instance, , cluster_end(&s));

Test(daemon_status_instance, shows_checks_of_the_local_instance_and_a_refused_config, .timeout = 120) {
    sidecar_t spec = {.ttl = "3s"};
    daemon_t *d = leading(&s, spec, &spec.port);
    char *path = cluster_config_file(&s, spec);
    const daemon_output_t *run = NULL;
    cr_assert(wait_for((run = cluster_status(d, path), run->code == 0 && has(run->out, "\"ready\":true")), 10000), "%s",
              run->out);
    cr_assert(has(run->out, "{\"check\":\"config\",\"ok\":true,\"why\":null,\"state\":\"in effect since "), "%s",
              strstr(run->out, "instance_here"));
    redis_ok(s.r, "ACL SETUSER default -zrange"); /* the dispatcher cannot find due jobs */
    redis_ok(s.r, "ZADD q:delayed 0 job");
    cr_assert(wait_for((run = cluster_status(d, path), has(run->out, "Redis refuses commands for \\\"q\\\"")), 10000), "%s",
              run->out);
    cr_assert_eq(run->code, 1);
    redis_ok(s.r, "ACL SETUSER default +zrange");
    cr_assert(wait_for((run = cluster_status(d, path), run->code == 0), 40000), "%s", run->out);
    daemon_pause(d);
    cr_assert(has((run = cluster_status(d, path))->out, "\"code\":\"mute\"") && run->code == 1, "%s", run->out);
    daemon_continue(d);
    spec.more = "nonsense = 1;\n";
    cluster_reconfigure(&s, d, spec);
    cr_assert(wait_for((run = cluster_status(d, path), has(run->out, "\"code\":\"config_refused\"")), 10000), "%s", run->out);
    cr_assert_eq(run->code, 1);
    cr_assert(has(run->out, "nonsense"), "the reason is missing: %s", run->out);
    daemon_kill(d);
    run = cluster_status(d, path);
    cr_assert(has(run->out, "\"answered\":false") && has(run->out, "\"code\":\"no_answer\""), "%s", run->out);
}

/* One mistake in a template may put a fault into every queue. */
Test(daemon_status_instance, many_config_faults_hide_no_other_check, .timeout = 60) {
    enum { QUEUES = 200 };
    sidecar_t spec = {.ttl = "3s"};
    daemon_t *d = leading(&s, spec, &spec.port);
    char *path = cluster_config_file(&s, spec);
    scoped(buffer_free) buffer_t queues = {0};
    for (int i = 0; i < QUEUES; i++)
        buffer_printf(&queues, "%s{ name = \"q%d\"; a_key_that_nobody_knows = 1; }", i ? ", " : "", i);
    spec.queues = buffer_text(&queues);
    cluster_reconfigure(&s, d, spec);
    const daemon_output_t *run = NULL;
    cr_assert(wait_for((run = cluster_status(d, path), has(run->out, "\"code\":\"config_refused\"")), 10000), "%s", run->out);
    cr_assert(has(run->out, "{\"check\":\"lock\",\"ok\":true"), "%s", run->out);
}

/* A probe of that port would report the health of the other instance. */
Test(daemon_status_instance, reports_a_sidecar_of_another_group_on_our_port, .timeout = 60) {
    sidecar_t spec = {.ttl = "3s"};
    daemon_t *other = leading(&s, spec, &spec.port);
    char *path = cluster_config_file(&s, spec);
    cr_assert(wait_for(daemon_run("healthcheck", "--ready", "-c", path)->code == 0, 10000));
    spec.group = "ours";
    spec.queues = "{ name = \"mine\"; roles = [\"dispatcher\"]; }";
    path = cluster_config_file(&s, spec);
    cluster_sidecar_up(&s, spec);
    const daemon_output_t *run = daemon_run("healthcheck", "--ready", "-c", path);
    cr_assert(run->code == 1 && has(run->err, "a sidecar of group \"g\" answers there, but this config has group \"ours\""), "%s",
              run->err);
    run = cluster_status(other, path);
    cr_assert(run->code == 1 && has(run->out, "\"code\":\"another\"") && has(run->out, "\"answered\":false"), "%s", run->out);
    cr_assert(has(run->out, "\"checks\":[]"), "%s", run->out);
}

Test(daemon_status_instance, the_published_rights_are_enough) {
    s = cluster_begin(NULL);
    const sidecar_t spec = {
        .ttl = "3s", .redis = RIGHTS_LOGIN, .queues = "{ name = \"email\"; roles = [\"dispatcher\", \"monitor\"]; }"};
    scoped(rights_free) rights_t rights = rights_read(NULL);
    rights_grant(s.r, &rights, NULL);
    char *path = cluster_config_file(&s, spec);
    daemon_t *d = cluster_sidecar_up(&s, spec);
    redis_ok(s.r, "LPUSH email:backup job");
    redis_ok(s.r, "XADD sidecar:email:failures * kind failed");
    redis_ok(s.r, "HSET sidecar:email:auditors me %s", "0-1 99999999999999");
    redis_ok(s.r, "ACL LOG RESET");
    const daemon_output_t *run = cluster_status(d, path);
    cr_assert_eq(rights_refused(s.r), 0);
    cr_assert(has(run->out, "\"in_progress\":1") && has(run->out, "\"fault\":null"), "%s", run->out);
}
