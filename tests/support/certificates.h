/* Certificates of a test, made by GnuTLS: a CA signs them, and each may have one thing wrong. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct certificate certificate_t;

enum { DAY_S = 24 * 3600 };

typedef struct {
    const char *common_name; /* NULL: none */
    const char *names;       /* DNS names, separated by blanks; NULL: none */
    const char *addresses;   /* the same for IP addresses */
    int64_t from_s, until_s; /* relative to now; both 0: from a day ago until in 30 days */
    bool ca;
    const char *purpose;    /* "server" or "client"; NULL: no extended key usage */
    bool sha1;              /* signed with SHA-1 */
    int rsa_bits;           /* 0: an elliptic curve */
    bool damaged_signature; /* the last byte is wrong */
} certificate_spec_t;

/* issuer NULL: signs itself. Owned by the caller: certificate_free. */
certificate_t *certificate_new(const certificate_t *issuer, certificate_spec_t spec);
void certificate_free(certificate_t *certificate); /* NULL is allowed */

/* Writes DIR/NAME.crt, with the certificates of `chain` behind it (NULL-terminated; NULL: none), and DIR/NAME.key. Each file is
 * replaced by a rename, as a program that renews certificates does. */
void certificate_write(const certificate_t *certificate, const certificate_t *const *chain, const char *dir, const char *name);

/* A new directory with ca.crt, server.crt, server.key (for localhost, 127.0.0.1 and ::1), client.crt, client.key. Owned by the
 * caller. */
char *certificate_dir(void);
/* The same directory for all servers of a test process under QS_TLS=1; lives until the process ends. */
const char *certificate_shared_dir(void);
