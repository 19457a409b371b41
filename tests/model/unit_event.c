/* Events: their ids, refs and fields. */
#include "model/event.h"
#include "suite.h"

#define TEXT(literal) ((slice_t){literal, sizeof(literal) - 1})
#define SHA256        "a3c90e3b7448d23d9eacebd0ebf15cae100e21f9b2c688f3f9d238edcd26d67f"
#define LIFE          INT64_C(1800000000123456)

static const event_t failed = {
    .kind = {"failed", 6},
    .dialect = {"list", 4},
    .queue = {"email", 5},
    .job = {"7", 1},
    .sha256 = {SHA256, 64},
    .attempts = 4,
};

static void id_of(const event_t *event, int64_t life, int64_t nth, char id[EVENT_ID_SIZE]) {
    memset(id, 'x', EVENT_ID_SIZE);
    event_t copy = *event;
    event_id(&copy, life, nth, id);
    cr_assert_eq(copy.event.data, id);
    cr_assert_eq(strlen(id), EVENT_ID_SIZE - 1);
}

/* Made by Python's hashlib and base64. Never change them: if a new release made other ids, each failure would get a second
 * row. */
Test(unit_event, ids_and_refs_never_change) {
    static const event_t none, odd = {.kind = {"retried", 7},
                                      .dialect = {"bull", 4},
                                      .queue = {"a\0b", 3},
                                      .job = {"\xc3\xa9", 2},
                                      .sha256 = {SHA256, 64},
                                      .attempts = INT64_MAX};
    static const struct {
        const event_t *event;
        int64_t life, nth;
        const char *id, *ref;
    } rows[] = {
        {&failed, LIFE, 0, "f3ba73eb7af4333da69a8bde1919eef74a8d934bb694e89344665604fac3747d", "6o5hh2326qzt"},
        {&none, 0, 0, "65c1500475986fb017735c92a0a0fd796477a022872a31ffc49a72bdeca796d9", "mxavabdvtbx3"},
        {&odd, INT64_MIN, -1, "2fba176a9b6b42b5e5fa2559d7a6d84ab21c79ab14c822831693db0d49f69547", "f65bo2u3nnbl"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char id[EVENT_ID_SIZE], ref[EVENT_REF_SIZE];
        id_of(rows[i].event, rows[i].life, rows[i].nth, id);
        cr_expect_str_eq(id, rows[i].id);
        cr_expect(event_ref(slice_text(id), ref));
        cr_expect_str_eq(ref, rows[i].ref);
    }
}

Test(unit_event, id_depends_on_the_identifying_fields) {
    char ids[10][EVENT_ID_SIZE];
    event_t others[6] = {failed, failed, failed, failed, failed, failed};
    others[0].dialect = TEXT("lisu");
    others[1].queue = TEXT("emai");
    others[2].job = TEXT("8");
    others[3].sha256 = TEXT("b3c90e3b7448d23d9eacebd0ebf15cae100e21f9b2c688f3f9d238edcd26d67f");
    others[4].attempts = 5;
    others[5].kind = TEXT("requeued");
    for (int i = 0; i < 6; i++) id_of(&others[i], LIFE, 0, ids[i]);
    id_of(&failed, LIFE + 1, 0, ids[6]);
    id_of(&failed, LIFE, 1, ids[7]);
    id_of(&failed, LIFE, 0, ids[8]);
    event_t shifted = failed; /* dialect and queue, joined, have the same letters */
    shifted.dialect = TEXT("liste");
    shifted.queue = TEXT("mail");
    id_of(&shifted, LIFE, 0, ids[9]);
    for (int i = 0; i < 10; i++)
        for (int j = 0; j < i; j++) cr_expect_str_neq(ids[i], ids[j], "%d and %d", i, j);
}

/* Instances may know these fields differently. */
Test(unit_event, id_depends_on_no_other_field) {
    static const char *const said[] = {"event", "type", "worker", "reason", "error", "term", "payload"};
    static const char *const counted[] = {"created", "started", "at", "size"};
    char id[EVENT_ID_SIZE], other[EVENT_ID_SIZE];
    event_t event = failed;
    id_of(&event, LIFE, 0, id);
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) cr_assert(event_set(&event, slice_text(said[i]), TEXT("x")));
    for (size_t i = 0; i < sizeof counted / sizeof *counted; i++) cr_assert(event_set(&event, slice_text(counted[i]), TEXT("9")));
    id_of(&event, LIFE, 0, other);
    cr_expect_str_eq(id, other);
}

