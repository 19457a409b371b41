/* Payloads of a table of more fields than one json_pick finds; for Bull's table see bull/unit_bull_job.c. */
#include "base/json/json.h"
#include "dialects/hash_job.h"
#include "suite.h"

#define FIELDS(X)                                                                                                                \
    X(a, HASH_TEXT)                                                                                                              \
    X(b, HASH_JSON)                                                                                                              \
    X(c, HASH_JSON)                                                                                                              \
    X(d, HASH_JSON)                                                                                                              \
    X(e, HASH_JSON)                                                                                                              \
    X(f, HASH_JSON)                                                                                                              \
    X(g, HASH_JSON)                                                                                                              \
    X(h, HASH_JSON)                                                                                                              \
    X(i, HASH_JSON)                                                                                                              \
    X(j, HASH_JSON)                                                                                                              \
    X(k, HASH_JSON)                                                                                                              \
    X(l, HASH_JSON)                                                                                                              \
    X(m, HASH_JSON)                                                                                                              \
    X(n, HASH_JSON)                                                                                                              \
    X(o, HASH_JSON)                                                                                                              \
    X(p, HASH_JSON)                                                                                                              \
    X(q, HASH_TEXT)                                                                                                              \
    X(name, HASH_TEXT)                                                                                                           \
    X(r, HASH_JSON)                                                                                                              \
    X(only_in_records, HASH_TEXT)
enum {
#define X(field, content) AT_##field,
    FIELDS(X)
#undef X
        COUNT
};

static const char *const names[] = {
#define X(field, content) #field,
    FIELDS(X)
#undef X
};
static const hash_field_t all[] = {
#define X(field, content) HASH_FIELD(#field, content),
    FIELDS(X)
#undef X
};
static const hash_fields_t table = {.names = names, .all = all, .count = COUNT, .kept = COUNT - 1, .name = AT_name};

Test(unit_hash_job, rebuilds_a_job_of_many_fields) {
    _Static_assert((int)COUNT > (int)JSON_MAX_PICKS, "more than one json_pick");
    scoped(buffer_free) buffer_t payload = {0}, room = {0};
    hash_job_t job = {.id = slice_text("7")}, again;
    for (size_t i = 0; i < COUNT; i++) job.fields[i] = slice_text(kept_printf("%zu", i));
    job.fields[AT_q] = slice_text("a \"text\"\n");
    job.fields[AT_r] = slice_text("no JSON");
    job.fields[AT_c] = slice_text("");
    hash_job_payload(&table, &job, &payload);
    cr_assert(strstr(payload.data, "\"q\":\"a \\\"text\\\"") && strstr(payload.data, "\"r64\":\""), "%s", payload.data);
    cr_assert(hash_job_rebuild(&table, (slice_t){payload.data, payload.len}, &again, &room), "%s", payload.data);
    cr_expect(slice_equal(again.id, job.id));
    for (size_t i = 0; i < table.kept; i++) cr_expect(slice_equal(again.fields[i], job.fields[i]), "%s", names[i]);
    cr_expect_eq(again.fields[AT_only_in_records].len, 0);
}

Test(unit_hash_job, each_part_of_a_payload_is_checked) {
    static const char *const bad[] = {"{\"id\":\"1\",\"name\":2}", "{\"id\":\"1\",\"name\":\"n\",\"name\":\"n\"}",
                                      "{\"id\":\"1\",\"name\":\"n\",\"r\":1,\"r64\":\"AA==\"}", "{\"id\":\"1\",\"q\":\"n\"}"};
    scoped(buffer_free) buffer_t room = {0};
    hash_job_t job;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_expect(!hash_job_rebuild(&table, slice_text(bad[i]), &job, &room), "%s", bad[i]);
    cr_expect(hash_job_rebuild(&table, slice_text("{\"id\":\"1\",\"name\":\"n\"}"), &job, &room));
}
