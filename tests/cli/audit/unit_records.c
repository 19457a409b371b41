/* Exports, read back: records of any bytes, columns, and what is refused. */
#include "audit/import/import.h"
#include "cli/audit/audit.h"
#include "cli/audit/read_event.h"
#include "cli/audit/records.h"
#include "tempdir.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SLICE(text) ((slice_t){text, sizeof(text) - 1})

static records_t open_text(slice_t text) {
    char *path = temp_path(temp_root(), "records");
    FILE *file = fopen(path, "wb");
    cr_assert_not_null(file);
    cr_assert_eq(fwrite(text.data, 1, text.len, file), text.len);
    fclose(file);
    int fd = open(path, O_RDONLY);
    cr_assert_geq(fd, 0);
    free(path);
    return records_open(fd);
}

static void close_text(records_t *records) {
    close(records->fd);
    records_free(records);
}

/* Every record as "line:bytes|", every bad one as "line-last!reason|". */
static void expect_records(slice_t text, size_t most, records_form_t form, const char *expected) {
    records_t records = open_text(text);
    record_t record;
    records_result_t result;
    buffer_t got = {0};
    if (most) records.most = most;
    cr_expect_eq(records.form, form, "form %d", (int)records.form);
    while ((result = records_next(&records, &record)) == RECORDS_ONE || result == RECORDS_BAD) {
        buffer_printf(&got, "%d", (int)record.line);
        if (record.last_line != record.line) buffer_printf(&got, "-%d", (int)record.last_line);
        if (result == RECORDS_BAD)
            buffer_printf(&got, "!%s|", record.reason);
        else
            buffer_printf(&got, ":%.*s|", (int)record.bytes.len, record.bytes.data);
    }
    cr_expect_eq(result, RECORDS_END);
    cr_expect_str_eq(buffer_text(&got), expected);
    buffer_free(&got);
    close_text(&records);
}

Test(unit_records, are_lines_of_json) {
    expect_records(SLICE("{1}\n\n{2}\r\n{3}"), 0, RECORDS_JSON, "1:{1}|2:|3:{2}|4:{3}|");
    expect_records(SLICE("{1}\n"), 0, RECORDS_JSON, "1:{1}|");
    expect_records(SLICE(""), 0, RECORDS_EMPTY, "");
    expect_records(SLICE("{1}\n{23456789}\n{3}\n{456789"), 6, RECORDS_JSON,
                   "1:{1}|2:{23456789}|3:{3}|4!is larger than any record|");
}

#define REF "abcdefghijkl"
Test(unit_records, are_records_of_csv) {
    expect_records(SLICE("ref,event\r\na,\"b\nc\"\"\r\n\"\r\nd,e"), 0, RECORDS_CSV, "1:ref,event|2-4:a,\"b\nc\"\"\r\n\"|5:d,e|");
    expect_records(SLICE("\xef\xbb\xbfref,event\n1,2\n"), 0, RECORDS_CSV, "1:ref,event|2:1,2|");
    /* What cannot be a record ends where the next one begins. */
    expect_records(SLICE("ref,event\na\"b\nnext\n" REF ",1\n"), 0, RECORDS_CSV,
                   "1:ref,event|2-3!has a quote in the middle of a field|4:" REF ",1|");
    expect_records(SLICE("ref,event\n\"a\"b,c\n" REF ",1\n"), 0, RECORDS_CSV,
                   "1:ref,event|2!has something behind a closing quote|3:" REF ",1|");
    expect_records(SLICE("ref,event\n" REF ",\"open\n" REF ",1\n" REF ",2\n"), 0, RECORDS_CSV,
                   "1:ref,event|2!ends in the middle of a field|3:" REF ",1|4:" REF ",2|");
}

Test(unit_records, other_files_are_told_apart) {
    expect_records(SLICE("hello\n"), 0, RECORDS_UNKNOWN, "1:hello|");
    expect_records(SLICE("[\n {}\n]\n"), 0, RECORDS_ARRAY, "1:[|2: {}|3:]|");
    expect_records(SLICE("SQLite format 3\0xx"), 0, RECORDS_SQLITE, "1:SQLite format 3|");
}

