#include "config/value.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/suggest.h"
#include "config/dialect.h"
#include "config/lists.h"
#include "config/number.h"
#include "config/quote.h"

static const char own_prefix[] = "sidecar:"; // keys of our own begin so
static const char *const role_words[] = {"dispatcher", "monitor", NULL};
static const unsigned role_bits[] = {ROLE_DISPATCHER, ROLE_MONITOR};

// One value between reading and storing; which member counts follows from the key's type.
typedef struct parsed {
    int64_t number;
    double real;
    bool flag;
    int word;
    unsigned bits;
    const char *text; // borrowed from the node
} parsed_t;

static void *field(const config_key_t *key, void *base) { return (char *)base + key->at; }
static const void *const_field(const config_key_t *key, const void *base) { return (const char *)base + key->at; }

static bool is_number(key_type_t type) { return type == KEY_INT || type == KEY_DURATION || type == KEY_SIZE; }
static bool is_text(key_type_t type) { return type >= KEY_TEXT && type <= KEY_POINTER; }

static int64_t bound(const config_key_t *key, const char *text) {
    int64_t value = 0;
    (void)config_number_of(is_text(key->type) ? KEY_INT : key->type, text, &value);
    return value;
}

static int word_index(const char *const *words, const char *text) {
    for (int i = 0; words && words[i]; i++) {
        if (strcmp(words[i], text) == 0) return i;
    }
    return -1;
}

static bool parse_number(const config_key_t *key, const node_t *node, parsed_t *out) {
    if (key->zero && strcmp(node->text, key->zero) == 0) {
        out->number = 0;
        return true;
    }
    if (!config_number_of(node->kind == NODE_INT ? KEY_INT : key->type, node->text, &out->number)) return false;
    if (node->kind == NODE_INT && config_number_wraps(node->text, out->number)) return false;
    return out->number >= bound(key, key->low) && out->number <= bound(key, key->high);
}

static bool parse_real(const config_key_t *key, const char *text, double *real) {
    char *end;
    if (!isdigit((unsigned char)text[*text == '-' || *text == '+']) && *text != '.') return false;
    *real = strtod(text, &end);
    return (*end == '\0' || *end == 'L') && *real >= strtod(key->low, NULL) && *real <= strtod(key->high, NULL);
}

// The roles of a text such as "dispatcher, monitor".
static bool parse_role_text(const char *text, unsigned *bits) {
    while (*text) {
        size_t len = strcspn(text, ", ");
        char *word = mem_printf("%.*s", (int)len, text);
        int role = word_index(role_words, word);
        free(word);
        if (role < 0) return false;
        *bits |= role_bits[role];
        text += len;
        text += strspn(text, ", ");
    }
    return *bits != 0;
}

static bool parse_roles(const node_t *node, unsigned *bits) {
    *bits = 0;
    if (node->kind == NODE_ANY) return parse_role_text(node->text, bits);
    for (size_t i = 0; i < node->count; i++) {
        const node_t *child = &node->children[i];
        int role = child->kind == NODE_TEXT ? word_index(role_words, child->text) : -1;
        if (role < 0) return false;
        *bits |= role_bits[role];
    }
    return *bits != 0;
}

static bool has_control(const char *text, bool space_too) {
    for (; *text; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte < ' ' || byte == 0x7f || (space_too && byte == ' ')) return true;
    }
    return false;
}

static bool begins_with_own_prefix(const char *text) { return strncmp(text, own_prefix, sizeof own_prefix - 1) == 0; }

static bool is_pointer(const char *text) {
    if (*text && *text != '/') return false;
    for (; *text; text++) {
        if (*text == '~' && text[1] != '0' && text[1] != '1') return false;
    }
    return true;
}

static bool is_pattern(const char *text) {
    if (strcmp(text, "off") == 0) return true;
    const char *star = strchr(text, '*');
    return star && !strchr(star + 1, '*') && !begins_with_own_prefix(text);
}

