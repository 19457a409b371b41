// Messages that several subcommands print.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/suggest.h"
#include "cli/audit/audit.h"
#include "cli/terminal.h"

int audit_print_error(buffer_t *why) {
    buffer_t escaped = {0};
    terminal_escape(&escaped, (slice_t){buffer_text(why), why->len}, true); // it may quote a foreign file
    fflush(stdout);
    fprintf(stderr, "queue-sidecar: %s\n", buffer_text(&escaped));
    buffer_free(&escaped);
    buffer_free(why);
    return CLI_FAILED;
}

int audit_usage_error(const audit_args_t *args, const char *format, ...) {
    const char *space = args->command ? " " : "", *command = args->command ? args->command : "";
    va_list values;
    fprintf(stderr, "queue-sidecar audit%s%s: ", space, command);
    va_start(values, format);
    vfprintf(stderr, format, values);
    va_end(values);
    fprintf(stderr, "\nSee `queue-sidecar help audit%s%s`.\n", space, command);
    return CLI_USAGE;
}

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

bool audit_has_word(const char *list, const char *word) {
    size_t len = strlen(word);
    for (const char *at = list; len && (at = strstr(at, word)); at++)
        if ((at == list || at[-1] == ' ') && (at[len] == ' ' || !at[len]) && !memchr(word, ' ', len)) return true;
    return false;
}
