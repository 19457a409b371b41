/* What `status` learns from the instance on its machine, and with which rights. */
#include "scene.h"
#include "tempdir.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static bool has(const char *text, const char *part) { return strstr(text, part) != NULL; }

/* A port that was free a moment ago. */
static int some_port(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(fd, (struct sockaddr *)&address, size), 0);
    cr_assert_eq(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    close(fd);
    return ntohs(address.sin_port);
}

static char *config_on(const scene_t *s, int port) {
    char *text = scene_config(s, (sidecar_t){.ttl = "3s"}), *at = strstr(text, "port = 0;"), *out = NULL;
    cr_assert_gt(asprintf(&out, "%.*sport = %d;%s", (int)(at - text), text, port, at + strlen("port = 0;")), 0);
    free(text);
    return out;
}

/* A sidecar that serves http; others may take its port first, so it tries again. */
static daemon_t *serving(scene_t *s, char **config) {
    for (int i = 0; i < 20; i++) {
        *config = config_on(s, some_port());
        daemon_t *d = daemon_start("%s", *config);
        cr_assert(
            wait_for(daemon_log_count(d, "serve health and metrics") + daemon_log_count(d, "serves health and metrics"), 10000));
        if (daemon_log_count(d, "serves health and metrics")) return s->sidecars[s->count++] = d;
        daemon_free(d);
        free(*config);
    }
    cr_assert_fail("no port is to be had");
    return NULL;
}

static const daemon_output_t *ask(const daemon_t *d, const char *config) {
    char *audit = NULL;
    cr_assert_gt(asprintf(&audit, "QUEUE_SIDECAR_AUDIT_PATH=%s", daemon_audit_path(d)), 0);
    const daemon_options_t options = {.env = (const char *const[]){audit, NULL}};
    const char *const args[] = {"status", "-c", config, "-o", "json", NULL};
    const daemon_output_t *output = daemon_run_argv(&options, args);
    free(audit);
    return output;
}

Test(daemon_status_here, checks_of_the_instance_here_and_a_config_that_it_refuses, .timeout = 120) {
    scene_t s = scene_begin(NULL);
    char *config;
    daemon_t *d = serving(&s, &config);
    char *dir = temp_dir("here"), *path = temp_path(dir, "good.cfg");
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    fputs(config, file);
    cr_assert_eq(fclose(file), 0);
    cr_assert(daemon_wait_log(d, "\"msg\":\"leading\"", 10000));
    const daemon_output_t *run = NULL;
    cr_assert(wait_for((run = ask(d, path), run->code == 0 && has(run->out, "\"ready\":true")), 10000), "%s", run->out);
    cr_assert(has(run->out, "{\"check\":\"config\",\"ok\":true,\"why\":null,\"state\":\"in effect since "), "%s",
              strstr(run->out, "instance_here"));
    redis_ok(s.r, "ACL SETUSER default -zrange"); /* no due job is found */
    redis_ok(s.r, "ZADD q:delayed 1 job");
    cr_assert(wait_for((run = ask(d, path), has(run->out, "Redis refuses what is asked for \\\"q\\\"")), 10000), "%s", run->out);
    cr_assert_eq(run->code, 1);
    redis_ok(s.r, "ACL SETUSER default +zrange");
    cr_assert(wait_for((run = ask(d, path), run->code == 0), 40000), "%s", run->out);
    daemon_pause(d);
    cr_assert(has((run = ask(d, path))->out, "\"code\":\"mute\"") && run->code == 1, "%s", run->out);
    daemon_continue(d);
    daemon_write_config(d, "%s\nnonsense = 1;\n", config);
    daemon_signal(d, SIGHUP);
    cr_assert(wait_for((run = ask(d, path), has(run->out, "\"code\":\"config_refused\"")), 10000), "%s", run->out);
    cr_assert_eq(run->code, 1);
    cr_assert(has(run->out, "nonsense"), "with the reason: %s", run->out);
    daemon_kill(d);
    run = ask(d, path);
    cr_assert(has(run->out, "\"answered\":false") && has(run->out, "\"code\":\"no_answer\""), "%s", run->out);
    free(path);
    free(dir);
    free(config);
    scene_end(&s);
}

/* The user that README publishes, less what follows the keys of its own queues. False: there is no README here. */
static bool set_user(redis_t *r) {
    char *readme = temp_read("README.md"), *at = strstr(readme, "\nACL SETUSER sidecar reset"), *rest = NULL;
    const char *argv[200] = {"ACL", "SETUSER", "sidecar", "reset", "on", ">secret"};
    int argc = 6;
    if (!*readme) return false;
    cr_assert_not_null(at, "README.md publishes no ACL line");
    *strstr(at, "\n```") = '\0';
    for (char *word = strtok_r(at, " \n", &rest); word; word = strtok_r(NULL, " \n", &rest))
        if (strchr("+-~&", *word) && argc < 200) argv[argc++] = word;
    redisReply *reply = redisCommandArgv(r, argc, argv, NULL);
    cr_assert(reply && reply->type == REDIS_REPLY_STATUS, "%s", reply ? reply->str : r->errstr);
    freeReplyObject(reply);
    free(readme);
    return true;
}

Test(daemon_status_here, the_published_rights_are_enough) {
    scene_t s = scene_begin(NULL);
    const sidecar_t spec = {.ttl = "3s",
                            .redis = "username = \"sidecar\"; password = \"secret\";",
                            .queues = "{ name = \"email\"; roles = [\"dispatcher\", \"monitor\"]; }"};
    if (!set_user(s.r)) cr_skip_test("no README.md here");
    char *text = scene_config(&s, spec), *dir = temp_dir("rights"), *path = temp_path(dir, "rights.cfg");
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    fputs(text, file);
    cr_assert_eq(fclose(file), 0);
    daemon_t *d = scene_sidecar_up(&s, spec);
    redis_ok(s.r, "LPUSH email:backup job");
    redis_ok(s.r, "XADD sidecar:email:failures * kind failed");
    redis_ok(s.r, "HSET sidecar:email:auditors me %s", "0-1 99999999999999");
    redis_ok(s.r, "ACL LOG RESET");
    const daemon_output_t *run = ask(d, path);
    redisReply *log = redis_do(s.r, "ACL LOG");
    cr_assert_eq(log->elements, 0, "%s was refused", log->elements ? log->element[0]->element[7]->str : "");
    cr_assert(has(run->out, "\"in_progress\":1") && has(run->out, "\"fault\":null"), "%s", run->out);
    freeReplyObject(log);
    free(text);
    free(path);
    free(dir);
    scene_end(&s);
}
