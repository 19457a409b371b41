/* Framing of the Redis protocol (RESP2 and RESP3): where a request or a reply ends, and a request as text. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Length of the whole frame at the start of the buffer, 0 if it is not complete yet, -1 if it is not RESP. An inline command (a
 * request that does not begin with an asterisk) ends at its newline. */
ssize_t resp_request_length(const char *data, size_t length);
ssize_t resp_reply_length(const char *data, size_t length);

/* Returns the request as one line of text: arguments separated by blanks, bytes outside of printable ASCII as \xNN, each argument
 * cut at max_argument bytes. Owned by the caller. */
char *resp_request_text(const char *data, size_t length, size_t max_argument);

/* Number of arguments, the command's name included. */
long resp_request_arguments(const char *data, size_t length);

/* Whether a frame is no reply to a request: a RESP3 push, or a message of a subscription in RESP2. */
bool resp_is_push(const char *data, size_t length);
