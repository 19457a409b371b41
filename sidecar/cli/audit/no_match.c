// What is said where nothing matches.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/suggest.h"
#include "cli/audit/audit.h"
#include "cli/encode.h"

enum { QUEUES_MAX = 32 };

typedef struct names {
    char *all[QUEUES_MAX];
    size_t count;
    bool known;
    const char *wanted;
} names_t;

static bool take_name(void *self, const char *name) {
    names_t *names = self;
    if (strcmp(name, names->wanted) == 0) names->known = true;
    if (names->count < QUEUES_MAX) names->all[names->count++] = mem_str(name);
    return true;
}

void audit_explain_nothing(audit_t *audit, const audit_filter_t *filter) {
    names_t names = {.wanted = filter->queue};
    buffer_t why = {0}, plain = {0};
    const char *nearest = NULL;
    const char *kind = filter->all_kinds ? "" : filter->kind ? filter->kind : "failed";
    if (strcmp(kind, "failed") != 0) {
        fprintf(stderr, "queue-sidecar: no events%s%s match\n", *kind ? " of kind " : "", kind);
        return;
    }
    if (filter->queue && audit_queues(audit, take_name, &names, &why) && !names.known)
        nearest = suggest_nearest(filter->queue, (const char *const *)names.all, names.count);
    fprintf(stderr, "queue-sidecar: no final failures match");
    if (filter->queue && !names.known) fprintf(stderr, ": none are of the queue `%s`", filter->queue);
    if (nearest) encode_plain(&plain, slice_text(nearest), false);
    if (nearest) fprintf(stderr, ", did you mean `%s`?", buffer_text(&plain));
    fputs("\n", stderr);
    for (size_t i = 0; i < names.count; i++) free(names.all[i]);
    buffer_free(&plain);
    buffer_free(&why);
}
