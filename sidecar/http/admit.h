// Whether a request of the API may be worked on: headers, host, route, origin, token, rights, parameters, in this
// order.
#pragma once

#include "http/mhd.h"
#include "http/site.h"

// Fills *request. If request->answer.status is set, that is a problem and the answer. *held_until: keep the request, whether it
// is good or not, because many tokens were refused.
void admit(site_t *site, struct MHD_Connection *connection, const char *method, const char *uri, request_t *request,
           mono_t *held_until);

// Whether a body follows the head.
bool admit_has_body(struct MHD_Connection *connection);
