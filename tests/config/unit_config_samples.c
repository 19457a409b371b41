/* The samples of conf/, one for each dialect: each names every key that its dialect knows, and shows the defaults. Tests run in
 * the root of the repository. */

#include "config/dialect.h"
#include "config_case.h"
#include "suite.h"
#include "tempdir.h"

SUITE(unit_config_samples, config_case_begin(), config_case_end());

/* The settings of each sample that are no defaults. */
static const struct {
    const char *file, *group, *queue;
    const char *dialect;
    bool complete; /* names every key of its dialect */
} SAMPLES[] = {
    {"conf/kmqueue.cfg", "mail-app",
     "name = \"mail\"; dialect = \"kmqueue\"; queues = [\"worker1_queue\", \"worker2_queue:safe\"];", "kmqueue", true},
    {"conf/delayed_queue.cfg", "payments-app",
     "name = \"events\"; dialect = \"delayed_queue\"; types = [\"com.example.PaymentCheck\", \"com.example.Letters$Welcome\"];",
     "delayed_queue", true},
    {"conf/bull.cfg", "video-app", "name = \"video\"; dialect = \"bull\";", "bull", true},
    {"conf/bullmq.cfg", "video-app", "name = \"video\"; dialect = \"bullmq\";", "bullmq", true},
    {"conf/private_queues.cfg", "fights-app",
     "name = \"fights\"; dialect = \"private_queues\"; main = \"fight-requests\"; private = \"queue-*\"; dedup = "
     "\"fights-done\"; "
     "dlq = \"fights-dlq\"; id_path = \"/id\";",
     "private_queues", true},
    {"conf/stream.cfg", "mail-app",
     "name = \"mail\"; dialect = \"stream\"; group = \"workers\"; dlq = \"mail:dead\"; protected_timeout = \"5m\"; id_path = "
     "\"/id\";",
     "stream", true},
    {"conf/sidekiq.cfg", "shop-app",
     "name = \"sidekiq\"; dialect = \"sidekiq\"; queues = [\"default\", \"mailers\"]; }, { name = \"sidekiq-retry\"; dialect = "
     "\"sidekiq\"; queues = [\"default\", \"mailers\"]; set = \"retry\"; roles = [\"dispatcher\"];",
     "sidekiq", true},
    {"conf/delay-queue.cfg", "delay-app",
     "name = \"delay-queue\"; delayed = \"delay-queue\"; ready = \"delay-queue:ready\"; score_unit = \"s\"; roles = "
     "[\"dispatcher\"];",
     "list", false},
    {"conf/watch.cfg", "mail-app", "name = \"mail\"; watch = \"mail:dead\"; backup = \"\"; roles = [\"monitor\"];", "list",
     false},
};

/* The values of a config, without the comments that name the origin of each value. Kept. */
static char *values(const config_t *config) {
    scoped(buffer_free) buffer_t dump = {0};
    buffer_t out = {0};
    config_dump(config, &dump);
    for (char *line = strtok(dump.data, "\n"); line; line = strtok(NULL, "\n")) {
        char *comment = strstr(line, " # ");
        if (comment) *comment = '\0';
        size_t len = strlen(line);
        while (len && line[len - 1] == ' ') len--;
        if (*line != '#') buffer_printf(&out, "%.*s\n", (int)len, line);
    }
    return kept(out.data);
}

static config_t *load_sample(const char *file) {
    scoped(buffer_free) buffer_t messages = {0};
    config_t *config = config_case_read(file, &messages);
    cr_assert_not_null(config, "%s", buffer_text(&messages));
    cr_expect_str_eq(buffer_text(&messages), "");
    return config;
}

Test(unit_config_samples, show_the_defaults_of_their_dialects) {
    for (size_t i = 0; i < sizeof SAMPLES / sizeof *SAMPLES; i++) {
        char *text = kept_printf("group = \"%s\"; queues = ( { %s } );", SAMPLES[i].group, SAMPLES[i].queue);
        scoped(config_drop) config_t *sample = load_sample(SAMPLES[i].file), *plain = config_case_good(text, NULL);
        char *left = values(sample), *right = values(plain);
        cr_expect_str_eq(config_dialect_word(sample->queues[0].dialect), SAMPLES[i].dialect, "%s", SAMPLES[i].file);
        cr_expect_str_eq(left, right, "%s:\n%s\n%s", SAMPLES[i].file, left, right);
    }
}

