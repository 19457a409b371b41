// Answers to failures: requeues and discards that clients have ordered. A few run at once.
#pragma once

#include "http/api/request.h"

route_fn answers_post, answers_get, answers_delete;
