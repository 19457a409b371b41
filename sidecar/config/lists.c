#include "config/lists.h"

#include <stdlib.h>
#include <string.h>

#include "config/number.h"
#include "config/quote.h"

bool config_is_list(key_type_t type) { return type == KEY_STRINGS || type == KEY_STEPS; }

void strings_add(strings_t *list, const char *text) {
    // Room doubles at each power of two, so that the list needs no field for it.
    if ((list->count & (list->count - 1)) == 0) {
        char **items = mem_array(list->count ? 2 * list->count : 1, sizeof *items);
        if (list->count) memcpy(items, list->items, list->count * sizeof *items);
        free(list->items);
        list->items = items;
    }
    list->items[list->count++] = mem_str(text);
}

void strings_free(strings_t *list) {
    for (size_t i = 0; i < list->count; i++) free(list->items[i]);
    free(list->items);
    *list = (strings_t){0};
}

bool strings_has(const strings_t *list, const char *text) {
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->items[i], text) == 0) return true;
    }
    return false;
}

static int64_t bound(key_type_t type, const char *text) {
    int64_t value = 0;
    (void)config_number_of(type, text, &value);
    return value;
}

static bool parse_strings(const config_key_t *key, const node_t *node, strings_t *out) {
    int64_t count = (int64_t)node->count;
    if (count < bound(KEY_INT, key->low) || count > bound(KEY_INT, key->high)) return false;
    for (size_t i = 0; i < node->count; i++) {
        const node_t *child = &node->children[i];
        size_t len = child->kind == NODE_TEXT ? strlen(child->text) : 0;
        if (len == 0 || len > CONFIG_STRING_MOST) return false;
        strings_add(out, child->text);
    }
    return true;
}

// "10: 10s" or "*: 10s".
static bool parse_step(const config_key_t *key, const char *text, delay_step_t *step) {
    const char *colon = strchr(text, ':');
    if (!colon) return false;
    char *below = mem_printf("%.*s", (int)(colon - text), text);
    bool good = true;
    if (strcmp(below, "*") == 0)
        step->below = INT64_MAX;
    else
        good = config_number_parse(below, &step->below) && step->below > 1 && step->below < INT64_MAX;
    free(below);
    colon += 1 + strspn(colon + 1, " ");
    return good && config_number_of(KEY_DURATION, colon, &step->delay_ms) && step->delay_ms >= bound(KEY_DURATION, key->low) &&
           step->delay_ms <= bound(KEY_DURATION, key->high);
}

static bool add_step(const config_key_t *key, const char *text, delay_steps_t *out) {
    delay_step_t step;
    if (out->count == CONFIG_STEPS_MAX || !parse_step(key, text, &step)) return false;
    if (out->count && step.below <= out->items[out->count - 1].below) return false;
    out->items[out->count++] = step;
    return true;
}

static bool add_steps_of_text(const config_key_t *key, const char *text, delay_steps_t *out) {
    while (*text) {
        size_t len = strcspn(text, ",");
        char *step = mem_printf("%.*s", (int)len, text);
        bool good = add_step(key, step, out);
        free(step);
        if (!good) return false;
        text += len;
        text += strspn(text, ", ");
    }
    return true;
}

static bool parse_steps(const config_key_t *key, const node_t *node, delay_steps_t *out) {
    out->items = mem_array(CONFIG_STEPS_MAX, sizeof *out->items);
    bool good = true;
    if (node->kind == NODE_ANY) good = add_steps_of_text(key, node->text, out);
    for (size_t i = 0; good && i < node->count; i++)
        good = node->children[i].kind == NODE_TEXT && add_step(key, node->children[i].text, out);
    return good && out->count && out->items[out->count - 1].below == INT64_MAX;
}

bool config_list_set(const config_key_t *key, const node_t *node, void *field) {
    bool of_text = node->kind == NODE_ANY && key->type == KEY_STEPS;
    if (node->kind != NODE_ARRAY && node->kind != NODE_LIST && !of_text) return false;
    strings_t strings = {0};
    delay_steps_t steps = {0};
    bool good = key->type == KEY_STRINGS ? parse_strings(key, node, &strings) : parse_steps(key, node, &steps);
    if (!good) {
        strings_free(&strings);
        free(steps.items);
        return false;
    }
    config_list_free(key, field);
    if (key->type == KEY_STRINGS)
        *(strings_t *)field = strings;
    else
        *(delay_steps_t *)field = steps;
    return true;
}

void config_list_free(const config_key_t *key, void *field) {
    if (key->type == KEY_STRINGS) {
        strings_free(field);
    } else {
        delay_steps_t *steps = field;
        free(steps->items);
        *steps = (delay_steps_t){0};
    }
}

static void write_step(const delay_step_t *step, buffer_t *out) {
    if (step->below == INT64_MAX)
        buffer_str(out, "\"*: ");
    else
        buffer_printf(out, "\"%lld: ", (long long)step->below);
    config_number_write(KEY_DURATION, step->delay_ms, out);
    buffer_str(out, "\"");
}

void config_list_write(const config_key_t *key, const void *field, buffer_t *out) {
    const strings_t *strings = field;
    const delay_steps_t *steps = field;
    size_t count = key->type == KEY_STRINGS ? strings->count : steps->count;
    buffer_str(out, "[");
    for (size_t i = 0; i < count; i++) {
        if (i) buffer_str(out, ", ");
        if (key->type == KEY_STRINGS)
            config_quote(strings->items[i], out);
        else
            write_step(&steps->items[i], out);
    }
    buffer_str(out, "]");
}

void config_list_describe(const config_key_t *key, buffer_t *out) {
    if (key->type == KEY_STRINGS)
        buffer_printf(out, "a list of %s to %s texts, each of 1 to %d bytes", key->low, key->high, CONFIG_STRING_MOST);
    else
        buffer_printf(out,
                      "a list of at most %d steps, such as [\"10: 10s\", \"*: 1m\"], ascending, each delay from %s to %s and the "
                      "last for *",
                      CONFIG_STEPS_MAX, key->low, key->high);
}
