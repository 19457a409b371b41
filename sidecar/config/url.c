#include "base/slice.h"
#include "config/load.h"
#include "config/value.h"

enum part { PART_HOST, PART_PORT, PART_SOCKET, PART_DB, PART_USERNAME, PART_PASSWORD, PART_TLS, PARTS };
static const char *const part_keys[PARTS] = {"host", "port", "socket", "db", "username", "password", "tls"};

typedef struct url {
    char *parts[PARTS]; // owned; NULL = the url does not say
} url_t;

// Returns text (owned) with %XX decoded, or NULL when a % is not followed by two hex digits or stands for NUL.
static char *url_decode(const char *text, size_t len) {
    char *out = mem_alloc(len + 1);
    char *to = out;
    for (size_t i = 0; i < len; i++) {
        int high = text[i] == '%' && i + 2 < len ? hex_digit(text[i + 1]) : -1;
        int low = high >= 0 ? hex_digit(text[i + 2]) : -1;
        if (text[i] != '%') {
            *to++ = text[i];
        } else if (low < 0 || high + low == 0) {
            free(out);
            return NULL;
        } else {
            *to++ = (char)(high * 16 + low);
            i += 2;
        }
    }
    return out;
}

// Parses "user:password"; either part may be missing.
static bool url_take_user(url_t *url, const char *text, size_t len) {
    const char *colon = memchr(text, ':', len);
    size_t user = colon ? (size_t)(colon - text) : len;
    url->parts[PART_USERNAME] = url_decode(text, user);
    if (!url->parts[PART_USERNAME] || !colon) return url->parts[PART_USERNAME] != NULL;
    url->parts[PART_PASSWORD] = url_decode(colon + 1, len - user - 1);
    return url->parts[PART_PASSWORD] != NULL;
}

// Parses "host", "host:port" or "[address]:port".
static bool url_take_host(url_t *url, const char *text, size_t len) {
    const char *end = text + len;
    const char *close = *text == '[' ? memchr(text, ']', len) : NULL;
    if (*text == '[' && !close) return false;
    const char *colon = memchr(close ? close : text, ':', (size_t)(end - (close ? close : text)));
    const char *host_end = close ? close : colon ? colon : end;
    const char *begin = close ? text + 1 : text;
    if (host_end == begin || (close && close + 1 != end && close + 1 != colon)) return false;
    url->parts[PART_HOST] = mem_printf("%.*s", (int)(host_end - begin), begin);
    if (colon) url->parts[PART_PORT] = mem_printf("%.*s", (int)(end - colon - 1), colon + 1);
    return true;
}

static bool url_parse_tcp(url_t *url, const char *text) {
    size_t len = strcspn(text, "/?#");
    const char *at = memrchr(text, '@', len);
    size_t skip = at ? (size_t)(at - text) + 1 : 0;
    if (at && !url_take_user(url, text, skip - 1)) return false;
    if (!url_take_host(url, text + skip, len - skip)) return false;
    const char *path = text + len;
    if (strpbrk(path, "?#")) return false;
    if (path[0] == '/' && path[1]) url->parts[PART_DB] = mem_str(path + 1);
    return true;
}

static bool url_parse(url_t *url, const char *text) {
    if (strncmp(text, "unix:///", 8) == 0 && text[8]) {
        url->parts[PART_SOCKET] = url_decode(text + 7, strlen(text + 7));
        return url->parts[PART_SOCKET] && !strpbrk(text, "?#");
    }
    if (strncmp(text, "rediss://", 9) == 0) {
        url->parts[PART_TLS] = mem_str("true");
        return url_parse_tcp(url, text + 9);
    }
    return strncmp(text, "redis://", 8) == 0 && url_parse_tcp(url, text + 8);
}

// Returns the character that ends the host although a user and a password follow; '\0' = none. A raw / is usual in generated
// ones.
static char url_bare_character(const char *text) {
    const char *host = strstr(text, "://"), *end = host ? strpbrk(host + 3, "/?#") : NULL;
    return end && strncmp(text, "redis", 5) == 0 && strchr(end, '@') ? *end : '\0';
}

// Sets the parts, and reports each part that this origin also sets by itself. Without a username or password the url leaves it.
static void url_set_parts(load_t *load, const location_t *location, const url_t *url, const char *shown) {
    for (size_t i = 0; i < PARTS; i++) {
        const config_key_t *key = config_key_find("redis", part_keys[i]);
        config_key_t unshown = *key;
        unshown.secret = true; // port and db may be pieces of a password with a bare /
        location_t *part = &load->keys[config_key_row(key)];
        const char *text = url->parts[i];
        if (!text && (i == PART_USERNAME || i == PART_PASSWORD)) continue;
        if (part->origin == location->origin) {
            char *name = config_load_shown(key, part->origin);
            diagnostic_add(load->errors, part,
                           i == PART_TLS ? "%s and %s are both set: begin the URL with rediss:// for TLS, and remove %s"
                                         : "%s and %s are both set: remove one of them",
                           name, shown, name);
            free(name);
        }
        buffer_t why = {0};
        if (!config_value_set_text(&unshown, text ? text : key->fallback, load->config, &why))
            diagnostic_add(load->errors, location, "%s: its %s %s", shown, key->name, buffer_text(&why));
        buffer_free(&why);
        *part = text ? *location : (location_t){0};
    }
}

void config_load_url(load_t *load, origin_t origin) {
    const config_key_t *key = config_key_find("redis", "url");
    const location_t *location = &load->keys[config_key_row(key)];
    char **text = &load->config->redis.url;
    if (location->origin != origin || !**text) return;
    char *shown = config_load_shown(key, origin);
    url_t url = {0};
    char bare = url_bare_character(*text);
    bool good = !bare && url_parse(&url, *text);
    load->url_refused = load->url_refused || !good;
    if (bare)
        diagnostic_add(load->errors, location, "%s has a bare `%c` before its `@`: in a user and a password write it as %%%02X",
                       shown, bare, (unsigned)bare);
    else if (!good)
        diagnostic_add(load->errors, location,
                       "%s must be redis://[user][:password]@host:port/db, rediss://... for TLS, or unix:///path, with %%XX for "
                       "special characters",
                       shown);
    if (good) {
        url_set_parts(load, location, &url, shown);
        load->config->redis.user_alone = url.parts[PART_USERNAME] && *url.parts[PART_USERNAME] && !url.parts[PART_PASSWORD];
    }
    for (size_t i = 0; i < PARTS; i++) free(url.parts[i]);
    free(shown);
    config_value_free(key, load->config);
    *text = mem_str("");
}
