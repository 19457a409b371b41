#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/suggest.h"
#include "cli/audit/audit.h"
#include "cli/terminal.h"

enum { MAX_QUEUES = 32 };

typedef struct queues {
    char *all[MAX_QUEUES];
    size_t count;
    bool known;
    const char *wanted;
} known_queues_t;

static bool no_match_add_queue(void *self, const char *name) {
    known_queues_t *queues = self;
    if (strcmp(name, queues->wanted) == 0) queues->known = true;
    if (queues->count < MAX_QUEUES) queues->all[queues->count++] = mem_str(name);
    return true;
}

void audit_print_no_match(audit_t *audit, const audit_filter_t *filter) {
    known_queues_t queues = {.wanted = filter->queue};
    buffer_t why = {0}, escaped = {0};
    const char *kind = filter->all_kinds ? "" : filter->kind ? filter->kind : "failed", *nearest = NULL;
    if (strcmp(kind, "failed") != 0) {
        fprintf(stderr, "queue-sidecar: no events%s%s match\n", *kind ? " of kind " : "", kind);
        return;
    }
    if (filter->queue && audit_queues(audit, no_match_add_queue, &queues, &why) && !queues.known)
        nearest = suggest_nearest(filter->queue, (const char *const *)queues.all, queues.count);
    fprintf(stderr, "queue-sidecar: no final failures match");
    if (filter->queue && !queues.known) fprintf(stderr, ": the log has none of queue `%s`", filter->queue);
    if (nearest) terminal_escape(&escaped, slice_text(nearest), false);
    if (nearest) fprintf(stderr, ", did you mean `%s`?", buffer_text(&escaped));
    fputs("\n", stderr);
    for (size_t i = 0; i < queues.count; i++) free(queues.all[i]);
    buffer_free(&escaped);
    buffer_free(&why);
}
