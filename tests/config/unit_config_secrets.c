/* Every way to write a secret wrongly: no message and no dump repeats it. */

#include "config_case.h"
#include "suite.h"

SUITE(unit_config_secrets, config_case_begin(), config_case_end());

#define Q            "queues = ( { name = \"q\"; } );\n"
#define REDIS(lines) "redis = {\n" lines "\n};\n" Q
#define LOGIN        "://me:s3cret@cache:6379/0"

// Loads the config and checks the messages and the dump for the secret, also in part.
static void expect_hidden(const char *text) {
    scoped(buffer_free) buffer_t shown = {0};
    scoped(config_drop) config_t *config = config_case_load(text, &shown);
    cr_expect(config || shown.len, "refused without a message: %s", text);
    if (config) config_dump(config, &shown);
    cr_expect_null(strstr(buffer_text(&shown), "s3c"), "%s\nshows\n%s", text, buffer_text(&shown));
    cr_expect_null(strstr(buffer_text(&shown), "cret\""), "%s\nshows\n%s", text, buffer_text(&shown));
    config_free(config);
    config = config_load_refused(config_case_path, dialect_settings);
    cr_expect_null(strstr(config->redis.host, "s3cret"), "%s", text);
    cr_expect_null(strstr(config->redis.socket, "s3cret"), "%s", text);
}

static void expect_all_hidden(const char *const *texts, size_t count) {
    for (size_t i = 0; i < count; i++) expect_hidden(texts[i]);
}

Test(unit_config_secrets, a_syntax_error_does_not_repeat_the_value) {
    static const char *const texts[] = {
        REDIS("password = s3cret;"),
        REDIS("password = s3cret"),
        REDIS("password: s3cret;"),
        REDIS("password =\n s3cret;"),
        REDIS("password = s3cret word;"),
        REDIS("password = word s3cret;"),
        REDIS("password = s3c=ret;"),
        REDIS("password = s3cret\";"),
        REDIS("password = \"s3cret;"),
        REDIS("password = \"s3cret;\n username = \"me\";"),
        REDIS("password = \"a\"s3cret\"b\";"),
        REDIS("password = \"a\" s3cret;"),
        REDIS("password = \"a\" s3cret = b;"),
        REDIS("password = 's3cret';"),
        REDIS("password = `s3cret`;"),
        REDIS("password = \xe2\x80\x9cs3cret\xe2\x80\x9d;"),
        REDIS("password = $s3cret;"),
        REDIS("password = !s3cret;"),
        REDIS("password = 1s3cret;"),
        REDIS("password = 0xs3cret;"),
        REDIS("password = -s3cret;"),
        REDIS("password s3cret;"),
        REDIS("password \"s3cret\";"),
        REDIS("password = = s3cret;"),
        REDIS("password = (s3cret);"),
        REDIS("password = { s3cret };"),
        REDIS("password = \"a\", s3cret;"),
        REDIS("passwort = s3cret;"),
        REDIS("password_file = s3cret;"),
        REDIS("url = redis" LOGIN ";"),
        REDIS("url = s3cret;"),
        REDIS("username = me:s3cret;"),
        REDIS("password = \"a\"; password = \"s3cret\";"),
        "redis.password = s3cret;\n" Q,
        "password = s3cret;\n" Q,
    };
    expect_all_hidden(texts, sizeof texts / sizeof *texts);
}

Test(unit_config_secrets, a_wrong_value_is_not_repeated) {
    static const char *const texts[] = {
        REDIS("password = [\"s3cret\"];"),
        REDIS("password = (\"s3cret\");"),
        REDIS("password = { s3cret = 1; };"),
        REDIS("password = \"s3cret\";"),
        REDIS("password = \"s3cret\\x01\";"),
        REDIS("passwort = \"s3cret\";"),
        REDIS("url = [\"redis" LOGIN "\"];"),
        REDIS("url = \"http" LOGIN "\";"),
        REDIS("url = \"me:s3cret@cache\";"),
        REDIS("url = \"redis://me:s3c/ret@cache:6379/0\";"),
        REDIS("url = \"redis://me:12/s3cret@cache:6379/0\";"),
        REDIS("url = \"redis://me:s3c?ret@cache\";"),
        REDIS("url = \"redis://me:s3c#ret@cache\";"),
        REDIS("url = \"redis://me:s3cret%zz@cache\";"),
        REDIS("url = \"redis://cache:s3cret\";"),
        REDIS("url = \"redis://s3cret@cache\";"),
        REDIS("host = \"redis" LOGIN "\";"),
        REDIS("host = [\"redis" LOGIN "\"];"),
        REDIS("host = \"me:s3cret@cache\";"),
        REDIS("host = \":s3cret@cache\";"),
        REDIS("socket = \"redis" LOGIN "\";"),
        REDIS("socket = \"me:s3cret@cache\";"),
        REDIS("username = \"redis" LOGIN "\";"),
        REDIS("username = \"me:s3cret@cache\";"),
        REDIS("port = \"redis" LOGIN "\";"),
        REDIS("port = \"6379@s3cret\";"),
        REDIS("db = \"redis" LOGIN "\";"),
        REDIS("timeout = \"redis" LOGIN "\";"),
        REDIS("password_file = \"s3cret\";"),
        REDIS("sentinel_password = [\"s3cret\"];"),
        REDIS("sentinel_password = \"s3cret\";"),
        REDIS("sentinel_password_file = \"s3cret\";"),
        REDIS("sentinel_username = \"me:s3cret@cache\";"),
        REDIS("sentinel_username = \"redis" LOGIN "\";"),
        REDIS("tls_key_file = \"s3cret\"; tls_cert_file = \"/c\"; tls = true;"),
        REDIS("tls_server_name = \"redis" LOGIN "\";"),
        REDIS("nodes = [\"redis" LOGIN "\"];"),
        REDIS("nodes = [\"me:s3cret@cache:1\"];"),
        REDIS("nodes = \"redis" LOGIN "\";"),
        REDIS("sentinels = [\"redis" LOGIN "\"]; master = \"m\";"),
        REDIS("addresses = [\"a:1=redis" LOGIN "\"];"),
        REDIS("password_file = \"redis" LOGIN "\";"),
        "redis = \"redis" LOGIN "\";\n" Q,
        "url = \"redis" LOGIN "\";\n" Q,
        "password = \"s3cret\";\n" Q,
        "queues = ( \"redis" LOGIN "\" );\n",
        "queues = \"redis" LOGIN "\";\n",
        "queues = ( { name = \"q\"; password = \"s3cret\"; } );\n",
        "defaults = { roles = [\"redis" LOGIN "\"]; };\n" Q,
        "http = { token_file = \"s3cret\"; };\n" Q,
    };
    expect_all_hidden(texts, sizeof texts / sizeof *texts);
}

