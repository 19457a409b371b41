/* Dialect kmqueue with the rights of docs/acl.md, and with one of these rights missing: no task is lost. */
#include "kmqueue_fixture.h"

#include "rights.h"

static void open_as_sidecar(setup_t *d, const char *settings) {
    scoped(rights_free) rights_t rights = rights_read("kmqueue");
    open_setup(d, (fixture_options_t){.config = settings, .redis = RIGHTS_LOGIN});
    rights_grant(d->f.r, &rights, NULL);
}

Test(redis_kmqueue_acl, the_published_rights_are_enough) {
    setup_t d;
    open_as_sidecar(&d, KM("retry_times = 1;"));
    char *first = km_json(d.f.r, (km_t){0}), *again = km_again(first, 0, "normal");
    char *last = km_json(d.f.r, (km_t){.id = "t-2", .retry = 1, .queue = PLAIN});
    redis_ok(d.f.r, "SADD " UNIQUE " t-1");
    redis_ok(d.f.r, "SADD " PLAIN "_unique t-2");
    km_take(&d, first);
    km_take(&d, last);
    until(&d, in(&d, SAFE, again) && records(&d) == 2);
    cr_assert_eq(count(&d, "EXISTS " PLAIN "_unique"), 0);
    redis_ok(d.f.r, "DEL " SAFE);
    fixture_step_boottime(61000);
    driver_run(&d.instance.driver, 300);
    until(&d, metric_get(&of(&d)->stale_unique) == 1);
    cr_assert_eq(metric_get(&of(&d)->faults), 0);
    close_setup(&d);
}

Test(redis_kmqueue_acl, missing_right_loses_no_task, .timeout = 60) {
    static const char *const rights[] = {"-srem", "-rpush", "-lrem", "-xadd", "-getrange"};
    for (size_t i = 0; i < sizeof rights / sizeof *rights; i++) {
        setup_t d;
        open_as_sidecar(&d, KM("retry_times = 1;"));
        redis_ok(d.f.r, "ACL SETUSER sidecar %s", rights[i]);
        char *first = km_json(d.f.r, (km_t){0}), *again = km_again(first, 0, "normal");
        char *last = km_json(d.f.r, (km_t){.id = "t-2", .retry = 1});
        redis_ok(d.f.r, "SADD " UNIQUE " t-1 t-2");
        km_take(&d, first);
        km_take(&d, last);
        until(&d, stamp_of(d.f.r, slice_text(last)).seen);
        until(&d, rights_refused(d.f.r) > 0 || metric_get(&of(&d)->faults) > 0); /* ACL LOG has no call that a script proves */
        driver_run(&d.instance.driver, 400);
        cr_assert_eq(in(&d, BACKUP, first) + in(&d, SAFE, again), 1, "%s", rights[i]);
        cr_assert_eq(in(&d, BACKUP, last) + (records(&d) > 0 && count(&d, "SISMEMBER " UNIQUE " t-2") == 0), 1, "%s", rights[i]);
        close_setup(&d);
    }
}
