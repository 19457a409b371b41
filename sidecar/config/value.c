#include "config/value.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <strings.h>

#include "base/text/units.h"
#include "config/dialect.h"
#include "config/literal.h"

#define VALUE_ALNUM "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

static const char *const role_words[] = {"dispatcher", "monitor", NULL};
static const unsigned role_bits[] = {ROLE_DISPATCHER, ROLE_MONITOR};

// A value of any type, as its field holds it.
typedef union value {
    int64_t number;
    double real;
    bool flag;
    int word;
    unsigned bits;
    char *text; // owned
    strings_t strings;
    delay_steps_t steps;
    const config_dialect_t *dialect;
} value_t;

static void *value_field(const config_key_t *key, void *base) { return (char *)base + key->at; }

static void value_get(const config_key_t *key, const void *base, value_t *out) {
    memset(out, 0, sizeof *out);
    memcpy(out, (const char *)base + key->at, config_key_types[key->type].size);
}

static int value_word(const char *const *words, const char *text) {
    for (int i = 0; words && words[i]; i++)
        if (strcmp(words[i], text) == 0) return i;
    return -1;
}

static bool value_parse_number(const config_key_t *key, const node_t *node, int64_t *number) {
    if (key->zero && strcmp(node->text, key->zero) == 0) {
        *number = 0;
        return true;
    }
    if (!config_number_of(node->kind == NODE_INT ? KEY_INT : key->type, node->text, number)) return false;
    return !(node->kind == NODE_INT && config_number_wraps(node->text, *number)) && config_number_in_bounds(key, *number);
}

static bool value_parse_real(const config_key_t *key, const char *text, double *real) {
    char *end;
    if (!isdigit((unsigned char)text[*text == '-' || *text == '+']) && *text != '.') return false;
    *real = strtod(text, &end);
    return (*end == '\0' || *end == 'L') && *real >= strtod(key->low, NULL) && *real <= strtod(key->high, NULL);
}

static bool value_take_role(void *bits, const char *word) {
    int role = value_word(role_words, word);
    if (role >= 0) *(unsigned *)bits |= role_bits[role];
    return role >= 0;
}

static bool value_has_control(const char *text, bool or_space) {
    for (; *text; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte < ' ' || byte == 0x7f || (or_space && byte == ' ')) return true;
    }
    return false;
}

static bool value_has_own_prefix(const char *text) { return strncmp(text, CONFIG_OWN_PREFIX, strlen(CONFIG_OWN_PREFIX)) == 0; }

static bool value_is_pointer(const char *text) {
    if (*text && *text != '/') return false;
    for (; *text; text++)
        if (*text == '~' && text[1] != '0' && text[1] != '1') return false;
    return true;
}

// A name, or an address; * would be no pattern.
static bool value_is_host(const char *text) {
    unsigned char v6[sizeof(struct in6_addr)];
    return inet_pton(AF_INET6, text, v6) == 1 || text[strspn(text, VALUE_ALNUM "-._")] == '\0';
}

// The name of whoever sent a request goes into the audit log, so it must not be a secret.
static bool value_is_header(const char *text) {
    static const char *const secret[] = {"Authorization", "Proxy-Authorization", "Cookie"};
    for (size_t i = 0; i < sizeof secret / sizeof *secret; i++)
        if (strcasecmp(text, secret[i]) == 0) return false;
    return text[strspn(text, VALUE_ALNUM "-")] == '\0';
}

static bool value_parse_list(const config_key_t *key, const node_t *node, strings_t *list) {
    bool good = strings_parse(key, node, list);
    for (size_t i = 0; good && key->type != KEY_STRINGS && i < list->count; i++)
        good = key->type == KEY_HOSTS ? value_is_host(list->items[i]) : value_is_pointer(list->items[i]);
    return good;
}

// In a URL an @ follows user and password. The path of a socket may hold one.
static bool value_is_address(const char *text) { return !strstr(text, "://") && (*text == '/' || !strchr(text, '@')); }

// A user may be an address of mail, but not "user:password@host".
static bool value_is_user(const char *text) {
    const char *colon = strchr(text, ':');
    return !strstr(text, "://") && !(colon && strchr(colon, '@'));
}

static bool value_is_pattern(const char *text) {
    if (strcmp(text, "off") == 0 || strcmp(text, HEARTBEAT_OF_CONSUMER) == 0) return true;
    const char *star = strchr(text, '*');
    return star && !strchr(star + 1, '*') && !value_has_own_prefix(text);
}