Test(unit_event, refs) {
    const struct {
        slice_t id;
        const char *ref; /* NULL: no id */
    } rows[] = {
        {TEXT("0000000000000000000000000000000000000000000000000000000000000000"), "aaaaaaaaaaaa"},
        {TEXT("ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"), "777777777777"},
        {TEXT("0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"), "aerukz4jvpg6"},
        {TEXT("fffffffffffffff0000000000000000000000000000000000000000000000000"), "777777777777"},
        {TEXT("000000000000001f000000000000000000000000000000000000000000000000"), "aaaaaaaaaaab"},
        {TEXT(""), NULL},
        {TEXT("000000000000000000000000000000000000000000000000000000000000000"), NULL},
        {TEXT("00000000000000000000000000000000000000000000000000000000000000000"), NULL},
        {TEXT("000000000000000000000000000000000000000000000000000000000000000g"), NULL},
        {TEXT("g000000000000000000000000000000000000000000000000000000000000000"), NULL},
        {TEXT("ABCDEF0000000000000000000000000000000000000000000000000000000000"), NULL},
        {TEXT("0000000000000000000000000000000\0000000000000000000000000000000000"), NULL},
        {{NULL, 0}, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char ref[EVENT_REF_SIZE];
        memset(ref, 'x', sizeof ref);
        cr_expect_eq(event_ref(rows[i].id, ref), rows[i].ref != NULL, "row %zu", i);
        if (rows[i].ref) cr_expect_str_eq(ref, rows[i].ref, "row %zu", i);
    }
}

Test(unit_event, sets_every_field_by_name) {
    event_t event = {0};
#define X(name, help) cr_expect(event_set(&event, TEXT(#name), TEXT("the " #name "\0!")));
    EVENT_TEXTS(X)
#undef X
    int64_t number = 1;
    char digits[32];
#define X(name, help)                                                                                                            \
    snprintf(digits, sizeof digits, "%lld", (long long)(1000 + number++));                                                       \
    cr_expect(event_set(&event, TEXT(#name), slice_text(digits)));
    EVENT_NUMBERS(X)
#undef X
#define X(name, help) cr_expect(slice_equal(event.name, TEXT("the " #name "\0!")), #name);
    EVENT_TEXTS(X)
#undef X
    number = 1;
#define X(name, help) cr_expect_eq(event.name, 1000 + number++, #name);
    EVENT_NUMBERS(X)
#undef X
}

Test(unit_event, refuses_unknown_fields) {
    const slice_t names[] = {TEXT(""),      TEXT("id"),     TEXT("Kind"), TEXT("kin"),
                             TEXT("kindx"), TEXT("kind\0"), TEXT(" at"),  {NULL, 0}};
    event_t event, before;
    memset(&event, 0, sizeof event);
    before = event;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) cr_expect_not(event_set(&event, names[i], TEXT("1")), "row %zu", i);
    cr_expect_eq(memcmp(&event, &before, sizeof event), 0);
}

Test(unit_event, numbers) {
    const struct {
        slice_t text;
        bool good;
        int64_t number;
    } rows[] = {
        {TEXT("0"), true, 0},
        {TEXT("-0"), true, 0},
        {TEXT("007"), true, 7},
        {TEXT("-5"), true, -5},
        {TEXT("1800000000123"), true, 1800000000123},
        {TEXT("9223372036854775807"), true, INT64_MAX},
        {TEXT("-9223372036854775808"), true, INT64_MIN},
        {TEXT("9223372036854775808"), false, 0},
        {TEXT("-9223372036854775809"), false, 0},
        {TEXT("99999999999999999999999999"), false, 0},
        {TEXT(""), false, 0},
        {{NULL, 0}, false, 0},
        {TEXT("-"), false, 0},
        {TEXT("--1"), false, 0},
        {TEXT("+1"), false, 0},
        {TEXT(" 1"), false, 0},
        {TEXT("1 "), false, 0},
        {TEXT("1\0"), false, 0},
        {TEXT("1.0"), false, 0},
        {TEXT("1e3"), false, 0},
        {TEXT("0x10"), false, 0},
        {TEXT("nil"), false, 0},
        {TEXT("1/"), false, 0},
        {TEXT("1:"), false, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        event_t event = {.at = 77};
        cr_expect_eq(event_set(&event, TEXT("at"), rows[i].text), rows[i].good, "row %zu", i);
        cr_expect_eq(event.at, rows[i].good ? rows[i].number : 77, "row %zu", i);
    }
}
