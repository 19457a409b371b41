/* Reads exported events: every field is kept, and damaged lines are refused. */
#include "audit/import/import.h"
#include "base/text/time_text.h"
#include "cli/audit/event_output.h"

#include <criterion/criterion.h>
#include <string.h>

#define SLICE(text) ((slice_t){text, sizeof(text) - 1})

#define ID          "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define GOOD(x)     "{\"event\":\"" ID "\",\"kind\":\"failed\",\"queue\":\"q\",\"at\":\"2025-11-21T02:00:01.007Z\"" x "}"

static void expect_json(slice_t line, const char *reason) {
    event_t event;
    buffer_t text = {0}, why = {0};
    bool good = event_read_json(line, &text, &event, &why) && event_check(&event, time_now_ms(), &why);
    if (reason)
        cr_expect(!good && strstr(buffer_text(&why), reason), "%.*s: \"%s\" lacks \"%s\"", (int)line.len, line.data,
                  buffer_text(&why), reason);
    else
        cr_expect(good, "%.*s: %s", (int)line.len, line.data, buffer_text(&why));
    buffer_free(&text);
    buffer_free(&why);
}

Test(unit_audit_event_json, malformed_json_is_refused_with_a_reason) {
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
        {"", "is not a JSON object"},
        {"{}", "event is not 64 hex digits"},
        {"[]", "is not a JSON object"},
        {GOOD("") "x", "is not valid JSON at byte 137"},
        {GOOD(",\"kind\":\"gap\""), "kind is given twice"},
        {GOOD(",\"history\":[]"), "neither text nor number"},
        {GOOD(",\"job_id\":true"), "neither text nor number"},
        {GOOD(",\"job_id\":\"a\tb\""), "is not valid JSON at byte"},
        {GOOD(",\"job_id\":\"\xff\""), "is not valid JSON at byte"},
        {GOOD(",\"job_id\":\"\\x\""), "is not valid JSON at byte"},
        {GOOD(",\"job_id\":\"\\u12g4\""), "is not valid JSON at byte"},
        {GOOD(",\"job_id\":\"\\ud800\""), "lone surrogate"},
        {"{\"event\":\"" ID, "is not valid JSON at byte 10"},
        {"{\"event\":\"" ID "\"", "is not valid JSON at byte 76"},
        {"{\"event\" \"" ID "\"}", "is not valid JSON at byte 10"},
        {GOOD(",\"size\":-1"), "size is not a number"},
        {GOOD(",\"size\":99999999999999999999"), "size is not a number"},
        {GOOD(",\"size\":1.5"), "size is not a number"},
        {GOOD(",\"attempts\":9999999999"), "attempts is "},
        {GOOD(",\"created_at\":\"yesterday\""), "created_at is not a time"},
        {GOOD(",\"created_at\":\"2025-02-30T00:00:00.000Z\""), "created_at is not a time"},
        {GOOD(",\"payload\":\"AP8\",\"payload_encoding\":\"base64\""), "payload_encoding is base64"},
        {GOOD(",\"payload\":\"AP9=\",\"payload_encoding\":\"base64\""), "payload_encoding is base64"},
        {GOOD(",\"payload\":\"A===\",\"payload_encoding\":\"base64\""), "payload_encoding is base64"},
        {GOOD(",\"payload\":\"\",\"payload_encoding\":\"rot13\""), "payload_encoding is not text or base64"},
        {GOOD(",\"ref\":\"aaaaaaaaaaaa\""), "ref is not the ref of this event"},
        {GOOD(",\"sha256\":\"short\""), "sha256 is not 64"},
        {GOOD(",\"payload\":\"y\",\"sha256\":\"2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881\""),
         "the payload does not match its sha256"},
        {"{\"event\":\"" ID "\",\"kind\":\"exploded\",\"queue\":\"q\",\"at\":\"2025-11-21T02:00:01Z\"}",
         "unknown kind `exploded`"},
        {"{\"event\":\"" ID "\",\"kind\":\"failed\",\"at\":\"2025-11-21T02:00:01Z\"}", "has no queue"},
        {"{\"event\":\"" ID "\",\"kind\":\"requeued\",\"queue\":\"q\",\"at\":\"2025-11-21T02:00:01Z\"}",
         "answers is not an event id"},
        {"{\"event\":\"ABCD\",\"kind\":\"failed\",\"queue\":\"q\"}", "event is not 64 hex digits"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) expect_json(slice_text(rows[i].line), rows[i].reason);
    expect_json(SLICE("{\"event\":\"" ID "\0\"}"), "is not valid JSON at byte");
}