/* A record that is larger than what is read at once, and one that ends where a read ends. */
Test(unit_records, of_any_size) {
    for (size_t len = 256 * 1024 - 3; len < 256 * 1024 + 3; len++) {
        buffer_t text = {0};
        buffer_str(&text, "{");
        while (text.len < len) buffer_add(&text, "x", 1);
        buffer_str(&text, "\n{2}\n");
        records_t records = open_text((slice_t){text.data, text.len});
        record_t record;
        cr_assert_eq(records_next(&records, &record), RECORDS_ONE);
        cr_assert_eq(record.bytes.len, len);
        cr_assert_eq(records_next(&records, &record), RECORDS_ONE);
        cr_assert(slice_is(record.bytes, "{2}"));
        cr_assert_eq(records_next(&records, &record), RECORDS_END);
        close_text(&records);
        buffer_free(&text);
    }
}

#define ID      "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define GOOD(x) "{\"event\":\"" ID "\",\"kind\":\"failed\",\"queue\":\"q\",\"at\":\"2025-11-21T02:00:01.007Z\"" x "}"

static void expect_json(slice_t line, const char *reason) {
    audit_reader_t *reader = audit_reader_new();
    event_t event;
    buffer_t why = {0};
    bool good = audit_read_json(reader, line, &event, &why) && import_fits(&event, &why);
    if (reason)
        cr_expect(!good && strstr(buffer_text(&why), reason), "%.*s: \"%s\" lacks \"%s\"", (int)line.len, line.data,
                  buffer_text(&why), reason);
    else
        cr_expect(good, "%.*s: %s", (int)line.len, line.data, buffer_text(&why));
    buffer_free(&why);
    audit_reader_free(reader);
}

