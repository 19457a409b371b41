/* on_failure: a notification of each final failure, in the list of the config. */
#include "base/utf8.h"
#include "model/event.h"
#include "monitor_fixture.h"
#include "rights.h"
#include "text.h"

enum { MOST = 10000 }; /* as in prologue/notifications.lua */
#define NOTIFY(settings) ALONE("retry_times = 0; on_failure = \"told\"; id_path = \"/id\"; type_path = \"/type\"; " settings)
#define OURS             "{\"ref\":\"a\"}"
#define TRACEPARENT      "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

static setup_t d;
SUITE(redis_notifications, , close_setup(&d));

static void begin(const char *config) { open_setup(&d, (fixture_options_t){.config = config}); }

/* A field of the last record; kept. */
static char *field(const char *name) {
    return redis_str(d.f.r, "EVAL %s 1 sidecar:email:failures %s",
                     "local e = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1][2] "
                     "for i = 1, #e, 2 do if e[i] == ARGV[1] then return e[i + 1] end end return ''",
                     name);
}

static char *ref(void) {
    char *text = kept(malloc(EVENT_REF_SIZE));
    cr_assert(event_ref(slice_text(field("event")), text));
    return text;
}

static void end_job(const char *job) {
    long long before = records(&d);
    work_on(&d, job);
    until(&d, records(&d) > before);
}

static void report(const char *job, const char *text, size_t len) {
    long long before = records(&d);
    redis_ok(d.f.r, "HSET email:errors %s %b", job, text, len);
    work_on(&d, job);
    until(&d, records(&d) > before);
}

/* Compares the newest notification with these texts and the last record. */
static void expect_newest(const char *type, const char *job_id, const char *reason, const char *traceparent, const char *error) {
    char *found = redis_str(d.f.r, "LINDEX told 0");
    cr_expect_str_eq(found, kept_printf("{\"ref\":\"%s\",\"queue\":\"email\",\"group\":\"app\",\"type\":\"%s\",\"job_id\":\"%s\","
                                        "\"reason\":\"%s\",\"traceparent\":\"%s\",\"error\":%s,\"attempts\":1,\"failed_at\":%s}",
                                        ref(), type, job_id, reason, traceparent, error, field("at")));
}

static void expect_lost(const char *why) {
    char *lost = redis_str(d.f.r, "HGET sidecar:email:meta notification_lost");
    if (why)
        cr_expect(lost && has(lost, why) && strtoll(lost, NULL, 10) == strtoll(field("at"), NULL, 10), "%s", lost);
    else
        cr_expect_null(lost, "%s", lost);
}

Test(redis_notifications, each_failure_is_told_once) {
    begin(NOTIFY("trace_path = \"/meta/traceparent\";"));
    end_job("{\"id\":7,\"type\":\"letter\",\"meta\":{\"traceparent\":\"" TRACEPARENT "\"}}");
    expect_newest("letter", "7", "retries_exhausted", TRACEPARENT, "\"\"");
    cr_expect_str_eq(field("traceparent"), TRACEPARENT);
    report("{\"id\":\"a \\\"b\\\"\"}", "no route", 8);
    expect_newest("", "a \\\"b\\\"", "reported", "", "\"no route\"");
    end_job("{\"id\":7,\"type\":\"letter\",\"meta\":{\"traceparent\":\"" TRACEPARENT "\"}}"); /* as after a requeue */
    expect_newest("letter", "7", "retries_exhausted", TRACEPARENT, "\"\"");
    cr_expect_eq(count(&d, "LLEN told"), 3);
    expect_lost(NULL);
}

/* A digest tells nothing to people, and may be of a hidden payload. */
Test(redis_notifications, a_job_without_an_id_is_told_by_its_ref_alone) {
    begin(NOTIFY(""));
    end_job("no json");
    expect_newest("", "", "retries_exhausted", "", "\"\"");
}

Test(redis_notifications, a_retry_is_not_told) {
    begin(ALONE("retry_times = 1; on_failure = \"told\";"));
    work_on(&d, "job");
    until(&d, records(&d) == 1);
    cr_expect_str_eq(field("kind"), "retried");
    cr_expect_eq(count(&d, "EXISTS told"), 0);
}

#define MARK "\xef\xbf\xbd" /* U+FFFD */
#define ROW(error, json)                                                                                                         \
    { error, sizeof(error) - 1, "\"" json "\"" }
/* Each is told as valid JSON: bytes that are no UTF-8 are replaced, all else is kept. */
Test(redis_notifications, any_error_becomes_valid_json) {
    static const struct {
        const char *error;
        size_t len;
        const char *json;
    } rows[] = {
        ROW("a \"quote\" and a \\", "a \\\"quote\\\" and a \\\\"),
        ROW("line\nline\ttab\r", "line\\nline\\ttab\\u000d"),
        ROW("nul\0bell\x07rubout\x7f", "nul\\u0000bell\\u0007rubout\\u007f"),
        ROW("caf\xc3\xa9 \xe4\xb8\xad\xe6\x96\x87 \xf0\x9f\x98\x80", "caf\xc3\xa9 \xe4\xb8\xad\xe6\x96\x87 \xf0\x9f\x98\x80"),
        ROW("\xff\xfe", MARK MARK),
        ROW("\x80\xbf", MARK),                       /* no first byte */
        ROW("a\xc3", "a" MARK),                      /* cut short */
        ROW("\xe4\xb8z", MARK "z"),                  /* likewise */
        ROW("\xc3\xa9\xa9", "\xc3\xa9" MARK),        /* one byte too many */
        ROW("\xc0\xaf", MARK),                       /* overlong */
        ROW("\xe0\x80\xaf", MARK),                   /* likewise */
        ROW("\xf0\x80\x80\xaf", MARK),               /* likewise */
        ROW("\xed\xa0\x80", MARK),                   /* half of a surrogate pair */
        ROW("\xf4\x90\x80\x80", MARK),               /* above U+10FFFF */
        ROW("\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf"), /* U+10FFFF */
        ROW("\xee\x80\x80", "\xee\x80\x80"),
        ROW("</script>\xe2\x80\xa8", "</script>\xe2\x80\xa8"),
    };
    begin(NOTIFY(""));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        report("{\"id\":1}", rows[i].error, rows[i].len);
        expect_newest("", "1", "reported", "", rows[i].json);
    }
}

