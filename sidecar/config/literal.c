#include "config/literal.h"

#include <ctype.h>

#include "base/text/units.h"

void config_quote(const char *text, buffer_t *out) {
    buffer_str(out, "\"");
    for (; *text; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte == '"' || byte == '\\')
            buffer_printf(out, "\\%c", byte);
        else if (byte == '\n')
            buffer_str(out, "\\n");
        else if (byte < ' ' || byte == 0x7f)
            buffer_printf(out, "\\x%02X", byte);
        else
            buffer_add(out, text, 1);
    }
    buffer_str(out, "\"");
}

bool config_number_parse(const char *text, int64_t *value) {
    const char *digits = text + (*text == '-' || *text == '+');
    if (!isdigit((unsigned char)*digits)) return false;
    bool hex = digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X');
    char *end;
    errno = 0;
    int64_t parsed = strtoll(text, &end, hex ? 16 : 10);
    if (errno || (*end && strcmp(end, "L") != 0 && strcmp(end, "LL") != 0)) return false;
    *value = parsed;
    return true;
}

bool config_number_wraps(const char *text, int64_t value) {
    return (value > INT32_MAX || value < INT32_MIN) && text[strlen(text) - 1] != 'L';
}

bool config_number_of(key_type_t type, const char *text, int64_t *value) {
    if (type == KEY_DURATION || type == KEY_STEPS) return duration_parse(text, value);
    if (type == KEY_MICROS) return micros_parse(text, value);
    if (type == KEY_SIZE) return size_parse(text, value);
    return config_number_parse(text, value);
}

bool config_number_in_bounds(const config_key_t *key, int64_t value) {
    int64_t low = 0, high = 0;
    return config_number_of(key->type, key->low, &low) && config_number_of(key->type, key->high, &high) && value >= low &&
           value <= high;
}

void strings_add(strings_t *list, const char *text) {
    list->items = mem_grown(list->items, list->count, sizeof *list->items);
    list->items[list->count++] = mem_str(text);
}

void strings_free(strings_t *list) {
    for (size_t i = 0; i < list->count; i++) free(list->items[i]);
    free(list->items);
    *list = (strings_t){0};
}

strings_t strings_copy(const strings_t *list) {
    strings_t copy = {0};
    for (size_t i = 0; i < list->count; i++) strings_add(&copy, list->items[i]);
    return copy;
}

bool strings_has(const strings_t *list, const char *text) {
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->items[i], text) == 0) return true;
    return false;
}

bool config_list_each(const node_t *node, config_text_fn *take, void *self) {
    for (const char *at = node->kind == NODE_ANY ? node->text : ""; *at; at += strspn(at, ", ")) {
        size_t len = strcspn(at, ",");
        char *text = mem_printf("%.*s", (int)len, at);
        bool good = take(self, text);
        free(text);
        if (!good) return false;
        at += len;
    }
    for (size_t i = 0; i < node->count; i++)
        if (node->children[i].kind != NODE_TEXT || !take(self, node->children[i].text)) return false;
    return true;
}

static bool strings_take(void *self, const char *text) {
    size_t len = strlen(text);
    if (len == 0 || len > MAX_CONFIG_STRING) return false;
    strings_add(self, text);
    return true;
}

bool strings_parse(const config_key_t *key, const node_t *node, strings_t *out) {
    return config_list_each(node, strings_take, out) && config_number_in_bounds(key, (int64_t)out->count);
}

void strings_write(const strings_t *list, buffer_t *out) {
    buffer_str(out, "[");
    for (size_t i = 0; i < list->count; i++) {
        if (i) buffer_str(out, ", ");
        config_quote(list->items[i], out);
    }
    buffer_str(out, "]");
}

// Parses "10: 10s" or "*: 10s".
static bool delay_step_parse(const config_key_t *key, const char *text, delay_step_t *step) {
    const char *colon = strchr(text, ':');
    if (!colon) return false;
    char *below = mem_printf("%.*s", (int)(colon - text), text);
    bool rest = strcmp(below, "*") == 0;
    bool good = rest || (config_number_parse(below, &step->below) && step->below > 1 && step->below < INT64_MAX);
    if (rest) step->below = INT64_MAX;
    free(below);
    colon += 1 + strspn(colon + 1, " ");
    return good && duration_parse(colon, &step->delay_ms) && config_number_in_bounds(key, step->delay_ms);
}

typedef struct steps_read {
    const config_key_t *key;
    delay_steps_t *steps;
} steps_read_t;

static bool delay_steps_take(void *self, const char *text) {
    steps_read_t *read = self;
    delay_steps_t *steps = read->steps;
    delay_step_t step;
    if (steps->count == CONFIG_STEPS_MAX || !delay_step_parse(read->key, text, &step)) return false;
    if (steps->count && step.below <= steps->items[steps->count - 1].below) return false;
    steps->items = mem_grown(steps->items, steps->count, sizeof step);
    steps->items[steps->count++] = step;
    return true;
}

bool delay_steps_parse(const config_key_t *key, const node_t *node, delay_steps_t *out) {
    return config_list_each(node, delay_steps_take, &(steps_read_t){key, out}) && out->count &&
           out->items[out->count - 1].below == INT64_MAX;
}

void delay_steps_write(const delay_steps_t *list, buffer_t *out) {
    buffer_str(out, "[");
    for (size_t i = 0; i < list->count; i++) {
        const delay_step_t *step = &list->items[i];
        buffer_str(out, i ? ", \"" : "\"");
        if (step->below == INT64_MAX)
            buffer_str(out, "*");
        else
            buffer_printf(out, "%lld", (long long)step->below);
        buffer_printf(out, ": %s\"", duration_exact(step->delay_ms).text);
    }
    buffer_str(out, "]");
}