static bool value_takes_text(const config_key_t *key, const char *text) {
    if (!config_number_in_bounds(key, (int64_t)strlen(text))) return false;
    switch (key->type) {
    case KEY_ADDRESS: return !value_has_control(text, false) && value_is_address(text);
    case KEY_USER: return !value_has_control(text, false) && value_is_user(text);
    case KEY_NAME: return !value_has_control(text, true) && !value_has_own_prefix(text);
    case KEY_HEADER: return value_is_header(text);
    case KEY_REDIS: return !value_has_own_prefix(text);
    case KEY_PATTERN: return value_is_pattern(text);
    case KEY_POINTER: return value_is_pointer(text);
    default: return key->secret || !value_has_control(text, false);
    }
}

static bool value_parse(const config_key_t *key, const node_t *node, value_t *out) {
    if (node->kind != NODE_ANY && !(config_key_types[key->type].kinds & 1 << node->kind)) return false;
    switch (key->type) {
    case KEY_INT:
    case KEY_DURATION:
    case KEY_MICROS:
    case KEY_SIZE: return value_parse_number(key, node, &out->number);
    case KEY_REAL: return value_parse_real(key, node->text, &out->real);
    case KEY_BOOL: out->flag = strcmp(node->text, "true") == 0; return out->flag || strcmp(node->text, "false") == 0;
    case KEY_ENUM: out->word = value_word(key->words, node->text); return out->word >= 0;
    case KEY_ROLES: return config_list_each(node, value_take_role, &out->bits) && out->bits != 0;
    case KEY_STRINGS:
    case KEY_POINTERS:
    case KEY_HOSTS: return value_parse_list(key, node, &out->strings);
    case KEY_STEPS: return delay_steps_parse(key, node, &out->steps);
    default: break;
    }
    if (!value_takes_text(key, node->text)) return false;
    out->text = mem_str(node->text);
    return true;
}

static void value_free(const config_key_t *key, value_t *value) {
    if (key->type >= KEY_STRINGS && key->type <= KEY_HOSTS) strings_free(&value->strings);
    if (key->type == KEY_STEPS) free(value->steps.items);
    if (key->type < KEY_TEXT || key->type > KEY_POINTER || !value->text) return;
    if (key->secret) explicit_bzero(value->text, strlen(value->text));
    free(value->text);
}

void config_value_free(const config_key_t *key, void *base) {
    value_t value;
    value_get(key, base, &value);
    value_free(key, &value);
    if (key->type >= KEY_TEXT) memset(value_field(key, base), 0, config_key_types[key->type].size);
}

static void value_set(const config_key_t *key, const value_t *value, void *base) {
    config_value_free(key, base);
    memcpy(value_field(key, base), value, config_key_types[key->type].size);
}

enum { SHOWN = 80 };

// A password may be part of a URL in the place of a port.
void config_value_show(const char *text, buffer_t *out) {
    if (strlen(text) > SHOWN)
        buffer_printf(out, "a text of %zu bytes", strlen(text));
    else if (strstr(text, "://") || strchr(text, '@'))
        buffer_str(out, "a text that may hold a password");
    else
        config_quote(text, out);
}

static void explain_array(const node_t *node, buffer_t *why) {
    buffer_str(why, "is [");
    for (size_t i = 0; i < node->count && i < 4; i++) {
        const node_t *child = &node->children[i];
        if (i) buffer_str(why, ", ");
        if (child->kind == NODE_TEXT)
            config_value_show(child->text, why);
        else
            buffer_str(why, child->text ? child->text : "...");
    }
    buffer_str(why, node->count > 4 ? ", ...]" : "]");
}

static void explain_value(const config_key_t *key, const node_t *node, buffer_t *why) {
    if (key->secret) {
        buffer_str(why, "is not right");
    } else if (node->kind == NODE_GROUP) {
        buffer_str(why, "is a group");
    } else if (node->kind == NODE_LIST || node->kind == NODE_ARRAY) {
        explain_array(node, why);
    } else if (node->kind == NODE_TEXT || node->kind == NODE_ANY || strlen(node->text) > SHOWN) {
        buffer_str(why, "is ");
        config_value_show(node->text, why);
    } else {
        buffer_printf(why, "is %s", node->text);
    }
}

static bool explain_lacks_unit(const config_key_t *key, const node_t *node) {
    bool timed = key->type == KEY_DURATION || key->type == KEY_MICROS;
    return timed && node->text && *node->text && node->text[strspn(node->text, "0123456789")] == '\0';
}

