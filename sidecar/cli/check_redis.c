// queue-sidecar check --redis: the place of the audit log, the preflight, printed, and who leads.
#include <stdio.h>

#include "audit/site.h"
#include "cli/cli.h"
#include "queue/conn.h"
#include "queue/keys.h"
#include "queue/lock.h"
#include "queue/preflight.h"
#include "queue/seats.h"

typedef struct printed {
    int faults;
} printed_t;

static void print_finding(void *self, finding_t finding, const char *queue, const char *text) {
    static const char *const LABELS[] = {"ok", "warning", "FAULT", "FAULT", "FAULT"};
    printed_t *printed = self;
    if (finding != FINDING_FACT && finding != FINDING_WARN) printed->faults++;
    printf("%-8s %s%s%s%s\n", LABELS[finding], queue ? "queue \"" : "", queue ? queue : "", queue ? "\": " : "", text);
}

// Says who leads, and which of our queues that leader does not serve.
static outcome_t print_seats(conn_t *conn, const keyspace_t *keys, printed_t *printed, fault_t *fault) {
    for (size_t i = 0; i < keys->seat_count; i++) {
        seat_view_t view;
        if (seat_look(conn, keys, i, &view, fault) != OUTCOME_OK) return fault->outcome;
        const char *name = keys->seats[i].name;
        if (!*view.holder) {
            printf("%-8s \"%s\" has no leader now\n", "ok", name);
        } else if (token_ttl_ms(view.holder) == 0) {
            printed->faults++;
            printf("%-8s \"%s\": its lock %s holds \"%s\", which no sidecar wrote; nobody leads until that key is deleted\n",
                   "FAULT", name, keys->seats[i].lock, view.holder);
        } else
            printf("%-8s \"%s\" is led by %s, for %lld ms yet\n", "ok", name, view.holder, (long long)view.pttl_ms);
        if (view.unserved.len) {
            printed->faults++;
            printf("%-8s the leader of \"%s\" does not serve: %s; instances that serve other queues need another group\n",
                   "FAULT", name, buffer_text(&view.unserved));
        }
        seat_view_clear(&view);
    }
    return OUTCOME_OK;
}

static void print_site(void *self, audit_finding_t finding, const char *text) {
    static const finding_t OF[] = {[AUDIT_GOOD] = FINDING_FACT, [AUDIT_WARNING] = FINDING_WARN, [AUDIT_FAULT] = FINDING_FAULT};
    print_finding(self, OF[finding], NULL, text);
}

int check_redis(const config_t *config) {
    keyspace_t *keys = keyspace_new(config);
    conn_t *conn = conn_new(&config->redis, "queue-sidecar-check", NULL);
    printed_t printed = {0};
    fault_t fault;
    audit_look_at_site(config->audit.path, config->audit.retain_bytes, print_site, &printed);
    outcome_t outcome = conn_open(conn, &fault);
    if (outcome == OUTCOME_OK) outcome = preflight(conn, keys, print_finding, &printed, &fault);
    if (outcome == OUTCOME_OK) outcome = print_seats(conn, keys, &printed, &fault);
    int code = printed.faults ? CLI_FAILED : CLI_OK;
    if (outcome == OUTCOME_OK) {
        if (!printed.faults) printf("%-8s preflight passed\n", "ok");
    } else {
        fflush(stdout);
        fprintf(stderr, "queue-sidecar: redis at %s: %s\n", conn_target(conn), fault.text);
        code = outcome == OUTCOME_FAULT ? CLI_FAILED : CLI_REDIS_UNREACHABLE;
    }
    conn_free(conn);
    keyspace_free(keys);
    return code;
}
