/* The outcome of each error reply of Redis, and its text. */
#include "redis/error.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static outcome_t classify(const char *text) {
    redis_error_t error = {0};
    outcome_t outcome = redis_error_from_reply(&error, text, strlen(text));
    cr_assert_eq(outcome, error.outcome);
    return outcome;
}

#define CALLED    "ERR Error running script (call to f_2481d72fc74409a2cb3e6826ec60345f9c0242a4): @user_script:31: "
#define IN_SCRIPT CALLED "@user_script: 31: "

Test(unit_error, each_code_has_its_outcome) {
    static const struct {
        const char *text;
        outcome_t outcome;
    } rows[] = {
        {"LOADING Redis is loading the dataset in memory", OUTCOME_RETRY},
        {"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", OUTCOME_RETRY},
        {"BUSY Redis is busy running a script.", OUTCOME_RETRY},
        {"READONLY You can't write against a read only replica.", OUTCOME_RETRY},
        {"CLUSTERDOWN Hash slot not served", OUTCOME_RETRY},
        {"TRYAGAIN Multiple keys request during rehashing of slot", OUTCOME_RETRY},
        {"MISCONF Errors writing to the AOF file", OUTCOME_RETRY},
        {"NOREPLICAS Not enough good replicas to write.", OUTCOME_RETRY},
        {"OOM command not allowed when used memory > 'maxmemory'.", OUTCOME_RETRY},
        {"NOSCRIPT No matching script. Please use EVAL.", OUTCOME_RETRY},
        {"LOADING", OUTCOME_RETRY},
        {"NOPERM this user has no permissions to run the 'lpush' command", OUTCOME_REFUSED},
        {"WRONGTYPE Operation against a key holding the wrong kind of value", OUTCOME_REFUSED},
        {"CROSSSLOT Keys in request don't hash to the same slot", OUTCOME_REFUSED},
        {"NOAUTH Authentication required.", OUTCOME_REFUSED},
        {"WRONGPASS invalid username-password pair or user is disabled.", OUTCOME_REFUSED},
        {"MOVED 3999 127.0.0.1:6381", OUTCOME_REFUSED},
        {"ERR unknown command 'EVALSHA'", OUTCOME_REFUSED},
        {"ERR The server says LOADING", OUTCOME_REFUSED},
        {"LOADINGS are no word of Redis", OUTCOME_REFUSED},
        {"LOAD", OUTCOME_REFUSED},
        {"BUSYGROUP Consumer Group name already exists", OUTCOME_REFUSED},
        {"BUSYKEY Target key name already exists.", OUTCOME_REFUSED},
        {"loading in small letters", OUTCOME_REFUSED},
        {" LOADING after a blank", OUTCOME_REFUSED},
        {"", OUTCOME_REFUSED},
        /* Redis 6.2 puts places in the script before the error. */
        {IN_SCRIPT "-READONLY You can't write against a read only replica.", OUTCOME_RETRY},
        {IN_SCRIPT "-OOM command not allowed when used memory > 'maxmemory'.", OUTCOME_RETRY},
        {"@user_script: 31: -NOREPLICAS Not enough good replicas to write.", OUTCOME_RETRY},
        {CALLED "WRONGTYPE Operation against a key holding the wrong kind of value", OUTCOME_REFUSED},
        {IN_SCRIPT "The user executing the script can't run this command or subcommand", OUTCOME_REFUSED},
        {IN_SCRIPT, OUTCOME_REFUSED},
        {CALLED "-", OUTCOME_REFUSED},
        {"ERR Error running script (call to f_1): OOM", OUTCOME_REFUSED},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        cr_assert_eq(classify(rows[i].text), rows[i].outcome, "%s", rows[i].text);
}

Test(unit_error, the_text_is_one_clean_line) {
    redis_error_t error;
    static const char text[] = "ERR a\r\nb\tc\x1b[2J\x7f d\xc3\xa9";
    redis_error_from_reply(&error, text, sizeof text - 1);
    cr_assert_str_eq(error.text, "ERR a  b c [2J  d\xc3\xa9");
}

Test(unit_error, the_text_begins_with_the_code) {
    redis_error_t error;
    static const char text[] = IN_SCRIPT "-READONLY You can't write", other[] = CALLED "WRONGTYPE Operation";
    redis_error_from_reply(&error, text, sizeof text - 1);
    cr_assert_str_eq(error.text, "READONLY You can't write");
    redis_error_from_reply(&error, other, sizeof other - 1);
    cr_assert_str_eq(error.text, "WRONGTYPE Operation");
    redis_error_from_reply(&error, other, sizeof CALLED - 3); /* cut within the line number */
    cr_assert_str_eq(error.text, "");
}

Test(unit_error, reads_no_further_than_the_length) {
    redis_error_t error;
    cr_assert_eq(redis_error_from_reply(&error, "BUSYGROUP x", 4), OUTCOME_RETRY);
    cr_assert_str_eq(error.text, "BUSY");
    cr_assert_eq(redis_error_from_reply(&error, "LOADING", 0), OUTCOME_REFUSED);
    cr_assert_str_eq(error.text, "");
}

Test(unit_error, long_texts_are_cut) {
    redis_error_t error;
    char text[5000];
    memset(text, 'x', sizeof text);
    memcpy(text, "MISCONF ", 8);
    cr_assert_eq(redis_error_from_reply(&error, text, sizeof text), OUTCOME_RETRY);
    cr_assert_eq(strlen(error.text), sizeof error.text - 1);
    memset(text, 'Y', sizeof text); /* one endless word */
    cr_assert_eq(redis_error_from_reply(&error, text, sizeof text), OUTCOME_REFUSED);
    cr_assert_eq(strlen(error.text), sizeof error.text - 1);
}

Test(unit_error, set_formats_and_returns) {
    redis_error_t error;
    cr_assert_eq(redis_error_set(&error, OUTCOME_DISCONNECTED, "%s:%d\n", "a", 7), OUTCOME_DISCONNECTED);
    cr_assert_eq(error.outcome, OUTCOME_DISCONNECTED);
    cr_assert_str_eq(error.text, "a:7 ");
}

Test(unit_error, address_is_left_out_if_the_line_has_it) {
    static const char *const rows[][2] = {
        {"10.0.0.5:6379: no reply in time", "no reply in time"},
        {"cannot connect to 10.0.0.5:6379: Connection refused", "cannot connect: Connection refused"},
        {"cannot connect to 10.0.0.5:6379 by TLS: no name", "cannot connect by TLS: no name"},
        {"NOAUTH Authentication required.", "NOAUTH Authentication required."},
        {"MOVED 7 10.0.0.5:6379", "MOVED 7 10.0.0.5:6379"},
        {"10.0.0.5:63790: no reply in time", "10.0.0.5:63790: no reply in time"},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *text = redis_error_without(rows[i][0], "10.0.0.5:6379");
        cr_expect_str_eq(text, rows[i][1]);
        free(text);
    }
    char *text = redis_error_without(rows[0][0], "");
    cr_expect_str_eq(text, rows[0][0]);
    free(text);
}

Test(unit_error, a_slot_is_the_reason_with_or_without_a_key_before_it) {
    cr_expect(redis_reason_is_slot(SLOT_IS_MOVING "ASK 7 10.0.0.5:6379"));
    cr_expect(redis_reason_is_slot("sidecar:{q}:sentinel: " SLOT_HAS_MOVED "MOVED 7 10.0.0.5:6379"));
    cr_expect_not(redis_reason_is_slot("sidecar:{q}:sentinel: NOPERM"));
}
