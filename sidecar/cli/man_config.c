// queue-sidecar.cfg(5): every key comes from the table of config keys.
#include "cli/man.h"

#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/help.h"
#include "cli/load_config.h"
#include "cli/roff.h"
#include "config/load.h"
#include "config/table.h"
#include "config/value.h"
#include "dialects/registry.h"

static const char description[] =
    "The file says which Redis and which queues `queue-sidecar`(1) serves, and how. It is written in the language of libconfig: "
    "settings are `name = value;`, groups `{ ... };`, lists `( ... );`, and # begins a comment. Only the name of a queue, and "
    "what "
    "some dialects ask for, must be given. An unknown key, one that is there twice and a value out of bounds are faults, told "
    "with "
    "file and line, all of them at once; the sidecar does not start with them.\n\n"
    "A value is taken from the command line, else from the environment, else from this file, else it is the default. "
    "`queue-sidecar check` prints every value and where it came from, which is a config again; `check --redis` asks Redis "
    "too.\n\n"
    "Durations are texts with a unit, \"250ms\", \"30s\", \"3m\", \"24h\" or \"30d\". Sizes are texts too, \"64KiB\", \"16MiB\" "
    "or "
    "\"1GiB\", or plain bytes. Integers above 2147483647 end in L. No comma may stand before a closing parenthesis: older "
    "versions "
    "of libconfig refuse it.\n\n"
    "The file is read again on SIGHUP, when a ConfigMap is swapped in, and every `reload.poll`. All of it is taken, or, when "
    "anything is wrong, nothing; the log says which. Keys that need a restart say so below: while one of them differs from what "
    "is "
    "in effect nothing is taken.";

const char man_config_example[] = "group = \"mail-app\";\n"
                                  "redis = { host = \"10.0.0.5\"; password_file = \"/etc/queue-sidecar/password\"; };\n"
                                  "defaults = { retry_times = 5; };\n"
                                  "queues = (\n"
                                  "    { name = \"email\"; protected_timeout = \"30s\"; id_path = \"/id\"; },\n"
                                  "    { name = \"video\"; dialect = \"bull\"; }\n"
                                  ");\n";

// Beside each section: what it is about.
static const struct section {
    const char *name, *title, *text;
} sections[] = {
    {"", "At the top", "These stand in no group."},
    {"redis", "redis", "Where Redis is, and who asks it."},
    {"lock", "lock", "By which one instance of the group leads."},
    {"dispatcher", "dispatcher", "The role that moves due jobs to ready."},
    {"monitor", "monitor", "The role that finds stalled jobs."},
    {"stream", "stream", "The failure streams in Redis, by which final failures reach the audit logs of all instances."},
    {"audit", "audit", "The audit log of this instance."},
    {"http", "http", "Health and metrics."},
    {"log", "log", "What is written to standard error."},
    {"reload", "reload", "Noticing changes of this file."},
    {"queue", "defaults, and each queue",
     "These may stand in `defaults` for all queues whose dialect knows them, and in each queue for itself."},
    {"queue-only", "queues", "A list of groups, one for each queue. These stand in a queue only."},
};

static const struct section *section_of(const char *name) {
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++)
        if (strcmp(sections[i].name, name) == 0) return &sections[i];
    return NULL;
}

// "Default: 5s; allowed: a duration from ... . Needs a restart."
static void add_facts(const config_key_t *key, buffer_t *out) {
    buffer_t facts = {0}, allowed = {0}, dialects = {0};
    config_value_describe(key, &allowed);
    config_key_dialects(key, dialect_settings, ", ", &dialects);
    if (!key->fallback)
        buffer_str(&facts, "Must be given");
    else
        buffer_printf(&facts, "Default: %s%s%s", *key->fallback ? "`" : "", *key->fallback ? key->fallback : "empty",
                      *key->fallback ? "`" : "");
    buffer_printf(&facts, "; allowed: %s. %s.", buffer_text(&allowed), key->reloadable ? "Reloadable" : "Needs a restart");
    if (dialects.len) buffer_printf(&facts, " Dialects: %s.", buffer_text(&dialects));
    if (!config_key_in_queue(key)) {
        char *variable = config_load_shown(key, ORIGIN_ENVIRONMENT);
        buffer_printf(&facts, "\nEnvironment: `%s`", variable);
        free(variable);
    }
    roff_text(out, buffer_text(&facts));
    buffer_free(&facts);
    buffer_free(&allowed);
    buffer_free(&dialects);
}

static void add_key(const config_key_t *key, buffer_t *out) {
    char *tag = mem_printf("`%s` (%s)", key->name, config_key_type_name(key->type));
    roff_tag(out, tag);
    roff_text(out, key->help);
    buffer_str(out, ".br\n");
    add_facts(key, out);
    free(tag);
}

// The page so far.
typedef struct key_page {
    buffer_t *out;
    const char *section; // of the last key; NULL = there was none
} key_page_t;

static void page_add_key(void *self, const config_key_t *key) {
    key_page_t *page = self;
    const struct section *section = section_of(key->section);
    if (!page->section || strcmp(page->section, key->section) != 0) {
        roff_subsection(page->out, section ? section->title : key->section);
        if (section) roff_text(page->out, section->text);
    }
    page->section = key->section;
    add_key(key, page->out);
}

void man_config(buffer_t *out) {
    roff_begin(out, "QUEUE\\-SIDECAR.CFG", "5");
    roff_section(out, "NAME");
    buffer_str(out, "queue\\-sidecar.cfg \\- the configuration of queue\\-sidecar\n");
    roff_section(out, "SYNOPSIS");
    roff_text(out, "`" CLI_DEFAULT_CONFIG "`");
    roff_section(out, "DESCRIPTION");
    roff_text(out, description);
    roff_section(out, "KEYS");
    config_key_each(dialect_settings, page_add_key, &(key_page_t){.out = out});
    roff_section(out, "EXAMPLES");
    roff_example(out, man_config_example);
    roff_section(out, "SEE ALSO");
    roff_text(out, "`queue-sidecar`(1)");
}
