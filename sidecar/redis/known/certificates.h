// The ends of the certificates in use, in seconds since 1970. Thread-safe.
#pragma once

#include "model/metrics.h"

typedef struct certificates certificates_t;

certificates_t *certificates_new(void);
void certificates_free(certificates_t *certificates); // NULL is fine

// Notes the certificate that ends first at `peer` (any pointer that identifies the peer); 0 = it has none. Sets *metric to the
// first end of all; 0 = there is no certificate.
void certificates_note(certificates_t *certificates, const void *peer, int64_t end, metric_t *metric);
