#include "redis/tls/tls.h"

#include <arpa/inet.h>
#include <malloc.h>
#include <sys/socket.h>

#include "base/buffer.h"
#include "redis/tls/failure.h"
#include "redis/tls/files.h"
#include "redis/tls/gnutls.h"

struct tls {
    const gnutls_t *gnutls;
    const redis_config_t *redis;
    gnutls_session_t session;
    int fd;
    gnutls_certificate_credentials_t credentials;
    char *name;                      // owned; the name or address that the certificate must carry
    unsigned char address[16];       // of `name`, if it is an address
    gnutls_typed_vdata_st checks[2]; // GnuTLS borrows them for the handshake
    bool unsent;                     // GnuTLS holds a record that it could not send yet
    bool heard;                      // a byte has come
    bool spoken;                     // that byte was the first one of a record
    bool used;                       // bytes have come after the handshake
    int system_error;                // errno of the last call of the socket; 0 = it did not fail
    const char *version;
    int64_t certificate_end;
    int64_t own_end; // of the client's certificate; 0 = it has none
    char failure[320];
};

// The types of records are 20 to 23. A plain Redis answers text.
static ssize_t tls_pull(gnutls_transport_ptr_t self, void *bytes, size_t size) {
    tls_t *tls = self;
    ssize_t count = recv(tls->fd, bytes, size, 0);
    tls->system_error = count < 0 ? errno : 0;
    if (count > 0 && !tls->heard) {
        unsigned char first = *(const unsigned char *)bytes;
        tls->heard = true;
        tls->spoken = first >= 20 && first <= 23;
    }
    return count;
}

// Sends all records at once: a server that refuses the first one would answer the second one with a reset, which overtakes its
// alert.
static ssize_t tls_push(gnutls_transport_ptr_t self, const giovec_t *pieces, int count) {
    tls_t *tls = self;
    struct msghdr message = {.msg_iov = (struct iovec *)pieces, .msg_iovlen = (size_t)count};
    ssize_t sent = sendmsg(tls->fd, &message, MSG_NOSIGNAL);
    tls->system_error = sent < 0 ? errno : 0;
    return sent;
}

static bool tls_name_is_address(tls_t *tls, unsigned *size) {
    bool v4 = inet_pton(AF_INET, tls->name, tls->address) == 1;
    *size = v4 ? 4 : 16;
    return v4 || inet_pton(AF_INET6, tls->name, tls->address) == 1;
}

// GnuTLS checks chain, purpose and name inside the handshake.
static void tls_set_checks(tls_t *tls) {
    unsigned address_size;
    bool address = tls_name_is_address(tls, &address_size);
    if (!address) tls->gnutls->server_name_set(tls->session, GNUTLS_NAME_DNS, tls->name, strlen(tls->name));
    if (tls->redis->tls_verify == TLS_VERIFY_NONE) return;
    unsigned count = 0;
    tls->checks[count++] =
        (gnutls_typed_vdata_st){.type = GNUTLS_DT_KEY_PURPOSE_OID, .data = (unsigned char *)GNUTLS_KP_TLS_WWW_SERVER};
    if (tls->redis->tls_verify == TLS_VERIFY_FULL && address)
        tls->checks[count++] = (gnutls_typed_vdata_st){.type = GNUTLS_DT_IP_ADDRESS, .data = tls->address, .size = address_size};
    else if (tls->redis->tls_verify == TLS_VERIFY_FULL)
        tls->checks[count++] = (gnutls_typed_vdata_st){.type = GNUTLS_DT_DNS_HOSTNAME, .data = (unsigned char *)tls->name};
    tls->gnutls->session_set_verify_cert2(tls->session, tls->checks, count, 0);
}

tls_t *tls_new(const redis_config_t *redis, const char *name, int fd, redis_error_t *error) {
    const gnutls_t *gnutls = gnutls_load(error);
    gnutls_certificate_credentials_t credentials = gnutls ? tls_files_read(gnutls, redis, error) : NULL;
    if (!credentials) return NULL;
    tls_t *tls = mem_alloc(sizeof *tls);
    *tls = (tls_t){.gnutls = gnutls, .redis = redis, .credentials = credentials, .fd = fd, .version = ""};
    tls->name = mem_str(*redis->tls_server_name ? redis->tls_server_name : name);
    size_t len = strlen(tls->name);
    if (len && tls->name[len - 1] == '.') tls->name[len - 1] = '\0'; // of an absolute name; no certificate has it
    const char *priority =
        redis->tls_min == TLS_MIN_1_3 ? "NORMAL:-VERS-ALL:+VERS-TLS1.3" : "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2";
    int code = gnutls->init(&tls->session, GNUTLS_CLIENT | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL | GNUTLS_NO_TICKETS);
    if (code >= 0) code = gnutls->priority_set_direct(tls->session, priority, NULL);
    if (code >= 0) code = gnutls->credentials_set(tls->session, GNUTLS_CRD_CERTIFICATE, credentials);
    if (code < 0) {
        redis_error_set(error, OUTCOME_REFUSED, "TLS: %s", gnutls->strerror(code));
        tls_free(tls);
        return NULL;
    }
    tls_set_checks(tls);
    gnutls->transport_set_ptr(tls->session, tls);
    gnutls->transport_set_pull_function(tls->session, tls_pull);
    gnutls->transport_set_vec_push_function(tls->session, tls_push);
    return tls;
}

