// One request and its answer, as libmicrohttpd goes through it: probes and metrics from memory, the API with its checks.
//
// A request that the api role works on is suspended meanwhile, and resumed by exchange_resume_done.
#pragma once

#include "http/mhd.h"
#include "http/site.h"

// The hooks of libmicrohttpd; `self` is the site.
void *exchange_begin(void *self, const char *uri, struct MHD_Connection *connection);
enum MHD_Result exchange_handle(void *self, struct MHD_Connection *connection, const char *url, const char *method,
                                const char *version, const char *data, size_t *size, void **state);
void exchange_end(site_t *site, void **state);

// Resumes the requests that have been answered, or held for long enough; libmicrohttpd goes on with them at its next run.
void exchange_resume_done(site_t *site);
mono_t exchange_next_due(const site_t *site); // when to call it again
// Whether the request of this connection is suspended.
bool exchange_is_waiting(const site_t *site, int fd);
// Whether a request of this connection came with a valid token, and is not yet answered.
bool exchange_is_trusted(const site_t *site, int fd);
// Ends the request of this connection, which is about to be closed: libmicrohttpd frees no suspended connection.
// True: its next run frees it.
bool exchange_drop(const site_t *site, int fd);
// Resumes all, and suspends none from now on: the daemon is about to stop.
void exchange_resume_all(site_t *site);
