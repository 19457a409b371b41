// The record of an event, as arguments of the script that adds it to the failure stream.
#pragma once

#include "model/event.h"
#include "redis/conn.h"

// Bytes of all values that record_append appends.
size_t record_bytes(const event_t *event);

// Appends names and values of the fields that are set, without `at` and `error`, which the scripts add.
void record_append(conn_t *conn, const event_t *event);
