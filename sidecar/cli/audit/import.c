// Events of other logs and of exports into this log.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/import/import.h"
#include "base/utf8.h"
#include "cli/audit/audit.h"
#include "cli/audit/read_event.h"
#include "cli/audit/records.h"
#include "cli/encode.h"
#include "cli/progress.h"
#include "cli/when.h"

enum {
    LINES_PER_LOOK = 256, // of the progress
    PATIENCE_MS = 30000,  // with a sidecar that writes all the time
    NAMED_MOST = 100,     // of what is left out of one file: a wrong file has nothing else
};

typedef struct job {
    import_t *import;
    const char *name; // of the file
    const char *log;  // of the log that it goes into
    bool is_log;      // what is counted are seqs, not lines
    int64_t records;  // of an export, since its beginning or an end
    int64_t missing;  // that its ends tell of and that did not come
    bool ended;       // nothing came since an end
    int64_t named;    // of what was left out
    progress_t progress;
} job_t;

// "FILE: line 17: refused: REASON"; control bytes of a reason were escaped by those who made it.
static void tell_refused(void *self, int64_t from, int64_t to, const char *reason) {
    job_t *job = self;
    if (job->named++ >= NAMED_MOST) return;
    progress_end(&job->progress);
    fprintf(stderr, "queue-sidecar: %s: %s %" PRId64, job->name, job->is_log ? "row" : "line", from);
    if (to > from) fprintf(stderr, " to %" PRId64, to);
    fprintf(stderr, ": left out: %s\n", reason);
}

static void tell_filled(void *self, const event_t *gap) {
    job_t *job = self;
    char at[WHEN_SIZE], ref[EVENT_REF_SIZE];
    buffer_t queue = {0};
    when_rfc3339(gap->at, at);
    if (!event_ref(gap->event, ref)) return;
    encode_plain(&queue, gap->queue, false);
    progress_end(&job->progress);
    printf("%s: fills the gap %s of queue %s (records %.*s, up to %s)\n", job->name, ref, buffer_text(&queue), (int)gap->job.len,
           gap->job.data, at);
    buffer_free(&queue);
}

static void tell_progress(void *self, int64_t done, int64_t of) { progress_show(&((job_t *)self)->progress, done, of); }

static bool fail(buffer_t *why, const char *name, const char *text) {
    buffer_printf(why, "%s: %s", name, text);
    return false;
}

// The end of an export: several may have been put into one file.
static void take_end(job_t *job, const event_t *end) {
    if (end->size > job->records) job->missing += end->size - job->records;
    job->records = 0;
    job->ended = true;
}

// One record of an export. False: the log refuses.
static bool take_record(job_t *job, audit_reader_t *reader, records_t *records, const record_t *record, buffer_t *why) {
    buffer_t reason = {0};
    event_t event;
    bool good = records->form == RECORDS_CSV ? audit_read_csv(reader, record->bytes, &event, &reason)
                                             : audit_read_json(reader, record->bytes, &event, &reason);
    if (good && slice_is(event.kind, AUDIT_EXPORT_END)) {
        take_end(job, &event);
        return true;
    }
    job->records++;
    job->ended = false;
    good = good && import_fits(&event, &reason);
    if (!good) {
        import_refuse(job->import);
        tell_refused(job, record->line, record->last_line, buffer_text(&reason));
    }
    buffer_free(&reason);
    return !good || import_take(job->import, &event, why);
}

static bool read_records(job_t *job, audit_reader_t *reader, records_t *records, buffer_t *why) {
    record_t record;
    if (records->form == RECORDS_CSV &&
        (records_next(records, &record) != RECORDS_ONE || !audit_read_titles(reader, record.bytes, why)))
        return fail(why, job->name, "has no good titles in its first line");
    for (int64_t count = 1;; count++) {
        records_result_t result = records_next(records, &record);
        if (result == RECORDS_END) return import_end_of_export(job->import, why);
        if (result == RECORDS_FAULT) return fail(why, job->name, strerror(errno));
        if (result == RECORDS_BAD) {
            job->records += record.last_line - record.line + 1;
            job->ended = false;
            import_refuse(job->import);
            tell_refused(job, record.line, record.last_line, record.reason);
        } else if (!take_record(job, reader, records, &record, why)) {
            return false;
        }
        if (count % LINES_PER_LOOK == 0) progress_show(&job->progress, record.line, 0);
    }
}

static bool import_export(job_t *job, records_t *records, buffer_t *why) {
    audit_reader_t *reader = audit_reader_new();
    bool done = read_records(job, reader, records, why);
    audit_reader_free(reader);
    return done;
}

static bool import_form(job_t *job, records_t *records, buffer_t *why) {
    const import_listener_t listener = {job, tell_refused, tell_filled, tell_progress};
    switch (records->form) {
    case RECORDS_EMPTY: return !records->error || fail(why, job->name, strerror(records->error));
    case RECORDS_JSON:
    case RECORDS_CSV: return import_export(job, records, why);
    case RECORDS_SQLITE:
        job->is_log = true;
        if (strcmp(job->name, "-") == 0)
            return fail(why, "standard input", "is an audit log: give its name, so that it can be opened");
        return import_log(job->import, job->name, &listener, why);
    case RECORDS_ARRAY: return fail(why, job->name, "is one JSON array: export with -o jsonl or -o csv");
    case RECORDS_UNKNOWN: break;
    }
    return fail(why, job->name, "is no audit log and no export of one (jsonl, csv)");
}

