// Messages that several subcommands print.
#include <stdarg.h>

#include "cli/audit/audit.h"
#include "cli/terminal.h"

int audit_print_error(buffer_t *why) {
    buffer_t escaped = {0};
    terminal_escape(&escaped, (slice_t){buffer_text(why), why->len}, true); // the text may quote a file of unknown origin
    fflush(stdout);
    fprintf(stderr, "queue-sidecar: %s\n", buffer_text(&escaped));
    buffer_free(&escaped);
    buffer_free(why);
    return CLI_FAILED;
}

int audit_usage_error(const audit_args_t *args, const char *format, ...) {
    va_list values;
    fprintf(stderr, "queue-sidecar %s: ", args->command);
    va_start(values, format);
    vfprintf(stderr, format, values);
    va_end(values);
    fprintf(stderr, "\nSee `queue-sidecar help %s`.\n", args->command);
    return CLI_USAGE;
}

typedef struct queue_search {
    const char *wanted;
    bool found;
} queue_search_t;

static bool queue_search_add(void *self, const char *name) {
    queue_search_t *search = self;
    search->found = strcmp(name, search->wanted) == 0;
    return !search->found;
}

void audit_print_no_match(audit_t *audit, const audit_filter_t *filter) {
    queue_search_t search = {.wanted = filter->queue};
    buffer_t why = {0}, text = {0};
    const char *kind = filter->all_kinds ? "" : filter->kind ? filter->kind : "failed";
    bool failed = strcmp(kind, "failed") == 0;
    if (failed && filter->queue) audit_queues(audit, queue_search_add, &search, &why);
    if (failed)
        buffer_str(&text, "no final failures match");
    else
        buffer_printf(&text, "no events%s%s match", *kind ? " of kind " : "", kind);
    if (failed && filter->queue && !search.found) buffer_printf(&text, ": the log has none of queue `%s`", filter->queue);
    audit_print_error(&text);
    buffer_free(&why);
}
