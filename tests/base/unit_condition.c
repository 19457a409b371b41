/* base/condition: each change is reported once. */
#include "base/condition.h"
#include "suite.h"

Test(unit_condition, reports_a_beginning_a_change_and_the_end_once) {
    static const struct {
        const char *reason;
        condition_change_t change;
    } rows[] = {
        {NULL, CONDITION_UNCHANGED}, {"", CONDITION_UNCHANGED},   {"full", CONDITION_BEGAN},   {"full", CONDITION_UNCHANGED},
        {"locked", CONDITION_BEGAN}, {"", CONDITION_ENDED},       {NULL, CONDITION_UNCHANGED}, {"locked", CONDITION_BEGAN},
        {NULL, CONDITION_ENDED},     {NULL, CONDITION_UNCHANGED},
    };
    condition_t condition = {0};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        cr_expect_eq(condition_update_reason(&condition, rows[i].reason), rows[i].change, "row %zu", i);
    condition_free(&condition);
}

Test(unit_condition, accepts_its_own_reason) {
    condition_t condition = {0};
    condition_update_reason(&condition, "full");
    cr_expect_eq(condition_update_reason(&condition, condition.reason), CONDITION_UNCHANGED);
    cr_expect_eq(condition_update_reason(&condition, condition.reason + 1), CONDITION_BEGAN);
    cr_expect_str_eq(condition.reason, "ull");
    condition_free(&condition);
    cr_expect_null(condition.reason);
    cr_expect_eq(condition_update_reason(&condition, "full"), CONDITION_BEGAN);
    condition_free(&condition);
}

Test(unit_condition, reports_beginning_and_end_without_a_reason) {
    condition_t condition = {0};
    cr_expect_eq(condition_update(&condition, false), CONDITION_UNCHANGED);
    cr_expect_eq(condition_update(&condition, true), CONDITION_BEGAN);
    cr_expect_eq(condition_update(&condition, true), CONDITION_UNCHANGED);
    cr_expect_eq(condition_update(&condition, false), CONDITION_ENDED);
}
