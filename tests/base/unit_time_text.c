/* Times as people type them. */
#include "base/text/time_text.h"
#include "suite.h"

#include <time.h>

#define NOW INT64_C(1795226400000) /* 2026-11-21T02:00:00Z */

Test(unit_time_text, reads_times_with_and_without_a_zone) {
    static const struct {
        const char *text;
        int64_t local, utc; /* 0 = refused */
    } rows[] = {
        {"90s", NOW - 90000, NOW - 90000},
        {"1w", NOW - 604800000, NOW - 604800000},
        {"999999999w", 1, 1},
        {"2h30m", NOW - 9000000, NOW - 9000000},
        {"1w2d3h4m5s", NOW - 788645000, NOW - 788645000},
        {"999999999w999999999d", 1, 1},
        {"today", NOW - 10800000, NOW - 7200000},
        {"yesterday", NOW - 97200000, NOW - 93600000},
        {"2026-11-21", NOW - 10800000, NOW - 7200000},
        {"2026-11-21T02:00", NOW - 3600000, NOW},
        {"2026-11-21 02:00:30", NOW - 3570000, NOW + 30000},
        {"2026-11-21t02:00z", NOW, NOW},
        {"2026-11-21T04:30+0230", NOW, NOW},
        {"2026-11-20T21:00:00-05:00", NOW, NOW},
        {"2026-11-21T02:00:00.123Z", NOW + 123, NOW + 123},
        {"2026-11-21 02:00:00.007", NOW - 3599993, NOW + 7},
        {"2026-11-21T02:00:00.5Z", 0, 0},
        {"2026-11-21T02:00.500Z", 0, 0},
        {"2026-02-30", 0, 0},
        {"2026-11-21T24:00", 0, 0},
        {"2026-11-21T23:59:60", 0, 0},
        {"2026-1-1", 0, 0},
        {" 2026-11-21", 0, 0},
        {"2026-11-21T", 0, 0},
        {"2026-11-21Z", 0, 0},
        {"2026-11-21T02:00+15:00", 0, 0},
        {"1969-12-31", 0, 0},
        {"1234567890s", 0, 0},
        {"5y", 0, 0},
        {"30m2h", 0, 0},
        {"1h1h", 0, 0},
        {"2h30", 0, 0},
        {"2h 30m", 0, 0},
        {"tomorrow", 0, 0},
        {"yesterday2h", 0, 0},
        {"", 0, 0},
    };
    setenv("TZ", "CET-1", 1);
    tzset();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int utc = 0; utc < 2; utc++) {
            int64_t expected = utc ? rows[i].utc : rows[i].local, ms = 0;
            cr_expect_eq(time_parse(rows[i].text, utc, NOW, &ms), expected != 0, "%s", rows[i].text);
            if (expected) cr_expect_eq(ms, expected, "%s: %lld", rows[i].text, (long long)ms);
        }
}

/* In the night before 2026-10-25T12:00Z the clocks of Berlin went back by an hour. */
Test(unit_time_text, yesterday_begins_at_midnight_on_a_day_of_25_hours) {
    int64_t ms = 0;
    setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3", 1);
    tzset();
    cr_expect(time_parse("today", false, INT64_C(1792929600000), &ms) && ms == INT64_C(1792879200000), "%lld", (long long)ms);
    cr_expect(time_parse("yesterday", false, INT64_C(1793016000000), &ms) && ms == INT64_C(1792879200000), "%lld", (long long)ms);
    cr_expect(time_parse("today", false, INT64_C(1793016000000), &ms) && ms == INT64_C(1792969200000), "%lld", (long long)ms);
}

Test(unit_time_text, reads_what_it_writes) {
    int64_t ms = 0;
    cr_expect_str_eq(time_rfc3339(NOW + 7).text, "2026-11-21T02:00:00.007Z");
    cr_expect(time_parse_rfc3339(time_rfc3339(NOW + 7).text, &ms) && ms == NOW + 7);
    cr_expect(time_parse_rfc3339("2026-11-21T02:00:00Z", &ms) && ms == NOW);
    static const char *const refused[] = {"2026-11-21T02:00Z", "2026-11-21T02:00:00.07Z", "2026-11-21T02:00:00", "2026-11-21"};
    for (size_t i = 0; i < 4; i++) cr_expect(!time_parse_rfc3339(refused[i], &ms), "%s", refused[i]);
}
