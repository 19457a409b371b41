/* What an error reply of Redis means. */
#include "redis/error.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static outcome_t judge(const char *text) {
    fault_t fault = {0};
    outcome_t outcome = fault_from_error(&fault, text, strlen(text));
    cr_assert_eq(outcome, fault.outcome);
    return outcome;
}

Test(unit_fault, each_word_has_its_outcome) {
    static const struct {
        const char *text;
        outcome_t outcome;
    } rows[] = {
        {"LOADING Redis is loading the dataset in memory", OUTCOME_LATER},
        {"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", OUTCOME_LATER},
        {"BUSY Redis is busy running a script.", OUTCOME_LATER},
        {"READONLY You can't write against a read only replica.", OUTCOME_LATER},
        {"CLUSTERDOWN Hash slot not served", OUTCOME_LATER},
        {"TRYAGAIN Multiple keys request during rehashing of slot", OUTCOME_LATER},
        {"MISCONF Errors writing to the AOF file", OUTCOME_LATER},
        {"NOREPLICAS Not enough good replicas to write.", OUTCOME_LATER},
        {"OOM command not allowed when used memory > 'maxmemory'.", OUTCOME_LATER},
        {"NOSCRIPT No matching script. Please use EVAL.", OUTCOME_LATER},
        {"LOADING", OUTCOME_LATER},
        {"NOPERM this user has no permissions to run the 'lpush' command", OUTCOME_FAULT},
        {"WRONGTYPE Operation against a key holding the wrong kind of value", OUTCOME_FAULT},
        {"CROSSSLOT Keys in request don't hash to the same slot", OUTCOME_FAULT},
        {"NOAUTH Authentication required.", OUTCOME_FAULT},
        {"WRONGPASS invalid username-password pair or user is disabled.", OUTCOME_FAULT},
        {"MOVED 3999 127.0.0.1:6381", OUTCOME_FAULT},
        {"ERR unknown command 'EVALSHA'", OUTCOME_FAULT},
        {"ERR The server says LOADING", OUTCOME_FAULT},
        {"LOADINGS are no word of Redis", OUTCOME_FAULT},
        {"LOAD", OUTCOME_FAULT},
        {"BUSYGROUP Consumer Group name already exists", OUTCOME_FAULT},
        {"BUSYKEY Target key name already exists.", OUTCOME_FAULT},
        {"loading in small letters", OUTCOME_FAULT},
        {" LOADING after a blank", OUTCOME_FAULT},
        {"", OUTCOME_FAULT},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        cr_assert_eq(judge(rows[i].text), rows[i].outcome, "%s", rows[i].text);
}

Test(unit_fault, the_text_is_one_clean_line) {
    fault_t fault;
    static const char text[] = "ERR a\r\nb\tc\x1b[2J\x7f d\xc3\xa9";
    fault_from_error(&fault, text, sizeof text - 1);
    cr_assert_str_eq(fault.text, "ERR a  b c [2J  d\xc3\xa9");
}

Test(unit_fault, reads_no_further_than_told) {
    fault_t fault;
    cr_assert_eq(fault_from_error(&fault, "BUSYGROUP x", 4), OUTCOME_LATER);
    cr_assert_str_eq(fault.text, "BUSY");
    cr_assert_eq(fault_from_error(&fault, "LOADING", 0), OUTCOME_FAULT);
    cr_assert_str_eq(fault.text, "");
}

Test(unit_fault, long_texts_are_cut) {
    fault_t fault;
    char text[5000];
    memset(text, 'x', sizeof text);
    memcpy(text, "MISCONF ", 8);
    cr_assert_eq(fault_from_error(&fault, text, sizeof text), OUTCOME_LATER);
    cr_assert_eq(strlen(fault.text), sizeof fault.text - 1);
    memset(text, 'Y', sizeof text); /* one endless word */
    cr_assert_eq(fault_from_error(&fault, text, sizeof text), OUTCOME_FAULT);
    cr_assert_eq(strlen(fault.text), sizeof fault.text - 1);
}

Test(unit_fault, set_formats_and_returns) {
    fault_t fault;
    cr_assert_eq(fault_set(&fault, OUTCOME_LOST, "%s:%d\n", "a", 7), OUTCOME_LOST);
    cr_assert_eq(fault.outcome, OUTCOME_LOST);
    cr_assert_str_eq(fault.text, "a:7 ");
}
