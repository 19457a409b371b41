#include "queue/seats.h"

#include <stdio.h>

#include "queue/reply.h"

void seat_view_clear(seat_view_t *view) { buffer_free(&view->unserved); }

static outcome_t look_at_served(conn_t *conn, const keyspace_t *keys, const seat_t *seat, seat_view_t *view, fault_t *fault) {
    redisReply *reply;
    request_begin(conn, "HMGET");
    request_text(conn, seat->served);
    for (size_t i = 0; i < seat->queue_count; i++) request_text(conn, keys->queues[seat->first_queue + i].config->name);
    if (request_ask(conn, &reply, fault) != OUTCOME_OK) return fault->outcome;
    for (size_t i = 0; i < seat->queue_count; i++) {
        if (reply_is(reply_at(reply, i), view->holder)) continue;
        if (view->unserved.len) buffer_str(&view->unserved, ", ");
        buffer_str(&view->unserved, keys->queues[seat->first_queue + i].config->name);
    }
    freeReplyObject(reply);
    return OUTCOME_OK;
}

outcome_t seat_look(conn_t *conn, const keyspace_t *keys, size_t index, seat_view_t *view, fault_t *fault) {
    const seat_t *seat = &keys->seats[index];
    redisReply *reply;
    *view = (seat_view_t){0};
    request_begin(conn, "GET");
    request_text(conn, seat->lock);
    if (request_ask(conn, &reply, fault) != OUTCOME_OK) return fault->outcome;
    snprintf(view->holder, sizeof view->holder, "%s", reply_text(reply));
    freeReplyObject(reply);
    if (!*view->holder) return OUTCOME_OK;
    request_begin(conn, "PTTL");
    request_text(conn, seat->lock);
    if (request_ask(conn, &reply, fault) != OUTCOME_OK) return fault->outcome;
    view->pttl_ms = reply_int(reply);
    freeReplyObject(reply);
    return look_at_served(conn, keys, seat, view, fault);
}
