/* The scripts that a connect sends. */
#include "fixture.h"

/* Opens the connection anew; returns the bytes that it sends. */
static int64_t sent_to_open(fixture_t *f) {
    int64_t before = proxy_bytes(f->proxy, PROXY_UP);
    conn_close(f->conn);
    cr_assert_eq(conn_open(f->conn, &f->error), OUTCOME_OK, "%s", f->error.text);
    return proxy_bytes(f->proxy, PROXY_UP) - before;
}

Test(redis_scripts, only_missing_scripts_are_sent) {
    enum { FEW_BYTES = 5000, MANY_BYTES = 50000 };
    scoped(fixture_stop) fixture_t f = fixture_start(&(fixture_options_t){.proxy = true, .closed = true});
    cr_assert_gt(sent_to_open(&f), MANY_BYTES);
    cr_assert_eq(proxy_requests(f.proxy, "SCRIPT LOAD"), (long)all_script_count);
    cr_assert_leq(sent_to_open(&f), FEW_BYTES);
    cr_assert_eq(proxy_requests(f.proxy, "SCRIPT LOAD"), (long)all_script_count);
    redis_ok(f.r, "SCRIPT FLUSH");
    size_t len;
    const char *text = fixture_script(all_scripts[1], &len);
    redis_ok(f.r, "SCRIPT LOAD %b", text, len);
    cr_assert_gt(sent_to_open(&f), MANY_BYTES);
    cr_assert_eq(proxy_requests(f.proxy, "SCRIPT LOAD"), 2 * (long)all_script_count - 1);
    proxy_rule(f.proxy, (proxy_rule_t){.action = PROXY_REFUSE, .match = "SCRIPT EXISTS", .error = "-NOPERM x"});
    cr_assert_gt(sent_to_open(&f), MANY_BYTES);
    cr_assert_eq(proxy_requests(f.proxy, "SCRIPT LOAD"), 3 * (long)all_script_count - 1);
}
