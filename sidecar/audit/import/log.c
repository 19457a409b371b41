// Another log, read for an import. It may be of a stranger and it may be damaged: nothing of it is trusted but its rows, and each
// of these is looked at (advice of sqlite.org/security.html on database files of unknown origin).
#include <sys/stat.h>

#include "audit/import/internal.h"
#include "audit/query/query.h"
#include "audit/query/statement.h"

enum {
    STEP_ROWS = 1000,  // read in one transaction of the other log
    BARREN_STEPS = 64, // so many in a row without a row that can be read: the rest is given up
    CUT_STEPS = 16,    // the same of a file that was cut short: what it lacks is mostly its end
};

static const char careful[] = "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA query_only = ON";

typedef struct reading {
    import_t *import;
    audit_t *peer;
    const import_listener_t *listener;
    int64_t after;     // the last seq that was dealt with
    int64_t last;      // the highest one of the file
    bool failed;       // our log refuses
    bool damaged;      // something was passed over
    bool cut;          // the file is shorter than it says
    int64_t lost_from; // a run of seqs that cannot be read; 0 = none
    buffer_t *why;
} reading_t;

static void tell(reading_t *reading, int64_t seq, int64_t last, const char *reason) {
    reading->damaged = true;
    import_refuse(reading->import);
    reading->listener->refused(reading->listener->self, seq, last, reason);
}

static void end_of_run(reading_t *reading, int64_t next) {
    if (reading->lost_from) tell(reading, reading->lost_from, next - 1, "cannot be read: the file is damaged there");
    reading->lost_from = 0;
}

static bool take(void *self, const audit_row_t *row) {
    reading_t *reading = self;
    buffer_t why = {0};
    end_of_run(reading, row->seq);
    reading->after = row->seq;
    if (!import_fits(&row->event, &why))
        tell(reading, row->seq, row->seq, buffer_text(&why));
    else if (!import_take(reading->import, &row->event, reading->why))
        reading->failed = true;
    buffer_free(&why);
    return !reading->failed && !import_is_full(reading->import);
}

// One seq after the other: those that cannot be read are passed over.
static bool read_singly(reading_t *reading, int64_t to, bool *some) {
    buffer_t ignored = {0};
    for (int64_t seq = reading->after + 1; seq <= to && !reading->failed; seq++) {
        int64_t before = reading->after;
        if (!audit_range(reading->peer, seq, seq, take, reading, &ignored) && reading->after < seq && !reading->lost_from)
            reading->lost_from = seq;
        *some = *some || reading->after > before;
        reading->after = seq;
        if (import_is_full(reading->import) && !reading->failed) reading->failed = !import_flush(reading->import, reading->why);
    }
    buffer_free(&ignored);
    return !reading->failed;
}

static bool is_damage(const audit_t *peer) { return (sqlite3_errcode(peer->db) & 0xff) == SQLITE_CORRUPT; }

// The next rows. False: our log refuses, or the other one cannot be read at all. *done: there are no more.
static bool step(reading_t *reading, int *barren, bool *done) {
    int64_t first, last;
    buffer_t why = {0};
    bool some = false;
    bool bounds = audit_bounds(reading->peer, reading->after, &first, &last, &why);
    bool damage = !bounds && is_damage(reading->peer);
    *done = bounds && last <= reading->after;
    if (bounds && !*done) {
        reading->last = last;
        int64_t to = (uint64_t)last - (uint64_t)first < STEP_ROWS ? last : first + STEP_ROWS - 1;
        reading->after = first - 1;
        if (audit_range(reading->peer, first, to, take, reading, &why)) {
            if (!import_is_full(reading->import)) reading->after = to;
            some = true;
        } else {
            damage = is_damage(reading->peer);
            bounds = false;
        }
    }
    if (!bounds && !damage) buffer_str(reading->why, buffer_text(&why));
    buffer_free(&why);
    if (reading->failed || (!bounds && !damage)) return false;
    if (damage) {
        if (reading->after < 0) reading->after = 0;
        if (!read_singly(reading, reading->after + STEP_ROWS, &some)) return false;
    }
    *barren = some ? 0 : *barren + 1;
    *done = *done || *barren == (reading->cut ? CUT_STEPS : BARREN_STEPS);
    return !import_is_full(reading->import) || import_flush(reading->import, reading->why);
}

static bool read_rows(reading_t *reading) {
    int barren = 0;
    for (bool done = false; !done;) {
        if (!step(reading, &barren, &done)) return false;
        if (reading->listener->progress) reading->listener->progress(reading->listener->self, reading->after, reading->last);
    }
    if (reading->lost_from)
        tell(reading, reading->lost_from, reading->lost_from, "and what comes after it cannot be read: the file is damaged");
    return import_flush(reading->import, reading->why);
}

// A view of that name could be made of anything.
static bool is_log(audit_t *peer, buffer_t *why) {
    int64_t tables = 0;
    const char sql[] =
        "SELECT count(*) FROM sqlite_schema WHERE name = 'events' AND type = 'table' AND sql LIKE 'CREATE TABLE %'";
    if (!audit_number(peer, sql, &tables, why)) return false;
    if (tables == 1) return true;
    buffer_printf(why, "audit log %s: has no table of events", peer->path);
    return false;
}

static bool is_same_file(const char *a, const char *b) {
    struct stat of_a, of_b;
    return stat(a, &of_a) == 0 && stat(b, &of_b) == 0 && of_a.st_dev == of_b.st_dev && of_a.st_ino == of_b.st_ino;
}

bool import_log(import_t *import, const char *path, const import_listener_t *listener, buffer_t *why) {
    if (is_same_file(path, import->audit->path)) {
        buffer_printf(why, "%s: is the audit log itself: name that of another instance", path);
        return false;
    }
    audit_t *peer = audit_open(path, AUDIT_PEER, why);
    if (!peer) return false;
    reading_t reading = {.import = import, .peer = peer, .listener = listener, .after = INT64_MIN, .why = why};
    reading.cut = audit_is_damaged(peer);
    sqlite3_db_config(peer->db, SQLITE_DBCONFIG_DEFENSIVE, !reading.cut, NULL); // see open.c
    sqlite3_exec(peer->db, careful, NULL, NULL, NULL);
    bool done = is_log(peer, why) && read_rows(&reading) &&
                import_settle_gaps(import, reading.damaged ? NULL : peer, path, listener, why);
    audit_close(peer);
    return done;
}