// The units of the key if the value is a text in none of them, such as "5 sec"; otherwise NULL.
static const char *explain_units(const config_key_t *key, const node_t *node) {
    int64_t value;
    if (node->kind == NODE_INT || !node->text || explain_lacks_unit(key, node) || config_number_of(key->type, node->text, &value))
        return NULL;
    return key->type == KEY_MICROS     ? "us or ms"
           : key->type == KEY_DURATION ? "ms, s, m, h or d"
           : key->type == KEY_SIZE     ? "KiB, MiB, GiB or TiB"
                                       : NULL;
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

// Adds the found and the allowed values.
static void value_explain(const config_key_t *key, const node_t *node, buffer_t *why) {
    explain_value(key, node, why);
    if (explain_only_wraps(key, node)) {
        buffer_printf(why, ", out of the range of 32 bits: write %sL", node->text);
        return;
    }
    if (explain_lacks_unit(key, node))
        buffer_printf(why,
                      key->type == KEY_MICROS ? " without a unit (us or ms; such as \"%sus\")"
                                              : " without a unit (ms, s, m, h or d; such as \"%ss\")",
                      node->text);
    const char *units = explain_units(key, node);
    buffer_str(why, ", but must be ");
    config_value_describe(key, why);
    if (units) buffer_printf(why, "; write a whole number and its unit: %s", units);
}

bool config_value_set(const config_key_t *key, const node_t *node, void *base, buffer_t *why) {
    value_t value;
    memset(&value, 0, sizeof value);
    bool good = value_parse(key, node, &value);
    if (good) {
        value_set(key, &value, base);
    } else {
        value_free(key, &value);
        value_explain(key, node, why);
    }
    return good;
}

bool config_value_set_text(const config_key_t *key, const char *text, void *base, buffer_t *why) {
    char *copy = mem_str(text);
    node_t node = {.kind = NODE_ANY, .text = copy};
    bool good = config_value_set(key, &node, base, why);
    free(copy);
    return good;
}

void config_value_set_known(const config_key_t *key, const char *text, void *base) {
    buffer_t why = {0};
    if (!config_value_set_text(key, text, base, &why)) abort(); // a default of the table is not valid
}

void config_value_copy(const config_key_t *key, void *to, const void *from) {
    value_t value;
    value_get(key, from, &value);
    if (key->type == KEY_POINTERS)
        value.strings = strings_copy(&value.strings);
    else if (key->type >= KEY_TEXT)
        value.text = mem_str(value.text);
    value_set(key, &value, to);
}

static void value_write_number(const config_key_t *key, int64_t value, buffer_t *out) {
    units_text_t text = key->type == KEY_SIZE     ? size_exact(value)
                        : key->type == KEY_MICROS ? micros_exact(value)
                                                  : duration_exact(value);
    if (key->type == KEY_INT) snprintf(text.text, sizeof text.text, "%" PRId64, value);
    if (key->zero && value == 0) snprintf(text.text, sizeof text.text, "%s", key->zero);
    bool plain = text.text[strspn(text.text, "-0123456789")] == '\0';
    buffer_printf(out, plain ? "%s" : "\"%s\"", text.text);
    if (plain && (value > INT32_MAX || value < INT32_MIN)) buffer_str(out, "L");
}

// libconfig needs a point or an exponent in a real number.
static void value_write_real(double value, buffer_t *out) {
    char text[40];
    snprintf(text, sizeof text, "%.15g", value);
    buffer_printf(out, strpbrk(text, ".e") ? "%s" : "%s.0", text);
}

static void value_write_roles(unsigned bits, buffer_t *out) {
    const char *between = "";
    buffer_str(out, "[");
    for (size_t i = 0; role_words[i]; i++) {
        if (!(bits & role_bits[i])) continue;
        buffer_printf(out, "%s\"%s\"", between, role_words[i]);
        between = ", ";
    }
    buffer_str(out, "]");
}

static void value_write_text(const config_key_t *key, const char *text, buffer_t *out) {
    bool hidden = key->secret || (key->secret_file && *text != '/' && *text != '.');
    config_quote(*text && hidden ? CONFIG_REDACTED : text, out);
}

void config_value_write(const config_key_t *key, const void *base, buffer_t *out) {
    value_t value;
    value_get(key, base, &value);
    switch (key->type) {
    case KEY_INT:
    case KEY_DURATION:
    case KEY_MICROS:
    case KEY_SIZE: value_write_number(key, value.number, out); break;
    case KEY_REAL: value_write_real(value.real, out); break;
    case KEY_BOOL: buffer_str(out, value.flag ? "true" : "false"); break;
    case KEY_ENUM: buffer_printf(out, "\"%s\"", key->words[value.word]); break;
    case KEY_ROLES: value_write_roles(value.bits, out); break;
    case KEY_DIALECT: buffer_printf(out, "\"%s\"", value.dialect->name); break;
    case KEY_STRINGS:
    case KEY_POINTERS:
    case KEY_HOSTS: strings_write(&value.strings, out); break;
    case KEY_STEPS: delay_steps_write(&value.steps, out); break;
    default: value_write_text(key, value.text ? value.text : "", out);
    }
}