/* Writes a row and reads it again: every field must be the same, also with bytes that need escapes. */
static void expect_same(const audit_row_t *row) {
    buffer_t json = {0}, text = {0}, why = {0};
    event_t event;
    event_write_json(&json, row);
    cr_assert(event_read_json((slice_t){json.data, json.len}, &text, &event, &why), "%s", buffer_text(&why));
#define X(name, help) cr_expect(slice_equal(event.name, row->event.name), "%s: %s", #name, json.data);
    EVENT_TEXTS(X)
#undef X
#define X(name, help) cr_expect_eq(event.name, row->event.name);
    EVENT_NUMBERS(X)
#undef X
    buffer_free(&json);
    buffer_free(&text);
}

Test(unit_audit_event_json, every_field_survives) {
    audit_row_t row = {.ref = SLICE("aerukz4jvpg6"), .error_is_text = true, .payload_is_text = false};
    row.event = (event_t){.event = SLICE(ID),
                          .kind = SLICE("requeued"),
                          .dialect = SLICE("list"),
                          .queue = SLICE("a,\"b\"\r\nc"),
                          .job = SLICE(" leading, trailing "),
                          .traceparent = SLICE("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
                          .type = SLICE("\x01\x1f\x7f\\ud800"),
                          .worker = SLICE("Łódź \xf0\x9f\x98\x80"),
                          .reason = SLICE("\r"),
                          .error = SLICE("\n"),
                          .term = SLICE("t"),
                          .sha256 = SLICE(ID),
                          .answers = SLICE(ID),
                          .payload = SLICE("\0\xff\"\n,"),
                          .group = SLICE("a\"b"),
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

Test(unit_audit_event_json, an_unknown_number_of_attempts_is_null) {
    audit_row_t row = {.ref = SLICE("aerukz4jvpg6"), .error_is_text = true, .payload_is_text = true};
    buffer_t json = {0}, tries = {0};
    row.event = (event_t){.event = SLICE(ID), .kind = SLICE("failed"), .queue = SLICE("q"), .at = 1763690400007};
    event_write_json(&json, &row);
    cr_assert_not_null(strstr(buffer_text(&json), "\"attempts\":null,"), "%s", buffer_text(&json));
    cr_assert_not_null(strstr(buffer_text(&json), "\"size\":0,"), "%s", buffer_text(&json));
    event_add_tries(&tries, &row.event);
    cr_assert_str_eq(buffer_text(&tries), "-");
    expect_same(&row);
    buffer_free(&tries);
    buffer_free(&json);
}

/* RFC 4180: a quote is doubled, and a field with a comma, a quote or a line end stands in quotes. */
Test(unit_audit_event_json, csv_quotes_separators_quotes_and_newlines) {
    audit_row_t row = {.ref = SLICE("aerukz4jvpg6"), .error_is_text = true, .payload_is_text = false};
    row.event = (event_t){.kind = SLICE("failed"), .queue = SLICE("a,\"b\"\r\nc"), .payload = SLICE("\xff"), .at = 1763690400007};
    event_output_t csv = {.format = FORMAT_CSV};
    event_output_begin(&csv, NULL, 0, 0, NULL);
    event_output_add(&csv, &row);
    cr_expect_str_eq(csv.records.text.data,
                     "ref,queue,dialect,job_id,type,worker,reason,error,error_encoding,attempts,created_at,started_at,"
                     "failed_at,state,kind,at,size,sha256,event,answers,term,answered_at,answered_by,answer_reason,"
                     "payload,payload_encoding,group,erased_at,erased_by,erase_reason,traceparent\r\n"
                     "aerukz4jvpg6,\"a,\"\"b\"\"\r\nc\",,,,,,,text,,,,2025-11-21T02:00:00.007Z,,failed,"
                     "2025-11-21T02:00:00.007Z,0,,,,,,,,/w==,base64,,,,,\r\n");
    buffer_free(&csv.records.text);
}

/* A spreadsheet takes these for formulas, some only where its separator of lists is not the comma.
 * Bytes in base64 may begin with a + too; numbers and times never look so. */
Test(unit_audit_event_json, csv_guards_what_a_spreadsheet_would_run_unless_raw) {
    static const struct {
        const char *text, *guarded, *raw;
    } rows[] = {{"=1+1", ",'=1+1,", ",=1+1,"},
                {"+1", ",'+1,", ",+1,"},
                {"-1", ",'-1,", ",-1,"},
                {"@SUM(1,2)", ",\"'@SUM(1,2)\",", ",\"@SUM(1,2)\","},
                {"\t=1", ",\"\t'=1\",", ",\"\t=1\","},
                {"\r=1", ",\"\r'=1\",", ",\"\r=1\","},
                {"=\"1\"", ",\"'=\"\"1\"\"\",", ",\"=\"\"1\"\"\","},
                {" =1", ", '=1,", ", =1,"},
                {"\"=1\"", ",\"\"\"'=1\"\"\",", ",\"\"\"=1\"\"\","},
                {"x;=1;y;+2", ",\"x;'=1;y;'+2\",", ",\"x;=1;y;+2\","}, /* where a semicolon separates cells */
                {"x|@1", ",\"x|'@1\",", ",\"x|@1\","},
                {"x\t-1", ",\"x\t'-1\",", ",\"x\t-1\","},
                {"x;y\r\n=1", ",\"x;y\r\n'=1\",", ",\"x;y\r\n=1\","},
                {"x; \"=1", ",\"x; \"\"'=1\",", ",\"x; \"\"=1\","},
                {"x;y=1", ",\"x;y=1\",", ",\"x;y=1\","},
                {"1=-@+", ",1=-@+,", ",1=-@+,"},
                {"'=1", ",'=1,", ",'=1,"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (int raw = 0; raw < 2; raw++) {
            audit_row_t row = {.ref = SLICE("aerukz4jvpg6"), .error_is_text = true, .payload_is_text = true};
            row.event =
                (event_t){.kind = SLICE("failed"), .queue = SLICE("q"), .error = slice_text(rows[i].text), .at = 1763690400007};
            event_output_t csv = {.format = FORMAT_CSV, .records.raw = raw};
            event_output_begin(&csv, NULL, 0, 0, NULL);
            event_output_add(&csv, &row);
            const char *expected = raw ? rows[i].raw : rows[i].guarded;
            cr_expect_not_null(strstr(csv.records.text.data, expected), "%s not in %s", expected, csv.records.text.data);
            row.event.error = (slice_t){0};
            row.event.payload = SLICE("\xfb\xff");
            row.payload_is_text = false;
            event_output_add(&csv, &row);
            expected = raw ? ",+/8=,base64" : ",'+/8=,base64";
            cr_expect_not_null(strstr(csv.records.text.data, expected), "%s not in %s", expected, csv.records.text.data);
            buffer_free(&csv.records.text);
        }
    }
}

/* xorshift64* with a fixed seed, so that a failure can be repeated. */
static uint64_t bits(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717);
}

/* A copy with a few bytes changed, dropped or added, and often cut short. The caller owns it. */
static buffer_t damaged_copy(const buffer_t *text, uint64_t *state) {
    static const char *const pieces[] = {"\"", "\"\"", ",", "\n", "\r\n", "{", "}", "\\", "\\u", "\xff", ":", "null", "-", "["};
    size_t cut = bits(state) % 4 ? text->len : bits(state) % text->len;
    buffer_t copy = {0};
    for (size_t i = 0; i < cut; i++) {
        uint64_t dice = bits(state) % 1500;
        if (dice == 0) buffer_str(&copy, pieces[bits(state) % (sizeof pieces / sizeof *pieces)]);
        char byte = dice == 2 ? (char)bits(state) : text->data[i];
        if (dice != 1) buffer_add(&copy, &byte, 1);
    }
    return copy;
}

Test(unit_audit_event_json, damage_is_refused_with_a_reason) {
    uint64_t state = 88172645463325252U;
    long counts[2] = {0}; /* bad, good */
    buffer_t json = {0}, text = {0}, why = {0};
    audit_row_t row = {.payload_is_text = true, .error_is_text = true};
    row.event = (event_t){.event = SLICE(ID), .kind = SLICE("failed"), .queue = SLICE("q"), .at = 1763690400007};
    row.event.payload = SLICE("a \"payload\",\nof two lines");
    event_write_json(&json, &row);
    for (int round = 0; round < 6000; round++) {
        event_t event;
        buffer_t copy = damaged_copy(&json, &state);
        buffer_clear(&why);
        bool good = event_read_json((slice_t){copy.data, copy.len}, &text, &event, &why);
        cr_assert(good || why.len > 0, "round %d: %s", round, copy.data);
        if (good) event_check(&event, time_now_ms(), &why);
        counts[good]++;
        buffer_free(&copy);
    }
    cr_assert(counts[0] > 1000 && counts[1] > 300, "%ld bad, %ld good", counts[0], counts[1]);
    buffer_free(&json);
    buffer_free(&text);
    buffer_free(&why);
}
