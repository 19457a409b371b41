#include <ctype.h>
#include <string.h>

#include "config/dialect.h"
#include "config/file/quote.h"
#include "config/load.h"
#include "config/value.h"

enum { WIDEST_VALUE = 40 }; // a longer value shifts its own comment only

// One group of the dump.
typedef struct view {
    const char *sections[2]; // the second may be NULL
    const void *base;
    const origin_t *origins;     // NULL = not known
    const queue_config_t *queue; // whose keys are shown, in place of bases; NULL = all but those of one dialect
    int indent;
} view_t;

static const char *dump_origin_name(const origin_t *origins, size_t row) {
    static const char *const names[] = {
        [ORIGIN_DEFAULT] = "default",
        [ORIGIN_FILE] = "file",
        [ORIGIN_ENVIRONMENT] = "environment",
        [ORIGIN_DEFAULTS] = "defaults",
    };
    return origins ? names[origins[row]] : "unknown";
}

// redis.url is left out: the dump has its parts.
static bool dump_shows(const config_key_t *key, const view_t *view, size_t part) {
    const char *section = view->sections[part];
    if (view->queue && !config_key_of_dialect(key, view->queue->dialect)) return false;
    return section && strcmp(key->section, section) == 0 && strcmp(key->name, "url") != 0;
}

static size_t dump_value_width(const config_key_t *key, const void *base) {
    buffer_t value = {0};
    config_value_write(key, base, &value);
    size_t width = value.len;
    buffer_free(&value);
    return width <= WIDEST_VALUE ? width : 0;
}

static const config_key_t *dump_key(const view_t *view, size_t row) {
    if (view->queue) return config_queue_key(view->queue->dialect, row);
    return row < config_key_count ? &config_keys[row] : NULL;
}

static const void *dump_base(const view_t *view, const config_key_t *key) {
    return view->queue ? config_queue_values(key, view->queue) : view->base;
}

static void dump_measure(const view_t *view, size_t *name_width, size_t *widest) {
    *name_width = *widest = 0;
    for (size_t part = 0; part < 2; part++) {
        const config_key_t *key;
        for (size_t i = 0; (key = dump_key(view, i)) != NULL; i++) {
            if (!dump_shows(key, view, part)) continue;
            size_t name = strlen(key->name), value = dump_value_width(key, dump_base(view, key));
            if (name > *name_width) *name_width = name;
            if (value > *widest) *widest = value;
        }
    }
}

static void dump_write_redis_keys(const view_t *view, buffer_t *out) {
    size_t name_width, widest;
    dump_measure(view, &name_width, &widest);
    for (size_t part = 0; part < 2; part++) {
        const config_key_t *key;
        for (size_t i = 0; (key = dump_key(view, i)) != NULL; i++) {
            if (!dump_shows(key, view, part)) continue;
            buffer_t value = {0};
            config_value_write(key, dump_base(view, key), &value);
            buffer_str(&value, ";");
            // A redacted secret must not be loaded as a password.
            bool hidden = key->secret && strcmp(buffer_text(&value), "\"\";") != 0;
            buffer_printf(out, "%*s%s%-*s = %-*s # %s\n", view->indent, "", hidden ? "# " : "",
                          (int)name_width - (hidden ? 2 : 0), key->name, (int)widest + 1, buffer_text(&value),
                          dump_origin_name(view->origins, i));
            buffer_free(&value);
        }
    }
}

static void dump_write_group(const char *name, const char *section, const void *base, const origin_t *origins, buffer_t *out) {
    view_t view = {.sections = {section, NULL}, .base = base, .origins = origins, .indent = 4};
    buffer_printf(out, "\n%s = {\n", name);
    dump_write_redis_keys(&view, out);
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

static void dump_write_queue(const queue_config_t *queue, const origin_t *origins, buffer_t *out) {
    view_t view = {.sections = {"queue-only", "queue"}, .origins = origins, .queue = queue, .indent = 8};
    buffer_str(out, "    {\n");
    dump_write_redis_keys(&view, out);
    if (queue->dialect->derive) dump_write_keys(queue, out);
    buffer_str(out, "    }");
}

// A line end in a path would end the comment.
static void dump_write_path(const char *path, buffer_t *out) {
    buffer_str(out, "# Every effective value of ");
    for (; path && *path; path++) buffer_add(out, iscntrl((unsigned char)*path) ? "?" : path, 1);
    buffer_str(out, ", and where it came from.\n\n");
}

void config_dump(const config_t *config, buffer_t *out) {
    const struct config_origins *origins = config->origins;
    const origin_t *keys = origins ? origins->keys : NULL;
    const char *sections[CONFIG_SECTIONS_MAX];
    size_t count = config_key_sections(sections);
    view_t top = {.sections = {"", NULL}, .base = config, .origins = keys};
    dump_write_path(config->path, out);
    dump_write_redis_keys(&top, out);
    for (size_t i = 0; i < count; i++) dump_write_group(sections[i], sections[i], config, keys, out);
    dump_write_group("defaults", "queue", &config->defaults, keys, out);
    buffer_str(out, "\nqueues = (\n");
    for (size_t i = 0; i < config->queue_count; i++) {
        if (i) buffer_str(out, ",\n");
        dump_write_queue(&config->queues[i], origins ? origins->queues[i] : NULL, out);
    }
    buffer_str(out, "\n);\n");
}

bool config_queue_number(const queue_config_t *queue, const char *key, int64_t *out) {
    const config_key_t *row = config_queue_key_find(queue->dialect, key);
    if (!row || row->type > KEY_SIZE || !config_key_of_dialect(row, queue->dialect)) return false;
    memcpy(out, (const char *)config_queue_values(row, queue) + row->at, sizeof *out);
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
