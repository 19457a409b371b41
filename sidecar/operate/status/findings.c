// Turns the facts of `status` into findings. Pure.

#include "operate/status/checks.h"

#include "base/text/units.h"

enum { SEPARATE_MAX = 3 }; // queues with the same problem that get a finding each; more queues share one

// A subject with a problem.
typedef struct match {
    check_subject_t subject;
    size_t index;   // of the subject
    int64_t weight; // the heaviest comes first
    char *what;     // owned
} match_t;

// ---- Making a finding.

void shell_word(buffer_t *out, const char *text) {
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.:/@%+,=";
    bool quoted = !*text || *text == '-' || text[strspn(text, plain)];
    if (quoted) buffer_str(out, "'");
    for (; *text; text++) buffer_printf(out, *text == '\'' ? "'\\'%c" : "%c", *text);
    if (quoted) buffer_str(out, "'");
}

// Appends the value of the {name} with which `place` begins.
static void findings_fill(const check_subject_t *x, const char *place, buffer_t *out) {
    if (strncmp(place, "{config}", 8) == 0) shell_word(out, x->s->config->path);
    if (strncmp(place, "{queue}", 7) == 0) shell_word(out, x->keys->config->name);
    if (strncmp(place, "{failures}", 10) == 0) shell_word(out, x->keys->failures);
    if (strncmp(place, "{delayed}", 9) == 0) shell_word(out, x->keys->config->delayed);
    if (strncmp(place, "{lock}", 6) == 0) shell_word(out, x->lock_keys->key);
    if (strncmp(place, "{leader}", 8) == 0) buffer_str(out, status_leader(x->lock));
}

// Fills in each {place}. The caller frees the text.
static char *findings_filled(const check_subject_t *x, const char *text) {
    buffer_t out = {0};
    const char *open;
    for (; (open = strchr(text, '{')); text = strchr(open, '}') + 1) {
        buffer_add(&out, text, (size_t)(open - text));
        findings_fill(x, open, &out);
    }
    buffer_str(&out, text);
    return out.data;
}

// Describes the worst match, and how many things all matches have.
static char *findings_what(const match_t *matches, size_t count) {
    int64_t sum = 0;
    bool partial = false;
    if (count == 1 || !matches->subject.row->adds_up) return mem_str(matches->what);
    for (size_t i = 0; i < count; i++) {
        sum += matches[i].weight;
        partial |= matches[i].subject.recent->partial;
    }
    return mem_printf("%s; %s%s in all %zu queues", matches->what, partial ? "at least " : "", count_text(sum).text, count);
}

// Adds one finding about all of these matches, with the texts of the first one.
static void findings_add(status_findings_t *out, const match_t *matches, size_t count) {
    const check_subject_t *first = &matches->subject;
    out->items = mem_grown(out->items, out->count, sizeof *out->items);
    status_finding_t *finding = &out->items[out->count++];
    *finding = (status_finding_t){.severity = first->row->severity,
                                  .code = first->row->code,
                                  .queues = mem_array(count, sizeof *finding->queues),
                                  .what = findings_what(matches, count),
                                  .why = findings_filled(first, first->row->why),
                                  .next = findings_filled(first, first->row->next),
                                  .next_open = first->row->next};
    out->of[finding->severity]++;
    for (size_t i = 0; first->queue != CHECK_NO_QUEUE && i < count; i++)
        if (i == 0 || matches[i].subject.queue != matches[i - 1].subject.queue)
            finding->queues[finding->queue_count++] = matches[i].subject.queue;
}

static int findings_by_weight(const void *a, const void *b) {
    const match_t *one = a, *other = b;
    if (one->weight != other->weight) return one->weight < other->weight ? 1 : -1;
    if (one->subject.queue != other->subject.queue) return one->subject.queue < other->subject.queue ? -1 : 1;
    return one->index < other->index ? -1 : 1;
}

// ---- Subjects.

