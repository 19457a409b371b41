/* The password file changes while a sidecar runs under load. */
#include "cluster.h"
#include "tempdir.h"
#include "wait.h"

enum { SWAPS = 20 };

static void swap(const char *path, const char *password) {
    char *next = temp_file("next", password);
    cr_assert_eq(rename(next, path), 0);
}

/* The number of clients whose line in CLIENT LIST has this part; *id is that of the last one. */
static int connections(redis_t *r, const char *part, long long *id) {
    char *list = redis_str(r, "CLIENT LIST"), *rest = list;
    int count = 0;
    for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
        if (!strstr(line, part)) continue;
        *id = strtoll(line + strlen("id="), NULL, 10);
        count++;
    }
    return count;
}

static const char AUDITOR[] = " name=queue-sidecar-auditor ";

static cluster_t s;
SUITE(daemon_password, s = cluster_begin(NULL), cluster_end(&s));

/* 20 new passwords; each old one is revoked once the new one is in use. Each subscriber is replaced once a password, and of the
 * other connections only the auditor's, while it waits for records. */
Test(daemon_password, twenty_new_passwords_end_no_term, .timeout = 180) {
    static const char *const requesters[] = {" name=queue-sidecar-leader ", " name=queue-sidecar-dispatcher "};
    enum { REQUESTERS = sizeof requesters / sizeof *requesters };
    long long ids[REQUESTERS], id = 0;
    char *path = temp_file("password", "p0\n");
    redis_ok(s.r, "ACL SETUSER sidecar on ~* &* +@all >p0");
    char *settings = kept_printf("username = \"sidecar\"; password_file = \"%s\";", path);
    daemon_t *d = cluster_sidecar_up(&s, (sidecar_t){.redis = settings, .ttl = "3s"});
    cluster_works(&s, "q");
    for (size_t i = 0; i < REQUESTERS; i++) cr_assert(wait_for(connections(s.r, requesters[i], &ids[i]) == 1, 10000));
    cr_assert_eq(connections(s.r, " sub=1 ", &id), 1, "the dispatcher's");
    long long subscribed = server_commandstat(s.server, "subscribe");
    for (int i = 1; i <= SWAPS; i++) {
        char old[8], password[8];
        snprintf(old, sizeof old, "p%d", i - 1);
        snprintf(password, sizeof password, "p%d", i);
        redis_ok(s.r, "ACL SETUSER sidecar >%s", password);
        swap(path, password);
        for (int told = i, job = 0; daemon_log_count(d, "password file has changed") < told || job < 3; job++)
            cluster_works(&s, "q");
        cluster_works(&s, "q"); /* the dispatcher has seen the new password since */
        redis_ok(s.r, "ACL SETUSER sidecar <%s", old);
    }
    cluster_works(&s, "q");
    cr_assert_eq(daemon_log_count(d, "\"leading\""), 1);
    cr_assert_eq(daemon_log_count(d, "no longer leading"), 0);
    cr_assert_eq(daemon_log_count(d, "cannot"), 0, "%s", daemon_log(d));
    cr_assert_eq(server_commandstat(s.server, "subscribe") - subscribed, SWAPS);
    for (size_t i = 0; i < REQUESTERS; i++)
        cr_assert(connections(s.r, requesters[i], &id) == 1 && id == ids[i], "%s was replaced", requesters[i]);
}

/* Nothing else makes the sidecar send a request: the change of the file wakes its idle connections. */
Test(daemon_password, idle_connections_notice_a_new_password) {
    char *path = temp_file("password", "p0\n");
    redis_ok(s.r, "ACL SETUSER sidecar on ~* &* +@all >p0");
    char *settings = kept_printf("username = \"sidecar\"; password_file = \"%s\";", path);
    daemon_t *d = cluster_sidecar_up(&s, (sidecar_t){.redis = settings, .ttl = "1m"});
    cluster_works(&s, "q");
    long long auditor = 0, id = 0;
    cr_assert(wait_for(connections(s.r, AUDITOR, &auditor) == 1, 15000));
    long long before = server_commandstat(s.server, "auth");
    swap(path, "wrong");
    cr_assert(daemon_wait_log(d, "cannot authenticate with the new password", 10000));
    cluster_works(&s, "q");
    swap(path, "p1");
    redis_ok(s.r, "ACL SETUSER sidecar >p1");
    cr_assert(daemon_wait_log(d, "redis accepts the new password", 15000));
    cr_assert(wait_for(server_commandstat(s.server, "auth") - before >= 5, 15000)); /* 3 connections, 2 subscribers */
    /* This one waits for records of failures for up to a minute, and cannot send AUTH meanwhile. */
    cr_assert(wait_for(connections(s.r, AUDITOR, &id) == 1 && id > auditor, 15000), "the auditor keeps the old password");
    cr_assert_eq(daemon_log_count(d, "cannot authenticate"), 1, "%s", daemon_log(d));
}
