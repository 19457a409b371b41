#include <ctype.h>

#include "base/text/suggest.h"
#include "config/load.h"
#include "config/value.h"

static const char env_prefix[] = "QUEUE_SIDECAR_";
static const location_t environment = {.origin = ORIGIN_ENVIRONMENT};

static char *env_variable(const config_key_t *key) {
    char *name = mem_printf("%s%s%s%s", env_prefix, key->section, *key->section ? "_" : "", key->name);
    for (char *at = name; *at; at++) *at = (char)toupper((unsigned char)*at);
    return name;
}

char *config_load_shown(const config_key_t *key, origin_t origin) {
    if (origin == ORIGIN_ENVIRONMENT) return env_variable(key);
    return mem_printf("`%s%s%s`", key->section, *key->section ? "." : "", key->name);
}

// For a service named "queue-sidecar-redis" Kubernetes sets QUEUE_SIDECAR_REDIS_PORT, the variable of redis.port.
static bool env_is_service_link(const char *value) {
    return strncmp(value, "tcp://", 6) == 0 || strncmp(value, "udp://", 6) == 0;
}

static void env_take(load_t *load, const config_key_t *key, const char *variable, const char *value) {
    buffer_t why = {0};
    if (env_is_service_link(value) && !config_value_set_text(key, value, load->config, &why)) {
        diagnostic_add(load->warnings, &environment,
                       "%s is ignored, as it is the address of a Kubernetes service: set enableServiceLinks: false", variable);
    } else if (config_value_set_text(key, value, load->config, &why)) {
        load->keys[config_key_row(key)] = environment;
    } else {
        diagnostic_add(load->errors, &environment, "%s %s", variable, buffer_text(&why));
    }
    buffer_free(&why);
}

// `names` are the known variables without their common prefix, because the prefix would make any two names similar.
static void env_warn_unknown(load_t *load, const char *entry, const char *const *names, size_t count) {
    static const char *const others[] = {"QUEUE_SIDECAR_CONFIG=", "QUEUE_SIDECAR_TEST_"};
    if (strncmp(entry, env_prefix, sizeof env_prefix - 1) != 0) return;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (strncmp(entry, others[i], strlen(others[i])) == 0) return;
    }
    entry += sizeof env_prefix - 1;
    char *name = mem_printf("%.*s", (int)strcspn(entry, "="), entry);
    const char *nearest = suggest_nearest(name, names, count);
    if (!nearest)
        diagnostic_add(load->warnings, &environment, "unknown variable %s%s", env_prefix, name);
    else if (strcmp(nearest, name) != 0)
        diagnostic_add(load->warnings, &environment, "unknown variable %s%s: did you mean %s%s?", env_prefix, name, env_prefix,
                       nearest);
    free(name);
}

void config_load_environment(load_t *load) {
    char *variables[CONFIG_KEYS_MAX];
    const char *names[CONFIG_KEYS_MAX];
    size_t count = 0;
    for (size_t i = 0; i < config_key_count; i++) {
        const config_key_t *key = &config_keys[i];
        if (config_key_in_queue(key)) continue;
        char *variable = variables[count] = env_variable(key);
        names[count++] = variable + sizeof env_prefix - 1;
        const char *found = getenv(variable);
        if (!found) continue;
        // Secrets that people make from files end with a newline.
        char *value = mem_str(found);
        for (size_t len = strlen(value); len && strchr("\r\n", value[len - 1]); len--) value[len - 1] = '\0';
        env_take(load, key, variable, value);
        explicit_bzero(value, strlen(value));
        free(value);
    }
    for (char **entry = environ; entry && *entry; entry++) env_warn_unknown(load, *entry, names, count);
    for (size_t i = 0; i < count; i++) free(variables[i]);
}
