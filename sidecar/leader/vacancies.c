#include "leader/vacancies.h"

#include <pthread.h>

#include "base/buffer.h"

enum { VACANCIES_KEPT = 64 }; // a leader that misses more tries all locks

struct vacancies {
    pthread_mutex_t mutex;       // guards the rest
    const void *listener;        // NULL = none
    char *locks[VACANCIES_KEPT]; // the last names that were told, number n at n % VACANCIES_KEPT; NULL = any lock; owned
    uint64_t count;              // of all names that were told
};

vacancies_t *vacancies_new(void) {
    vacancies_t *vacancies = mem_alloc(sizeof *vacancies);
    pthread_mutex_init(&vacancies->mutex, NULL);
    return vacancies;
}

void vacancies_free(vacancies_t *vacancies) {
    if (!vacancies) return;
    for (size_t i = 0; i < VACANCIES_KEPT; i++) free(vacancies->locks[i]);
    pthread_mutex_destroy(&vacancies->mutex);
    free(vacancies);
}

bool vacancies_may_listen(vacancies_t *vacancies, const void *leader) {
    pthread_mutex_lock(&vacancies->mutex);
    bool may = !vacancies->listener || vacancies->listener == leader;
    pthread_mutex_unlock(&vacancies->mutex);
    return may;
}

bool vacancies_begin(vacancies_t *vacancies, const void *leader) {
    pthread_mutex_lock(&vacancies->mutex);
    if (!vacancies->listener) vacancies->listener = leader;
    bool is = vacancies->listener == leader;
    pthread_mutex_unlock(&vacancies->mutex);
    return is;
}

bool vacancies_end(vacancies_t *vacancies, const void *leader) {
    pthread_mutex_lock(&vacancies->mutex);
    bool was = vacancies->listener == leader;
    if (was) vacancies->listener = NULL;
    pthread_mutex_unlock(&vacancies->mutex);
    return was;
}

void vacancies_tell(vacancies_t *vacancies, const slice_t *lock) {
    pthread_mutex_lock(&vacancies->mutex);
    char **place = &vacancies->locks[vacancies->count++ % VACANCIES_KEPT];
    free(*place);
    *place = lock ? mem_printf("%.*s", (int)lock->len, lock->data) : NULL;
    pthread_mutex_unlock(&vacancies->mutex);
}

bool vacancies_hear(vacancies_t *vacancies, uint64_t *heard, vacancy_fn *vacant, void *self) {
    pthread_mutex_lock(&vacancies->mutex);
    bool missed = vacancies->count - *heard > VACANCIES_KEPT;
    for (; *heard < vacancies->count && !missed; ++*heard) {
        const char *lock = vacancies->locks[*heard % VACANCIES_KEPT];
        missed = !lock;
        if (lock) vacant(self, slice_text(lock));
    }
    *heard = vacancies->count;
    pthread_mutex_unlock(&vacancies->mutex);
    return !missed;
}
