/* libFuzzer over base/json_pick: `make fuzz`. The first line of the input is a key, the second one in it (or empty: none), the
 * rest a text. What is found is what json_find finds, and a splice changes that and nothing else. */
#include "base/json/json.h"
#include "base/json/pick.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void insist(bool holds) {
    if (!holds) abort();
}

/* Takes a line off the input as a name. False: it is none. */
static bool take_name(const uint8_t **data, size_t *size, char name[64]) {
    const uint8_t *line = *size ? memchr(*data, '\n', *size) : NULL;
    if (!line || line - *data >= 64) return false;
    size_t len = (size_t)(line - *data);
    memcpy(name, *data, len);
    name[len] = '\0';
    for (size_t i = 0; i < len; i++)
        if (name[i] == '\0' || (unsigned char)name[i] >= 0x80) return false;
    *size -= len + 1;
    *data = line + 1;
    return true;
}

static void add_segment(buffer_t *pointer, const char *name) {
    buffer_str(pointer, "/");
    for (; *name; name++) {
        if (*name == '~' || *name == '/')
            buffer_str(pointer, *name == '~' ? "~0" : "~1");
        else
            buffer_add(pointer, name, 1);
    }
}

/* As json_pick would, of a text that json_read took. */
static json_found_t find(json_t *json, const json_pick_t *pick, json_value_t *value) {
    json_value_t holder;
    if (json_find(json, "", &holder) != JSON_FOUND || holder.type != JSON_OBJECT) return JSON_BAD;
    buffer_t pointer = {0};
    json_found_t found = JSON_FOUND;
    if (pick->outer) {
        add_segment(&pointer, pick->outer);
        found = json_find(json, pointer.data, &holder);
        if (found == JSON_FOUND && holder.type != JSON_OBJECT) found = JSON_MISSING;
    }
    add_segment(&pointer, pick->key);
    if (found == JSON_FOUND) found = json_find(json, pointer.data, value);
    buffer_free(&pointer);
    return found;
}

static void check_splice(slice_t text, const json_pick_t *pick) {
    static buffer_t after;
    slice_t raw = pick->value.raw, with = slice_text(pick->value.type == JSON_STRING ? "new" : "-12");
    size_t before = (size_t)(raw.data - text.data), behind = text.len - before - raw.len;
    buffer_clear(&after);
    insist(json_splice(text, &(json_cut_t){raw, with}, 1, &after));
    insist(after.len == before + with.len + behind);
    insist(memcmp(after.data, text.data, before) == 0 && memcmp(after.data + before, with.data, with.len) == 0);
    insist(memcmp(after.data + before + with.len, raw.data + raw.len, behind) == 0);
    json_pick_t again = {.outer = pick->outer, .key = pick->key};
    insist(json_pick((slice_t){after.data, after.len}, &again, 1) && again.found == JSON_FOUND);
    insist(again.value.raw.data == after.data + before && slice_equal(again.value.raw, with));
    int64_t number;
    if (pick->value.type == JSON_NUMBER) json_integer(raw, &number);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static json_t *json;
    if (!json) json = json_new();
    char first[64], second[64];
    if (!take_name(&data, &size, first) || !take_name(&data, &size, second)) return 0;
    char *copy = malloc(size + (size == 0));
    memcpy(copy, data, size);
    slice_t text = {copy, size};
    json_pick_t pick = {.outer = *second ? first : NULL, .key = *second ? second : first};
    bool good = json_pick(text, &pick, 1);
    insist(good == (pick.found != JSON_BAD));
    json_value_t value;
    if (json_read(json, text)) {
        insist(find(json, &pick, &value) == pick.found);
        if (pick.found == JSON_FOUND) insist(value.type == pick.value.type && value.raw.data == pick.value.raw.data);
        if (pick.found == JSON_FOUND) insist(value.raw.len == pick.value.raw.len);
    } else {
        insist(!good || size > 2 * JSON_MOST_TOKENS); /* beyond the bounds of json_read alone */
    }
    if (pick.found == JSON_FOUND) check_splice(text, &pick);
    free(copy);
    return 0;
}