/* Whether the sample has `key =` or `key    =` at the begin of a line or of a comment. */
static bool teaches(const char *sample, const char *key) {
    for (const char *line = sample; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        const char *at = line + strspn(line, " #");
        size_t len = strlen(key);
        if (strncmp(at, key, len) == 0 && at[len + strspn(at + len, " ")] == '=') return true;
    }
    return false;
}

Test(unit_config_samples, teach_every_key_of_their_dialects) {
    for (size_t i = 0; i < sizeof SAMPLES / sizeof *SAMPLES; i++) {
        char *sample = temp_read(SAMPLES[i].file);
        scoped(config_drop) config_t *config = load_sample(SAMPLES[i].file);
        const config_dialect_t *dialect = config->queues[0].dialect;
        const config_key_t *key;
        for (size_t row = 0; SAMPLES[i].complete && (key = config_queue_key(dialect, row)) != NULL; row++) {
            if (!config_key_in_queue(key) || !config_key_of_dialect(key, dialect)) continue;
            cr_expect(teaches(sample, key->name), "%s does not name %s", SAMPLES[i].file, key->name);
        }
    }
}

/* Takes the # off every line that sets a key: what somebody gets who wants all of it. Kept. */
static char *with_comments_set(const char *sample) {
    buffer_t out = {0};
    for (const char *line = sample; *line;) {
        size_t len = strcspn(line, "\n") + (line[strcspn(line, "\n")] == '\n'), indent = strspn(line, " ");
        const char *key = line + indent + 2;
        size_t name = strspn(key, "abcdefghijklmnopqrstuvwxyz_");
        bool setting = line[indent] == '#' && name && strncmp(key + name + strspn(key + name, " "), "= ", 2) == 0;
        if (setting)
            buffer_printf(&out, "%.*s\n", (int)strcspn(key, "\n"), key);
        else
            buffer_add(&out, line, len);
        line += len;
    }
    return kept(out.data);
}

Test(unit_config_samples, of_modes_are_right_with_all_their_comments) {
    static const struct {
        const char *file;
        bool tls;
        redis_mode_t mode;
        const char *keys[6];
    } rows[] = {
        {"conf/tls.cfg",
         true,
         REDIS_MODE_AUTO,
         {"tls_ca_file", "tls_cert_file", "tls_key_file", "tls_server_name", "password_file", NULL}},
        {"conf/sentinel.cfg",
         false,
         REDIS_MODE_SENTINEL,
         {"sentinel_username", "sentinel_password_file", "sentinel_tls", "addresses", "master", NULL}},
        {"conf/sentinel.cfg",
         false,
         REDIS_MODE_SENTINEL,
         {"sentinel_username", "sentinel_password_file", "sentinel_tls", "addresses", "tls_ca_file", NULL}},
        {"conf/cluster.cfg",
         false,
         REDIS_MODE_CLUSTER,
         {"nodes", "addresses", "tls_ca_file", "tls_server_name", "username", NULL}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        scoped(config_drop) config_t *config = load_sample(rows[i].file);
        cr_expect_eq(config->redis.tls, rows[i].tls, "%s", rows[i].file);
        cr_expect_eq(config_redis_mode(&config->redis), rows[i].mode, "%s", rows[i].file);
        config_free(config);
        char *sample = temp_read(rows[i].file), *whole = with_comments_set(sample);
        for (const char *const *key = rows[i].keys; *key; key++) cr_expect(teaches(sample, *key), "%s: %s", rows[i].file, *key);
        config = config_case_good(whole, NULL);
        cr_expect(config->redis.tls && *config->redis.tls_ca_file && *config->redis.password_file, "%s", rows[i].file);
    }
}
