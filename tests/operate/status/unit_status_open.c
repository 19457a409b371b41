/* The status that everybody may read: no path, no key, no host. */
#include "base/json/json.h"
#include "operate/status/checks.h"
#include "status_fixture.h"
#include "suite.h"

static world_t w;
SUITE(unit_status_open, w = well("queues = ( { name = \"email\"; } );"), end(&w));

Test(unit_status_open, next_step_of_each_finding_has_words_in_place_of_names) {
    scoped(buffer_free) buffer_t out = {0};
    for (size_t i = 0; i < status_check_count; i++) {
        status_finding_t finding = {.code = "x", .next = mem_str("/etc/q.cfg"), .next_open = status_checks[i].next};
        buffer_clear(&out);
        status_json_open(&w.s, &(status_findings_t){.items = &finding, .count = 1}, &out);
        json_value_t findings;
        cr_assert_eq(json_find((slice_t){out.data, out.len}, "/findings/0/next", &findings), JSON_FOUND, "%s", buffer_text(&out));
        cr_expect_null(memchr(findings.raw.data, '{', findings.raw.len), "%s", buffer_text(&out));
        cr_expect_null(strstr(out.data, "/etc/q.cfg"), "%s", buffer_text(&out));
        free(finding.next);
    }
}

Test(unit_status_open, missing_leader_is_told_without_the_path_of_the_config) {
    scoped(buffer_free) buffer_t out = {0};
    w.s.snapshot.locks[0] = (snapshot_lock_t){.pttl_ms = -2};
    scoped(status_findings_free) status_findings_t findings = status_diagnose(&w.s, NULL);
    status_json_open(&w.s, &findings, &out);
    cr_expect(strstr(out.data, "Start an instance: queue-sidecar run -c CONFIG. "), "%s", buffer_text(&out));
    cr_expect_not(strstr(out.data, w.config->path), "%s", buffer_text(&out));
}