static bool parse_text(const config_key_t *key, const char *text, parsed_t *out) {
    int64_t len = (int64_t)strlen(text);
    out->text = text;
    if (len < bound(key, key->low) || len > bound(key, key->high)) return false;
    switch (key->type) {
    case KEY_NAME: return !has_control(text, true) && !begins_with_own_prefix(text);
    case KEY_REDIS: return !begins_with_own_prefix(text);
    case KEY_PATTERN: return is_pattern(text);
    case KEY_POINTER: return is_pointer(text);
    default: return key->secret || !has_control(text, false);
    }
}

static bool kind_fits(key_type_t type, node_kind_t kind) {
    switch (type) {
    case KEY_INT: return kind == NODE_INT;
    case KEY_SIZE: return kind == NODE_INT || kind == NODE_TEXT;
    case KEY_REAL: return kind == NODE_INT || kind == NODE_REAL;
    case KEY_BOOL: return kind == NODE_BOOL;
    case KEY_ROLES: return kind == NODE_ARRAY || kind == NODE_LIST;
    default: return kind == NODE_TEXT;
    }
}

static bool parse(const config_key_t *key, const node_t *node, parsed_t *out) {
    if (node->kind != NODE_ANY && !kind_fits(key->type, node->kind)) return false;
    switch (key->type) {
    case KEY_INT:
    case KEY_DURATION:
    case KEY_SIZE: return parse_number(key, node, out);
    case KEY_REAL: return parse_real(key, node->text, &out->real);
    case KEY_BOOL: out->flag = strcmp(node->text, "true") == 0; return out->flag || strcmp(node->text, "false") == 0;
    case KEY_ENUM: out->word = word_index(key->words, node->text); return out->word >= 0;
    case KEY_ROLES: return parse_roles(node, &out->bits);
    default: return parse_text(key, node->text, out);
    }
}

static void store(const config_key_t *key, const parsed_t *value, void *base) {
    void *to = field(key, base);
    switch (key->type) {
    case KEY_INT:
    case KEY_DURATION:
    case KEY_SIZE: *(int64_t *)to = value->number; break;
    case KEY_REAL: *(double *)to = value->real; break;
    case KEY_BOOL: *(bool *)to = value->flag; break;
    case KEY_ENUM: memcpy(to, &value->word, sizeof value->word); break;
    case KEY_ROLES: *(unsigned *)to = value->bits; break;
    default: free(*(char **)to); *(char **)to = mem_str(value->text);
    }
}

static void describe_text(const config_key_t *key, buffer_t *out) {
    switch (key->type) {
    case KEY_NAME:
        buffer_printf(out, "%s to %s bytes without spaces and control characters, and not begin with \"%s\"", key->low, key->high,
                      own_prefix);
        break;
    case KEY_REDIS:
        buffer_printf(out, "the name of a Redis key, %s to %s bytes, and not begin with \"%s\"", key->low, key->high, own_prefix);
        break;
    case KEY_PATTERN:
        buffer_str(out, "\"off\", or the name of a Redis key with one * for the job id, such as \"*_alive\"");
        break;
    case KEY_POINTER: buffer_str(out, "\"\" or a JSON pointer, such as \"/meta/id\""); break;
    default: buffer_printf(out, "text of %s to %s bytes without control characters", key->low, key->high);
    }
}

static void describe_words(const char *const *words, buffer_t *out) {
    if (words[1]) buffer_str(out, "one of ");
    for (size_t i = 0; words[i]; i++) buffer_printf(out, "%s\"%s\"", i ? ", " : "", words[i]);
}

