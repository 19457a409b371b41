/* The config is read again at each poll. */

#include "app/reload.h"
#include "config_case.h"
#include "suite.h"

enum { PADDING = 200000 };

typedef struct poll {
    reload_t reload;
    metrics_t *metrics;
    config_t *config;
    char *padding; /* a long comment */
    char included[160];
} poll_t;

static void write_included(const poll_t *p, const char *text) {
    FILE *file = fopen(p->included, "w");
    cr_assert(file && fprintf(file, "# %s\n%s", p->padding, text) > 0 && fclose(file) == 0);
}

static void begin(poll_t *p) {
    *p = (poll_t){.metrics = metrics_new(1), .padding = mem_alloc(PADDING + 1)};
    memset(p->padding, 'x', PADDING);
    snprintf(p->included, sizeof p->included, "%s/more.cfg", config_case_dir);
    write_included(p, "group = \"one\";\n");
    p->config = config_case_good("@include \"more.cfg\"\nqueues = ( { name = \"q\"; } );\n", NULL);
    reload_begin(&p->reload, p->config);
}

static void end(poll_t *p) {
    reload_end(&p->reload);
    config_free(p->config);
    metrics_free(p->metrics);
    free(p->padding);
}

/* Bytes that this process has read. */
static long bytes_read(void) {
    long bytes = -1;
    FILE *file = fopen("/proc/self/io", "r");
    cr_assert(file && fscanf(file, "rchar: %ld", &bytes) == 1);
    fclose(file);
    return bytes;
}

static config_t *read_again(poll_t *p) { return reload_read(&p->reload, p->config, false, p->metrics); }

static poll_t p;

/* Returns how many bytes the poll has read. */
static long poll_in_vain(void) {
    long before = bytes_read();
    cr_assert_null(read_again(&p));
    return bytes_read() - before;
}

static void expect_comparison(void) {
    long bytes = poll_in_vain();
    cr_assert(bytes > PADDING && bytes < PADDING + PADDING / 2, "%ld bytes", bytes);
}

SUITE(unit_reload, config_case_begin(); begin(&p), end(&p); config_case_end());

Test(unit_reload, unchanged_files_are_compared_and_not_parsed) {
    expect_comparison();
    memset(p.padding, 'y', PADDING);
    write_included(&p, "group = \"one\";\n");
    cr_assert_gt(poll_in_vain(), 2 * PADDING, "a changed comment is not read");
    expect_comparison();
}

Test(unit_reload, changed_included_file_is_noticed) {
    write_included(&p, "log = { level = \"warn\"; };\n");
    config_t *fresh = read_again(&p);
    cr_assert(!fresh && p.reload.refused.holds, "the group cannot change while running");
    write_included(&p, "group = \"one\"; log = { level = \"warn\"; };\n");
    fresh = read_again(&p);
    cr_assert(fresh && fresh->log.level == LOG_WARN);
    config_free(p.config);
    p.config = fresh;
    expect_comparison();
}

Test(unit_reload, removed_included_file_is_noticed) {
    cr_assert_eq(unlink(p.included), 0);
    cr_assert(!read_again(&p) && p.reload.refused.holds);
    cr_assert(!read_again(&p) && p.reload.refused.holds);
    write_included(&p, "group = \"one\";\n");
    cr_assert(!read_again(&p) && !p.reload.refused.holds);
    expect_comparison();
}

/* Only libconfig finds the file: its name is written with an escape. */
Test(unit_reload, an_unseen_included_file_is_read_at_each_poll) {
    snprintf(p.included, sizeof p.included, "%s/a\"b.cfg", config_case_dir);
    write_included(&p, "group = \"one\";\n");
    reload_end(&p.reload);
    config_free(p.config);
    p.config = config_case_good("@include \"a\\\"b.cfg\"\nqueues = ( { name = \"q\"; } );\n", NULL);
    p.reload = (reload_t){0};
    reload_begin(&p.reload, p.config);
    write_included(&p, "group = \"one\"; log = { level = \"warn\"; };\n");
    scoped(config_drop) config_t *fresh = read_again(&p);
    cr_assert(fresh && fresh->log.level == LOG_WARN);
}

Test(unit_reload, a_found_cluster_is_a_change) {
    p.reload.mode = REDIS_MODE_CLUSTER;
    scoped(config_drop) config_t *fresh = read_again(&p);
    cr_assert(fresh && fresh->redis.found == REDIS_MODE_CLUSTER);
}
