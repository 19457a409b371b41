#include "monitor/scan/place.h"

enum { OVERLAP_SHARE = 8 }; // of a page

static uint32_t place_key(const entry_t *entry) {
    const uint8_t *bytes = entry->digest.bytes; // all 0 for an entry that is no job
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

backup_range_t place_request(const place_t *place, size_t wanted) {
    size_t again = place->count + place->back, count = wanted + place->count;
    return (backup_range_t){.skip = again < place->next ? place->next - again : 0,
                            .count = count < BACKUP_PAGE ? count : BACKUP_PAGE,
                            .least = place->count + 1};
}

// Walks through both in their order, because a list may hold duplicates of a known job. Returns how many entries of the page the
// scan had met before: all up to the last known one, and the entries that replaced settled jobs directly behind it. 0 = no known
// entry was found.
static size_t place_met(const place_t *place, const backup_page_t *page) {
    size_t from = 0, met = 0;
    for (size_t i = 0; i < page->count && from < place->count; i++) {
        uint32_t key = place_key(&page->entries[i]);
        size_t at = from;
        while (at < place->count && (place->known[at] != key || key == 0)) at++;
        if (at == place->count) continue;
        from = at + 1;
        met = i + 1;
    }
    while (met && from < place->count && place->known[from] == 0) from++, met++;
    return met < page->count ? met : page->count;
}

static bool place_knows_some(const place_t *place) {
    for (size_t i = 0; i < place->count; i++)
        if (place->known[i]) return true;
    return false;
}

static void place_drop(backup_page_t *page, size_t met) {
    for (size_t i = 0; i < met; i++) {
        page->jobs -= page->entries[i].kind == ENTRY_JOB;
        page->bytes -= page->entries[i].bytes.len;
    }
    page->count -= met;
    memmove(page->entries, &page->entries[met], page->count * sizeof *page->entries);
}

// The next page on a way back ends with `count` entries of this one.
static void place_go_back(place_t *place, backup_page_t *page) {
    size_t read = page->count ? page->count : BACKUP_PAGE;
    place->back += read > place->count ? read - place->count : 1;
    place_drop(page, page->count);
}

place_found_t place_read(place_t *place, backup_page_t *page, size_t skip, bool goes_back) {
    bool knows = place_knows_some(place);
    size_t met = place_met(place, page);
    bool lost = knows && met == 0;
    if (lost && skip > 0 && goes_back) {
        place_go_back(place, page);
        return PLACE_LOST;
    }
    bool trusts = !knows || (lost && !goes_back);
    if (trusts) met = place->next - skip < page->count ? place->next - skip : page->count;
    size_t count = page->count, keep = (count + OVERLAP_SHARE - 1) / OVERLAP_SHARE;
    if (keep > PLACE_KNOWN) keep = PLACE_KNOWN;
    for (size_t i = 0; i < keep; i++) place->known[i] = place_key(&page->entries[count - keep + i]);
    place->count = keep;
    place->back = 0;
    place->next = skip + count;
    place_drop(page, met);
    page->place = skip + met;
    page->removed = place->removed;
    if (lost) return goes_back ? PLACE_AGAIN : PLACE_MOVED;
    return PLACE_FOUND;
}

size_t place_of(const place_t *place, const backup_page_t *page, const entry_t *entry) {
    assert(page->in_place && entry >= page->entries && entry < page->entries + page->count);
    assert(place->removed >= page->removed); // or the page is of another scan
    size_t at = page->place + (size_t)(entry - page->entries), since = place->removed - page->removed;
    return at > since ? at - since : 0;
}

void place_settled(place_t *place, const digest_t *digest, bool replaced) {
    uint32_t key = place_key(&(entry_t){.digest = *digest});
    place->removed++;
    if (place->next > 0) place->next--;
    for (size_t i = 0; i < place->count; i++) {
        if (place->known[i] != key) continue;
        place->known[i] = 0;
        if (replaced) return;
        place->count--;
        memmove(&place->known[i], &place->known[i + 1], (place->count - i) * sizeof *place->known);
        return;
    }
}