void config_value_describe(const config_key_t *key, buffer_t *out) {
    switch (key->type) {
    case KEY_INT: buffer_printf(out, "an integer from %s to %s", key->low, key->high); break;
    case KEY_DURATION: buffer_printf(out, "a duration from \"%s\" to \"%s\"", key->low, key->high); break;
    case KEY_SIZE: buffer_printf(out, "a size from \"%s\" to \"%s\"", key->low, key->high); break;
    case KEY_REAL: buffer_printf(out, "a number from %s to %s", key->low, key->high); break;
    case KEY_BOOL: buffer_str(out, "true or false"); break;
    case KEY_ENUM: describe_words(key->words, out); break;
    case KEY_ROLES: buffer_str(out, "[\"dispatcher\"], [\"monitor\"] or [\"dispatcher\", \"monitor\"]"); break;
    case KEY_STRINGS:
    case KEY_STEPS: config_list_describe(key, out); break;
    default: describe_text(key, out);
    }
    if (key->zero)
        buffer_printf(out, is_number(key->type) && isdigit((unsigned char)*key->zero) ? ", or %s" : ", or \"%s\"", key->zero);
}

static void explain_array(const node_t *node, buffer_t *why) {
    buffer_str(why, "is [");
    for (size_t i = 0; i < node->count && i < 4; i++) {
        const node_t *child = &node->children[i];
        if (i) buffer_str(why, ", ");
        if (child->kind == NODE_TEXT)
            config_quote(child->text, why);
        else
            buffer_str(why, child->text ? child->text : "...");
    }
    buffer_str(why, node->count > 4 ? ", ...]" : "]");
}

static void explain_value(const config_key_t *key, const node_t *node, buffer_t *why) {
    enum { SHOWN = 80 };
    if (key->secret) {
        buffer_str(why, "is not right");
    } else if (node->kind == NODE_GROUP) {
        buffer_str(why, "is a group");
    } else if (node->kind == NODE_LIST || node->kind == NODE_ARRAY) {
        explain_array(node, why);
    } else if (strlen(node->text) > SHOWN) {
        buffer_printf(why, "is a text of %zu bytes", strlen(node->text));
    } else if (node->kind == NODE_TEXT || node->kind == NODE_ANY) {
        buffer_str(why, "is ");
        config_quote(node->text, why);
    } else {
        buffer_printf(why, "is %s", node->text);
    }
}

static bool lacks_unit(const config_key_t *key, const node_t *node) {
    return key->type == KEY_DURATION && node->text && *node->text && node->text[strspn(node->text, "0123456789")] == '\0';
}

static void explain_word(const config_key_t *key, const node_t *node, buffer_t *why) {
    size_t count = 0;
    while (key->words[count]) count++;
    const char *nearest = node->text ? suggest_nearest(node->text, key->words, count) : NULL;
    if (nearest) buffer_printf(why, ": did you mean \"%s\"?", nearest);
}

// True when nothing but the missing L is wrong with the number.
static bool only_wraps(const config_key_t *key, const node_t *node) {
    node_t wide = *node;
    parsed_t value;
    if (node->kind != NODE_INT || !is_number(key->type) || key->type == KEY_DURATION) return false;
    wide.text = mem_printf("%sL", node->text);
    bool good = parse(key, &wide, &value);
    free(wide.text);
    return good;
}

static void explain(const config_key_t *key, const node_t *node, buffer_t *why) {
    explain_value(key, node, why);
    if (only_wraps(key, node)) {
        buffer_printf(why, ", out of the range of 32 bits: write %sL", node->text);
        return;
    }
    if (lacks_unit(key, node)) buffer_printf(why, " without a unit (ms, s, m, h or d; such as \"%ss\")", node->text);
    buffer_str(why, ", but must be ");
    config_value_describe(key, why);
    if (key->type == KEY_ENUM) explain_word(key, node, why);
}

bool config_value_set(const config_key_t *key, const node_t *node, void *base, buffer_t *why) {
    parsed_t value = {0};
    bool good = config_is_list(key->type) ? config_list_set(key, node, field(key, base)) : parse(key, node, &value);
    if (!good)
        explain(key, node, why);
    else if (!config_is_list(key->type))
        store(key, &value, base);
    return good;
}

