/* Whether an answer of /readyz comes from a sidecar of the config's group. */
#include "fixture.h"
#include "operate/status/local_instance.h"

static void expect(const char *body, const char *why) {
    scoped(config_drop) config_t *config = fixture_config("group = \"ours\"; queues = ( { name = \"email\"; } );");
    scoped(buffer_free) buffer_t said = {0};
    cr_assert_eq(local_instance_is_unrelated(config, slice_text(body), &said), why != NULL, "%s", body);
    cr_assert(strstr(buffer_text(&said), why ? why : ""), "%s: %s", body, buffer_text(&said));
}

Test(unit_local_instance, a_sidecar_of_our_group_is_ours) {
    expect("{\"ready\": true, \"group\": \"ours\", \"checks\": []}", NULL);
    expect("{\"ready\": false, \"checks\": []}", NULL); /* from a version that did not tell its group */
}

Test(unit_local_instance, another_group_is_reported_by_name) {
    expect("{\"ready\": true, \"group\": \"its\", \"checks\": []}", "group \"its\" answers there");
}

Test(unit_local_instance, another_program_is_reported) {
    expect("", "not a sidecar");
    expect("<html>404</html>", "not a sidecar");
    expect("{\"status\": \"up\", \"group\": \"ours\"}", "not a sidecar");
}
