// The session of a client, and the config in effect.
#include "base/json/json.h"
#include "http/api/api.h"
#include "http/api/questions/questions.h"
#include "version.h"

static void session_add_text(buffer_t *out, const char *name, const char *text) {
    buffer_printf(out, ",\"%s\":", name);
    json_write_string(out, slice_text(text));
}

bool session_work(api_t *api, request_t *request) {
    buffer_t *out = &request->answer.body;
    const api_identity_t *identity = api_identity(api);
    bool any = false;
    buffer_str(out, "{\"name\":");
    if (request->signed_in)
        json_write_string(out, slice_text(request->by));
    else
        buffer_str(out, "null");
    buffer_str(out, ",\"rights\":[");
    for (unsigned i = 0; i < RIGHTS; i++) {
        if (!request_may(request, 1u << i) || 1u << i == RIGHT_PROXY) continue;
        buffer_printf(out, "%s\"%s\"", any ? "," : "", right_words[i]);
        any = true;
    }
    buffer_printf(out, "],\"tokens\":%s", identity->tokens ? "true" : "false");
    session_add_text(out, "group", identity->group);
    session_add_text(out, "instance", identity->instance);
    session_add_text(out, "version", QS_VERSION);
    buffer_str(out, "}\n");
    answer_json(&request->answer, 200);
    return true;
}

static void config_add_item(void *self, const char *key, const char *value, const char *from) {
    buffer_t *out = self;
    buffer_str(out, out->data[out->len - 1] == '[' ? "{\"key\":" : ",\n {\"key\":");
    json_write_string(out, slice_text(key));
    session_add_text(out, "value", value);
    session_add_text(out, "from", from);
    buffer_str(out, "}");
}

bool config_work(api_t *api, request_t *request) {
    buffer_str(&request->answer.body, "{\"items\":[");
    config_each(api_config(api), config_add_item, &request->answer.body);
    buffer_str(&request->answer.body, "]}\n");
    answer_json(&request->answer, 200);
    return true;
}
