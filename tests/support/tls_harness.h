/* With QS_TLS=1 in the environment the product connects with TLS in every test whose config names the socket of a server or of a
 * proxy: a server listens on a TLS port, too; before a proxy a relay ends TLS, as the proxy must read the requests. */
#pragma once

#include <stdbool.h>

bool tls_harness_is_on(void);

/* From now on a config with this socket means this TLS port. The certificates are those of certificate_shared_dir. */
void tls_harness_add(const char *socket, int port);
/* Starts a relay before the socket of a proxy; does nothing if QS_TLS is not set. */
void tls_harness_relay(const char *socket);
void tls_harness_remove(const char *socket); /* stops the relay, if there is one */

/* The text with TLS in place of each known socket. */
char *tls_harness_config(const char *text);
