#include <string.h>

#include "base/text/suggest.h"
#include "config/dialect.h"
#include "config/load.h"

enum { NAMES_MAX = 3 * CONFIG_KEYS_MAX };

static size_t unknown_add_names(const char *section, const char **names) {
    size_t count = 0;
    for (size_t i = 0; i < config_key_count; i++) {
        if (strcmp(config_keys[i].section, section) == 0) names[count++] = config_keys[i].name;
    }
    return count;
}

static size_t unknown_add_own_names(config_dialects_fn *dialects, const char **names, size_t room) {
    size_t count = 0;
    const config_dialect_t *dialect;
    for (size_t i = 0; (dialect = dialects(i)) != NULL; i++)
        for (size_t k = 0; k < dialect->key_count && count < room; k++) names[count++] = dialect->keys[k].name;
    return count;
}

// Removes keys that only other dialects have.
static size_t unknown_keep_of_dialect(const char **names, size_t count, const config_dialect_t *dialect) {
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        const config_key_t *key = config_queue_key_find(dialect, names[i]);
        if (key && config_key_of_dialect(key, dialect)) names[kept++] = names[i];
    }
    return kept;
}

// Collects the names that are valid in a section. A queue also takes the keys of `defaults`, and the top level the groups.
static size_t unknown_names_in(config_dialects_fn *dialects, const char *section, const char *names[NAMES_MAX]) {
    size_t count = unknown_add_names(section, names);
    if (strcmp(section, "queue-only") == 0) {
        count += unknown_add_own_names(dialects, names + count, CONFIG_KEYS_MAX);
        count += unknown_add_names("queue", names + count);
    }
    if (*section) return count;
    count += config_key_sections(names + count);
    names[count++] = "defaults";
    names[count++] = "queues";
    return count;
}

// Appends where a key of that name belongs, if anywhere. For a key in a queue only queues and `defaults` are named: `timeout`
// there does not mean redis.timeout.
static bool unknown_add_home(config_dialects_fn *dialects, const char *name, const char *section, buffer_t *out) {
    for (size_t i = 0; i < config_key_count; i++) {
        const config_key_t *key = &config_keys[i];
        if (strcmp(key->name, name) != 0 || (strcmp(section, "queue-only") == 0 && *key->section)) continue;
        if (config_key_in_policy(key))
            buffer_str(out, ": it belongs in `defaults` or in a queue");
        else if (config_key_in_queue(key))
            buffer_str(out, ": it belongs in a queue");
        else if (*key->section)
            buffer_printf(out, ": it belongs in `%s`", key->section);
        else
            buffer_str(out, ": it belongs at the top level");
        return true;
    }
    const config_dialect_t *dialect;
    for (size_t i = 0; (dialect = dialects(i)) != NULL; i++) {
        if (!config_queue_key_find(dialect, name)) continue;
        buffer_str(out, ": it belongs in a queue");
        return true;
    }
    return false;
}

void config_load_unknown(load_t *load, const node_t *node, const char *section, const char *prefix,
                         const config_dialect_t *dialect) {
    const char *names[NAMES_MAX];
    size_t count = unknown_names_in(load->dialects, section, names);
    const char *nearest = suggest_nearest(node->name, names, count);
    buffer_t text = {0};
    buffer_printf(&text, "%sunknown key `%s`", prefix, node->name);
    if (nearest) {
        buffer_printf(&text, ": did you mean `%s`?", nearest);
    } else if (!unknown_add_home(load->dialects, node->name, section, &text)) {
        if (dialect) count = unknown_keep_of_dialect(names, count, dialect);
        buffer_str(&text, "; known keys:");
        for (size_t i = 0; i < count; i++) buffer_printf(&text, "%s %s", i ? "," : "", names[i]);
    }
    diagnostic_add(load->errors, &node->location, "%s", buffer_text(&text));
    buffer_free(&text);
}
