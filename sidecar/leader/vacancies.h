// Released locks. A standby hears of them by a subscribed connection, and then tries them at once.
//
// In a Cluster each node passes a message of a channel on to all others (redis src/cluster.c, clusterPropagatePublish). So of the
// leaders of a process, one for each shard, one subscribes and tells the others.
#pragma once

typedef struct vacancies vacancies_t;

vacancies_t *vacancies_new(void);            // owned
void vacancies_free(vacancies_t *vacancies); // NULL is fine; no leader uses it any more
