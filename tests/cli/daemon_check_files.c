/* `check` looks at the files that a config names: who may use them, and the tokens. */
#include "child.h"
#include "cluster.h"
#include "tempdir.h"
#include "text.h"

#include <sys/stat.h>

static cluster_t s;
SUITE(daemon_check_files, s = cluster_begin(NULL), cluster_end(&s));

/* Opens the directories of this run to others, and no others. Returns whether those above are open, too. */
static bool open_run(void) {
    char *above = kept_printf("%s", temp_root());
    const char *run = getenv("QS_TEST_RUN_DIR");
    struct stat status;
    bool all = true, ours = true;
    for (char *slash; *above && stat(above, &status) == 0; *slash = '\0') {
        if (ours) cr_assert_eq(chmod(above, 0711), 0);
        if (!ours) all = all && (status.st_mode & S_IXOTH);
        ours = ours && run && strcmp(above, run) != 0;
        slash = strrchr(above, '/');
    }
    return all;
}

Test(daemon_check_files, check_tells_of_files_that_everybody_can_read_or_write) {
    char *secret = temp_file("secret", "x\n"), *log = temp_path(temp_root(), "others.db");
    char *path = cluster_config_file(&s, (sidecar_t){.redis = kept_printf("password_file = \"%s\";", secret)});
    char *place = kept_printf("QUEUE_SIDECAR_AUDIT_PATH=%s", log);
    const daemon_options_t options = {.env = (const char *const[]){place, NULL}};
    const char *const words[] = {"check", "-c", path, "--redis", NULL};
    temp_write(log, "");
    cr_assert(chmod(secret, 0644) == 0 && chmod(log, 0646) == 0);
    cr_expect(!has(daemon_run_argv(&options, words)->err, "by every user"), "the directory keeps others out");
    bool open = open_run();
    const daemon_output_t *check = daemon_run_argv(&options, words);
    cr_expect_eq(has(check->err, kept_printf("\nnote     redis.password_file %s can be read by every user", secret)), open, "%s",
                 check->err);
    cr_expect_eq(has(check->err, kept_printf("\nwarning  audit.path %s can be written by every user", log)), open, "%s",
                 check->err);
    cr_assert(chmod(secret, 0640) == 0 && chmod(log, 0640) == 0);
    cr_expect(!has(daemon_run_argv(&options, words)->err, "by every user"));
}

Test(daemon_check_files, check_tells_what_is_wrong_with_the_tokens) {
    char *tokens = temp_file("tokens", "# people\nann look,act 0123456789abcdef\nbob look short\nann see 0123456789abcdef\n");
    char *http = kept_printf("token_file = \"%s\"; user_header = \"X-User\";", tokens);
    char *path = cluster_config_file(&s, (sidecar_t){.http = http});
    char *place = kept_printf("QUEUE_SIDECAR_AUDIT_PATH=%s", temp_path(temp_root(), "tokens.db"));
    const daemon_options_t options = {.env = (const char *const[]){place, NULL}};
    const char *const here[] = {"check", "-c", path, "--redis", NULL}, *const anywhere[] = {"check", "-c", path, NULL};
    const daemon_output_t *check = daemon_run_argv(&options, here);
    cr_expect_eq(check->code, 1);
    cr_expect(has(check->err, kept_printf("\nFAULT    http.token_file %s:3: the token must have at least 16 bytes\n", tokens)),
              "%s", check->err);
    cr_expect(has(check->err, kept_printf("\nFAULT    http.token_file %s:4: the rights must be out of look, ", tokens)));
    cr_expect(has(check->err, "\nwarning  http.user_header is believed only with a token that has the right proxy, and "));
    cr_expect(!has(check->err, "nobody can sign in") && !has(check->err, "0123456789abcdef"), "%s", check->err);
    check = daemon_run_argv(&options, anywhere);
    cr_expect(check->code == 0 && has(check->err, "warning  http.token_file ") && !has(check->err, "FAULT"), "%s", check->err);

    temp_write(tokens, "gate look,proxy 0123456789abcdef\n");
    check = daemon_run_argv(&options, here);
    cr_expect(check->code == 0 && !has(check->err, "http."), "%s", check->err);
    temp_write(tokens, "# nobody\n");
    check = daemon_run_argv(&options, here);
    cr_expect(check->code == 1 && has(check->err, "it has no line `NAME RIGHTS TOKEN`; nobody can sign in\n"), "%s", check->err);
    cr_assert_eq(unlink(tokens), 0);
    check = daemon_run_argv(&options, here);
    cr_expect(check->code == 1 && has(check->err, ": No such file or directory; nobody can sign in\n"), "%s", check->err);
    check = daemon_run_argv(&options, anywhere);
    cr_expect(check->code == 0 && !*check->err, "a pipeline has no tokens: %s", check->err);
}
