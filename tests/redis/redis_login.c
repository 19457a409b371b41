/* Logins that the server or the password file refuses. */
#include "fixture.h"
#include "tempdir.h"

/* A token of a cloud that lists many groups has some thousand bytes. */
Test(redis_login, a_long_token_is_sent_whole_or_refused) {
    enum { LONG = 16000, TOO_LONG = 17000 };
    char *token = kept(mem_alloc(TOO_LONG + 1)), *path = temp_path(temp_root(), "token"),
         *redis = kept_printf("password_file = \"%s\";", path);
    scoped(fixture_stop) fixture_t f = fixture_start(&(fixture_options_t){.redis = redis, .closed = true});
    memset(token, 't', LONG);
    temp_write(path, token);
    redis_ok(f.r, "CONFIG SET requirepass %s", token);
    cr_assert_eq(conn_open(f.conn, &f.error), OUTCOME_OK, "%s", f.error.text);
    conn_close(f.conn);
    memset(token, 't', TOO_LONG);
    temp_write(path, token);
    cr_assert_eq(conn_open(f.conn, &f.error), OUTCOME_REFUSED);
    cr_assert(strstr(f.error.text, path) && strstr(f.error.text, "is larger than 16 KiB"), "%s", f.error.text);
}

Test(redis_login, a_refused_login_names_the_key_to_change) {
    static const struct {
        const char *redis, *requirepass, *says;
    } rows[] = {
        {"", "x", "; set redis.password_file"},
        {"password = \"wrong\";", "x", "; see redis.username and redis.password_file"},
        {"password = \"needless\";", "", "; remove redis.password or redis.password_file"},
        {"db = 999;", "", "; see redis.db"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        scoped(fixture_stop) fixture_t f = fixture_start(&(fixture_options_t){.redis = rows[i].redis, .closed = true});
        redis_ok(f.r, "CONFIG SET requirepass %s", rows[i].requirepass);
        cr_expect_eq(conn_open(f.conn, &f.error), OUTCOME_REFUSED, "%zu", i);
        const char *at = strstr(f.error.text, rows[i].says);
        cr_expect(at && strcmp(at, rows[i].says) == 0, "%zu: %s", i, f.error.text);
    }
}

/* Redis shows the arguments of a command that it does not know. */
Test(redis_login, an_unknown_auth_logs_no_password) {
    scoped(fixture_stop) fixture_t f = fixture_start(&(fixture_options_t){
        .redis = "password = \"s3cret\";", .closed = true, .args = (const char *const[]){"--rename-command", "AUTH", "", NULL}});
    cr_expect_eq(conn_open(f.conn, &f.error), OUTCOME_REFUSED);
    cr_expect_not_null(strstr(f.error.text, "unknown command"), "%s", f.error.text);
    cr_expect_null(strstr(f.error.text, "s3cret"), "%s", f.error.text);
}