static size_t findings_count_subjects(const status_t *s, check_scope_t scope) {
    if (scope >= CHECK_SERVER && !s->reached) return 0;
    switch (scope) {
    case CHECK_LOCAL: return s->local.count;
    case CHECK_PREFLIGHT: return s->preflight_count;
    case CHECK_LOCK: return s->keys->lock_count;
    case CHECK_QUEUE: return s->keys->queue_count;
    default: return 1;
    }
}

static check_subject_t findings_subject(const status_t *s, const status_check_t *row, size_t index) {
    check_subject_t x = {.s = s, .row = row, .queue = CHECK_NO_QUEUE};
    size_t lock = index;
    if (row->scope == CHECK_LOCAL) x.local = &s->local.checks[index];
    if (row->scope == CHECK_PREFLIGHT) x.preflight = &s->preflight[index];
    if (row->scope == CHECK_PREFLIGHT) x.queue = x.preflight->queue;
    if (row->scope == CHECK_QUEUE) x.queue = index;
    if (row->scope == CHECK_LOCK && s->keys->per_tag) x.queue = s->keys->locks[index].queues[0];
    if (x.queue != CHECK_NO_QUEUE) {
        x.keys = &s->keys->queues[x.queue];
        x.policy = &x.keys->config->policy;
        x.stream = &s->snapshot.queues[x.queue];
        x.sizes = &s->sizes[x.queue];
        x.recent = &s->recent[x.queue];
        lock = x.keys->lock;
    }
    if (row->scope == CHECK_LOCK || row->scope == CHECK_QUEUE) {
        x.lock_keys = &s->keys->locks[lock];
        x.lock = &s->snapshot.locks[lock];
    }
    return x;
}

// While a queue waits for its slot, nothing else about the queue and its lock is known.
static bool findings_is_known(const check_subject_t *x) {
    bool waits = x->queue != CHECK_NO_QUEUE && x->s->places[x->queue].state != SLOT_SERVED;
    return !waits || x->row->find == check_slot;
}

// Adds a finding for each match, or one for all matches of more than SEPARATE_MAX queues.
static void findings_of_row(const status_t *s, const status_check_t *row, const bool *wanted, status_findings_t *out) {
    size_t all = findings_count_subjects(s, row->scope), count = 0, queues = 0;
    match_t *matches = mem_array(all + 1, sizeof *matches);
    for (size_t i = 0; i < all; i++) {
        buffer_t what = {0};
        match_t *match = &matches[count];
        *match = (match_t){.subject = findings_subject(s, row, i), .index = i};
        if (wanted && match->subject.queue != CHECK_NO_QUEUE && !wanted[match->subject.queue]) continue;
        match->weight = findings_is_known(&match->subject) ? row->find(&match->subject, &what) : 0;
        if (match->weight) matches[count++].what = mem_str(buffer_text(&what));
        buffer_free(&what);
    }
    qsort(matches, count, sizeof *matches, findings_by_weight);
    for (size_t i = 0; i < count; i++)
        queues +=
            matches[i].subject.queue != CHECK_NO_QUEUE && (i == 0 || matches[i].subject.queue != matches[i - 1].subject.queue);
    for (size_t i = 0, together; i < count; i += together) {
        together = matches[i].subject.queue != CHECK_NO_QUEUE && queues > SEPARATE_MAX ? count - i : 1;
        findings_add(out, &matches[i], together);
    }
    for (size_t i = 0; i < count; i++) free(matches[i].what);
    free(matches);
}

status_findings_t status_diagnose(const status_t *status, const bool *wanted) {
    status_findings_t out = {0};
    for (int severity = STATUS_FAULT; severity >= STATUS_NOTE; severity--)
        for (size_t i = 0; i < status_check_count; i++)
            if ((int)status_checks[i].severity == severity) findings_of_row(status, &status_checks[i], wanted, &out);
    return out;
}

void status_findings_free(status_findings_t *findings) {
    for (size_t i = 0; i < findings->count; i++) {
        status_finding_t *finding = &findings->items[i];
        free(finding->queues);
        free(finding->what);
        free(finding->why);
        free(finding->next);
    }
    free(findings->items);
    *findings = (status_findings_t){0};
}
