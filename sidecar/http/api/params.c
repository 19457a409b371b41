#include "http/api/params.h"

#include "base/text/suggest.h"
#include "base/utf8.h"

enum { WORDS_MAX = 32, WORDS_SIZE = 512, SHOWN = 60 };

bool url_decode(slice_t text, buffer_t *out) {
    for (size_t i = 0; i < text.len; i++) {
        char byte = text.data[i] == '+' ? ' ' : text.data[i];
        if (byte == '%') {
            int high = i + 1 < text.len ? hex_digit(text.data[i + 1]) : -1;
            int low = i + 2 < text.len ? hex_digit(text.data[i + 2]) : -1;
            if (high < 0 || low < 0) return false;
            byte = (char)(high * 16 + low);
            i += 2;
        }
        buffer_add(out, &byte, 1);
    }
    return true;
}

void params_free(params_t *params) {
    for (size_t i = 0; i < PARAMS_MAX; i++) free(params->values[i]);
    *params = (params_t){0};
}

void params_unknown(slice_t name, const char *what, const param_t *table, size_t count, answer_t *answer) {
    const char *names[PARAMS_MAX];
    char word[SHOWN + 1];
    buffer_t all = {0};
    snprintf(word, sizeof word, "%.*s", (int)slice_cut(name, SHOWN).len, name.data);
    for (size_t i = 0; i < count; i++) {
        names[i] = table[i].name;
        buffer_printf(&all, "%s%s", i ? ", " : "", table[i].name);
    }
    if (count)
        answer_problem(answer, 400, suggest_nearest(word, names, count), "unknown %s `%s`: allowed are %s", what, word,
                       buffer_text(&all));
    else
        answer_problem(answer, 400, NULL, "unknown %s `%s`: none is allowed here", what, word);
    buffer_free(&all);
}

// Splits `words` in place. Returns their number.
static size_t params_split(char *words, const char *out[WORDS_MAX]) {
    size_t count = 0;
    char *rest = words;
    for (char *word; count < WORDS_MAX && (word = strsep(&rest, " ")) != NULL;) out[count++] = word;
    return count;
}

void params_bad_word(const char *name, const char *value, const char *words, answer_t *answer) {
    char copy[WORDS_SIZE];
    const char *all[WORDS_MAX];
    buffer_t list = {0};
    snprintf(copy, sizeof copy, "%s", words);
    size_t count = params_split(copy, all);
    for (size_t i = 0; i < count; i++) buffer_printf(&list, "%s%s", i ? ", " : "", all[i]);
    answer_problem(answer, 400, suggest_nearest(value, all, count), "bad `%s`: allowed are %s", name, buffer_text(&list));
    buffer_free(&list);
}

static bool params_has_word(const char *words, slice_t value) {
    for (const char *at = words; at && *at; at += strspn(at, " ")) {
        size_t len = strcspn(at, " ");
        if (slice_equal((slice_t){at, len}, value)) return true;
        at += len;
    }
    return false;
}

static bool params_check_text(const param_t *param, slice_t value, answer_t *answer) {
    if (!utf8_is_valid(value.data, value.len) || memchr(value.data, '\0', value.len))
        answer_problem(answer, 400, NULL, "bad `%s`: it must be UTF-8 without NUL", param->name);
    else if ((int64_t)value.len < param->low || (int64_t)value.len > param->high)
        answer_problem(answer, 400, NULL, "bad `%s`: it must have %" PRId64 " to %" PRId64 " bytes", param->name, param->low,
                       param->high);
    else
        return true;
    return false;
}

static bool params_check_number(const param_t *param, slice_t value, answer_t *answer) {
    int64_t number;
    if (slice_integer(value, &number) && number >= param->low && number <= param->high) return true;
    answer_problem(answer, 400, NULL, "bad `%s`: it must be a whole number from %" PRId64 " to %" PRId64, param->name, param->low,
                   param->high);
    return false;
}

bool params_check(const param_t *param, slice_t value, answer_t *answer) {
    static const param_t any = {.low = 1, .high = 4096};
    param_t text = any;
    text.name = param->name;
    switch (param->type) {
    case PARAM_NUMBER: return params_check_number(param, value, answer);
    case PARAM_TEXT: return params_check_text(param, value, answer);
    case PARAM_WORD:
    case PARAM_BOOL: {
        const char *words = param->type == PARAM_BOOL ? "true false" : param->words;
        if (!params_check_text(&text, value, answer)) return false;
        if (params_has_word(words, value)) return true;
        char word[SHOWN + 1];
        snprintf(word, sizeof word, "%.*s", (int)slice_cut(value, SHOWN).len, value.data);
        params_bad_word(param->name, word, words, answer);
        return false;
    }
    default: return params_check_text(&text, value, answer);
    }
}

// Finds the row of a name. Returns `count`, with a problem, if there is none.
static size_t params_find(slice_t name, const param_t *table, size_t count, answer_t *answer) {
    for (size_t i = 0; i < count; i++)
        if (slice_is(name, table[i].name)) return i;
    params_unknown(name, "parameter", table, count, answer);
    return count;
}

static bool params_take(slice_t pair, const param_t *table, size_t count, params_t *out, answer_t *answer) {
    const char *equals = memchr(pair.data, '=', pair.len);
    size_t name_len = equals ? (size_t)(equals - pair.data) : pair.len;
    buffer_t name = {0}, value = {0};
    bool good = url_decode((slice_t){pair.data, name_len}, &name) &&
                (!equals || url_decode((slice_t){equals + 1, pair.len - name_len - 1}, &value));
    if (!good) answer_problem(answer, 400, NULL, "bad query: a %% needs two hexadecimal digits behind it");
    size_t row = good ? params_find((slice_t){buffer_text(&name), name.len}, table, count, answer) : count;
    good = good && row < count;
    if (good && out->values[row]) {
        answer_problem(answer, 400, NULL, "parameter `%s` is given twice", table[row].name);
        good = false;
    }
    good = good && params_check(&table[row], (slice_t){buffer_text(&value), value.len}, answer);
    if (good) out->values[row] = mem_str(buffer_text(&value));
    buffer_free(&name);
    buffer_free(&value);
    return good;
}

bool params_read(const char *query, const param_t *table, size_t count, params_t *out, answer_t *answer) {
    *out = (params_t){0};
    for (const char *at = query; at && *at;) {
        size_t len = strcspn(at, "&");
        if (len == 0) {
            answer_problem(answer, 400, NULL, "bad query: a parameter is empty");
            return false;
        }
        if (!params_take((slice_t){at, len}, table, count, out, answer)) return false;
        at += len;
        if (*at == '&' && !*++at) {
            answer_problem(answer, 400, NULL, "bad query: it ends with &");
            return false;
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (!table[i].required || out->values[i]) continue;
        answer_problem(answer, 400, NULL, "parameter `%s` is missing: %s", table[i].name, table[i].help);
        return false;
    }
    return true;
}