void tls_free(tls_t *tls) {
    if (!tls) return;
    if (tls->session) tls->gnutls->deinit(tls->session);
    tls->gnutls->certificate_free_credentials(tls->credentials);
    free(tls->name);
    free(tls);
}

static tls_state_t tls_fail(tls_t *tls, int code) {
    tls_failure_t why = {.gnutls = tls->gnutls,
                         .redis = tls->redis,
                         .session = tls->session,
                         .name = tls->name,
                         .code = code,
                         .system_error = tls->system_error,
                         .used = tls->used};
    tls_failure_text(&why, tls->failure, sizeof tls->failure);
    return TLS_FAILED;
}

static tls_state_t tls_again(const tls_t *tls) {
    return tls->gnutls->record_get_direction(tls->session) ? TLS_WANTS_WRITE : TLS_WANTS_READ;
}

static bool tls_is_again(int64_t code) { return code == GNUTLS_E_AGAIN || code == GNUTLS_E_INTERRUPTED; }

tls_state_t tls_handshake(tls_t *tls) {
    int code = tls->gnutls->handshake(tls->session);
    if (tls_is_again(code)) return tls_again(tls);
    if (code < 0 && !tls->gnutls->error_is_fatal(code)) return TLS_WANTS_READ; // a warning
    if (code < 0) {
        tls_fail(tls, code);
        tls->gnutls->alert_send_appropriate(tls->session, code); // the server's log then says why
        return TLS_FAILED;
    }
    tls->version = tls->gnutls->protocol_get_version(tls->session) == GNUTLS_TLS1_3 ? "TLS 1.3" : "TLS 1.2";
    tls->certificate_end = tls_chain_end(tls->gnutls, tls->session);
    tls->own_end = tls_own_end(tls->gnutls, tls->credentials);
    // The CAs of a system take megabytes, and nothing verifies again on this connection. The C library would keep the memory.
    tls->gnutls->certificate_set_trust_list(tls->credentials, NULL, 0);
    malloc_trim(0);
    return TLS_DONE;
}

tls_state_t tls_receive(tls_t *tls, void *bytes, size_t size, size_t *count) {
    ssize_t got;
    do got = tls->gnutls->record_recv(tls->session, bytes, size);
    while (got < 0 && !tls_is_again(got) && !tls->gnutls->error_is_fatal((int)got)); // a ticket, or a warning
    if (tls_is_again(got)) return tls_again(tls);
    if (got < 0) return tls_fail(tls, (int)got);
    tls->used = tls->used || got > 0;
    *count = (size_t)got;
    return TLS_DONE;
}

// The server's alert says more than a broken pipe.
static tls_state_t tls_send_failed(tls_t *tls, int code) {
    char bytes[TLS_RECORD_MAX];
    int system_error = tls->system_error;
    ssize_t got = tls->gnutls->record_recv(tls->session, bytes, sizeof bytes);
    tls->system_error = system_error;
    return tls_fail(tls, got == GNUTLS_E_FATAL_ALERT_RECEIVED ? (int)got : code);
}

tls_state_t tls_send(tls_t *tls, const void *bytes, size_t len, size_t *count) {
    // A record that is built already must be sent first; it holds the first bytes of the last call.
    ssize_t sent = tls->gnutls->record_send(tls->session, tls->unsent ? NULL : bytes, tls->unsent ? 0 : len);
    tls->unsent = tls_is_again(sent);
    if (tls->unsent) return tls_again(tls);
    if (sent < 0) return tls_send_failed(tls, (int)sent);
    *count = (size_t)sent;
    return TLS_DONE;
}

bool tls_heard(const tls_t *tls) { return tls->heard; }
bool tls_peer_is_plain(const tls_t *tls) { return tls->heard && !tls->spoken; }
const char *tls_failure(const tls_t *tls) { return tls->failure; }
const char *tls_version(const tls_t *tls) { return tls ? tls->version : ""; }
int64_t tls_certificate_end(const tls_t *tls) { return tls ? tls->certificate_end : 0; }
int64_t tls_client_end(const tls_t *tls) { return tls ? tls->own_end : 0; }
int64_t tls_first_end(const tls_t *tls) { return tls ? tls_earlier(tls->certificate_end, tls->own_end) : 0; }