Test(unit_config_secrets, a_variable_of_the_environment_is_not_repeated) {
    static const char *const names[] = {"REDIS",
                                        "REDIS_URL",
                                        "REDIS_HOST",
                                        "REDIS_PORT",
                                        "REDIS_SOCKET",
                                        "REDIS_DB",
                                        "REDIS_USERNAME",
                                        "REDIS_TIMEOUT",
                                        "REDIS_PASSWORD_FILE",
                                        "REDIS_PASSWORT",
                                        "REDIS_NODES",
                                        "REDIS_SENTINELS",
                                        "REDIS_ADDRESSES",
                                        "REDIS_SENTINEL_USERNAME",
                                        "REDIS_SENTINEL_PASSWORD",
                                        "REDIS_SENTINEL_PASSWORD_FILE",
                                        "REDIS_TLS",
                                        "REDIS_TLS_KEY_FILE",
                                        "REDIS_TLS_SERVER_NAME",
                                        "REDIS_MODE"};
    static const char *const values[] = {"redis" LOGIN, "rediss" LOGIN, "http" LOGIN, "me:s3cret@cache",
                                         "redis://me:s3c/ret@cache:6379/0"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
            char *variable = kept_printf("QUEUE_SIDECAR_%s", names[i]);
            setenv(variable, values[k], 1);
            expect_hidden(Q);
            unsetenv(variable);
        }
    }
}

Test(unit_config_secrets, a_url_outside_of_redis_url_is_refused_with_the_place_where_it_belongs) {
    static const config_case_row_t rows[] = {
        {"redis = { host = \"redis://cache\"; };\n" Q,
         "F:1: `redis.host` is a text that may hold a password, but must be text of 1 to 255 bytes without control characters, "
         ":// and @, as a URL belongs in redis.url\n"},
        {"redis = { socket = \"unix:///run/redis.sock\"; };\n" Q,
         "F:1: `redis.socket` is a text that may hold a password, but must be text of 0 to 107 bytes without control characters, "
         ":// and @, as a URL belongs in redis.url\n"},
        {"redis = { username = \"redis://cache\"; };\n" Q,
         "F:1: `redis.username` is a text that may hold a password, but must be text of 0 to 512 bytes without control "
         "characters and ://, as a URL belongs in redis.url\n"},
        {"redis = { port = \"me@cache\"; };\n" Q,
         "F:1: `redis.port` is a text that may hold a password, but must be an integer from 1 to 65535\n"},
    };
    config_case_expect_faults(rows, sizeof rows / sizeof *rows);
}

// A name of a user may be an address of mail, and the path of a socket may hold an @: neither is a URL.
Test(unit_config_secrets, an_at_sign_that_begins_no_host_is_taken) {
    scoped(config_drop) config_t *config =
        config_case_good(REDIS("username = \"me@example.com\"; socket = \"/run/redis@1.sock\";"), NULL);
    cr_expect_str_eq(config->redis.username, "me@example.com");
    cr_expect_str_eq(config->redis.socket, "/run/redis@1.sock");
}

Test(unit_config_secrets, a_url_with_a_user_alone_is_warned_about_unless_a_password_is_set) {
    char *warnings;
    config_free(config_case_good("redis = { url = \"redis://s3cret@cache\"; };\n" Q, &warnings));
    cr_expect_str_eq(warnings, "F:1: the URL of Redis has a user and no password: if the user is a password, write :PASSWORD@\n");
    config_free(config_case_good("redis = { url = \"redis://me@cache\"; password_file = \"/p\"; };\n" Q, NULL));
}
