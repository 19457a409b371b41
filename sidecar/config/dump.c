#include <ctype.h>

#include "config/dialect.h"
#include "config/literal.h"
#include "config/load.h"
#include "config/value.h"

enum { WIDEST_VALUE = 40 }; // a longer value shifts its own comment only

// The lines of one group.
typedef struct dump {
    struct {
        const config_key_t *key;
        buffer_t value;
        origin_t origin;
    } lines[CONFIG_KEYS_MAX];
    size_t count;
} dump_t;

static void dump_add(dump_t *dump, const config_key_t *key, const void *base, origin_t origin) {
    dump->lines[dump->count].key = key;
    dump->lines[dump->count].origin = origin;
    config_value_write(key, base, &dump->lines[dump->count++].value);
}

static void dump_hide_user_alone(dump_t *dump, const config_t *config) {
    for (size_t i = 0; config->redis.user_alone && i < dump->count; i++) {
        if (strcmp(dump->lines[i].key->name, "username") != 0) continue;
        buffer_clear(&dump->lines[i].value);
        config_quote(CONFIG_REDACTED, &dump->lines[i].value);
    }
}

// redis.url is left out: the dump has its parts.
static void dump_add_section(dump_t *dump, const char *section, const void *base, const origin_t *origins) {
    for (size_t i = 0; i < config_key_count; i++) {
        const config_key_t *key = &config_keys[i];
        if (strcmp(key->section, section) == 0 && strcmp(key->name, "url") != 0) dump_add(dump, key, base, origins[i]);
    }
}

static void dump_add_of_queue(dump_t *dump, const char *section, const queue_config_t *queue, const origin_t *origins) {
    const config_key_t *key;
    for (size_t i = 0; (key = config_queue_key(queue->dialect, i)) != NULL; i++)
        if (strcmp(key->section, section) == 0 && config_key_of_dialect(key, queue->dialect))
            dump_add(dump, key, config_queue_base(key, queue), origins[i]);
}

// Writes the lines and forgets them.
static void dump_write(dump_t *dump, int indent, buffer_t *out) {
    static const char *const origins[] = {
        [ORIGIN_DEFAULT] = "default",
        [ORIGIN_FILE] = "file",
        [ORIGIN_ENVIRONMENT] = "environment",
        [ORIGIN_DEFAULTS] = "defaults",
    };
    size_t name_width = 0, widest = 0;
    for (size_t i = 0; i < dump->count; i++) {
        size_t name = strlen(dump->lines[i].key->name), width = dump->lines[i].value.len;
        if (name > name_width) name_width = name;
        if (width > widest && width <= WIDEST_VALUE) widest = width;
    }
    for (size_t i = 0; i < dump->count; i++) {
        const config_key_t *key = dump->lines[i].key;
        buffer_t *value = &dump->lines[i].value;
        bool hidden = strcmp(buffer_text(value), "\"" CONFIG_REDACTED "\"") == 0; // comment it out: no password
        buffer_str(value, ";");
        buffer_printf(out, "%*s%s%-*s = %-*s # %s\n", indent, "", hidden ? "# " : "", (int)name_width - (hidden ? 2 : 0),
                      key->name, (int)widest + 1, buffer_text(value), origins[dump->lines[i].origin]);
        buffer_free(value);
    }
    dump->count = 0;
}

static void dump_write_group(const char *name, const char *section, const void *base, const origin_t *origins, buffer_t *out) {
    dump_t dump = {.count = 0};
    buffer_printf(out, "\n%s = {\n", name);
    dump_add_section(&dump, section, base, origins);
    if (strcmp(section, "redis") == 0) dump_hide_user_alone(&dump, base);
    dump_write(&dump, 4, out);
    buffer_str(out, "};\n");
}

// Lists the Redis keys of a dialect that derives their names, to write an ACL or to use redis-cli.
static void dump_write_keys(const queue_config_t *queue, buffer_t *out) {
    redis_keys_t keys = config_redis_keys(queue);
    for (size_t i = 0; i < keys.count; i++) {
        const redis_key_t *key = &keys.items[i];
        buffer_str(out, "        # key ");
        config_quote(key->name, out);
        buffer_printf(out, ": %s%s%s%s, %s\n", key->role, key->type ? ", a " : "", key->type ? key->type : "",
                      key->pattern ? ", for each *" : "", key->use == KEY_WRITES ? "written" : "read");
    }
    config_redis_keys_free(&keys);
}

static void dump_write_commands(const queue_config_t *queue, buffer_t *out) {
    buffer_t commands = {0};
    queue->dialect->commands(queue, &commands);
    if (commands.len) buffer_printf(out, "        # %s\n", buffer_text(&commands));
    buffer_free(&commands);
}

static void dump_write_queue(const queue_config_t *queue, const origin_t *origins, buffer_t *out) {
    dump_t dump = {.count = 0};
    buffer_str(out, "    {\n");
    dump_add_of_queue(&dump, "queue-only", queue, origins);
    dump_add_of_queue(&dump, "queue", queue, origins);
    dump_write(&dump, 8, out);
    if (queue->dialect->commands)
        dump_write_commands(queue, out);
    else if (queue->dialect->derive)
        dump_write_keys(queue, out);
    buffer_str(out, "    }");
}

