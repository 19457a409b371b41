/* `status` on locks, primaries and sentinels, and on many queues at once. */
#include "base/json/json.h"
#include "operate/status/servers_text.h"
#include "status_fixture.h"

#define QUEUES                                                                                                                   \
    "defaults = { heartbeat = \"off\"; }; queues = ( { name = \"a\"; }, { name = \"b\"; }, { name = \"c\"; }, { name = \"d\"; "  \
    "}, { name = \"e\"; } );"

static char *head_of(world_t *w) {
    buffer_t out = {0};
    status_findings_t found = {0};
    status_text(&w->s, &found, &(status_view_t){.width = 120, .utc = true}, &out);
    *strstr(out.data, "\n\n") = '\0';
    return kept(out.data);
}

static void expect_member(world_t *w, const char *path, const char *expected) {
    scoped(buffer_free) buffer_t out = {0};
    json_value_t value;
    status_json(&w->s, &(status_findings_t){0}, NULL, &out);
    cr_assert_eq(json_find((slice_t){buffer_text(&out), out.len}, path, &value), JSON_FOUND, "%s: %s", path, buffer_text(&out));
    cr_assert_eq(strncmp(value.raw.data, expected, strlen(expected)), 0, "%s: %.*s", path, (int)value.raw.len, value.raw.data);
}

static world_t two_sentinels(void) {
    static sentinel_view_t sentinels[] = {
        {.address = "10.0.0.1:26379", .primary = "10.0.0.1:6379", .epoch = 7, .quorum = 2, .sees_down = true},
        {.address = "10.0.0.2:26379", .error = "a\x1b\"b"}};
    static primary_view_t primary = {.address = "10.0.0.1:6379",
                                     .tls = "TLS 1.2",
                                     .certificate_end_ms = NOW + 86400000,
                                     .replicas = 2,
                                     .good_replicas = 1,
                                     .eviction = "noeviction"};
    world_t w = well("redis = { sentinels = [\"10.0.0.1:26379\"]; master = \"main\"; };" QUEUES);
    w.s.servers = (servers_t){.mode = REDIS_MODE_SENTINEL,
                              .sentinels = sentinels,
                              .sentinel_count = 2,
                              .believed = "10.0.0.1:6379",
                              .primaries = &primary,
                              .primary_count = 1};
    return w;
}

static world_t w;
SUITE(unit_status_servers, , end(&w));

Test(unit_status_servers, sentinels_and_primary_are_both_shown) {
    w = two_sentinels();
    char *head = head_of(&w);
    cr_assert(strstr(head, "\nredis    1 of 2 sentinels answer: \"main\" is 10.0.0.1:6379; quorum 2, epoch 7; 1 cannot reach it\n"
                           "         10.0.0.1:6379: TLS 1.2, certificate until 2026-11-22; 2 replicas, 1 in time for "
                           "min-replicas-to-write;\n         maxmemory-policy noeviction\nleader"),
              "%s", head);
}

Test(unit_status_servers, json_has_primaries_and_sentinels) {
    w = two_sentinels();
    expect_member(&w, "/redis/mode", "sentinel");
    expect_member(&w, "/redis/primaries/0/tls", "TLS 1.2");
    expect_member(&w, "/redis/primaries/0/certificate_end", "2026-11-22T");
    expect_member(&w, "/redis/primaries/0/good_replicas", "1");
    expect_member(&w, "/redis/sentinels/0/sees_primary_down", "true");
    expect_member(&w, "/redis/sentinels/0/epoch", "7");
    expect_member(&w, "/redis/sentinels/1/epoch", "null");
    expect_member(&w, "/redis/sentinels/1/error", "a\\u001b");
}

Test(unit_status_servers, the_certificate_that_ends_first_is_named) {
    w = two_sentinels();
    scoped(buffer_free) buffer_t what = {0};
    primary_view_t *primary = w.s.servers.primaries;
    cr_assert(servers_certificate_ends(&w.s.servers, NOW, &what));
    cr_assert_str_eq(buffer_text(&what), "the certificate of 10.0.0.1:6379 ends in 24 h");
    buffer_clear(&what);
    primary->own_certificate_end_ms = NOW + 3600000;
    cr_assert(servers_certificate_ends(&w.s.servers, NOW, &what));
    cr_assert_str_eq(buffer_text(&what), "the certificate of the sidecar (redis.tls_cert_file) ends in 60 min");
    primary->certificate_end_ms = primary->own_certificate_end_ms = NOW + INT64_C(15) * 86400000;
    cr_assert_not(servers_certificate_ends(&w.s.servers, NOW, &what));
    primary->certificate_end_ms = -1;
    primary->own_certificate_end_ms = NOW - 1;
    buffer_clear(&what);
    cr_assert(servers_certificate_ends(&w.s.servers, NOW, &what));
    cr_assert_str_eq(buffer_text(&what), "the certificate of the sidecar (redis.tls_cert_file) has ended");
}

