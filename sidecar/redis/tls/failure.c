#include "redis/tls/failure.h"

#include <arpa/inet.h>

#include "base/buffer.h"

enum { MAX_NAMES_BYTES = 120 }; // of the names of a certificate that are shown

// Owned. NULL: the bytes are no certificate.
static gnutls_x509_crt_t tls_certificate_of(const gnutls_t *gnutls, const gnutls_datum_t *bytes) {
    gnutls_x509_crt_t certificate;
    if (gnutls->x509_crt_init(&certificate) < 0) return NULL;
    if (gnutls->x509_crt_import(certificate, bytes, GNUTLS_X509_FMT_DER) >= 0) return certificate;
    gnutls->x509_crt_deinit(certificate);
    return NULL;
}

// The server's own certificate, or a later one of its chain; owned. NULL: there is none.
static gnutls_x509_crt_t tls_certificate(const gnutls_t *gnutls, gnutls_session_t session, unsigned index) {
    unsigned count = 0;
    const gnutls_datum_t *chain = gnutls->certificate_get_peers(session, &count);
    return chain && index < count ? tls_certificate_of(gnutls, &chain[index]) : NULL;
}

int64_t tls_earlier(int64_t a, int64_t b) { return a && (!b || a < b) ? a : b; }

// Frees the certificate. Returns when it ends; 0 = unknown.
static int64_t tls_take_end(const gnutls_t *gnutls, gnutls_x509_crt_t certificate) {
    int64_t end = gnutls->x509_crt_get_expiration_time(certificate);
    gnutls->x509_crt_deinit(certificate);
    return end > 0 ? end : 0;
}

int64_t tls_chain_end(const gnutls_t *gnutls, gnutls_session_t session) {
    int64_t end = 0;
    gnutls_x509_crt_t certificate;
    for (unsigned i = 0; (certificate = tls_certificate(gnutls, session, i)); i++)
        end = tls_earlier(end, tls_take_end(gnutls, certificate));
    return end;
}

int64_t tls_own_end(const gnutls_t *gnutls, gnutls_certificate_credentials_t credentials) {
    int64_t end = 0;
    gnutls_datum_t bytes;
    for (unsigned i = 0; gnutls->certificate_get_crt_raw(credentials, 0, i, &bytes) >= 0; i++) {
        gnutls_x509_crt_t certificate = tls_certificate_of(gnutls, &bytes);
        if (certificate) end = tls_earlier(end, tls_take_end(gnutls, certificate));
    }
    return end;
}

static void tls_add_time(buffer_t *text, time_t when) {
    char day[32];
    struct tm utc;
    gmtime_r(&when, &utc);
    strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%SZ", &utc);
    buffer_str(text, day);
}

static void tls_add_address(buffer_t *text, const unsigned char *bytes, size_t size) {
    char shown[INET6_ADDRSTRLEN];
    if (size == 4 || size == 16) buffer_str(text, inet_ntop(size == 4 ? AF_INET : AF_INET6, bytes, shown, sizeof shown));
}

static void tls_add_name(buffer_t *text, int type, const char *name, size_t size) {
    if (text->len) buffer_str(text, ", ");
    if (type == GNUTLS_SAN_IPADDRESS)
        tls_add_address(text, (const unsigned char *)name, size);
    else
        buffer_printf(text, "%.*s", (int)size, name);
}

// Writes the names and addresses of the certificate: those that GnuTLS compares. A cloud gives it many.
static void tls_add_names(const gnutls_t *gnutls, gnutls_x509_crt_t certificate, buffer_t *text) {
    char name[256];
    for (unsigned i = 0; text->len < MAX_NAMES_BYTES; i++) {
        size_t size = sizeof name;
        int type = gnutls->x509_crt_get_subject_alt_name(certificate, i, name, &size, NULL);
        if (type == GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE) break;
        if (type == GNUTLS_SAN_DNSNAME || type == GNUTLS_SAN_IPADDRESS) tls_add_name(text, type, name, size);
    }
    size_t size = sizeof name;
    if (text->len == 0 && gnutls->x509_crt_get_dn_by_oid(certificate, GNUTLS_OID_X520_COMMON_NAME, 0, 0, name, &size) >= 0)
        tls_add_name(text, GNUTLS_SAN_DNSNAME, name, size);
    if (text->len == 0) buffer_str(text, "no name");
    if (text->len <= MAX_NAMES_BYTES) return;
    text->len = MAX_NAMES_BYTES;
    buffer_str(text, "...");
}

static void tls_add_owner(const tls_failure_t *failure, gnutls_x509_crt_t certificate, buffer_t *text) {
    buffer_t names = {0};
    tls_add_names(failure->gnutls, certificate, &names);
    buffer_printf(text, "the certificate is for %s, not for %s: set %s to a name of the certificate", buffer_text(&names),
                  failure->name, *failure->redis->tls_server_name ? "redis.tls_server_name" : "host or redis.tls_server_name");
    buffer_free(&names);
}

static void tls_add_issuer(const tls_failure_t *failure, gnutls_x509_crt_t certificate, buffer_t *text) {
    char issuer[128] = "";
    size_t size = sizeof issuer;
    if (certificate) failure->gnutls->x509_crt_get_issuer_dn(certificate, issuer, &size);
    buffer_printf(text, "the certificate's issuer, %s, is not in %s", *issuer ? issuer : "unknown",
                  *failure->redis->tls_ca_file ? "redis.tls_ca_file" : "the CAs of this system: set redis.tls_ca_file");
}