bool config_value_set_text(const config_key_t *key, const char *text, void *base, buffer_t *why) {
    char *copy = mem_str(text);
    node_t node = {.kind = NODE_ANY, .text = copy};
    bool good = config_value_set(key, &node, base, why);
    free(copy);
    return good;
}

void config_value_copy(const config_key_t *key, void *to, const void *from) {
    const void *source = const_field(key, from);
    parsed_t value = {0};
    switch (key->type) {
    case KEY_INT:
    case KEY_DURATION:
    case KEY_SIZE: value.number = *(const int64_t *)source; break;
    case KEY_REAL: value.real = *(const double *)source; break;
    case KEY_BOOL: value.flag = *(const bool *)source; break;
    case KEY_ENUM: memcpy(&value.word, source, sizeof value.word); break;
    case KEY_ROLES: value.bits = *(const unsigned *)source; break;
    default: value.text = *(char *const *)source;
    }
    store(key, &value, to);
}

void config_value_free(const config_key_t *key, void *base) {
    if (config_is_list(key->type)) config_list_free(key, field(key, base));
    if (!is_text(key->type)) return;
    char **text = field(key, base);
    if (*text) explicit_bzero(*text, key->secret ? strlen(*text) : 0);
    free(*text);
    *text = NULL;
}

static void write_number(const config_key_t *key, int64_t value, buffer_t *out) {
    bool word = key->zero && value == 0 && !isdigit((unsigned char)*key->zero);
    bool quotes = key->type == KEY_DURATION || (key->type == KEY_SIZE && value != 0);
    if (word) {
        buffer_printf(out, "\"%s\"", key->zero);
        return;
    }
    if (quotes) buffer_str(out, "\"");
    config_number_write(key->type, value, out);
    if (quotes) buffer_str(out, "\"");
    if (key->type == KEY_INT && (value > INT32_MAX || value < INT32_MIN)) buffer_str(out, "L");
}

// The shortest text that reads back as the same number; libconfig wants a point or an exponent in it.
static void write_real(double value, buffer_t *out) {
    char text[40];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (fabs(strtod(text, NULL) - value) <= 0) break;
    }
    buffer_printf(out, strpbrk(text, ".e") ? "%s" : "%s.0", text);
}

static void write_roles(unsigned bits, buffer_t *out) {
    const char *between = "";
    buffer_str(out, "[");
    for (size_t i = 0; role_words[i]; i++) {
        if (!(bits & role_bits[i])) continue;
        buffer_printf(out, "%s\"%s\"", between, role_words[i]);
        between = ", ";
    }
    buffer_str(out, "]");
}

static void write_text(const config_key_t *key, const char *text, buffer_t *out) {
    config_quote(key->secret && text && *text ? "<redacted>" : text ? text : "", out);
}

void config_value_write(const config_key_t *key, const void *base, buffer_t *out) {
    const void *from = const_field(key, base);
    int word;
    switch (key->type) {
    case KEY_INT:
    case KEY_DURATION:
    case KEY_SIZE: write_number(key, *(const int64_t *)from, out); break;
    case KEY_REAL: write_real(*(const double *)from, out); break;
    case KEY_BOOL: buffer_str(out, *(const bool *)from ? "true" : "false"); break;
    case KEY_ENUM:
        memcpy(&word, from, sizeof word);
        buffer_printf(out, "\"%s\"", key->words[word]);
        break;
    case KEY_ROLES: write_roles(*(const unsigned *)from, out); break;
    case KEY_DIALECT: buffer_printf(out, "\"%s\"", (*(const config_dialect_t *const *)from)->name); break;
    case KEY_STRINGS:
    case KEY_STEPS: config_list_write(key, from, out); break;
    default: write_text(key, *(char *const *)from, out);
    }
}
