#include "rights.h"

#include "suite.h"
#include "tempdir.h"

static const char COMMAND[] = "ACL SETUSER sidecar ";

/* Adds the words of the block that begins here, without known words and without the user's state and password. */
static void add_block(rights_t *rights, char *block) {
    char *end = strstr(block, "\n```"), *rest = strstr(block, COMMAND);
    cr_assert(end && rest && rest < end, "docs/acl.md has a block without %s", COMMAND);
    *end = '\0';
    rest += strlen(COMMAND);
    for (char *word = strtok_r(rest, " \n", &rest); word; word = strtok_r(NULL, " \n", &rest)) {
        bool known = *word == '>' || strncmp(word, "reset", 5) == 0 || strcmp(word, "on") == 0;
        for (size_t i = 0; i < rights->count; i++) known |= strcmp(rights->words[i], word) == 0;
        cr_assert_lt(rights->count, MAX_RIGHTS);
        if (!known) rights->words[rights->count++] = word;
    }
}

/* The first block under the heading, and each whose paragraph names the dialect. */
rights_t rights_read(const char *dialect) {
    rights_t rights = {.text = temp_read("docs/acl.md")};
    char *at = strstr(rights.text, "\n## Least privilege"), *next = at ? strstr(at + 1, "\n## ") : NULL, name[64];
    cr_assert(at && next, "docs/acl.md has no section \"Least privilege\"");
    *next = '\0';
    snprintf(name, sizeof(name), "`%s`", dialect ? dialect : "");
    for (char *block; (block = strstr(at, "\n```\n"));) {
        char *after = strstr(block + 5, "\n```") + 4, *named = strstr(at, name);
        bool first = rights.count == 0;
        if (first || (named && named < block)) add_block(&rights, block + 5);
        if (first) rights.own = rights.count;
        at = after;
    }
    cr_assert(rights.count > (dialect ? rights.own : 0), "docs/acl.md publishes no rights for %s",
              dialect ? dialect : "a sidecar");
    return rights;
}

rights_t rights_read_behind(const char *text) {
    rights_t rights = {.text = temp_read("docs/acl.md")};
    char *at = strstr(rights.text, text), *block = at ? strstr(at, "\n```\n") : NULL;
    cr_assert(block, "docs/acl.md has no block behind \"%s\"", text);
    add_block(&rights, block + 5);
    rights.own = rights.count;
    return rights;
}

void rights_free(rights_t *rights) { free(rights->text); }

void rights_leave_out(rights_t *rights, const char *prefix) {
    size_t kept = 0, own = rights->own;
    for (size_t i = 0; i < rights->count; i++) {
        bool out = strncmp(rights->words[i], prefix, strlen(prefix)) == 0;
        if (out && i < own) rights->own--;
        if (!out) rights->words[kept++] = rights->words[i];
    }
    rights->count = kept;
}

void rights_grant(redis_t *r, const rights_t *rights, const char *without) {
    const char *argv[MAX_RIGHTS + 8] = {"ACL", "SETUSER", "sidecar", "reset", "resetchannels", "on", ">secret"};
    int argc = 7;
    for (size_t i = 0; i < rights->count; i++)
        if (rights->words[i] != without) argv[argc++] = rights->words[i];
    redisReply *reply = redisCommandArgv(r, argc, argv, NULL);
    cr_assert(reply && reply->type == REDIS_REPLY_STATUS, "%s", reply ? reply->str : r->errstr);
    freeReplyObject(reply);
    redis_ok(r, "ACL LOG RESET");
}

size_t rights_refused(redis_t *r) {
    redisReply *log = redis_do(r, "ACL LOG 100");
    size_t count = log->elements;
    for (size_t i = 0; i < count; i++) fprintf(stderr, "refused: %s\n", log->element[i]->element[7]->str);
    return count;
}
