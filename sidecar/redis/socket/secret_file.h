// A file with a secret, or one beside it, such as a password, a key or a certificate.
#pragma once

#include "base/buffer.h"
#include "redis/error.h"

typedef enum secret_path { SECRET_PATH_SHOWN, SECRET_PATH_GUARDED } secret_path_t;

// Appends the content of `path` to *text; a file is at most `most_kb` KiB long. `key` is the key of the config
// ("redis.tls_ca_file"). SECRET_PATH_GUARDED: somebody may write the secret itself into the config, so only a path with / or . at
// its beginning is shown. False: OUTCOME_REFUSED, and *error names key and file. End *text with secret_file_free in both cases.
bool secret_file_read(const char *key, const char *path, secret_path_t show, size_t most_kb, buffer_t *text,
                      redis_error_t *error);
void secret_file_free(buffer_t *text); // wipes it
