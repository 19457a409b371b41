/* Leases: terms, wake-ups, suspicions and disabled queues. */
#include "base/wakeup.h"
#include "fixture.h"
#include "queue/lock.h"
#include "role/lease.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>

static bool raised(int fd) {
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    bool is = poll(&ready, 1, 0) == 1;
    wakeup_clear(fd);
    return is;
}

static mono_t in_ms(int64_t ms) { return mono_add(mono_now(), ms * NS_PER_MS); }

Test(unit_lease, term_begins_and_ends) {
    leases_t *leases = leases_new(2, 2);
    lease_t lease;
    cr_assert_not(lease_get(leases, 0, &lease));
    lease_begin(leases, 1, "token", in_ms(60000));
    cr_assert_not(lease_get(leases, 0, &lease));
    cr_assert(lease_get(leases, 1, &lease));
    cr_assert_str_eq(lease.token, "token");
    cr_assert_eq(lease.term, 1);
    lease_end(leases, 1);
    cr_assert_not(lease_get(leases, 1, &lease));
    lease_begin(leases, 1, "other", in_ms(60000));
    cr_assert(lease_get(leases, 1, &lease));
    cr_assert_eq(lease.term, 2);
    leases_free(leases);
    leases_free(NULL);
}

Test(unit_lease, lease_ends_at_its_deadline) {
    scoped(leases_drop) leases_t *leases = leases_new(1, 1);
    lease_t lease;
    lease_begin(leases, 0, "token", in_ms(10000));
    fixture_step_boottime(9000);
    cr_assert(lease_get(leases, 0, &lease));
    lease_extend(leases, 0, in_ms(10000));
    fixture_step_boottime(9000);
    cr_assert(lease_get(leases, 0, &lease));
    cr_assert_eq(lease.term, 1);
    fixture_step_boottime(1001);
    cr_assert_not(lease_get(leases, 0, &lease));
    lease_begin(leases, 0, "token", mono_now());
    cr_assert_not(lease_get(leases, 0, &lease));
}

Test(unit_lease, a_term_without_a_token_ends_the_process, .signal = SIGABRT) {
    leases_t *leases = leases_new(2, 1);
    lease_begin(leases, 1, "token", in_ms(10000));
    cr_assert(lease_get(leases, 1, &(lease_t){0}), "a term with a token begins");
    lease_begin(leases, 0, "", in_ms(10000));
}

Test(unit_lease, a_renewal_after_the_term_ends_the_process, .signal = SIGABRT) {
    leases_t *leases = leases_new(1, 1);
    lease_begin(leases, 0, "token", in_ms(10000));
    lease_end(leases, 0);
    cr_assert_not(lease_get(leases, 0, &(lease_t){0}));
    lease_extend(leases, 0, in_ms(20000));
}

Test(unit_lease, a_deadline_that_moves_backwards_ends_the_process, .signal = SIGABRT) {
    leases_t *leases = leases_new(1, 1);
    lease_begin(leases, 0, "token", in_ms(10000));
    cr_assert(lease_get(leases, 0, &(lease_t){0}));
    lease_extend(leases, 0, in_ms(9000));
}

Test(unit_lease, begin_and_end_wake_the_roles) {
    scoped(leases_drop) leases_t *leases = leases_new(1, 1);
    int one = wakeup_new(), two = wakeup_new(), leader = wakeup_new();
    leases_wake_on_change(leases, one);
    leases_wake_on_change(leases, two);
    leases_wake_on_suspicion(leases, leader);
    lease_begin(leases, 0, "token", in_ms(10000));
    cr_assert(raised(one) && raised(two) && !raised(leader));
    lease_extend(leases, 0, in_ms(20000));
    cr_assert(!raised(one) && !raised(two) && !raised(leader));
    lease_suspect(leases, 0, 1);
    cr_assert(!raised(one) && !raised(two) && raised(leader));
    lease_end(leases, 0);
    cr_assert(raised(one) && raised(two) && !raised(leader));
    close(one);
    close(two);
    close(leader);
}

/* A role that has seen the expired lease sleeps. Only the late renewal can wake it, because no new term begins. */
Test(unit_lease, late_renewal_wakes_the_roles) {
    scoped(leases_drop) leases_t *leases = leases_new(1, 1);
    lease_t lease;
    int role = wakeup_new();
    leases_wake_on_change(leases, role);
    lease_begin(leases, 0, "token", in_ms(10000));
    cr_assert(raised(role));
    fixture_step_boottime(10001);
    cr_assert_not(lease_get(leases, 0, &lease));
    cr_assert_not(raised(role));
    lease_extend(leases, 0, in_ms(10000));
    cr_assert(raised(role));
    cr_assert(lease_get(leases, 0, &lease));
    cr_assert_eq(lease.term, 1);
    close(role);
}