/* Then their word is most wanted. */
Test(unit_status_servers, sentinels_are_shown_although_redis_is_unreachable) {
    w = two_sentinels();
    w.s.reached = false;
    *w.s.servers.believed = '\0';
    char *head = head_of(&w);
    cr_assert(strstr(head, "\nredis    1 of 2 sentinels name a primary for \"main\"\nlog"), "%s", head);
    expect_member(&w, "/redis/sentinels/0/address", "10.0.0.1:26379");
}

Test(unit_status_servers, with_a_lock_for_each_queue_a_free_lock_names_its_queue) {
    w = well("lock = { scope = \"queue\"; };" QUEUES);
    scoped(status_findings_free) status_findings_t found = status_diagnose(&w.s, NULL);
    cr_assert_eq(found.count, 0);
    status_findings_free(&found);
    w.s.snapshot.locks[3] = (snapshot_lock_t){.pttl_ms = -2};
    found = status_diagnose(&w.s, NULL);
    cr_assert_eq(found.count, 1);
    cr_assert_str_eq(found.items[0].code, "no_leader");
    cr_assert_eq(found.items[0].queues[0], 3);
    cr_assert_not_null(strstr(found.items[0].what, "sidecar:d:lock"));
}

/* On a machine with an archive `queue-sidecar run` would not help. */
Test(unit_status_servers, an_archive_that_sees_a_free_lock_names_the_key_that_keeps_it_from_leading) {
    for (int leads = 0; leads < 2; leads++) {
        w = well(leads ? "lock = { scope = \"group\"; };" QUEUES : "lock = { scope = \"group\"; lead = false; };" QUEUES);
        w.s.snapshot.locks[0] = (snapshot_lock_t){.pttl_ms = -2};
        scoped(status_findings_free) status_findings_t found = status_diagnose(&w.s, NULL);
        cr_assert_eq(found.count, 1);
        cr_expect_str_eq(found.items[0].code, "no_leader");
        cr_expect_eq(strstr(found.items[0].next, "whose config has lock.lead = true") == NULL, leads);
        if (!leads) end(&w);
    }
}

static bool finds_a_free_lock(const world_t *world) {
    bool found = false;
    scoped(status_findings_free) status_findings_t all = status_diagnose(&world->s, NULL);
    for (size_t i = 0; i < all.count; i++) found |= strcmp(all.items[i].code, "no_leader") == 0;
    return found;
}

/* In a Cluster each lock is at the primary of its queue. */
Test(unit_status_servers, a_primary_that_cannot_lead_hides_no_free_lock_of_another) {
    static primary_view_t primaries[2] = {{.address = "10.0.0.1:6379", .eviction = "noeviction"},
                                          {.address = "10.0.0.2:6379", .eviction = "noeviction"}};
    static status_preflight_t refused = {.kind = PREFLIGHT_REFUSED, .queue = SIZE_MAX, .primary = 0, .text = "no"};
    w = well("lock = { scope = \"queue\"; };" QUEUES);
    w.s.servers = (servers_t){.primaries = primaries, .primary_count = 2};
    w.s.snapshot.locks[3] = (snapshot_lock_t){.pttl_ms = -2};
    for (size_t primary = 0; primary < 2; primary++) {
        w.s.places[3].primary = primary;
        w.s.preflight = &refused, w.s.preflight_count = 1;
        cr_expect_eq(finds_a_free_lock(&w), primary == 1, "it fails the preflight");
        w.s.preflight = NULL, w.s.preflight_count = 0;
        snprintf(primaries[0].refuses_writes, sizeof primaries[0].refuses_writes, "MISCONF");
        cr_expect_eq(finds_a_free_lock(&w), primary == 1, "it takes no writes");
        *primaries[0].refuses_writes = '\0';
        cr_expect(finds_a_free_lock(&w));
    }
}

