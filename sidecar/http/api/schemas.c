#include "http/api/schemas.h"

#include "operate/events/event_json.h"
#include "operate/jobs/jobs.h"

// A schema of an object: name:type of each member, separated by blanks. A type is text, number, integer, bool, time, object, or
// the name of a schema; "?" behind it: null is possible; "[]": a list of it.
typedef struct schema {
    const char *name;
    const char *members;  // those that are always there
    const char *optional; // those that may be there; NULL = none
} schema_t;

static const schema_t schemas[] = {
    {"Problem", "type:text title:text status:integer detail:text", "nearest:text candidates:Candidate[]"},
    {"Candidate", "ref:text event:text kind:text queue:text at:time", NULL},
    {"Session", "name:text? rights:text[] tokens:bool group:text instance:text version:text", NULL},
    {"Status", "at:time? group:text well:bool redis:object queues:object[] findings:Finding[]",
     "locks:object[] last_hour_from:text? audit_log:object instance_here:object?"},
    {"Finding", "severity:text code:text queues:text[] next:text?", "what:text? why:text?"},
    {"Config", "items:ConfigItem[]", NULL},
    {"ConfigItem", "key:text value:text from:text", NULL},
    {"History",
     "queue:text step_seconds:integer from:time? at:list ready:list delayed:list in_progress:list late_seconds:list "
     "failures:list",
     NULL},
    {"Jobs", "items:Job[] next:text? may_lack:bool", NULL},
    {"Log", "instance:text oldest:time? open_gaps:integer? lag_seconds:number", NULL},
    {"Failures", "items:Event[] next:text? log:Log searched_to:time?", NULL},
    {"Groups", "items:Group[] dropped_failures:integer too_low:integer next:text? log:Log searched_to:time?", NULL},
    {"Group", "failures:integer open:integer requeued:integer discarded:integer first:time last:time",
     "queue:text reason:text hour:time error:text"},
    {"Answer",
     "id:text action:text state:text jobs:integer done:integer results:object items:AnswerItem[] by:text because:text "
     "error:text?",
     NULL},
    {"Order", "action:text", "refs:text[] filter:object to:text rate:text because:text again:bool dry_run:bool plan:text"},
    {"AnswerItem", "ref:text event:text queue:text job_id:text action:text result:text detail:text", "to:text"},
    {"Plan", "plan:text expires:time jobs:integer queues:PlanQueue[] answered:integer earlier:integer", NULL},
    {"PlanQueue", "queue:text jobs:integer", NULL},
    {"OpenAPI", "openapi:text info:object paths:object components:object", NULL},
};

static void schema_type(buffer_t *out, const char *type, size_t len) {
    static const struct {
        const char *word, *json;
    } types[] = {
        {"text", "\"string\""}, {"number", "\"number\""}, {"integer", "\"integer\""}, {"bool", "\"boolean\""},
        {"time", "\"string\""}, {"object", "\"object\""}, {"list", "\"array\""},
    };
    bool list = len > 2 && strncmp(type + len - 2, "[]", 2) == 0, null = type[len - 1] == '?';
    size_t word = len - (list ? 2 : null ? 1 : 0);
    if (list) buffer_str(out, "{\"type\":\"array\",\"items\":");
    const char *json = NULL;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strlen(types[i].word) == word && strncmp(types[i].word, type, word) == 0) json = types[i].json;
    if (!json)
        buffer_printf(out, "{\"$ref\":\"#/components/schemas/%.*s\"}", (int)word, type);
    else
        buffer_printf(out, null ? "{\"type\":[%s,\"null\"]}" : "{\"type\":%s}", json);
    if (list) buffer_str(out, "}");
}

// Appends the properties of `members`. `required` is NULL, or gets their names.
static void schema_members(buffer_t *out, const char *members, buffer_t *required) {
    for (const char *at = members; at && *at; at += strspn(at, " ")) {
        size_t len = strcspn(at, " "), name = strcspn(at, ":");
        buffer_printf(out, "%s\"%.*s\":", out->data[out->len - 1] == '{' ? "" : ",", (int)name, at);
        schema_type(out, at + name + 1, len - name - 1);
        if (required) buffer_printf(required, "%s\"%.*s\"", required->len ? "," : "", (int)name, at);
        at += len;
    }
}

static void schema_write(buffer_t *out, const schema_t *schema) {
    buffer_t required = {0};
    buffer_printf(out, "\n\"%s\":{\"type\":\"object\",\"properties\":{", schema->name);
    schema_members(out, schema->members, &required);
    schema_members(out, schema->optional, NULL);
    buffer_printf(out, "},\"required\":[%s]}", buffer_text(&required));
    buffer_free(&required);
}

static const char *schema_of_field(field_kind_t kind) {
    switch (kind) {
    case FIELD_NUMBER: return "integer";
    case FIELD_COUNT:
    case FIELD_POSITIVE: return "integer?";
    case FIELD_FLAG: return "bool";
    case FIELD_TIME: return "time?";
    default: return "text";
    }
}

// Those of payloads are optional: not everybody may see them.
static void schema_of_fields(buffer_t *out, const char *name, const field_t *fields, size_t count, const char *more,
                             const char *most) {
    buffer_t always = {0}, optional = {0};
    for (size_t i = 0; i < count; i++) {
        buffer_t *to = strncmp(fields[i].name, "payload", strlen("payload")) == 0 ? &optional : &always;
        buffer_printf(to, "%s%s:%s", to->len ? " " : "", fields[i].name, schema_of_field(fields[i].kind));
    }
    buffer_str(&always, more);
    buffer_str(&optional, most);
    schema_write(out, &(schema_t){name, buffer_text(&always), buffer_text(&optional)});
    buffer_free(&always);
    buffer_free(&optional);
}

void openapi_schemas(buffer_t *out) {
    for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++) {
        schema_write(out, &schemas[i]);
        buffer_str(out, ",");
    }
    schema_of_fields(out, "Event", event_fields, EVENT_HEAD_FIELDS, "", "");
    buffer_str(out, ",");
    schema_of_fields(out, "Failure", event_fields, EVENT_HEAD_FIELDS, " history:Event[]", " history_cut:bool");
    buffer_str(out, ",");
    schema_of_fields(out, "Job", jobs_fields, JOBS_FIELDS, "", "");
}
