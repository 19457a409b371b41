/* The size of the monitor's scripts. */
#include "base/buffer.h"
#include "monitor_fixture.h"
#include "queue/scripts.h"

/* Scripts that give back JOBS stalled jobs when each may take this long. */
static long scripts_with_slice(const char *slice) {
    enum { JOBS = 4000 };
    setup_t d;
    char *settings = kept_printf("slice = \"%s\";", slice);
    open_setup(&d, (fixture_options_t){.redis = settings, .proxy = true});
    redis_ok(d.f.r, "EVAL %s 1 email:backup %d", "for i = 1, ARGV[1] do redis.call('LPUSH', KEYS[1], 'job' .. i) end", JOBS);
    cr_assert(driver_until(&d.instance.driver, count(&d, "LLEN email") == JOBS, 30000));
    long scripts = proxy_requests(d.f.proxy, script_settle.sha1) + proxy_requests(d.f.proxy, script_settle.sha1_without_flags);
    close_setup(&d);
    return scripts;
}

Test(redis_monitor_slice, a_script_gives_back_as_many_jobs_as_the_slice_allows, .timeout = 90) {
    long many = scripts_with_slice("50us"), few = scripts_with_slice("100ms");
    cr_assert_gt(many, 2 * few, "%ld scripts of 50 us, %ld of 100 ms", many, few);
}
