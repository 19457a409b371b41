#include "cli/audit/read_event.h"

#include <stdlib.h>

#include "base/base64.h"
#include "base/json/json.h"
#include "base/utf8.h"
#include "cli/audit/audit.h"
#include "cli/audit/fields.h"
#include "cli/when.h"

enum { COLUMNS_MOST = 256, KEY_MOST = 64, NUMBER_MOST = 20 };

// A column is the number of a field, or that plus ENCODING for NAME_encoding.
enum { NOBODYS = -1, ENCODING = AUDIT_FIELDS, SLOTS = 2 * AUDIT_FIELDS };

// Where a value stands in `text`.
typedef struct slot {
    bool given;
    size_t at, len;
} slot_t;

struct audit_reader {
    slot_t slots[SLOTS];
    buffer_t text;             // all values of the record
    int columns[COLUMNS_MOST]; // of CSV
    size_t column_count;
};

audit_reader_t *audit_reader_new(void) { return mem_alloc(sizeof(audit_reader_t)); }

void audit_reader_free(audit_reader_t *reader) {
    if (!reader) return;
    buffer_free(&reader->text);
    free(reader);
}

static void begin(audit_reader_t *reader) {
    memset(reader->slots, 0, sizeof reader->slots);
    buffer_clear(&reader->text);
}

static bool say(buffer_t *why, const char *text) {
    buffer_str(why, text);
    return false;
}

static int column_of(slice_t name) {
    static const char suffix[] = "_encoding";
    const size_t tail = sizeof suffix - 1;
    for (int i = 0; i < AUDIT_FIELDS; i++) {
        slice_t known = slice_text(audit_fields[i].name);
        if (slice_equal(name, known)) return i;
        if (audit_fields[i].kind == FIELD_BYTES && name.len == known.len + tail &&
            memcmp(name.data, known.data, known.len) == 0 && memcmp(name.data + known.len, suffix, tail) == 0)
            return ENCODING + i;
    }
    return NOBODYS;
}

static const char *name_of(int column) { return audit_fields[column % ENCODING].name; }

// A value of `column` begins here; it ends where the text then ends.
static bool take_slot(audit_reader_t *reader, int column, buffer_t *why) {
    slot_t *slot = &reader->slots[column];
    if (slot->given) {
        buffer_printf(why, "has %s twice", name_of(column));
        return false;
    }
    *slot = (slot_t){.given = true, .at = reader->text.len};
    return true;
}

static slice_t value(const audit_reader_t *reader, int column) {
    const slot_t *slot = &reader->slots[column];
    return (slice_t){buffer_text(&reader->text) + slot->at, slot->len};
}

static bool read_time(slice_t text, int64_t *out) {
    char copy[WHEN_SIZE];
    *out = 0;
    if (text.len == 0) return true;
    if (text.len >= sizeof copy || memchr(text.data, '\0', text.len)) return false;
    memcpy(copy, text.data, text.len);
    copy[text.len] = '\0';
    return when_read(copy, out);
}

static bool read_count(slice_t text, int64_t *out) {
    *out = 0;
    if (text.len == 0) return true;
    if (text.len > NUMBER_MOST || text.data[0] == '-') return false;
    event_t number = {0};
    if (!event_set(&number, slice_text("size"), text)) return false;
    *out = number.size;
    return true;
}

static bool read_bytes(audit_reader_t *reader, int column, buffer_t *why) {
    slice_t encoding = value(reader, ENCODING + column);
    slot_t *slot = &reader->slots[column];
    if (slice_is(encoding, "text") || !reader->slots[ENCODING + column].given) return true;
    bool good = slice_is(encoding, "base64") && (slot->len == 0 || base64_decode(reader->text.data + slot->at, &slot->len));
    if (!good) buffer_printf(why, "%s is not in the encoding that %s_encoding names", name_of(column), name_of(column));
    return good;
}