Test(unit_lease, suspicion_concerns_one_term_only) {
    scoped(leases_drop) leases_t *leases = leases_new(2, 2);
    lease_begin(leases, 0, "a", in_ms(10000));
    cr_assert_not(lease_take_suspicion(leases, 0));
    lease_suspect(leases, 0, 1);
    cr_assert_not(lease_take_suspicion(leases, 1));
    cr_assert(lease_take_suspicion(leases, 0));
    cr_assert_not(lease_take_suspicion(leases, 0), "the suspicion is not cleared");
    lease_suspect(leases, 0, 1);
    lease_begin(leases, 0, "b", in_ms(10000));
    cr_assert_not(lease_take_suspicion(leases, 0), "a new term is suspect because of the old one");
    lease_suspect(leases, 0, 1); /* of the old term, too late */
    cr_assert_not(lease_take_suspicion(leases, 0));
}

Test(unit_lease, long_token_is_cut) {
    scoped(leases_drop) leases_t *leases = leases_new(1, 1);
    lease_t lease;
    char token[200];
    memset(token, 'x', sizeof token);
    token[sizeof token - 1] = '\0';
    lease_begin(leases, 0, token, in_ms(10000));
    cr_assert(lease_get(leases, 0, &lease));
    cr_assert_eq(strlen(lease.token), TOKEN_SIZE - 1);
}

enum { ROUNDS = 20000 };

static void *write_terms(void *arg) {
    for (int i = 0; i < ROUNDS; i++) {
        lease_begin(arg, 0, i % 2 ? "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" : "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb", mono_never());
        lease_end(arg, 0);
    }
    return NULL;
}

Test(unit_lease, readers_see_whole_tokens) {
    scoped(leases_drop) leases_t *leases = leases_new(1, 1);
    pthread_t writer;
    cr_assert_eq(pthread_create(&writer, NULL, write_terms, leases), 0);
    lease_t lease = {0};
    for (uint64_t last = 0; last < ROUNDS; last = lease.term) {
        if (!lease_get(leases, 0, &lease)) continue;
        cr_assert_eq(strlen(lease.token), 32);
        cr_assert_eq(strspn(lease.token, lease.term % 2 ? "b" : "a"), 32, "term %llu: %s", (unsigned long long)lease.term,
                     lease.token);
        cr_assert_geq(lease.term, last);
    }
    pthread_join(writer, NULL);
}

Test(unit_lease, disabled_queue_wakes_the_roles) {
    scoped(leases_drop) leases_t *leases = leases_new(1, 10);
    int fd = wakeup_new();
    leases_wake_on_change(leases, fd);
    cr_assert_not(lease_queue_disabled(leases, 0) || lease_queue_disabled(leases, 9));
    lease_disable_queue(leases, 3, false);
    cr_assert_not(raised(fd), "woken without a change");
    lease_disable_queue(leases, 3, true);
    cr_assert(raised(fd));
    lease_disable_queue(leases, 7, true);
    cr_assert(lease_queue_disabled(leases, 3) && lease_queue_disabled(leases, 7));
    cr_assert_not(lease_queue_disabled(leases, 2) || lease_queue_disabled(leases, 4) || lease_queue_disabled(leases, 8));
    cr_assert(raised(fd));
    lease_disable_queue(leases, 3, true);
    cr_assert_not(raised(fd));
    lease_disable_queue(leases, 3, false);
    cr_assert(raised(fd) && !lease_queue_disabled(leases, 3) && lease_queue_disabled(leases, 7));
    close(fd);
}

Test(unit_token, token_holds_128_random_bits_and_the_ttl) {
    char one[TOKEN_SIZE], two[TOKEN_SIZE];
    token_new(one, 5000);
    token_new(two, 600000);
    cr_assert_eq(strspn(one, "0123456789abcdef"), 32);
    cr_assert_str_eq(one + 32, "-5000");
    cr_assert_str_eq(two + 32, "-600000");
    cr_assert_neq(strncmp(one, two, 32), 0);
    cr_assert_eq(token_ttl_ms(one), 5000);
    cr_assert_eq(token_ttl_ms(two), 600000);
}

Test(unit_token, other_texts_have_no_ttl) {
    static const char *const texts[] = {"",
                                        "token",
                                        "0123456789abcdef0123456789abcdef",
                                        "0123456789abcdef0123456789abcdef-",
                                        "0123456789abcdef0123456789abcdef-x",
                                        "0123456789abcdef0123456789abcdef-9223372036854775807"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) cr_assert_eq(token_ttl_ms(texts[i]), 0, "%s", texts[i]);
}
