// The answer of a sentinel about the primary, and the choice among several answers. Pure.
#pragma once

#include "base/text/address.h"
#include "redis/error.h"

struct redisReply;

enum { SENTINEL_ID_SIZE = 48 };

typedef struct sentinel_id {
    char text[SENTINEL_ID_SIZE]; // "" = the sentinel told none
} sentinel_id_t;

typedef struct sentinel_peer {
    address_t address;
    sentinel_id_t id;
} sentinel_peer_t;

typedef struct sentinel_answer {
    address_t sentinel;  // that was asked
    redis_error_t error; // why the sentinel did not name a primary; OUTCOME_OK = it did
    sentinel_id_t id;    // of the sentinel
    address_t primary;
    int64_t config_epoch;   // rises with each failover
    int64_t quorum;         // of sentinels that must agree that the primary is down
    int64_t replicas;       // that the sentinel knows
    bool down;              // the sentinel sees that the primary is down
    sentinel_peer_t *peers; // other sentinels that this one knows; owned
    size_t peer_count;
} sentinel_answer_t;

void sentinel_answer_free(sentinel_answer_t *answer); // leaves an empty answer

// Read the replies to SENTINEL MASTER, GET-MASTER-ADDR-BY-NAME, SENTINELS and MYID. A malformed reply changes nothing; false
// says that the primary's address is malformed.
void sentinel_read_master(sentinel_answer_t *answer, const struct redisReply *reply);
bool sentinel_read_address(sentinel_answer_t *answer, const struct redisReply *reply);
void sentinel_read_peers(sentinel_answer_t *answer, const struct redisReply *reply);
void sentinel_read_id(sentinel_answer_t *answer, const struct redisReply *reply);

typedef struct sentinel_choice {
    const sentinel_answer_t *believed; // one of the answers; NULL = no sentinel named a primary
    size_t naming;                     // sentinels that name the same primary
    const sentinel_answer_t *against;  // an answer that names another primary; NULL = all agree
} sentinel_choice_t;

// Believes the highest config epoch. Among answers with this epoch, `current` (port 0 = none) wins, then the address that most of
// them name. Does not believe an outsider: a sentinel that no other knows, while others know each other. It monitors some other
// primary under the same name. Nor one that alone tells a leap: a config epoch more than one above `epoch`, that of `current`,
// while another sentinel sees its primary alive. A failover raises the epoch by one, unless elections have failed, and all
// sentinels hear of it within 2 s.
sentinel_choice_t sentinel_choose(const sentinel_answer_t *answers, size_t count, const address_t *current, int64_t epoch);