static bool read_field(audit_reader_t *reader, int column, audit_row_t *row, buffer_t *why) {
    void *to = (char *)row + audit_fields[column].offset;
    bool good = true;
    switch (audit_fields[column].kind) {
    case FIELD_BYTES:
        if (!read_bytes(reader, column, why)) return false; // fall through
    case FIELD_TEXT: *(slice_t *)to = value(reader, column); break;
    case FIELD_NUMBER: good = read_count(value(reader, column), to); break;
    case FIELD_TIME: good = read_time(value(reader, column), to); break;
    case FIELD_FAILED_AT: break; // is `at`
    }
    if (!good) buffer_printf(why, "%s is no %s", name_of(column), audit_fields[column].kind == FIELD_TIME ? "time" : "number");
    return good;
}

static bool finish(audit_reader_t *reader, event_t *event, buffer_t *why) {
    audit_row_t row = {0};
    char ref[EVENT_REF_SIZE];
    for (int i = 0; i < AUDIT_FIELDS; i++)
        if (!read_field(reader, i, &row, why)) return false;
    *event = row.event;
    if (row.event.event.len == 0 && slice_is(row.event.kind, AUDIT_EXPORT_END)) return true;
    if (!event_ref(row.event.event, ref)) return say(why, "the event id is not 64 hex digits");
    if (row.ref.len && !slice_is(row.ref, ref)) return say(why, "its ref is not that of its event id");
    return true;
}

// What is left of a line of JSON.
typedef struct cursor {
    const char *at, *end;
} cursor_t;

static void skip_space(cursor_t *cursor) {
    while (cursor->at < cursor->end && strchr(" \t\r", *cursor->at) && *cursor->at) cursor->at++;
}

static bool take(cursor_t *cursor, char byte) {
    skip_space(cursor);
    if (cursor->at == cursor->end || *cursor->at != byte) return false;
    cursor->at++;
    return true;
}

static bool is_hex(const char *at) {
    for (int i = 0; i < 4; i++)
        if (!strchr("0123456789abcdefABCDEF", at[i]) || !at[i]) return false;
    return true;
}

// One character, or one escape, of a string.
static bool step_string(cursor_t *cursor) {
    if ((unsigned char)*cursor->at < ' ') return false;
    if (*cursor->at != '\\') {
        size_t len = utf8_sequence(cursor->at, (size_t)(cursor->end - cursor->at));
        cursor->at += len;
        return len > 0;
    }
    size_t rest = (size_t)(cursor->end - cursor->at);
    if (rest < 2 || !cursor->at[1] || !strchr("\"\\/bfnrtu", cursor->at[1])) return false;
    if (cursor->at[1] == 'u' && (rest < 6 || !is_hex(cursor->at + 2))) return false;
    cursor->at += cursor->at[1] == 'u' ? 6 : 2;
    return true;
}

// The inside of a string, checked, and appended to `out` decoded.
static bool take_string(cursor_t *cursor, buffer_t *out, buffer_t *why) {
    const char *from = cursor->at;
    while (cursor->at < cursor->end && *cursor->at != '"')
        if (!step_string(cursor)) return say(why, "is no JSON: a string holds what must not stand there");
    if (cursor->at == cursor->end) return say(why, "is no JSON: it ends in a string");
    slice_t raw = {from, (size_t)(cursor->at++ - from)};
    return json_decode(raw, out) || say(why, "holds half of a character (a lone surrogate)");
}

static bool take_word(cursor_t *cursor, const char *word) {
    size_t len = strlen(word);
    if ((size_t)(cursor->end - cursor->at) < len || memcmp(cursor->at, word, len) != 0) return false;
    cursor->at += len;
    return true;
}

static bool take_value(audit_reader_t *reader, cursor_t *cursor, int column, buffer_t *why) {
    buffer_t ignored = {0}, *out = column == NOBODYS ? &ignored : &reader->text;
    bool good = true;
    skip_space(cursor);
    if (cursor->at < cursor->end && *cursor->at == '"') {
        cursor->at++;
        good = take_string(cursor, out, why);
    } else if (!take_word(cursor, "null")) {
        const char *from = cursor->at;
        while (cursor->at < cursor->end && strchr("-0123456789", *cursor->at) && *cursor->at) cursor->at++;
        if (cursor->at == from) good = say(why, "is no JSON object of texts and whole numbers");
        buffer_add(out, from, (size_t)(cursor->at - from));
    }
    if (column != NOBODYS) reader->slots[column].len = reader->text.len - reader->slots[column].at;
    buffer_free(&ignored);
    return good;
}

