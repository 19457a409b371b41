#include "cli/audit/records.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

enum { CHUNK = 256 * 1024, REF_DIGITS = 12 };

static size_t left(const records_t *records) { return records->window.len - records->at; }
static const char *here(const records_t *records) { return buffer_text(&records->window) + records->at; }

// Reads on. False: there is no more.
static bool more(records_t *records) {
    static char chunk[CHUNK];
    ssize_t got;
    if (records->ended) return false;
    if (records->at > 0) { // what was dealt with goes
        size_t rest = left(records);
        if (rest) memmove(records->window.data, here(records), rest);
        records->window.len = rest;
        records->at = 0;
    }
    do got = read(records->fd, chunk, sizeof chunk);
    while (got < 0 && errno == EINTR);
    if (got < 0) records->error = errno;
    records->ended = got <= 0;
    if (got > 0) buffer_add(&records->window, chunk, (size_t)got);
    return got > 0;
}

static bool begins(const records_t *records, const char *text) {
    size_t len = strlen(text);
    return left(records) >= len && memcmp(here(records), text, len) == 0;
}

static records_form_t form_of(const records_t *records) {
    if (left(records) == 0) return RECORDS_EMPTY;
    if (begins(records, "SQLite format 3")) return RECORDS_SQLITE;
    if (begins(records, "{")) return RECORDS_JSON;
    if (begins(records, "[")) return RECORDS_ARRAY;
    slice_t start = {here(records), left(records)};
    const char *end = memchr(start.data, '\n', start.len);
    size_t len = end ? (size_t)(end - start.data) : start.len;
    return memmem(start.data, len, "event", 5) && memchr(start.data, ',', len) ? RECORDS_CSV : RECORDS_UNKNOWN;
}

records_t records_open(int fd) {
    records_t records = {.fd = fd, .most = RECORD_MOST, .line = 1};
    while (left(&records) < CHUNK && !memchr(here(&records), '\n', left(&records)) && more(&records)) {
    }
    if (begins(&records, "\xef\xbb\xbf")) records.at = 3; // a byte order mark, as spreadsheets write it
    records.form = form_of(&records);
    return records;
}

void records_free(records_t *records) { buffer_free(&records->window); }

typedef enum csv_state { FIELD, PLAIN, QUOTED, QUOTE, RETURN } csv_state_t;

// How far a record has been followed.
typedef struct scan {
    size_t at; // from its beginning
    csv_state_t state;
    const char *reason;
} scan_t;

// What comes behind this byte. Sets the reason where it must not stand here.
static csv_state_t step(scan_t *scan, char byte) {
    switch (scan->state) {
    case FIELD:
        if (byte == '"') return QUOTED; // fall through
    case PLAIN:
        if (byte == '"') scan->reason = "has a quote in the middle of a field";
        return byte == ',' ? FIELD : PLAIN;
    case QUOTED: return byte == '"' ? QUOTE : QUOTED;
    case QUOTE:
        if (byte == '"') return QUOTED;
        if (byte == ',') return FIELD;
        if (byte == '\r') return RETURN; // fall through
    case RETURN: scan->reason = "has something behind a closing quote"; return PLAIN;
    }
    return PLAIN;
}

// Whether the record ends within the window; scan->at is then behind its line feed.
static bool ends_csv(const records_t *records, scan_t *scan) {
    slice_t text = {here(records), left(records)};
    while (scan->at < text.len && !scan->reason) {
        if (scan->state == QUOTED) { // most of it is text
            const char *quote = memchr(text.data + scan->at, '"', text.len - scan->at);
            scan->at = quote ? (size_t)(quote - text.data) : text.len;
            if (!quote) return false;
        }
        char byte = text.data[scan->at++];
        if (byte == '\n' && scan->state != QUOTED) return true;
        scan->state = step(scan, byte);
    }
    return false;
}

static bool ends_line(const records_t *records, scan_t *scan) {
    const char *end = memchr(here(records) + scan->at, '\n', left(records) - scan->at);
    scan->at = end ? (size_t)(end - here(records)) + 1 : left(records);
    return end != NULL;
}

static int64_t count_lines(const char *text, size_t len) {
    int64_t lines = 0;
    for (const char *at = text, *end = text + len; at < end && (at = memchr(at, '\n', (size_t)(end - at))); at++) lines++;
    return lines;
}

static void pass(records_t *records, size_t len) {
    records->line += count_lines(here(records), len);
    records->at += len;
}

// Passes over the rest of the line, which may be longer than memory.
static void pass_line(records_t *records) {
    do {
        scan_t scan = {0};
        bool found = left(records) && ends_line(records, &scan);
        pass(records, found ? scan.at : left(records));
        if (found) return;
    } while (more(records));
}

static bool is_ref(const char *text, size_t len) {
    if (len <= REF_DIGITS || text[REF_DIGITS] != ',') return false;
    for (int i = 0; i < REF_DIGITS; i++)
        if (!((text[i] >= 'a' && text[i] <= 'z') || (text[i] >= '2' && text[i] <= '7'))) return false;
    return true;
}

// Behind something that is no record of CSV: to the next line that begins as a record does.
static void pass_to_record(records_t *records) {
    pass_line(records);
    for (;;) {
        while (left(records) <= REF_DIGITS && more(records)) {
        }
        if (left(records) == 0 || is_ref(here(records), left(records))) return;
        pass_line(records);
    }
}

static records_result_t refuse(records_t *records, record_t *record, const char *reason) {
    record->reason = reason;
    record->line = records->line;
    if (records->form == RECORDS_CSV)
        pass_to_record(records);
    else
        pass_line(records);
    record->last_line = records->line - 1 > record->line ? records->line - 1 : record->line;
    return RECORDS_BAD;
}

records_result_t records_next(records_t *records, record_t *record) {
    scan_t scan = {0};
    bool ends = false;
    while (!(ends = records->form == RECORDS_CSV ? ends_csv(records, &scan) : ends_line(records, &scan)) && !scan.reason) {
        if (left(records) > records->most) return refuse(records, record, "is larger than any record");
        if (!more(records)) break;
    }
    if (records->error) {
        errno = records->error;
        return RECORDS_FAULT;
    }
    if (left(records) == 0) return RECORDS_END;
    if (scan.reason) return refuse(records, record, scan.reason);
    if (!ends && records->form == RECORDS_CSV && scan.state == QUOTED)
        return refuse(records, record, "ends in the middle of a field");
    size_t len = ends ? scan.at - 1 : left(records);
    *record = (record_t){.bytes = {here(records), len}, .line = records->line};
    if (len && record->bytes.data[len - 1] == '\r') record->bytes.len--;
    pass(records, scan.at);
    record->last_line = records->line - ends;
    return RECORDS_ONE;
}
