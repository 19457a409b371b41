#include "tls_harness.h"
#include "kept.h"

#include "certificates.h"
#include "relay.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PLACES = 256 };

static struct {
    char *socket; /* NULL: free */
    int port;
    relay_t *relay; /* NULL: none */
} places[MAX_PLACES];

bool tls_harness_is_on(void) {
    const char *value = getenv("QS_TLS");
    return value && strcmp(value, "1") == 0;
}

static size_t add(const char *socket, int port) {
    size_t i = 0;
    while (i < MAX_PLACES && places[i].socket) i++;
    if (i == MAX_PLACES) abort(); /* raise MAX_PLACES */
    places[i].socket = strdup(socket);
    places[i].port = port;
    return i;
}

void tls_harness_add(const char *socket, int port) {
    if (tls_harness_is_on()) add(socket, port);
}

void tls_harness_relay(const char *socket) {
    if (!tls_harness_is_on()) return;
    relay_t *relay = relay_start(&(relay_options_t){.socket = socket, .tls = certificate_shared_dir()});
    places[add(socket, relay_port(relay))].relay = relay;
}

void tls_harness_remove(const char *socket) {
    for (size_t i = 0; i < MAX_PLACES; i++) {
        if (!places[i].socket || strcmp(places[i].socket, socket) != 0) continue;
        relay_stop(places[i].relay);
        places[i].relay = NULL;
        free(places[i].socket);
        places[i].socket = NULL;
    }
}

static int port_of(const char *socket, size_t len) {
    for (size_t i = 0; i < MAX_PLACES; i++)
        if (places[i].socket && strlen(places[i].socket) == len && memcmp(places[i].socket, socket, len) == 0)
            return places[i].port;
    return 0;
}

char *tls_harness_config(const char *text) {
    static const char key[] = "socket = \"";
    char *out = NULL;
    size_t size;
    FILE *stream = open_memstream(&out, &size);
    if (!stream) abort();
    for (const char *at; (at = strstr(text, key));) {
        const char *path = at + strlen(key);
        size_t len = strcspn(path, "\"");
        int port = port_of(path, len);
        if (port) {
            fprintf(stream, "%.*shost = \"127.0.0.1\"; port = %d; tls = true; tls_ca_file = \"%s/ca.crt\"", (int)(at - text),
                    text, port, certificate_shared_dir());
        } else {
            fprintf(stream, "%.*s", (int)(path + len + 1 - text), text);
        }
        text = path + len + 1;
    }
    fputs(text, stream);
    fclose(stream);
    return kept(out);
}