// A line end in a path would end the comment.
static void dump_write_path(const char *path, buffer_t *out) {
    buffer_str(out, "# Every effective value of ");
    for (; path && *path; path++) buffer_add(out, iscntrl((unsigned char)*path) ? "?" : path, 1);
    buffer_str(out, ", and where it came from.\n\n");
}

void config_dump(const config_t *config, buffer_t *out) {
    const origin_t *origins = config->origins->keys;
    dump_t top = {.count = 0};
    dump_write_path(config->path, out);
    dump_add_section(&top, "", config, origins);
    dump_write(&top, 0, out);
    for (size_t row = 0; row < config_key_count; row++) {
        const char *section = config_keys[row].section;
        if (config_key_begins_section(row)) dump_write_group(section, section, config, origins, out);
    }
    dump_write_group("defaults", "queue", &config->defaults, origins, out);
    buffer_str(out, "\nqueues = (\n");
    for (size_t i = 0; i < config->queue_count; i++) {
        if (i) buffer_str(out, ",\n");
        dump_write_queue(&config->queues[i], config->origins->queues[i], out);
    }
    buffer_str(out, "\n);\n");
}

// ---- Each value, for programs.

// Returns where a value came from, owned.
static char *dump_origin(const config_t *config, const queue_config_t *queue, const config_key_t *key, origin_t origin) {
    const char *place = queue || key->own ? NULL : config->origins->places[config_key_row(key)];
    if (origin == ORIGIN_ENVIRONMENT && place) return mem_printf("env %s", place);
    if (origin == ORIGIN_DEFAULT) return mem_str("default");
    if (origin == ORIGIN_DEFAULTS) return mem_str("defaults");
    if (place) return mem_str(place);
    return queue && queue->line ? mem_printf("%s:%d", config->path, queue->line) : mem_str(config->path);
}

static void dump_visit(const config_t *config, const queue_config_t *queue, const config_key_t *key, origin_t origin,
                       config_visit_fn *visit, void *self) {
    const char *section = config_key_in_policy(key) ? "defaults" : key->section;
    const void *base = queue                       ? config_queue_base(key, queue)
                       : config_key_in_policy(key) ? (const void *)&config->defaults
                                                   : (const void *)config;
    char *name = queue      ? mem_printf("queues.%s.%s", queue->name, key->name)
                 : *section ? mem_printf("%s.%s", section, key->name)
                            : mem_str(key->name);
    char *from = dump_origin(config, queue, key, origin);
    buffer_t value = {0};
    if (config->redis.user_alone && strcmp(name, "redis.username") == 0)
        config_quote(CONFIG_REDACTED, &value);
    else
        config_value_write(key, base, &value);
    visit(self, name, buffer_text(&value), from);
    buffer_free(&value);
    free(from);
    free(name);
}

void config_each(const config_t *config, config_visit_fn *visit, void *self) {
    for (size_t row = 0; row < config_key_count; row++) {
        const config_key_t *key = &config_keys[row];
        bool listed = strcmp(key->section, "queue-only") != 0 && strcmp(key->name, "url") != 0;
        if (listed) dump_visit(config, NULL, key, config->origins->keys[row], visit, self);
    }
    for (size_t i = 0; i < config->queue_count; i++) {
        const queue_config_t *queue = &config->queues[i];
        const config_key_t *key;
        for (size_t row = 0; (key = config_queue_key(queue->dialect, row)) != NULL; row++)
            if (config_key_in_queue(key) && config_key_of_dialect(key, queue->dialect))
                dump_visit(config, queue, key, config->origins->queues[i][row], visit, self);
    }
}

bool config_queue_number(const queue_config_t *queue, const char *key, int64_t *out) {
    const config_key_t *row = config_queue_key_find(queue->dialect, key);
    if (!row || row->type > KEY_SIZE || !config_key_of_dialect(row, queue->dialect)) return false;
    memcpy(out, (const char *)config_queue_base(row, queue) + row->at, sizeof *out);
    return true;
}

typedef struct key_rows {
    config_dialects_fn *dialects;
    buffer_t *out;
} key_rows_t;

static void dump_list_key(void *self, const config_key_t *key) {
    const key_rows_t *rows = self;
    buffer_t allowed = {0}, dialects = {0};
    config_key_dialects(key, rows->dialects, ",", ",", &dialects);
    config_value_describe(key, &allowed);
    buffer_printf(rows->out, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", key->section, key->name, config_key_types[key->type].name,
                  key->fallback ? key->fallback : "", buffer_text(&allowed), key->reloadable ? "reloadable" : "restart",
                  key->help, buffer_text(&dialects));
    buffer_free(&dialects);
    buffer_free(&allowed);
}

void config_list_keys(config_dialects_fn *dialects, buffer_t *out) {
    config_key_each(dialects, dump_list_key, &(key_rows_t){dialects, out});
}
