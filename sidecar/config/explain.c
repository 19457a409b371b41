// Explains which values a key takes, and what is wrong with one.
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/suggest.h"
#include "config/file/quote.h"
#include "config/lists.h"
#include "config/number.h"
#include "config/value.h"

static void explain_text_rule(const config_key_t *key, buffer_t *out) {
    switch (key->type) {
    case KEY_NAME:
        buffer_printf(out, "%s to %s bytes without spaces and control characters, and not begin with \"%s\"", key->low, key->high,
                      CONFIG_OWN_PREFIX);
        break;
    case KEY_REDIS:
        buffer_printf(out, "the name of a Redis key, %s to %s bytes, and not begin with \"%s\"", key->low, key->high,
                      CONFIG_OWN_PREFIX);
        break;
    case KEY_PATTERN:
        buffer_str(out, "\"off\", or the name of a Redis key with one * for the job id, such as \"*_alive\"");
        break;
    case KEY_POINTER: buffer_str(out, "\"\" or a JSON pointer, such as \"/meta/id\""); break;
    default: buffer_printf(out, "text of %s to %s bytes without control characters", key->low, key->high);
    }
}

static void explain_words(const char *const *words, buffer_t *out) {
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
    case KEY_ENUM: explain_words(key->words, out); break;
    case KEY_ROLES: buffer_str(out, "[\"dispatcher\"], [\"monitor\"] or [\"dispatcher\", \"monitor\"]"); break;
    case KEY_STRINGS:
        buffer_printf(out, "a list of %s to %s texts, each of 1 to %d bytes", key->low, key->high, CONFIG_STRING_MOST);
        break;
    case KEY_STEPS:
        buffer_printf(out,
                      "a list of at most %d steps, such as [\"10: 10s\", \"*: 1m\"], ascending, each delay from %s to %s and the "
                      "last for *",
                      CONFIG_STEPS_MAX, key->low, key->high);
        break;
    default: explain_text_rule(key, out);
    }
    if (key->zero) buffer_printf(out, isdigit((unsigned char)*key->zero) ? ", or %s" : ", or \"%s\"", key->zero);
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

static bool explain_lacks_unit(const config_key_t *key, const node_t *node) {
    return key->type == KEY_DURATION && node->text && *node->text && node->text[strspn(node->text, "0123456789")] == '\0';
}

static void explain_word(const config_key_t *key, const node_t *node, buffer_t *why) {
    size_t count = 0;
    while (key->words[count]) count++;
    const char *nearest = node->text ? suggest_nearest(node->text, key->words, count) : NULL;
    if (nearest) buffer_printf(why, ": did you mean \"%s\"?", nearest);
}

// Whether only an L is missing from the number.
static bool explain_only_wraps(const config_key_t *key, const node_t *node) {
    int64_t value;
    if (node->kind != NODE_INT || (key->type != KEY_INT && key->type != KEY_SIZE)) return false;
    return config_number_parse(node->text, &value) && config_number_wraps(node->text, value) &&
           config_number_in_bounds(key, value);
}

void config_value_explain(const config_key_t *key, const node_t *node, buffer_t *why) {
    explain_value(key, node, why);
    if (explain_only_wraps(key, node)) {
        buffer_printf(why, ", out of the range of 32 bits: write %sL", node->text);
        return;
    }
    if (explain_lacks_unit(key, node)) buffer_printf(why, " without a unit (ms, s, m, h or d; such as \"%ss\")", node->text);
    buffer_str(why, ", but must be ");
    config_value_describe(key, why);
    if (key->type == KEY_ENUM) explain_word(key, node, why);
}
