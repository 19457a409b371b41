/* base/json against Python's json module, over 20,000 random texts, half of them broken. QS_TEST_SEED=n makes others. */
#include "child.h"
#include "json_fixture.h"
#include "suite.h"
#include "tempdir.h"

enum { HOW_NOT, HOW_RAW, HOW_DECODED, HOW_UNDECODABLE }; /* as json_corpus.py says */

typedef struct {
    FILE *file;
    char *text; /* of the current record; without slack, so that a sanitizer reports a read past its end */
    size_t len;
    const char *seed;
    int number;
    buffer_t decoded;
    bool is_good;
    long good, bad, found, missing, twice;
} corpus_t;

static uint64_t read_number(corpus_t *corpus, size_t bytes) {
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++) {
        int byte = getc(corpus->file);
        cr_assert_neq(byte, EOF);
        value |= (uint64_t)byte << (8 * i);
    }
    return value;
}

/* Kept. */
static char *read_bytes(corpus_t *corpus, size_t width, size_t *len, bool nul) {
    *len = read_number(corpus, width);
    char *bytes = malloc(*len + nul + (*len + nul == 0));
    cr_assert_eq(fread(bytes, 1, *len, corpus->file), *len);
    if (nul) bytes[*len] = '\0';
    return kept(bytes);
}

static void check_value(corpus_t *corpus, const json_value_t *value, uint64_t how, slice_t expected) {
    const char *where = corpus->text;
    cr_assert(value->raw.data >= where && value->raw.data + value->raw.len <= where + corpus->len, "outside of the text");
    buffer_clear(&corpus->decoded);
    switch (how) {
    case HOW_NOT: cr_assert(is_good_text(value->raw), "a container is JSON itself"); break;
    case HOW_RAW: cr_assert(slice_equal(value->raw, expected)); break;
    case HOW_DECODED:
        cr_assert(json_decode(value->raw, &corpus->decoded));
        cr_assert(slice_equal((slice_t){corpus->decoded.data, corpus->decoded.len}, expected));
        break;
    default: cr_assert_not(json_decode(value->raw, &corpus->decoded)); cr_assert_eq(corpus->decoded.len, 0);
    }
}

static void check_pointer(corpus_t *corpus) {
    size_t len;
    char *pointer = read_bytes(corpus, 2, &len, true);
    uint64_t expected = read_number(corpus, 1), type = read_number(corpus, 1), how = read_number(corpus, 1);
    char *bytes = read_bytes(corpus, 4, &len, false);
    json_value_t value = {0};
    json_found_t found = json_find((slice_t){corpus->text, corpus->len}, pointer, &value);
    cr_assert_eq(found, expected, "seed %s, text %d, pointer \"%s\": found %d, Python %d:\n%.*s", corpus->seed, corpus->number,
                 pointer, (int)found, (int)expected, (int)corpus->len, corpus->text);
    if (found == JSON_FOUND) {
        cr_assert_eq(value.type, type, "seed %s, text %d, pointer \"%s\"", corpus->seed, corpus->number, pointer);
        check_value(corpus, &value, how, (slice_t){bytes, len});
    }
    corpus->found += found == JSON_FOUND;
    corpus->missing += found == JSON_MISSING;
    corpus->twice += found == JSON_BAD && corpus->is_good;
}

static void check_record(corpus_t *corpus) {
    corpus->text = read_bytes(corpus, 4, &corpus->len, false);
    bool expected = read_number(corpus, 1);
    bool good = is_good_text((slice_t){corpus->text, corpus->len});
    cr_assert_eq(good, expected, "seed %s, text %d is %s, and Python says %s:\n%.*s", corpus->seed, corpus->number,
                 good ? "good" : "bad", expected ? "good" : "bad", (int)corpus->len, corpus->text);
    corpus->is_good = good;
    *(good ? &corpus->good : &corpus->bad) += 1;
    for (uint64_t pointers = read_number(corpus, 1); pointers > 0; pointers--) check_pointer(corpus);
    free(corpus->text);
}

/* Compares every answer with Python's. Returns how many there were of each kind. */
static corpus_t compare(const char *seed, int count) {
    char *dir = temp_dir("json"), *path = temp_path(dir, "corpus"), *said = temp_path(dir, "said"), number[16];
    snprintf(number, sizeof number, "%d", count);
    const char *argv[] = {"python3", "tests/support/json_corpus.py", seed, number, path, NULL};
    child_t *python = child_start(&(child_spec_t){.argv = argv, .err = said});
    bool made = child_wait(python, 60000) && python->exit_code == 0;
    cr_assert(made, "%s", temp_read(said));
    child_free(python);
    corpus_t corpus = {.file = fopen(path, "rb"), .seed = seed};
    cr_assert_not_null(corpus.file);
    for (; corpus.number < count; corpus.number++) check_record(&corpus);
    cr_assert_eq(getc(corpus.file), EOF);
    fclose(corpus.file);
    cr_log_info("seed %s: %ld texts good, %ld bad; %ld values found, %ld missing, %ld keys twice", seed, corpus.good, corpus.bad,
                corpus.found, corpus.missing, corpus.twice);
    buffer_free(&corpus.decoded);
    temp_remove(dir);
    return corpus;
}

Test(unit_json, agrees_with_python_on_random_texts, .timeout = 120) {
    enum { COUNT = 20000 };
    const char *seed = getenv("QS_TEST_SEED");
    corpus_t seen = compare(seed && *seed ? seed : "1", COUNT);
    cr_assert_eq(seen.good + seen.bad, COUNT);
    cr_assert(seen.good > COUNT / 3 && seen.bad > COUNT / 5, "seed %s: %ld good, %ld bad", seen.seed, seen.good, seen.bad);
    cr_assert(seen.found > COUNT / 3 && seen.missing > COUNT / 20 && seen.twice > COUNT / 100,
              "seed %s: %ld found, %ld missing, %ld twice", seen.seed, seen.found, seen.missing, seen.twice);
}
