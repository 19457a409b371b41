/* Notifications that were lost are told for an hour, while somebody wants notifications. */
#include "status_fixture.h"
#include "suite.h"

static world_t w;
SUITE(unit_status_notifications, w = well("queues = ( { name = \"email\"; on_failure = \"told\"; } );"), end(&w));

static status_findings_t lost(int64_t age_ms) {
    snapshot_queue_t *queue = &w.s.snapshot.queues[0];
    queue->lost_ms = age_ms ? NOW - age_ms : 0;
    snprintf(queue->lost_why, sizeof queue->lost_why, "it is full");
    return status_diagnose(&w.s, NULL);
}

static void expect_none(int64_t age_ms) {
    scoped(status_findings_free) status_findings_t findings = lost(age_ms);
    cr_expect_eq(findings.count, 0, "%s", findings.count ? findings.items[0].what : "");
}

Test(unit_status_notifications, are_told_for_an_hour) {
    scoped(status_findings_free) status_findings_t findings = lost(HOUR);
    cr_assert_eq(findings.count, 1);
    cr_expect_str_eq(findings.items[0].code, "notifications_lost");
    cr_expect_eq(findings.items[0].severity, STATUS_WARNING);
    cr_expect(strstr(findings.items[0].what, "lost, 60 min ago for the last time; the list told of `on_failure`: it is full"),
              "%s", findings.items[0].what);
    expect_none(HOUR + 1);
    expect_none(0);
    free(w.config->queues[0].policy.on_failure);
    w.config->queues[0].policy.on_failure = mem_str("");
    expect_none(HOUR);
}