Test(unit_records, json_is_read_strictly) {
    static const struct {
        const char *line, *reason;
    } rows[] = {
        {GOOD(""), NULL},
        {" " GOOD(" , \"other\" : \"x\\u0000\" , \"attempts\":3"), NULL},
        {GOOD(",\"created_at\":null,\"state\":\"failed\""), NULL},
        {GOOD(",\"payload\":\"AP8=\",\"payload_encoding\":\"base64\""), NULL},
        {GOOD(",\"payload\":\"x\",\"payload_encoding\":\"text\",\"sha256\":"
              "\"2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881\""),
         NULL},
        {"", "is no JSON object"},
        {"{}", "the event id is not"},
        {"[]", "is no JSON object"},
        {GOOD("") "x", "behind its end"},
        {GOOD(",\"kind\":\"gap\""), "kind twice"},
        {GOOD(",\"history\":[]"), "is no JSON object of texts"},
        {GOOD(",\"job_id\":true"), "is no JSON object of texts"},
        {GOOD(",\"job_id\":\"a\tb\""), "must not stand there"},
        {GOOD(",\"job_id\":\"\xff\""), "must not stand there"},
        {GOOD(",\"job_id\":\"\\x\""), "must not stand there"},
        {GOOD(",\"job_id\":\"\\u12g4\""), "must not stand there"},
        {GOOD(",\"job_id\":\"\\ud800\""), "half of a character"},
        {"{\"event\":\"" ID, "ends in a string"},
        {"{\"event\":\"" ID "\"", "ends too early"},
        {"{\"event\" \"" ID "\"}", "a colon is missing"},
        {GOOD(",\"size\":-1"), "size is no number"},
        {GOOD(",\"size\":99999999999999999999"), "size is no number"},
        {GOOD(",\"size\":1.5"), "comma is missing"},
        {GOOD(",\"attempts\":9999999999"), "attempts is no number"},
        {GOOD(",\"created_at\":\"yesterday\""), "created_at is no time"},
        {GOOD(",\"created_at\":\"2025-02-30T00:00:00.000Z\""), "created_at is no time"},
        {GOOD(",\"payload\":\"AP8\",\"payload_encoding\":\"base64\""), "not in the encoding"},
        {GOOD(",\"payload\":\"AP9=\",\"payload_encoding\":\"base64\""), "not in the encoding"},
        {GOOD(",\"payload\":\"A===\",\"payload_encoding\":\"base64\""), "not in the encoding"},
        {GOOD(",\"payload\":\"\",\"payload_encoding\":\"rot13\""), "not in the encoding"},
        {GOOD(",\"ref\":\"aaaaaaaaaaaa\""), "its ref is not"},
        {GOOD(",\"sha256\":\"short\""), "sha256 is not 64"},
        {GOOD(",\"payload\":\"y\",\"sha256\":\"2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881\""),
         "the payload is not what its sha256 says"},
        {"{\"event\":\"" ID "\",\"kind\":\"exploded\",\"queue\":\"q\",\"at\":\"2025-11-21T02:00:01Z\"}",
         "unknown kind, `exploded`"},
        {"{\"event\":\"" ID "\",\"kind\":\"failed\",\"at\":\"2025-11-21T02:00:01Z\"}", "names no queue"},
        {"{\"event\":\"" ID "\",\"kind\":\"requeued\",\"queue\":\"q\",\"at\":\"2025-11-21T02:00:01Z\"}",
         "answers is no event id"},
        {"{\"event\":\"ABCD\",\"kind\":\"failed\",\"queue\":\"q\"}", "the event id is not"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) expect_json(slice_text(rows[i].line), rows[i].reason);
    expect_json(SLICE("{\"event\":\"" ID "\0\"}"), "must not stand there");
}

static void add_row(buffer_t *text, const audit_row_t *row, bool csv) {
    if (csv)
        audit_row_csv(text, row);
    else
        audit_row_json(text, row);
}

/* What is written is read: all columns, the hardest bytes, in both formats. */
static void expect_same(const audit_row_t *row) {
    audit_reader_t *reader = audit_reader_new();
    buffer_t text = {0}, why = {0};
    for (int csv = 0; csv < 2; csv++) {
        event_t event;
        buffer_clear(&text);
        audit_csv_titles(&text);
        cr_assert(audit_read_titles(reader, (slice_t){text.data, text.len}, &why), "%s", buffer_text(&why));
        buffer_clear(&text);
        add_row(&text, row, csv);
        slice_t record = {text.data, text.len};
        cr_assert(csv ? audit_read_csv(reader, record, &event, &why) : audit_read_json(reader, record, &event, &why), "%s",
                  buffer_text(&why));
#define X(name, help) cr_expect(slice_equal(event.name, row->event.name), "%s: %s", #name, text.data);
        EVENT_TEXTS(X)
#undef X
#define X(name, help) cr_expect_eq(event.name, row->event.name);
        EVENT_NUMBERS(X)
#undef X
    }
    buffer_free(&text);
    audit_reader_free(reader);
}

Test(unit_records, what_is_written_is_read) {
    audit_row_t row = {.ref = SLICE("aerukz4jvpg6"), .error_is_text = true, .payload_is_text = false};
    row.event = (event_t){.event = SLICE(ID),
                          .kind = SLICE("requeued"),
                          .dialect = SLICE("list"),
                          .queue = SLICE("a,\"b\"\r\nc"),
                          .job = SLICE(" leading, trailing "),
                          .type = SLICE("\x01\x1f\x7f\\ud800"),
                          .worker = SLICE("Łódź \xf0\x9f\x98\x80"),
                          .reason = SLICE("\r"),
                          .error = SLICE("\n"),
                          .term = SLICE("t"),
                          .sha256 = SLICE(ID),
                          .answers = SLICE(ID),
                          .payload = SLICE("\0\xff\"\n,"),
                          .attempts = 3,
                          .created = 1,
                          .started = 253402300799999,
                          .at = 1763690400007,
                          .size = INT64_MAX};
    expect_same(&row);
    row.event.payload = SLICE("\xff");
    expect_same(&row);
    row.event.payload = SLICE("\xff\xff");
    expect_same(&row);
    row.event.payload = SLICE("text \" with,\n all of it\r\n");
    row.payload_is_text = true;
    expect_same(&row);
}

Test(unit_records, titles_may_stand_in_any_order) {
    static const struct {
        const char *titles, *reason;
    } rows[] = {{"at,mine,kind,payload_encoding,payload,queue,error_encoding,event", NULL},
                {"event,event,kind", "twice"},
                {"event,kind,queue,at,payload", "has no column payload_encoding"}};
    audit_reader_t *reader = audit_reader_new();
    buffer_t why = {0};
    event_t event;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bool good = audit_read_titles(reader, slice_text(rows[i].titles), &why);
        cr_expect_eq(good, rows[i].reason == NULL, "%s", buffer_text(&why));
        if (!good) cr_expect_not_null(strstr(buffer_text(&why), rows[i].reason), "%s", buffer_text(&why));
        buffer_clear(&why);
    }
    cr_assert(audit_read_titles(reader, slice_text(rows[0].titles), &why));
    cr_assert(audit_read_csv(reader, SLICE("2025-11-21T02:00:01Z,x,failed,text,\"a,b\",q,text," ID), &event, &why));
    cr_expect(slice_is(event.payload, "a,b") && slice_is(event.queue, "q") && event.at == 1763690401000);
    cr_expect(!audit_read_csv(reader, SLICE("2025-11-21T02:00:01Z,x,failed,text,\"a,b\",q,text"), &event, &why));
    cr_expect_not_null(strstr(buffer_text(&why), "has 7 fields instead of 8"));
    cr_expect(!audit_read_csv(reader, SLICE("2025-11-21T02:00:01Z,x,failed,tex,ab,q,text," ID), &event, &why), "a cut encoding");
    buffer_free(&why);
    audit_reader_free(reader);
}

