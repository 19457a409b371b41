// Messages that several subcommands print.
#include "base/text/suggest.h"
#include "base/text/time_text.h"
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

int audit_usage_why(const audit_args_t *args, buffer_t *why) {
    int status = cli_usage_error(args->command, "%s", buffer_text(why));
    buffer_free(why);
    return status;
}

typedef struct ref_matches {
    const audit_args_t *args;
    buffer_t text; // a line for each match; owned
} ref_matches_t;

static bool ref_matches_add(void *self, const audit_row_t *row) {
    ref_matches_t *matches = self;
    const event_t *event = &row->event;
    buffer_printf(&matches->text, "\n%.*s  %s  %.*s  ", (int)row->ref.len, row->ref.data,
                  time_text(event->at, matches->args->utc, TIME_SECONDS).text, (int)event->kind.len, event->kind.data);
    terminal_escape(&matches->text, event->queue, false);
    buffer_str(&matches->text, "  ");
    terminal_escape(&matches->text, event->job, false);
    return true;
}

int audit_find_event(const audit_args_t *args, const char *word, ref_event_t *found) {
    ref_matches_t matches = {.args = args};
    buffer_t why = {0};
    ref_result_t result = ref_find(args->audit, word, ref_matches_add, &matches, found, &why);
    if (result == REF_AMBIGUOUS) buffer_str(&why, buffer_text(&matches.text));
    buffer_free(&matches.text);
    if (result == REF_MALFORMED) {
        fprintf(stderr, "queue-sidecar audit: %s\n", buffer_text(&why));
        buffer_free(&why);
        return CLI_USAGE;
    }
    return result == REF_FOUND ? CLI_OK : audit_print_error(&why);
}

typedef struct queue_search {
    const char *wanted;
    bool found;
    char *nearest; // owned; NULL = no name is near
} queue_search_t;

static bool queue_search_add(void *self, const char *name) {
    queue_search_t *search = self;
    const char *nearest = suggest_nearest(search->wanted, (const char *const[]){search->nearest, name}, 2);
    search->found = strcmp(name, search->wanted) == 0;
    if (nearest == name) {
        free(search->nearest);
        search->nearest = mem_str(name);
    }
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
    if (search.nearest && !search.found) buffer_printf(&text, "; did you mean `%s`?", search.nearest);
    free(search.nearest);
    audit_print_error(&text);
    buffer_free(&why);
}
