/* The outcome of each error reply of Redis, and its text. */
#include "redis/error.h"
#include "suite.h"

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

Test(unit_error, each_reply_has_its_kind) {
    static const struct {
        const char *text;
        redis_error_kind_t kind;
    } rows[] = {
        {"NOPERM this user has no permissions to run the 'lpush' command", ERROR_NO_RIGHT},
        {"NOPERM The user executing the script can't run this command or subcommand (LPUSH on the key a)", ERROR_NO_RIGHT},
        {"NOAUTH Authentication required.", ERROR_NO_LOGIN},
        {"WRONGPASS invalid username-password pair or user is disabled.", ERROR_WRONG_PASSWORD},
        {"ERR invalid password", ERROR_WRONG_PASSWORD},
        {"ERR AUTH <password> called without any password configured for the default user.", ERROR_NEEDLESS_PASSWORD},
        {"ERR DB index is out of range", ERROR_DATABASE_NUMBER},
        {"ERR unknown command 'EVALSHA', with args beginning with: 'secret'", ERROR_NO_COMMAND},
        {"ERR Unknown subcommand or wrong number of arguments for 'LOAD'", ERROR_NO_COMMAND},
        {"ERR This command is not supported by this service", ERROR_NO_COMMAND},
        {"ERR SELECT is not allowed in cluster mode", ERROR_NO_COMMAND},
        {"ERR This instance has cluster support disabled", ERROR_NO_CLUSTER},
        {"ERR No such master with that name", ERROR_NO_SUCH_PRIMARY},
        {"WRONGTYPE Operation against a key holding the wrong kind of value", ERROR_WRONG_TYPE},
        {IN_SCRIPT "WRONGTYPE Operation against a key holding the wrong kind of value", ERROR_WRONG_TYPE},
        {"CROSSSLOT Keys in request don't hash to the same slot", ERROR_CROSS_SLOT},
        {"OOM command not allowed when used memory > 'maxmemory'.", ERROR_FULL},
        {IN_SCRIPT "-OOM command not allowed when used memory > 'maxmemory'.", ERROR_FULL},
        {"NOSCRIPT No matching script. Please use EVAL.", ERROR_NO_SCRIPT},
        {"READONLY You can't write against a read only replica.", ERROR_OTHER_PRIMARY},
        {"MASTERDOWN Link with MASTER is down", ERROR_OTHER_PRIMARY},
        {"UNBLOCKED force unblock from blocking operation, instance state changed", ERROR_OTHER_PRIMARY},
        {"ERR The client ID you want redirect to does not exist", ERROR_OTHER_PRIMARY},
        {"MOVED 3999 127.0.0.1:6381", ERROR_MOVED},
        {"ASK 3999 127.0.0.1:6381", ERROR_ASK},
        {"TRYAGAIN Multiple keys request during rehashing of slot", ERROR_TRY_AGAIN},
        {"CLUSTERDOWN The cluster is down", ERROR_CLUSTER_DOWN},
        {"CLUSTERDOWN Hash slot not served", ERROR_SLOT_UNSERVED},
        {"LOADING Redis is loading the dataset in memory", ERROR_OTHER},
        {"ERR syntax error", ERROR_OTHER},
        {"OOMPH is no code", ERROR_OTHER},
        {"", ERROR_OTHER},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        redis_error_t error;
        redis_error_from_reply(&error, rows[i].text, strlen(rows[i].text));
        cr_expect_eq(error.kind, rows[i].kind, "%s: %d", rows[i].text, error.kind);
    }
}

Test(unit_error, another_text_is_the_same_error) {
    redis_error_t error;
    redis_error_from_reply(&error, "OOM no memory", 13);
    cr_assert_eq(redis_error_reword(&error, "key k: %s", error.text), OUTCOME_RETRY);
    cr_assert_eq(error.kind, ERROR_FULL);
    cr_assert_str_eq(error.text, "key k: OOM no memory");
}

Test(unit_error, address_is_left_out_if_the_line_has_it) {
    redis_error_t error;
    redis_error_set(&error, OUTCOME_DISCONNECTED, "no reply in time");
    redis_error_add_address(&error, "10.0.0.5:6379");
    cr_assert_str_eq(error.text, "10.0.0.5:6379: no reply in time");
    static const char *const rows[][2] = {
        {"10.0.0.5:6379", "no reply in time"},
        {"10.0.0.5:63790", "10.0.0.5:6379: no reply in time"},
        {"", "10.0.0.5:6379: no reply in time"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *text = redis_error_without(&error, rows[i][0]);
        cr_expect_str_eq(text, rows[i][1]);
        free(text);
    }
    redis_error_from_reply(&error, "MOVED 7 10.0.0.5:6379", 21);
    char *text = redis_error_without(&error, "10.0.0.5:6379");
    cr_expect_str_eq(text, "MOVED 7 10.0.0.5:6379");
    free(text);
}

Test(unit_error, a_slot_that_is_served_soon_shortens_a_pause) {
    static const redis_error_kind_t kinds[] = {ERROR_SLOT_IS_MOVING, ERROR_SLOT_HAS_MOVED, ERROR_SLOT_UNSERVED};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        cr_expect(error_kind_is_slot(kinds[i]));
        cr_expect_eq(error_kind_pause_ms(kinds[i], 5000), 500);
        cr_expect_eq(error_kind_pause_ms(kinds[i], 100), 100);
    }
    cr_expect_not(error_kind_is_slot(ERROR_NO_RIGHT));
    cr_expect_eq(error_kind_pause_ms(ERROR_NO_RIGHT, 5000), 5000);
}
