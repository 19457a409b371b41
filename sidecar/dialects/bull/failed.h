// Messages of Bull's channel `failed`.
#pragma once

#include "dialects/failed/messages.h"

// JSON member in each message that the sidecar publishes, so that the sidecar can skip its own messages. Bull ignores it.
#define BULL_OUR_MESSAGE "\"by\":\"queue-sidecar\""

// Adds a message, unless it is malformed or the sidecar's own. False: the oldest messages were dropped to make room.
bool bull_messages_add(failed_messages_t *messages, slice_t text);
