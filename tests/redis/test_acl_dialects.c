/* Least privilege of each dialect: what README publishes for it, beside the line for all, is enough for the preflight of the
 * sample in conf/, covers every key that the sample uses, and nothing in it is too much. */
#include "fixture.h"
#include "queue/preflight.h"
#include "tempdir.h"

#include <criterion/criterion.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_WORDS = 160 };
static const char NOBODY_LEADS[] = "nobody leads: ";

typedef struct {
    char *text; /* owned; the words point into it */
    const char *words[MOST_WORDS];
    size_t count;
    size_t own; /* where those of the dialect begin */
} rights_t;

/* The words of a block of "ACL SETUSER sidecar ..." that begins here; what is known is left out. */
static void add_block(rights_t *rights, char *block) {
    char *end = strstr(block, "\n```");
    cr_assert_not_null(end);
    *end = '\0';
    char *rest = strstr(block, "ACL SETUSER sidecar ");
    cr_assert_not_null(rest);
    rest += strlen("ACL SETUSER sidecar ");
    for (char *word = strtok_r(rest, " \n", &rest); word; word = strtok_r(NULL, " \n", &rest)) {
        bool known = *word == '>' || strcmp(word, "reset") == 0 || strcmp(word, "on") == 0;
        for (size_t i = 0; i < rights->count; i++) known |= strcmp(rights->words[i], word) == 0;
        /* Of the queue `email` of README, which is none of the samples'. */
        known |= strncmp(word, "~email", 6) == 0;
        cr_assert_lt(rights->count, MOST_WORDS);
        if (!known) rights->words[rights->count++] = word;
    }
}

/* The first block under the heading, and each whose paragraph names the dialect. */
static rights_t rights_of(const char *dialect) {
    rights_t rights = {.text = temp_read("README.md")};
    char *at = strstr(rights.text, "\n## Least privilege"), *next = at ? strstr(at + 1, "\n## ") : NULL;
    cr_assert(at && next);
    *next = '\0';
    char *name = mem_printf("`%s`", dialect), *paragraph = at;
    for (char *block; (block = strstr(paragraph, "\n```\n"));) {
        char *after = strstr(block + 5, "\n```") + 4;
        char *named = strstr(paragraph, name);
        bool first = rights.count == 0;
        if (first || (named && named < block)) add_block(&rights, block + 5);
        if (first) rights.own = rights.count;
        paragraph = after;
    }
    free(name);
    return rights;
}

static void set_user(redis_t *r, const rights_t *rights, const char *without) {
    const char *argv[MOST_WORDS + 8] = {"ACL", "SETUSER", "sidecar", "reset", "on", ">secret"};
    int argc = 6;
    for (size_t i = 0; i < rights->count; i++)
        if (rights->words[i] != without) argv[argc++] = rights->words[i];
    redisReply *reply = redisCommandArgv(r, argc, argv, NULL);
    cr_assert(reply && reply->type == REDIS_REPLY_STATUS, "%s", reply ? reply->str : r->errstr);
    freeReplyObject(reply);
}

static void note(void *self, finding_t finding, const char *queue, const char *text) {
    (void)queue;
    if (finding != FINDING_FACT) buffer_printf(self, "%s%s\n", finding == FINDING_FAULT ? NOBODY_LEADS : "", text);
}

/* What preflight says under the present rights; owned. */
static char *look(fixture_t *f) {
    buffer_t said = {0};
    conn_close(f->conn);
    outcome_t outcome = conn_open(f->conn, &f->fault);
    if (outcome == OUTCOME_OK) outcome = preflight(f->conn, f->keys, note, &said, &f->fault);
    if (outcome != OUTCOME_OK) buffer_str(&said, f->fault.text);
    return said.data ? said.data : mem_str("");
}

/* The queue of the sample, on the server of the test. */
static fixture_t setup(const char *dialect) {
    char *path = mem_printf("conf/%s.cfg", dialect), *sample = temp_read(path), *queues = strstr(sample, "\nqueues = (");
    cr_assert_not_null(queues, "%s", path);
    char *config = mem_printf("group = \"app\";%s", queues);
    fixture_t f = fixture_start(
        &(fixture_options_t){.config = config, .redis = "username = \"sidecar\"; password = \"secret\";", .closed = true});
    free(config);
    free(sample);
    free(path);
    return f;
}

static void expect_keys_covered(const fixture_t *f, const rights_t *rights) {
    used_keys_t keys = config_queue_keys(&f->config->queues[0]);
    for (size_t i = 0; i < keys.count; i++) {
        bool covered = false;
        for (size_t w = 0; w < rights->count; w++)
            covered |= *rights->words[w] == '~' && fnmatch(rights->words[w] + 1, keys.items[i].name, 0) == 0;
        cr_expect(covered, "README's rights for dialect %s do not reach %s", config_dialect_word(f->config->queues[0].dialect),
                  keys.items[i].name);
    }
    config_queue_keys_free(&keys);
}

/* What no preflight can miss: Bull's scripts do without it, or with less; no private list need be there to be looked at; and it
 * does not know yet whether a registry is a set. */
static bool spare(const char *word) {
    static const char *const words[] = {"+pubsub|numpat", "+sort", "&bull:video:*", "~queue-*", "+sscan"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(word, words[i]) == 0) return true;
    return false;
}

static void expect_rights(dialect_t dialect) {
    const char *word = config_dialect_word(dialect);
    rights_t rights = rights_of(word);
    fixture_t f = setup(word);
    cr_assert_gt(rights.count, rights.own, "README publishes no rights for dialect %s", word);
    expect_keys_covered(&f, &rights);
    set_user(f.r, &rights, NULL);
    char *said = look(&f);
    cr_assert_str_empty(said, "%s: %s", word, said);
    free(said);
    for (size_t i = rights.own; i < rights.count; i++) {
        if (spare(rights.words[i])) continue;
        set_user(f.r, &rights, rights.words[i]);
        said = look(&f);
        cr_expect_str_not_empty(said, "%s: preflight does not miss %s", word, rights.words[i]);
        cr_expect_null(strstr(said, NOBODY_LEADS), "%s without %s keeps queues of other dialects waiting: %s", word,
                       rights.words[i], said);
        free(said);
    }
    free(rights.text);
    fixture_stop(&f);
}

Test(redis_acl_dialects, kmqueue) { expect_rights(DIALECT_KMQUEUE); }
Test(redis_acl_dialects, delayed_queue) { expect_rights(DIALECT_DELAYED_QUEUE); }
Test(redis_acl_dialects, bull) { expect_rights(DIALECT_BULL); }
Test(redis_acl_dialects, private_queues) { expect_rights(DIALECT_PRIVATE_QUEUES); }
