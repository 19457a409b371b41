#include "base/text/suggest.h"
#include "config/dialect.h"
#include "config/load.h"

enum { NAMES_MAX = 3 * CONFIG_KEYS_MAX };

typedef struct known_keys {
    const char *names[NAMES_MAX];
    size_t count;
    const char *section;             // whose names are added
    const config_dialect_t *dialect; // that must take them; NULL = any
} known_keys_t;

static void unknown_add_name(void *self, const config_key_t *key) {
    known_keys_t *known = self;
    const config_key_t *own = known->dialect ? config_queue_key_find(known->dialect, key->name) : key;
    if (!own || (known->dialect && !config_key_of_dialect(own, known->dialect))) return;
    if (strcmp(key->section, known->section) == 0) known->names[known->count++] = key->name;
}

// Collects the names that are valid in a section. A queue may also set the keys of `defaults`; the top level has the groups.
static void unknown_collect(known_keys_t *known, config_dialects_fn *dialects, const char *section,
                            const config_dialect_t *dialect) {
    *known = (known_keys_t){.section = section, .dialect = dialect};
    config_key_each(dialects, unknown_add_name, known);
    if (strcmp(section, "queue-only") == 0) {
        known->section = "queue";
        config_key_each(dialects, unknown_add_name, known);
    }
    if (*section) return;
    for (size_t row = 0; row < config_key_count; row++)
        if (config_key_begins_section(row)) known->names[known->count++] = config_keys[row].section;
    known->names[known->count++] = "defaults";
    known->names[known->count++] = "queues";
}

// The groups whose keys are about jobs. `timeout` in a queue does not mean redis.timeout.
static bool unknown_is_about_jobs(const char *section) {
    return !*section || strcmp(section, "dispatcher") == 0 || strcmp(section, "monitor") == 0;
}

// Finds the key in another section.
static const config_key_t *unknown_find_elsewhere(config_dialects_fn *dialects, const char *name, const char *section) {
    bool in_queue = strcmp(section, "queue-only") == 0;
    for (size_t i = 0; i < config_key_count; i++)
        if (strcmp(config_keys[i].name, name) == 0 && (!in_queue || unknown_is_about_jobs(config_keys[i].section)))
            return &config_keys[i];
    const config_key_t *key = NULL;
    const config_dialect_t *dialect;
    for (size_t i = 0; !key && (dialect = dialects(i)) != NULL; i++) key = config_queue_key_find(dialect, name);
    return key;
}

static void unknown_add_home(const config_key_t *key, buffer_t *out) {
    buffer_str(out, ": it belongs ");
    if (config_key_in_policy(key))
        buffer_str(out, "in `defaults` or in a queue");
    else if (config_key_in_queue(key))
        buffer_str(out, "in a queue");
    else if (*key->section)
        buffer_printf(out, "in `%s`", key->section);
    else
        buffer_str(out, "at the top level");
}

void config_load_unknown(load_t *load, const node_t *node, const char *section, const config_dialect_t *dialect,
                         const char *prefix) {
    known_keys_t known;
    unknown_collect(&known, load->dialects, section, dialect);
    const char *nearest = suggest_nearest(node->name, known.names, known.count);
    const config_key_t *elsewhere = unknown_find_elsewhere(load->dialects, node->name, section);
    buffer_t text = {0};
    if (elsewhere) // the same name says more than a near one
        unknown_add_home(elsewhere, &text);
    else if (nearest)
        buffer_printf(&text, ": did you mean `%s`?", nearest);
    else
        buffer_str(&text, ": `queue-sidecar help keys` lists all");
    diagnostic_add(load->errors, &node->location, "%sunknown key `%s`%s", prefix, node->name, buffer_text(&text));
    buffer_free(&text);
}