static bool take_pair(audit_reader_t *reader, cursor_t *cursor, buffer_t *why) {
    buffer_t key = {0};
    bool good = take(cursor, '"') || say(why, "is no JSON: a name is missing");
    good = good && take_string(cursor, &key, why);
    int column = good && key.len <= KEY_MOST ? column_of((slice_t){buffer_text(&key), key.len}) : NOBODYS;
    buffer_free(&key);
    if (!good) return false;
    if (!take(cursor, ':')) return say(why, "is no JSON: a colon is missing");
    return (column == NOBODYS || take_slot(reader, column, why)) && take_value(reader, cursor, column, why);
}

bool audit_read_json(audit_reader_t *reader, slice_t line, event_t *event, buffer_t *why) {
    cursor_t cursor = {line.data, line.data + line.len};
    begin(reader);
    if (!take(&cursor, '{')) return say(why, "is no JSON object");
    if (!take(&cursor, '}')) {
        do
            if (!take_pair(reader, &cursor, why)) return false;
        while (take(&cursor, ','));
        if (!take(&cursor, '}')) return say(why, "is no JSON: it ends too early, or a comma is missing");
    }
    skip_space(&cursor);
    if (cursor.at != cursor.end) return say(why, "has something behind its end");
    return finish(reader, event, why);
}

// Appends the next field of a record that records.c has found to be well-formed, and moves behind its comma.
static void take_csv(cursor_t *cursor, buffer_t *out) {
    bool quoted = cursor->at < cursor->end && *cursor->at == '"';
    if (!quoted) {
        const char *comma = memchr(cursor->at, ',', (size_t)(cursor->end - cursor->at)), *end = comma ? comma : cursor->end;
        buffer_add(out, cursor->at, (size_t)(end - cursor->at));
        cursor->at = end;
    } else {
        cursor->at++;
        for (const char *quote; (quote = memchr(cursor->at, '"', (size_t)(cursor->end - cursor->at)));) {
            bool doubled = quote + 1 < cursor->end && quote[1] == '"';
            buffer_add(out, cursor->at, (size_t)(quote - cursor->at) + doubled);
            cursor->at = quote + 1 + doubled;
            if (!doubled) break;
        }
    }
}

bool audit_read_csv(audit_reader_t *reader, slice_t record, event_t *event, buffer_t *why) {
    cursor_t cursor = {record.data, record.data + record.len};
    size_t count = 0;
    begin(reader);
    do {
        int column = count < reader->column_count ? reader->columns[count] : NOBODYS;
        size_t before = reader->text.len;
        count++;
        if (column != NOBODYS) reader->slots[column] = (slot_t){.given = true, .at = before}; // titles are unique
        take_csv(&cursor, &reader->text);
        if (column != NOBODYS) reader->slots[column].len = reader->text.len - before;
    } while (take(&cursor, ','));
    if (count == reader->column_count) return finish(reader, event, why);
    buffer_printf(why, "has %zu fields instead of %zu", count, reader->column_count);
    return false;
}

bool audit_read_titles(audit_reader_t *reader, slice_t record, buffer_t *why) {
    cursor_t cursor = {record.data, record.data + record.len};
    buffer_t title = {0};
    bool good = true;
    begin(reader);
    reader->column_count = 0;
    do {
        buffer_clear(&title);
        take_csv(&cursor, &title);
        int column = column_of((slice_t){buffer_text(&title), title.len});
        if (reader->column_count == COLUMNS_MOST) good = say(why, "has too many columns");
        if (good && column != NOBODYS) good = take_slot(reader, column, why);
        if (good) reader->columns[reader->column_count++] = column;
    } while (good && take(&cursor, ','));
    buffer_free(&title);
    static const char *const needed[] = {"event", "kind", "queue", "at", "payload", "payload_encoding", "error_encoding"};
    for (size_t i = 0; good && i < sizeof needed / sizeof *needed; i++) {
        good = reader->slots[column_of(slice_text(needed[i]))].given;
        if (!good) buffer_printf(why, "has no column %s: this is no export of an audit log", needed[i]);
    }
    return good;
}
