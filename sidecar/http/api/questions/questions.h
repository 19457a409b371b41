// The handlers of routes that change nothing.
#pragma once

#include "http/api/request.h"

route_fn session_work, status_work, history_work, jobs_work, config_work, failures_work, groups_work, failure_work, payload_work;
