#include "redis/service/outage.h"

enum { AGAIN_S = 60 };

static int64_t outage_seconds(const outage_t *outage, mono_t now) { return mono_diff(now, outage->since) / NS_PER_S; }

bool outage_failed(outage_t *outage, bool fresh, unsigned kind, int64_t *lasted_s) {
    mono_t now = mono_now();
    if (fresh && outage->failing++ == 0) outage->since = now;
    mono_t *told_at = &outage->told_at[kind];
    bool tell = !told_at->ns || mono_diff(now, *told_at) >= AGAIN_S * NS_PER_S;
    if (tell) *told_at = now;
    outage->told = outage->told || tell;
    *lasted_s = outage_seconds(outage, now);
    return tell;
}

bool outage_recovered(outage_t *outage, int64_t *lasted_s) {
    assert(outage->failing > 0);
    bool tell = --outage->failing == 0 && outage->told;
    if (tell) outage->told = false;
    *lasted_s = outage_seconds(outage, mono_now());
    return tell;
}