Test(unit_status_servers, many_queues_with_one_trouble_share_a_finding_worst_first) {
    w = well(QUEUES);
    for (size_t i = 0; i < 3; i++) w.s.sizes[i].next_due_ms = NOW - 60000 - (int64_t)i;
    scoped(status_findings_free) status_findings_t found = status_diagnose(&w.s, NULL);
    cr_assert_eq(found.count, 3);
    cr_assert_eq(found.items[0].queues[0], 2, "the worst queue must come first");
    status_findings_free(&found);
    for (size_t i = 3; i < 5; i++) w.s.sizes[i].next_due_ms = NOW - HOUR;
    found = status_diagnose(&w.s, NULL);
    static const size_t order[] = {3, 4, 2, 1, 0};
    cr_assert_eq(found.count, 1);
    cr_assert_eq(found.items[0].queue_count, 5);
    for (size_t i = 0; i < 5; i++) cr_assert_eq(found.items[0].queues[i], order[i]);
    cr_assert_not_null(strstr(found.items[0].what, "60 min late"), "%s", found.items[0].what);
    status_findings_free(&found);
    const bool wanted[5] = {true, false, false, false, true};
    found = status_diagnose(&w.s, wanted);
    cr_assert_eq(found.count, 2);
    cr_assert(found.items[0].queues[0] == 4 && found.items[1].queues[0] == 0);
}

#define FIVE                                                                                                                     \
    "defaults = { heartbeat = \"off\"; }; queues = ( { name = \"a\"; }, { name = \"b\"; }, { name = \"c\"; }, { name = \"d\"; "  \
    "}, { name = \"e\"; } );"

Test(unit_status_servers, a_finding_of_many_queues_says_how_many_failures_all_have) {
    static const int64_t failures[] = {2, 11, 3, 5, 1};
    w = well(FIVE);
    for (size_t i = 0; i < 5; i++) status_count(&w.s.recent[i], slice_text("failed"), slice_text("reported"), failures[i]);
    scoped(status_findings_free) status_findings_t found = status_diagnose(&w.s, NULL);
    cr_assert_eq(found.count, 1);
    cr_assert_str_eq(found.items[0].what, "11 final failures in the last hour: 11 reported; 22 in all 5 queues");
    status_findings_free(&found);
    w.s.recent[4].partial = true;
    found = status_diagnose(&w.s, NULL);
    cr_assert_not_null(strstr(found.items[0].what, "; at least 22 in all 5 queues"), "%s", found.items[0].what);
    status_findings_free(&found);
    const bool wanted[5] = {true, true, false, false, false};
    found = status_diagnose(&w.s, wanted);
    cr_assert_str_eq(found.items[0].what, "11 final failures in the last hour: 11 reported");
}

/* The shared finding has the text of the first result. */
Test(unit_status_servers, preflight_results_about_many_queues_share_a_finding) {
    w = well(FIVE);
    w.s.preflight = mem_array(6, sizeof *w.s.preflight);
    for (size_t i = 0; i < 6; i++) { /* two of queue d */
        size_t queue = i < 4 ? i : i - 1;
        w.s.preflight[w.s.preflight_count++] =
            (status_preflight_t){.kind = PREFLIGHT_QUEUE_REFUSED, .queue = queue, .text = i ? "other" : "first"};
    }
    scoped(status_findings_free) status_findings_t found = status_diagnose(&w.s, NULL);
    cr_assert_eq(found.count, 1);
    cr_assert_eq(found.items[0].queue_count, 5);
    for (size_t i = 0; i < 5; i++) cr_assert_eq(found.items[0].queues[i], i);
    cr_assert_str_eq(found.items[0].what, "first");
    status_findings_free(&found);
    const bool wanted[5] = {false, false, false, true, true};
    found = status_diagnose(&w.s, wanted);
    cr_assert_eq(found.count, 3);
}

Test(unit_status_servers, a_refusal_of_redis_has_another_exit_code_than_no_connection) {
    w = well(QUEUES);
    w.s.reached = false;
    redis_error_set(&w.s.error, OUTCOME_REFUSED, "WRONGPASS");
    scoped(status_findings_free) status_findings_t found = status_diagnose(&w.s, NULL);
    cr_assert_eq(status_exit(&w.s, &found), CLI_FAILED);
}
