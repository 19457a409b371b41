/* Dialect stream: the payload of an entry, and its fields again. */
#include "dialects/stream/internal.h"

#include "fixture.h"

static buffer_t payload_of(const slice_t *texts, size_t count) {
    buffer_t out = {0};
    stream_payload_begin(&out);
    for (size_t i = 0; i < count; i++) stream_payload_add(&out, i, texts[i]);
    stream_payload_end(&out);
    return out;
}

#define BYTES(text)                                                                                                              \
    { text, sizeof(text) - 1 }

Test(unit_stream_entry, any_fields_survive) {
    const slice_t rows[][4] = {
        {BYTES("data"), BYTES("job"), BYTES("n"), BYTES("")},
        {BYTES("\xff\xfe"), BYTES("\0\0"), BYTES(""), BYTES("\xc3")},
        {BYTES("\"\\"), BYTES("caf\xc3\xa9\n\t\x01"), BYTES("[["), BYTES("{\"base64\":\"x\"}")},
    };
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        scoped(buffer_free) buffer_t payload = payload_of(rows[row], 4);
        stream_fields_t fields = {0};
        cr_assert(stream_read_payload((slice_t){payload.data, payload.len}, "data", &fields), "%s", payload.data);
        cr_assert_eq(fields.count, 4);
        for (size_t i = 0; i < 4; i++)
            cr_expect(slice_equal(stream_field(&fields, i), rows[row][i]), "%zu of %s", i, payload.data);
        stream_fields_free(&fields);
    }
}

Test(unit_stream_entry, a_value_alone_is_the_payload) {
    const slice_t rows[] = {BYTES(""), BYTES("job"), BYTES("{\"id\":1}"), BYTES("[1]"), BYTES("\xff\0"), BYTES("[")};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        stream_fields_t fields = {0};
        cr_assert(stream_is_plain(rows[i]));
        cr_assert(stream_read_payload(rows[i], "data", &fields));
        cr_assert_eq(fields.count, 2);
        cr_expect(slice_is(stream_field(&fields, 0), "data"));
        cr_expect(slice_equal(stream_field(&fields, 1), rows[i]));
        stream_fields_free(&fields);
    }
    cr_assert_not(stream_is_plain(slice_text("[[1]]")), "it could be taken for a list of fields");
}

Test(unit_stream_entry, other_lists_are_no_entry) {
    static const char *const rows[] = {"[[",
                                       "[[]]",
                                       "[[\"1-1\"]]",
                                       "[[\"a\",\"b\",\"c\"]]",
                                       "[[\"a\",1]]",
                                       "[[\"a\",\"b\"],1]",
                                       "[[\"a\",[\"b\"]]]",
                                       "[[\"a\",\"b\"]] ]",
                                       "[[\"a\",{\"base64\":\"?\"}]]",
                                       "[[\"a\",{}]]",
                                       "[[\"a\",{\"base64\":\"AA==\",\"x\":1}]]",
                                       "[[\"a\",\"\\ud800\"]]"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        stream_fields_t fields = {0};
        cr_expect_not(stream_read_payload(slice_text(rows[i]), "data", &fields), "%s", rows[i]);
        stream_fields_free(&fields);
    }
}

Test(unit_stream_entry, paths_look_into_the_value_of_the_field) {
    config_t *config = fixture_config("queues = ( { name = \"q\"; dialect = \"stream\"; group = \"g\"; id_path = \"/id\"; } );");
    const queue_config_t *queue = &config->queues[0];
    const slice_t wide[] = {BYTES("trace"), BYTES("{\"id\":\"no\"}"), BYTES("data"), BYTES("{\"id\":\"a1\"}")};
    const slice_t other[] = {BYTES("body"), BYTES("{\"id\":\"no\"}")};
    scoped(buffer_free) buffer_t two = payload_of(wide, 4);
    scoped(buffer_free) buffer_t without = payload_of(other, 2);
    job_t job;
    stream_read_job(queue, slice_text("{\"id\":\"a1\"}"), &job);
    cr_expect_str_eq(job.id, "a1");
    stream_read_job(queue, (slice_t){two.data, two.len}, &job);
    cr_expect_str_eq(job.id, "a1");
    digest_t whole = digest_of(two.data, two.len);
    cr_expect_eq(memcmp(&job.digest, &whole, sizeof whole), 0, "the digest must be that of the whole payload");
    stream_read_job(queue, (slice_t){without.data, without.len}, &job);
    cr_expect_eq(strlen(job.id), 64);
    cr_expect_eq(job.trouble, JOB_FINE);
    scoped(buffer_free) buffer_t deleted = {0};
    stream_payload_deleted(&deleted, "17-3");
    stream_read_job(queue, (slice_t){deleted.data, deleted.len}, &job);
    cr_expect_eq(job.trouble, JOB_UNREADABLE);
    config_free(config);
}
