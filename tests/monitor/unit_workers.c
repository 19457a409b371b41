/* Names of workers by job. */
#include "monitor/scan/workers.h"
#include "suite.h"

static digest_t job(int number) { return digest_of(&number, sizeof number); }

static void note(workers_t *workers, int number, const char *name) {
    digest_t digest = job(number);
    workers_note(workers, &digest, slice_text(name));
}

static const char *name_of(const workers_t *workers, int number) {
    digest_t digest = job(number);
    return workers_name(workers, &digest);
}

static void forget(workers_t *workers, int number) {
    digest_t digest = job(number);
    workers_forget(workers, &digest);
}

Test(unit_workers, the_last_name_stays_until_it_is_forgotten) {
    workers_t workers = {0};
    cr_assert_str_eq(name_of(&workers, 1), "");
    forget(&workers, 1);
    note(&workers, 1, "a");
    note(&workers, 2, "b");
    note(&workers, 1, "c");
    note(&workers, 1, "");
    cr_assert_str_eq(name_of(&workers, 1), "c");
    cr_assert_str_eq(name_of(&workers, 2), "b");
    forget(&workers, 1);
    forget(&workers, 1);
    cr_assert_str_eq(name_of(&workers, 1), "");
    note(&workers, 1, "d");
    cr_assert_str_eq(name_of(&workers, 1), "d");
    workers_free(&workers);
    cr_assert_str_eq(name_of(&workers, 1), "");
    note(&workers, 1, "e");
    cr_assert_str_eq(name_of(&workers, 1), "e");
    workers_free(&workers);
}

Test(unit_workers, a_name_is_one_line_of_text) {
    scoped(workers_free) workers_t workers = {0};
    digest_t digest = job(1);
    workers_note(&workers, &digest, (slice_t){"a\0b\n\xc3", 5});
    cr_assert_str_eq(name_of(&workers, 1), "a\\u0000b\\u000a\\ufffd");
}

static bool even(void *self, const uint8_t key[KEY_BYTES]) {
    ++*(int *)self;
    return key[0] % 2 == 0;
}

Test(unit_workers, the_number_of_names_is_bounded) {
    scoped(workers_free) workers_t workers = {0};
    int asked = 0, kept = 0;
    for (int i = 0; i < WORKERS_MAX + 5; i++) note(&workers, i, "w");
    cr_assert_str_eq(name_of(&workers, WORKERS_MAX - 1), "w");
    cr_assert_str_eq(name_of(&workers, WORKERS_MAX), "");
    note(&workers, 3, "another");
    cr_assert_str_eq(name_of(&workers, 3), "another", "a known worker's name must be replaced");
    forget(&workers, 4);
    workers_filter(&workers, even, &asked);
    cr_assert_eq(asked, WORKERS_MAX - 1);
    for (int i = 0; i < WORKERS_MAX; i++) {
        bool stays = job(i).bytes[0] % 2 == 0 && i != 4;
        cr_assert_eq(*name_of(&workers, i) != 0, stays);
        kept += stays;
    }
    note(&workers, WORKERS_MAX, "new");
    cr_assert_str_eq(name_of(&workers, WORKERS_MAX), "new");
    cr_assert_gt(kept, WORKERS_MAX / 3);
}
