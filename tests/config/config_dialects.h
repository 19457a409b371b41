/* For each dialect, a config of one queue `q` with only the settings that the dialect requires. */
#pragma once

#include "config_case.h"

#define ONE(text) "queues = ( { name = \"q\"; " text " } );"
#define KM(text)  ONE("dialect = \"kmqueue\"; queues = [\"mail:safe\"]; " text)
#define DE(text)  ONE("dialect = \"delayed_queue\"; types = [\"a.Mail\"]; " text)
#define BU(text)  ONE("dialect = \"bull\"; " text)
#define SK(text)  ONE("dialect = \"sidekiq\"; " text)
#define BM(text)  ONE("dialect = \"bullmq\"; " text)
#define PQ(text)  ONE("dialect = \"private_queues\"; main = \"m\"; private = \"w-*\"; " text)
#define F         "F:1: queue `q`: "
