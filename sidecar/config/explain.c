// Explains which values a key takes, and what is wrong with one.
#include <ctype.h>
#include <string.h>

#include "base/text/suggest.h"
#include "config/literal.h"
#include "config/value.h"

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

void config_value_describe(const config_key_t *key, buffer_t *out) {
    const char *describe = config_key_types[key->type].describe;
    if (describe) buffer_printf(out, describe, key->low, key->high);
    for (size_t i = 0; !describe && key->words[i]; i++)
        buffer_printf(out, "%s\"%s\"", i ? ", " : key->words[1] ? "one of " : "", key->words[i]);
    if (key->zero) buffer_printf(out, isdigit((unsigned char)*key->zero) ? ", or %s" : ", or \"%s\"", key->zero);
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