static bool is_same_file(const char *a, const char *b) {
    struct stat of_a, of_b;
    return stat(a, &of_a) == 0 && stat(b, &of_b) == 0 && of_a.st_dev == of_b.st_dev && of_a.st_ino == of_b.st_ino;
}

// To close a descriptor of a log drops the locks that SQLite holds on it in this process (sqlite.org/howtocorrupt.html). So the
// log that we write is never opened here, and another one is closed again before SQLite opens it.
static bool import_file(job_t *job, buffer_t *why) {
    bool is_input = strcmp(job->name, "-") == 0;
    if (!is_input && is_same_file(job->name, job->log)) return fail(why, job->name, "is the audit log itself: name another one");
    int fd = is_input ? STDIN_FILENO : open(job->name, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return fail(why, job->name, strerror(errno));
    records_t records = records_open(fd);
    if (records.form == RECORDS_SQLITE && !is_input) {
        close(fd);
        fd = -1;
    }
    bool done = import_form(job, &records, why);
    records_free(&records);
    if (fd >= 0 && !is_input) close(fd);
    return done;
}

static void add_count(buffer_t *text, int64_t count, const char *what, bool always) {
    char number[NUMBER_SIZE];
    audit_number_text(count, number);
    if (count || always) buffer_printf(text, "%s%s %s", text->len ? ", " : "", number, what);
}

static void print_counts(const char *name, const import_counts_t *counts) {
    buffer_t text = {0};
    add_count(&text, counts->added, "added", true);
    add_count(&text, counts->known, "known", true);
    add_count(&text, counts->refused, "left out", true);
    add_count(&text, counts->apart,
              counts->apart == 1 ? "gap of that log that is none here" : "gaps of that log that are none here", false);
    add_count(&text, counts->filled, counts->filled == 1 ? "gap filled" : "gaps filled", false);
    printf("%s: %s\n", name, buffer_text(&text));
    buffer_free(&text);
}

// Whether an export is whole, as far as it says.
static bool tell_missing(const job_t *job) {
    char number[NUMBER_SIZE];
    audit_number_text(job->missing, number);
    if (job->missing)
        fprintf(stderr, "queue-sidecar: %s: %s of the events that were exported are missing: get the file again\n", job->name,
                number);
    else if (job->records && !job->ended)
        fprintf(
            stderr,
            "queue-sidecar: %s: the line that ends an export is missing: the file was cut short, or an older version wrote it; "
            "what is there was taken\n",
            job->name);
    return job->missing == 0;
}

static int import_one(audit_t *audit, const char *log, const char *name) {
    job_t job = {.import = import_begin(audit), .name = name, .log = log, .progress = progress_begin("importing")};
    buffer_t why = {0};
    bool done = import_file(&job, &why);
    const import_counts_t *counts = import_counted(job.import);
    progress_end(&job.progress);
    if (job.named > NAMED_MOST)
        fprintf(stderr, "queue-sidecar: %s: these are the first %d; what else was left out is only counted\n", name, NAMED_MOST);
    print_counts(name, counts);
    int status = done && counts->refused == 0 ? CLI_OK : CLI_FAILED;
    if (!done) audit_complain(&why);
    if (done && !tell_missing(&job)) status = CLI_FAILED;
    buffer_free(&why);
    import_free(job.import);
    return status;
}

static int run_import(audit_ask_t *ask) {
    buffer_t why = {0};
    int status = CLI_OK;
    bool there = access(ask->path, F_OK) == 0;
    audit_t *audit = audit_open(ask->path, AUDIT_IMPORT, &why);
    if (!audit) return audit_complain(&why);
    audit_patience(audit, PATIENCE_MS);
    if (!there) fprintf(stderr, "queue-sidecar: made a new audit log %s\n", ask->path);
    for (size_t i = 0; i < ask->words.count; i++)
        if (import_one(audit, ask->path, ask->words.all[i]) != CLI_OK) status = CLI_FAILED;
    audit_close(audit);
    return status;
}

static const cli_option_t options[] = {
    AUDIT_WORDS(
        "FILE",
        "an audit log (SQLite, of this version or older, only read), jsonl or csv as `audit export` writes them, or - for "
        "standard input",
        CLI_FILES),
    AUDIT_OPTIONS_LOG,
};

const audit_command_t audit_import_command = {
    .about =
        {.name = "import",
         .summary = "Adds what another instance's log, or an export, has and this log has not",
         .examples = "queue-sidecar audit import /backup/audit-of-pod-2.db\n"
                     "kubectl exec pod-2 -c queue-sidecar -- queue-sidecar audit export | queue-sidecar audit import -\n",
         .usage = "audit import FILE... [-c FILE | --db PATH]",
         CLI_OPTIONS(options),
         .text =
             "A log that is not there is made. Events are known by their ids, so it may be run again, and interrupted; a sidecar "
             "may go on writing beside it. What is no event is left out, and the first 100 of a file named with their lines (of "
             "a log: seqs). Where "
             "another instance's log is complete for a gap of this one, the gap is marked as filled: `audit list --kind gap` "
             "shows both. Run it as the user of the sidecar.",
         .exits = "0 ok\n1 failed, or something was left out or is missing\n2 wrong usage\n78 bad config\n"},
    .least = 1,
    .most = SIZE_MAX,
    .missing = "a file is missing: `import FILE...`",
    .run = run_import,
};
