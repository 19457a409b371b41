/* base/json_pick against Python's json module over random documents: values are found, replaced, and nothing else changes.
 * json_splice.py makes the documents and judges the answers. QS_TEST_SEED=n makes others; QS_LONG=1 makes 100,000 of them, as
 * `make test-long` does. */
#include "child.h"
#include "json_fixture.h"
#include "suite.h"
#include "tempdir.h"

enum { MAX_WANTED = 8 };

typedef struct {
    bool has_outer;
    char *outer, *key, *texts[2]; /* owned; texts: the new content of a string, and the new text of any other scalar */
    size_t lens[2];
} want_t;

static uint32_t read_number(FILE *file, size_t bytes) {
    uint32_t value = 0;
    for (size_t i = 0; i < bytes; i++) {
        int byte = getc(file);
        cr_assert_neq(byte, EOF);
        value |= (uint32_t)byte << (8 * i);
    }
    return value;
}

/* Returns kept bytes without slack, so that a sanitizer reports a read past their end. Names end in a NUL byte. */
static char *read_bytes(FILE *file, size_t *len, bool name) {
    *len = read_number(file, 4);
    char *bytes = malloc(*len + name + (*len + name == 0));
    cr_assert_eq(fread(bytes, 1, *len, file), *len);
    if (name) bytes[*len] = '\0';
    return kept(bytes);
}

static void write_number(FILE *file, size_t value, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) putc((int)(value >> (8 * i) & 0xff), file);
}

static void read_want(FILE *file, want_t *want) {
    size_t len;
    want->has_outer = read_number(file, 1);
    want->outer = read_bytes(file, &len, true);
    want->key = read_bytes(file, &len, true);
    for (int i = 0; i < 2; i++) want->texts[i] = read_bytes(file, &want->lens[i], false);
}

static void free_want(want_t *want) {
    free(want->outer);
    free(want->key);
    for (int i = 0; i < 2; i++) free(want->texts[i]);
}

static void answer(slice_t text, const want_t *wants, size_t count, FILE *answers) {
    json_pick_t picks[MAX_WANTED];
    json_cut_t cuts[MAX_WANTED];
    size_t made = 0;
    for (size_t i = 0; i < count; i++)
        picks[i] = (json_pick_t){.pointer = pointer_to(wants[i].has_outer ? wants[i].outer : NULL, wants[i].key)};
    bool good = json_pick(text, picks, count);
    for (size_t i = 0; i < count; i++) free((char *)picks[i].pointer);
    write_number(answers, good, 1);
    if (!good) return;
    for (size_t i = 0; i < count; i++) {
        const json_value_t *value = &picks[i].value;
        bool found = picks[i].found == JSON_FOUND;
        write_number(answers, found, 1);
        write_number(answers, found ? value->type : 0, 1);
        write_number(answers, found ? (size_t)(value->raw.data - text.data) : 0, 4);
        write_number(answers, found ? value->raw.len : 0, 4);
        if (!found || value->type == JSON_OBJECT || value->type == JSON_ARRAY) continue;
        int which = value->type != JSON_STRING;
        cuts[made++] = (json_cut_t){value->raw, {wants[i].texts[which], wants[i].lens[which]}};
    }
    scoped(buffer_free) buffer_t after = {0};
    cr_assert(json_splice(text, cuts, made, &after));
    write_number(answers, after.len, 4);
    fwrite(buffer_text(&after), 1, after.len, answers);
}

static void answer_all(int count, const char *path, const char *answers_path) {
    FILE *file = fopen(path, "rb"), *answers = fopen(answers_path, "wb");
    cr_assert(file && answers);
    for (int i = 0; i < count; i++) {
        want_t wants[MAX_WANTED];
        size_t len;
        char *text = read_bytes(file, &len, false);
        size_t wanted = read_number(file, 1);
        cr_assert_leq(wanted, MAX_WANTED);
        for (size_t w = 0; w < wanted; w++) read_want(file, &wants[w]);
        answer((slice_t){text, len}, wants, wanted, answers);
        for (size_t w = 0; w < wanted; w++) free_want(&wants[w]);
    }
    cr_assert_eq(getc(file), EOF);
    fclose(file);
    cr_assert_eq(fclose(answers), 0);
}

/* Runs a Python script and returns its exit code; prints its output on stderr. */
static int python(const char *const *argv, const char *said) {
    scoped(child_drop) child_t *child = child_start(&(child_spec_t){.argv = argv, .out = said, .err = said});
    cr_assert(child_wait(child, 600000));
    int code = child->exit_code;
    char *text = temp_read(said);
    fprintf(stderr, "%s", text);
    return code;
}

static const char *chosen(const char *name, const char *otherwise) {
    const char *value = getenv(name);
    return value && *value ? value : otherwise;
}

Test(unit_json_splice, random_documents_change_in_one_place_only, .timeout = 900) {
    const char *seed = chosen("QS_TEST_SEED", "1"), *count = strcmp(chosen("QS_LONG", "0"), "1") ? "4000" : "100000";
    char *dir = temp_dir("json"), *path = temp_path(dir, "documents"), *answers = temp_path(dir, "answers"),
         *said = temp_path(dir, "said");
    const char *const make[] = {"python3", "tests/support/json_splice.py", "make", seed, count, path, NULL},
                      *const judge[] = {"python3", "tests/support/json_splice.py", "judge", path, answers, NULL};
    cr_assert_eq(python(make, said), 0, "seed %s", seed);
    answer_all(atoi(count), path, answers);
    cr_assert_eq(python(judge, said), 0, "seed %s", seed);
    temp_remove(dir);
    free(said);
}