/* xorshift64*, so that a failure can be had again. */
static uint64_t bits(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717);
}

/* Reads all of it; every line belongs to exactly one record, good or bad, and is counted so. */
static void read_all(slice_t text, uint64_t seed, long counts[2]) {
    records_t records = open_text(text);
    audit_reader_t *reader = audit_reader_new();
    record_t record;
    records_result_t result;
    int64_t line = 0;
    buffer_t why = {0};
    while ((result = records_next(&records, &record)) == RECORDS_ONE || result == RECORDS_BAD) {
        event_t event;
        cr_assert_eq(record.line, line + 1, "seed %llu: line %d behind line %d", (unsigned long long)seed, (int)record.line,
                     (int)line);
        line = record.last_line;
        buffer_clear(&why);
        counts[false] += result == RECORDS_BAD;
        if (result == RECORDS_BAD) continue;
        if (records.form == RECORDS_CSV && line == 1 && audit_read_titles(reader, record.bytes, &why)) continue;
        bool good = records.form == RECORDS_CSV ? audit_read_csv(reader, record.bytes, &event, &why)
                                                : audit_read_json(reader, record.bytes, &event, &why);
        cr_assert(good || why.len > 0);
        counts[good]++;
        if (good) import_fits(&event, &why);
    }
    cr_assert_eq(result, RECORDS_END);
    audit_reader_free(reader);
    buffer_free(&why);
    close_text(&records);
}

Test(unit_records, damaged_at_random) {
    static const char *const pieces[] = {"\"",  "\"\"", ",", "\n",   "\r\n", "{", "}",    "\\",
                                         "\\u", "\xff", ":", "null", "-",    "[", REF ","};
    uint64_t state = 88172645463325252U;
    long counts[2] = {0}; /* bad, good */
    for (int round = 0; round < 3000; round++) {
        uint64_t seed = state;
        buffer_t text = {0};
        audit_row_t row = {.payload_is_text = true, .error_is_text = true};
        row.event = (event_t){.event = SLICE(ID), .kind = SLICE("failed"), .queue = SLICE("q"), .at = 1763690400007};
        row.event.payload = SLICE("a \"payload\",\nof two lines");
        bool csv = bits(&state) % 2;
        if (csv) audit_csv_titles(&text);
        if (csv) buffer_str(&text, "\r\n");
        for (int i = 0; i < 3; i++) {
            add_row(&text, &row, csv);
            buffer_str(&text, csv ? "\r\n" : "\n");
        }
        size_t cut = bits(&state) % 4 ? text.len : bits(&state) % text.len;
        buffer_t damaged = {0};
        for (size_t i = 0; i < cut; i++) {
            uint64_t dice = bits(&state) % 300;
            if (dice == 0) buffer_str(&damaged, pieces[bits(&state) % (sizeof pieces / sizeof *pieces)]);
            char byte = dice == 2 ? (char)bits(&state) : text.data[i];
            if (dice != 1) buffer_add(&damaged, &byte, 1);
        }
        read_all((slice_t){buffer_text(&damaged), damaged.len}, seed, counts);
        buffer_free(&damaged);
        buffer_free(&text);
    }
    cr_assert(counts[0] > 1000 && counts[1] > 300, "%ld bad, %ld good", counts[0], counts[1]);
}