static void tls_add_dates(const tls_failure_t *failure, bool expired, buffer_t *text) {
    const gnutls_t *gnutls = failure->gnutls;
    time_t now = time(NULL);
    gnutls_x509_crt_t certificate;
    bool found = false;
    for (unsigned i = 0; !found && (certificate = tls_certificate(gnutls, failure->session, i)); i++) {
        time_t when =
            expired ? gnutls->x509_crt_get_expiration_time(certificate) : gnutls->x509_crt_get_activation_time(certificate);
        found = expired ? when < now : when > now;
        if (found) {
            buffer_printf(text, "%s %s ", i ? "a CA certificate of the chain" : "the certificate",
                          expired ? "expired at" : "is not valid before");
            tls_add_time(text, when);
        }
        gnutls->x509_crt_deinit(certificate);
    }
    if (!found)
        buffer_str(text, expired ? "a certificate of the chain has expired" : "a certificate of the chain is not yet valid");
}

static const struct {
    unsigned bit;
    const char *text;
} simple_faults[] = {
    {GNUTLS_CERT_SIGNATURE_FAILURE, "the signature of the certificate is wrong"},
    {GNUTLS_CERT_REVOKED, "the certificate is revoked"},
    {GNUTLS_CERT_SIGNER_NOT_CA, "the signer of the certificate is no CA"},
    {GNUTLS_CERT_SIGNER_CONSTRAINTS_FAILURE, "its CA may not sign this certificate"},
    {GNUTLS_CERT_INSECURE_ALGORITHM, "the certificate is signed by an insecure algorithm, or its key is too short"},
    {GNUTLS_CERT_PURPOSE_MISMATCH, "the certificate is not for servers (extended key usage)"},
    {GNUTLS_CERT_UNKNOWN_CRIT_EXTENSIONS, "the certificate has an unknown critical extension"},
};

// Names every fault of the certificate, the one to mend first at the beginning.
static void tls_add_faults(const tls_failure_t *failure, buffer_t *text) {
    unsigned status = failure->gnutls->session_get_verify_cert_status(failure->session);
    gnutls_x509_crt_t certificate = tls_certificate(failure->gnutls, failure->session, 0);
    size_t begin = text->len;
    if (status & GNUTLS_CERT_SIGNER_NOT_FOUND) tls_add_issuer(failure, certificate, text);
    for (size_t i = 0; i < sizeof simple_faults / sizeof *simple_faults; i++)
        if (status & simple_faults[i].bit) buffer_printf(text, "%s%s", text->len > begin ? "; " : "", simple_faults[i].text);
    for (int expired = 1; expired >= 0; expired--) {
        if (!(status & (expired ? GNUTLS_CERT_EXPIRED : GNUTLS_CERT_NOT_ACTIVATED))) continue;
        if (text->len > begin) buffer_str(text, "; ");
        tls_add_dates(failure, expired, text);
    }
    if (status & GNUTLS_CERT_UNEXPECTED_OWNER && certificate) {
        if (text->len > begin) buffer_str(text, "; ");
        tls_add_owner(failure, certificate, text);
    }
    if (text->len == begin) buffer_str(text, "the certificate is not valid");
    if (certificate) failure->gnutls->x509_crt_deinit(certificate);
}

// Whether the server has asked for a client certificate, and may end the session for its lack.
static bool tls_wants_certificate(const tls_failure_t *failure) {
    return !failure->used && failure->gnutls->certificate_client_get_request_status(failure->session);
}

// The server ended the session by an alert.
static void tls_add_alert(const tls_failure_t *failure, buffer_t *text) {
    gnutls_alert_description_t alert = failure->gnutls->alert_get(failure->session);
    bool asked = tls_wants_certificate(failure);
    bool ours = *failure->redis->tls_cert_file != '\0';
    const char *name = failure->gnutls->alert_get_name(alert);
    // Before TLS 1.3 there is no alert of its own for a missing client certificate (redis uses OpenSSL: ssl/statem,
    // handshake_failure).
    bool missing = alert == GNUTLS_A_CERTIFICATE_REQUIRED || (asked && alert == GNUTLS_A_HANDSHAKE_FAILURE);
    if (missing && !ours)
        buffer_str(text, "the server wants a client certificate: set redis.tls_cert_file and redis.tls_key_file");
    else if (asked && ours)
        buffer_printf(text, "the server refuses the client certificate in redis.tls_cert_file: %s", name ? name : "no reason");
    else if (alert == GNUTLS_A_PROTOCOL_VERSION)
        buffer_printf(text, "the server does not speak TLS %s",
                      failure->redis->tls_min == TLS_MIN_1_3 ? "1.3: set redis.tls_min to 1.2" : "1.2 or 1.3");
    else
        buffer_printf(text, "the server ended the TLS session: %s", name ? name : "no reason");
}

// The connection ended without an alert.
static void tls_add_end(const tls_failure_t *failure, buffer_t *text) {
    int error = failure->system_error;
    if (error && error != ECONNRESET && error != EPIPE)
        buffer_str(text, strerror(error));
    else
        buffer_printf(text, "the server closed the connection%s",
                      tls_wants_certificate(failure) && !*failure->redis->tls_cert_file
                          ? ", and it had asked for a client certificate"
                          : "");
}

void tls_failure_text(const tls_failure_t *failure, char *text, size_t size) {
    buffer_t line = {0};
    switch (failure->code) {
    case GNUTLS_E_CERTIFICATE_VERIFICATION_ERROR: tls_add_faults(failure, &line); break;
    case GNUTLS_E_FATAL_ALERT_RECEIVED: tls_add_alert(failure, &line); break;
    case GNUTLS_E_PREMATURE_TERMINATION:
    case GNUTLS_E_PULL_ERROR:
    case GNUTLS_E_PUSH_ERROR: tls_add_end(failure, &line); break;
    default: buffer_str(&line, failure->gnutls->strerror(failure->code));
    }
    snprintf(text, size, "%s", buffer_text(&line));
    buffer_free(&line);
}
