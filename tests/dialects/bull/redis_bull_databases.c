/* Redis sends a message to the subscribers in every database, and names none in it. */
#include "bull_reader.h"

static setup_t setup;
SUITE(redis_bull_databases, setup = setup_start(), setup_stop(&setup));

static void run_in_database(const char *number, const char *command) {
    redis_ok(setup.f.r, "SELECT %s", number);
    redis_ok(setup.f.r, command);
    redis_ok(setup.f.r, "SELECT 0");
}

static const char UNRECORDED[] = "failures of jobs that Bull removes at once are not recorded";

/* A channel reaches every database, and a message names none: it may be about a job of the other queue. */
Test(redis_bull_databases, a_message_of_another_database_is_no_failure) {
    read_failures(&setup);
    run_in_database("1", "INCR other:video:id"); /* another queue */
    receive_message(&setup, "6", "boom");
    read_failures(&setup);
    run_in_database("1", "INCR " BULL "id");
    for (int i = 0; i < 3; i++) receive_message(&setup, "7", "boom");
    read_failures(&setup);
    expect_jobs(&setup, "6");
    cr_expect_eq(fixture_log_count(UNRECORDED), 1, "%s", fixture_log());
    cr_expect_eq(fixture_log_count("database 1 holds a Bull queue of this name"), 1);
    fail(&setup, "8", -3600000); /* a key of this database proves the failure */
    receive_message(&setup, "8", "boom");
    read_failures(&setup);
    run_in_database("1", "FLUSHDB"); /* messages of the old queue may be under way */
    forget_state(&setup);
    receive_message(&setup, "9", "boom");
    read_failures(&setup);
    expect_jobs(&setup, "6 8");
    fixture_step_boottime(3600001);
    receive_message(&setup, "10", "boom");
    read_failures(&setup);
    expect_jobs(&setup, "6 8 10");
    cr_expect_eq(fixture_log_count("Bull removes at once are recorded again"), 1);
}

Test(redis_bull_databases, a_queue_of_another_database_is_seen_before_its_first_message) {
    run_in_database("1", "INCR " BULL "id");
    read_failures(&setup);
    run_in_database("1", "FLUSHDB");
    receive_message(&setup, "7", "boom");
    read_failures(&setup);
    expect_jobs(&setup, "");
}

/* Without the right to look nothing proves that a message is of this database. */
Test(redis_bull_databases, a_refused_look_at_other_databases_stops_nothing) {
    redis_ok(setup.f.r, "ACL SETUSER default -select");
    read_failures(&setup);
    receive_message(&setup, "6", "boom"); /* no other database has keys */
    read_failures(&setup);
    redis_ok(setup.f.r, "ACL SETUSER default -info");
    receive_message(&setup, "7", "boom");
    fail(&setup, "8", 0);
    read_failures(&setup);
    expect_jobs(&setup, "6 8");
    cr_expect_eq(fixture_log_count(UNRECORDED), 1, "%s", fixture_log());
    redis_ok(setup.f.r, "ACL SETUSER default +select +info"); /* no other database had the queue */
    forget_state(&setup);
    read_failures(&setup);
    receive_message(&setup, "9", "boom");
    read_failures(&setup);
    expect_jobs(&setup, "6 8 9");
}

/* A look ends after 64 databases, and the next one may hold the queue. */
Test(redis_bull_databases, a_server_of_very_many_databases_proves_nothing) {
    static const char *const args[] = {"--databases", "80", NULL};
    setup_stop(&setup);
    setup = setup_start_on(&(fixture_options_t){.args = args}, "");
    redis_ok(setup.f.r, "EVAL %s 1 key", "for i = 1, 64 do redis.call('SELECT', i) redis.call('SET', KEYS[1], '') end");
    read_failures(&setup);
    receive_message(&setup, "7", "boom");
    read_failures(&setup);
    expect_jobs(&setup, "7");
    run_in_database("70", "SET key value");
    receive_message(&setup, "8", "boom");
    read_failures(&setup);
    expect_jobs(&setup, "7");
    cr_expect_eq(fixture_log_count(UNRECORDED), 1, "%s", fixture_log());
}