/* A character that the cut would halve goes. */
Test(redis_notifications, a_long_error_is_cut) {
    char *error = kept(malloc(100000)), *cut = kept(malloc(2000));
    begin(NOTIFY(""));
    memset(error, 'x', 100000);
    memcpy(error + 1023, "\xc3\xa9", 2);
    sprintf(cut, "\"%.1023s\"", error);
    report("{\"id\":1}", error, 60000);
    expect_newest("", "1", "reported", "", cut);
    report("{\"id\":2}", error, 100000); /* one that settle.lua reads last */
    expect_newest("", "2", "reported", "", cut);
}

static void fill(int entries) {
    redis_ok(d.f.r, "EVAL %s 1 told %d " OURS, "for i = 1, ARGV[1] do redis.call('RPUSH', KEYS[1], ARGV[2]) end", entries - 1);
    redis_ok(d.f.r, "RPUSH told {\"ref\":\"oldest\"}");
}

Test(redis_notifications, of_too_many_the_oldest_go) {
    begin(NOTIFY(""));
    fill(MOST - 2);
    end_job("{\"id\":1}");
    cr_expect_eq(count(&d, "LLEN told"), MOST - 1);
    redis_expect(d.f.r, "{\"ref\":\"oldest\"}", "LINDEX told -1");
    expect_lost(NULL);
    for (int i = 2; i < 4; i++) {
        end_job(kept_printf("{\"id\":%d}", i));
        expect_newest("", kept_printf("%d", i), "retries_exhausted", "", "\"\"");
        cr_expect_eq(count(&d, "LLEN told"), MOST);
        expect_lost(i == 2 ? NULL : "it is full");
    }
    redis_expect(d.f.r, OURS, "LINDEX told -1");
}

/* Jobs of somebody that came into the list later stay, however many they are. */
Test(redis_notifications, to_make_room_only_notifications_go) {
    open_setup(&d, (fixture_options_t){.config = NOTIFY(""), .redis = "slice = \"100ms\";"});
    fill(2);
    redis_ok(d.f.r, "EVAL %s 1 told %d", "for i = 1, ARGV[1] do redis.call('LPUSH', KEYS[1], 'job' .. i) end", MOST);
    end_job("{\"id\":1}");
    expect_newest("", "1", "retries_exhausted", "", "\"\"");
    expect_lost("it is full");
    redis_ok(d.f.r, "LPUSH email:backup {\"id\":2} {\"id\":3}"); /* one script ends both */
    until(&d, records(&d) == 3);
    expect_lost("an entry at its end is no notification");
    cr_expect_eq(count(&d, "LLEN told"), MOST + 2, "all jobs and two notifications");
    redis_expect(d.f.r, "job1", "LINDEX told -2");
}

/* A key of any type may be in the list's place: the job ends, with its record. */
Test(redis_notifications, no_trouble_with_the_list_keeps_a_job_from_ending) {
    begin(NOTIFY(""));
    for_other_types (type, "list") {
        fixture_make_key(d.f.r, "told", type);
        char *before = redis_str(d.f.r, "DUMP told");
        end_job(kept_printf("{\"id\":\"%s\"}", type));
        cr_expect_str_eq(redis_str(d.f.r, "DUMP told"), before, "a %s was changed", type);
        expect_lost("WRONGTYPE");
    }
    redis_ok(d.f.r, "DEL told");
    redis_ok(d.f.r, "RPUSH told job1 job2");
    end_job("{\"id\":\"foreign\"}");
    cr_expect_eq(count(&d, "LLEN told"), 2, "a list of jobs takes no notification");
    expect_lost("an entry at its end is no notification");
    redis_ok(d.f.r, "DEL told");
    end_job("{\"id\":\"good\"}");
    expect_newest("", "good", "retries_exhausted", "", "\"\"");
}

/* Without any one of the rights that docs/acl.md publishes the job ends, with its record. */
Test(redis_notifications, a_missing_right_costs_the_notification_only) {
    scoped(rights_free) rights_t all = rights_read(NULL);
    scoped(rights_free) rights_t own = rights_read_behind("This is for `on_failure`");
    for (size_t i = 0; i < own.count; i++) all.words[all.count++] = own.words[i];
    open_setup(&d, (fixture_options_t){.config = ALONE("retry_times = 0; on_failure = \"failed-jobs\";"), .redis = RIGHTS_LOGIN});
    for (size_t i = 0; i <= own.count; i++) {
        rights_grant(d.f.r, &all, i < own.count ? own.words[i] : NULL);
        end_job(kept_printf("{\"id\":%zu}", i));
        cr_expect_eq(count(&d, "LLEN failed-jobs"), i == own.count, "without %s", own.words[i]);
        if (i < own.count) expect_lost(""); /* the words are those of the version of Redis */
        cr_expect_eq(count(&d, "HLEN sidecar:email:stamps") + working(&d, kept_printf("{\"id\":%zu}", i)), 0);
    }
    cr_expect_eq(metric_get(&of(&d)->faults), 0);
}
