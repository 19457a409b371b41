/* Least privilege of each dialect. With the rights in docs/acl.md the preflight of the sample in conf/ has no finding; the rights
 * cover every key of the sample; and without any one of them the preflight has a finding. */
#include "fixture.h"
#include "inspect/preflight.h"
#include "rights.h"
#include "tempdir.h"

#include <fnmatch.h>

static const char NOBODY_LEADS[] = "nobody leads: ";

static void note(void *self, preflight_level_t finding, const char *queue, const char *text) {
    (void)queue;
    if (finding != PREFLIGHT_FACT) buffer_printf(self, "%s%s\n", finding == PREFLIGHT_REFUSED ? NOBODY_LEADS : "", text);
}

/* The findings of the preflight with the present rights. Kept. */
static char *findings(fixture_t *f) {
    buffer_t said = {0};
    conn_close(f->conn);
    outcome_t outcome = conn_open(f->conn, &f->error);
    if (outcome == OUTCOME_OK) outcome = preflight(&(preflight_call_t){f->conn, f->keys, note, &said, &f->error});
    if (outcome != OUTCOME_OK) buffer_str(&said, f->error.text);
    return said.data ? said.data : mem_str("");
}

/* Starts a server with the queue of the sample of that name. */
static fixture_t setup(const char *name) {
    char *path = kept_printf("conf/%s.cfg", name), *sample = temp_read(path), *queues = strstr(sample, "\nqueues = (");
    cr_assert_not_null(queues, "%s", path);
    char *config = kept_printf("group = \"app\";%s", queues);
    fixture_t f = fixture_start(&(fixture_options_t){.config = config, .redis = RIGHTS_LOGIN, .closed = true});
    return f;
}

static void expect_keys_covered(const fixture_t *f, const rights_t *rights) {
    scoped(config_redis_keys_free) redis_keys_t keys = config_redis_keys(&f->config->queues[0]);
    for (size_t i = 0; i < keys.count; i++) {
        bool covered = false;
        for (size_t w = 0; w < rights->count; w++)
            covered |= *rights->words[w] == '~' && fnmatch(rights->words[w] + 1, keys.items[i].name, 0) == 0;
        cr_expect(covered, "the rights in docs/acl.md for dialect %s do not reach %s",
                  config_dialect_word(f->config->queues[0].dialect), keys.items[i].name);
    }
}

/* Rights that the preflight does not miss: Bull's scripts work without them, no private list, heartbeat or process may exist, and
 * the preflight does not know whether a registry is a set. */
static bool preflight_ignores(const char *word) {
    static const char *const words[] = {"+pubsub|numpat", "+sort",  "&bull:video:*", "~queue-*",
                                        "~*:*:*",         "+sscan", "~*_alive",      "~fights:*_alive"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(word, words[i]) == 0) return true;
    return false;
}

static void expect_rights(const char *word) {
    scoped(rights_free) rights_t rights = rights_read(word);
    scoped(fixture_stop) fixture_t f = setup(word);
    rights_leave_out(&rights, "~email"); /* no sample has a queue `email` */
    expect_keys_covered(&f, &rights);
    rights_grant(f.r, &rights, NULL);
    char *said = kept(findings(&f));
    cr_assert_str_empty(said, "%s: %s", word, said);
    for (size_t i = rights.own; i < rights.count; i++) {
        if (preflight_ignores(rights.words[i])) continue;
        rights_grant(f.r, &rights, rights.words[i]);
        said = kept(findings(&f));
        cr_expect_str_not_empty(said, "%s: preflight does not miss %s", word, rights.words[i]);
        cr_expect_null(strstr(said, NOBODY_LEADS), "dialect %s without %s: the preflight also stops queues of other dialects: %s",
                       word, rights.words[i], said);
    }
}

Test(redis_acl_dialects, kmqueue) { expect_rights("kmqueue"); }
Test(redis_acl_dialects, delayed_queue) { expect_rights("delayed_queue"); }
Test(redis_acl_dialects, bull) { expect_rights("bull"); }
Test(redis_acl_dialects, list_with_a_watched_list) { expect_rights("watch"); }
Test(redis_acl_dialects, bullmq) { expect_rights("bullmq"); }
Test(redis_acl_dialects, sidekiq) { expect_rights("sidekiq"); }
Test(redis_acl_dialects, private_queues) { expect_rights("private_queues"); }
