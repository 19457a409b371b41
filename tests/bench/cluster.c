// The cost of a Cluster: processor time of the sidecar for jobs on three nodes, on one node and on a plain server, in one run;
// and the requests of a leader and of a standby while no job is due.
//
// The tool starts its own servers. The standby of the idle part has a Redis user of its own, by which MONITOR and CLIENT LIST
// tell the instances apart.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "bench.h"

enum { NODES_MAX = 3, QUEUES = 30, JOBS = 600000, SLOTS = 16384, IDLE_SETTLE_S = 80, WINDOW_S_PER_ROUND = 10 };

typedef struct deployment {
    const char *name;
    int count; // nodes
    bool cluster;
    pid_t pids[NODES_MAX];
    int ports[NODES_MAX];
    int bus_ports[NODES_MAX];
    redisContext *nodes[NODES_MAX];
    redisContext *of_queue[QUEUES]; // borrowed from `nodes`
} deployment_t;

static void node_start(const bench_t *bench, deployment_t *d, int node) {
    const char *program = getenv("REDIS_SERVER") ? getenv("REDIS_SERVER") : "redis-server";
    char dir[256], log[300], port[16], bus[16];
    snprintf(dir, sizeof dir, "%s/%s-%d", bench->dir, d->name, node);
    snprintf(log, sizeof log, "%s/redis.log", dir);
    mkdir(dir, 0700);
    d->ports[node] = free_port();
    snprintf(port, sizeof port, "%d", d->ports[node]);
    d->bus_ports[node] = free_port();
    snprintf(bus, sizeof bus, "%d", d->bus_ports[node]);
    d->pids[node] = fork();
    if (d->pids[node] < 0) die("cannot fork");
    if (d->pids[node] == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execlp(program, program, "--port", port, "--cluster-enabled", d->cluster ? "yes" : "no", "--cluster-port", bus, "--dir",
               dir, "--save", "", "--appendonly", "no", "--logfile", log, (char *)NULL);
        _exit(127);
    }
    for (int i = 0; i < 500 && !d->nodes[node]; i++) {
        redisContext *redis = redisConnect("127.0.0.1", d->ports[node]);
        if (redis && !redis->err)
            d->nodes[node] = redis;
        else
            redisFree(redis);
        sleep_us(10000);
    }
    if (!d->nodes[node]) die("a server does not start: see %s", log);
}

static bool node_agrees(const deployment_t *d, int node) {
    scoped_reply *info = redis_ask(d->nodes[node], "CLUSTER INFO");
    char size[32];
    snprintf(size, sizeof size, "cluster_size:%d\r", d->count);
    bool agrees = strstr(info->str, "cluster_state:ok") && strstr(info->str, size);
    return agrees;
}

static deployment_t deploy(const bench_t *bench, const char *name, int count, bool cluster) {
    deployment_t d = {.name = name, .count = count, .cluster = cluster};
    for (int i = 0; i < count; i++) node_start(bench, &d, i);
    for (int i = 1; cluster && i < count; i++) redis_do(d.nodes[0], "CLUSTER MEET 127.0.0.1 %d %d", d.ports[i], d.bus_ports[i]);
    for (int i = 0; cluster && i < count; i++)
        redis_do(d.nodes[i], "CLUSTER ADDSLOTSRANGE %d %d", i * SLOTS / count, (i + 1) * SLOTS / count - 1);
    for (int i = 0; cluster && i < count; i++)
        while (!node_agrees(&d, i)) sleep_us(20000);
    for (int q = 0; q < QUEUES; q++) {
        long slot = cluster ? redis_do(d.nodes[0], "CLUSTER KEYSLOT {q%d}", q) : 0;
        int node = 0;
        while (node + 1 < count && slot >= (node + 1) * SLOTS / count) node++;
        d.of_queue[q] = d.nodes[node];
    }
    return d;
}

static void deployment_end(deployment_t *d) {
    for (int i = 0; i < d->count; i++) {
        redisFree(d->nodes[i]);
        sidecar_stop(d->pids[i], SIGKILL);
    }
}

static char *settings_of(const deployment_t *d, const char *more) {
    static char text[256];
    int len = snprintf(text, sizeof text, d->cluster ? "nodes = [ " : "host = \"127.0.0.1\"; port = %d; ", d->ports[0]);
    for (int i = 0; d->cluster && i < d->count; i++)
        len += snprintf(text + len, sizeof text - (size_t)len, "%s\"127.0.0.1:%d\"", i ? ", " : "", d->ports[i]);
    snprintf(text + len, sizeof text - (size_t)len, "%s%s", d->cluster ? " ]; " : "", more);
    return text;
}

static char *queues_of(const char *more) {
    static char text[8192];
    int len = 0;
    for (int q = 0; q < QUEUES; q++)
        len += snprintf(text + len, sizeof text - (size_t)len, "%s{ name = \"{q%d}\"; heartbeat = \"off\"; %s }", q ? ", " : "",
                        q, more);
    return text;
}

static double cpu_us(pid_t pid) {
    clockid_t clock;
    struct timespec used = {0};
    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &used) != 0) die("no processor time of the sidecar");
    return (double)used.tv_sec * 1e6 + (double)used.tv_nsec / 1e3;
}

static int64_t sum(const deployment_t *d, const char *format) {
    int64_t all = 0;
    for (int q = 0; q < QUEUES; q++) all += redis_do(d->of_queue[q], format, q);
    return all;
}

static void await(const deployment_t *d, const char *format, int64_t wanted) {
    for (int i = 0; sum(d, format) < wanted; i++) {
        if (i == 3000) die("the sidecar does not serve every queue of %s", d->name);
        sleep_us(20000);
    }
}

// Adds jobs at a key that nobody watches, so that a RENAME brings them all at once.
static void stage(const deployment_t *d, const char *command) {
    static const char script[] =
        "for i = 1, tonumber(ARGV[1]) do local job = string.format('{\"id\":\"%012d\",\"data\":\"%069d\"}', i, 0) "
        "if ARGV[2] == 'ZADD' then redis.call('ZADD', KEYS[1], i, job) else redis.call('LPUSH', KEYS[1], "
        "job) end end return 1";
    for (int q = 0; q < QUEUES; q++) redis_do(d->of_queue[q], "EVAL %s 1 {q%d}:stage %d %s", script, q, JOBS / QUEUES, command);
}

static void release(const deployment_t *d, const char *key) {
    for (int q = 0; q < QUEUES; q++) redis_do(d->of_queue[q], "RENAME {q%d}:stage {q%d}:%s", q, q, key);
}

// Processor time of the sidecar for one job that is promoted and then scanned once, in us.
static double job_cpu_us(const bench_t *bench, const deployment_t *d) {
    const int64_t jobs = JOBS / QUEUES * QUEUES;
    for (int i = 0; i < d->count; i++) redis_do(d->nodes[i], "FLUSHALL");
    pid_t pid = sidecar_start(
        bench,
        (sidecar_options_t){.name = d->name, .redis = settings_of(d, ""), .queue = queues_of("protected_timeout = \"10h\";")});
    for (int q = 0; q < QUEUES; q++) redis_do(d->of_queue[q], "ZADD {q%d}:delayed 0 warm-up", q);
    await(d, "LLEN {q%d}", QUEUES);
    sum(d, "DEL {q%d}");
    stage(d, "ZADD");
    sleep_us(3000000); // the other roles are connecting, and empty lists have been scanned
    double before = cpu_us(pid);
    release(d, "delayed");
    await(d, "LLEN {q%d}", jobs);
    double promoted = cpu_us(pid) - before;
    sum(d, "DEL {q%d}");
    stage(d, "LPUSH");
    sleep_us(500000);
    before = cpu_us(pid);
    release(d, "backup");
    await(d, "HLEN sidecar:{q%d}:stamps", jobs);
    double scanned = cpu_us(pid) - before;
    sidecar_stop(pid, SIGTERM);
    fprintf(stderr, "%s: promoted by %.2f us, scanned by %.2f us\n", d->name, promoted / (double)jobs, scanned / (double)jobs);
    return (promoted + scanned) / (double)jobs;
}

static void measure_jobs(bench_t *bench) {
    deployment_t plain = deploy(bench, "plain", 1, false);
    deployment_t one = deploy(bench, "one", 1, true);
    deployment_t three = deploy(bench, "three", 3, true);
    series_t us[3] = {0}, to_one = {0}, to_plain = {0};
    for (int i = 0; i < bench->rounds; i++) {
        double of[3] = {job_cpu_us(bench, &plain), job_cpu_us(bench, &one), job_cpu_us(bench, &three)};
        for (int n = 0; n < 3; n++) series_add(&us[n], of[n]);
        series_add(&to_one, of[2] / of[1]);
        series_add(&to_plain, of[2] / of[0]);
    }
    table_head("Cluster, 600k jobs of 30 queues, each promoted and scanned");
    table_row(bench, "processor time of the sidecar a job, us: plain server", &us[0], 2, 0, 0);
    table_row(bench, "the same, Cluster of one node", &us[1], 2, 0, 0);
    table_row(bench, "the same, Cluster of three nodes", &us[2], 2, 0, 0);
    table_row(bench, "three nodes / one node", &to_one, 2, '<', 1.15);
    table_row(bench, "three nodes / plain server", &to_plain, 2, 0, 0);
    deployment_end(&plain);
    deployment_end(&one);
    deployment_end(&three);
}

// ---- Idle.

typedef struct seen {
    redisContext *monitor;
    double leader;
    double standby;
    double other; // short connections: reads of the slot map
} seen_t;

// Counts a line of MONITOR: time [db address] "command" ... Commands of scripts have "lua" in place of the address.
static void count_line(seen_t *seen, const char *line, const char *leaders, const char *standbys) {
    char address[80], word[100];
    if (sscanf(line, "%*s [%*d %79[^]]]", address) != 1 || strcmp(address, "lua") == 0) return;
    snprintf(word, sizeof word, " addr=%s ", address);
    if (strstr(leaders, word))
        seen->leader++;
    else if (strstr(standbys, word))
        seen->standby++;
    else
        seen->other++;
}

// The lines of CLIENT LIST with this text; owned.
static char *clients_with(redisContext *redis, const char *text) {
    scoped_reply *reply = redis_ask(redis, "CLIENT LIST");
    char *found = calloc(reply->len + 1, 1), *rest = reply->str;
    for (char *line; found && (line = strsep(&rest, "\n"));)
        if (strstr(line, text) && strstr(line, " name=queue-sidecar")) strcat(strcat(found, line), "\n");
    return found;
}

static void count_node(redisContext *redis, seen_t *seen, int64_t until_us) {
    char *leaders = clients_with(redis, " user=default "), *standbys = clients_with(redis, " user=standby ");
    const struct timeval limit = {.tv_usec = 10000};
    redisSetTimeout(seen->monitor, limit);
    // The lines have waited in the socket since the window began.
    while (mono_us() < until_us) {
        void *reply = NULL;
        if (redisGetReply(seen->monitor, &reply) != REDIS_OK) break;
        const redisReply *line = reply;
        count_line(seen, line->str, leaders, standbys);
        freeReplyObject(reply);
    }
    free(leaders);
    free(standbys);
}

static void row(bench_t *bench, const char *label, double value, char relation, double goal) {
    series_t series = {0};
    series_add(&series, value);
    table_row(bench, label, &series, 3, relation, goal);
}

static void measure_idle(bench_t *bench) {
    deployment_t d = deploy(bench, "idle", 3, true);
    seen_t sum_of = {0};
    int window_s = WINDOW_S_PER_ROUND * bench->rounds;
    for (int i = 0; i < d.count; i++) redis_do(d.nodes[i], "ACL SETUSER standby on >x ~* &* +@all");
    sidecar_options_t options = {.name = "leader", .redis = settings_of(&d, ""), .queue = queues_of("")};
    pid_t leader = sidecar_start(bench, options);
    for (int q = 0; q < QUEUES; q++) redis_do(d.of_queue[q], "ZADD {q%d}:delayed 0 warm-up", q);
    await(&d, "LLEN {q%d}", QUEUES);
    options.name = "standby";
    options.redis = settings_of(&d, "username = \"standby\"; password = \"x\";");
    pid_t standby = sidecar_start(bench, options);
    fprintf(stderr, "idle: settling for %d s, then a window of %d s\n", IDLE_SETTLE_S, window_s);
    sleep_us((int64_t)IDLE_SETTLE_S * 1000000);
    seen_t seen[NODES_MAX] = {{0}};
    for (int i = 0; i < d.count; i++) {
        seen[i].monitor = redisConnect("127.0.0.1", d.ports[i]);
        freeReplyObject(redis_ask(seen[i].monitor, "MONITOR"));
    }
    sleep_us((int64_t)window_s * 1000000);
    for (int i = 0; i < d.count; i++) {
        count_node(d.nodes[i], &seen[i], mono_us() + 1000000);
        sum_of.leader += seen[i].leader;
        sum_of.standby += seen[i].standby;
        sum_of.other += seen[i].other;
        redisFree(seen[i].monitor);
    }
    double locks = (double)QUEUES * window_s;
    table_head("Cluster, idle, 30 queues on three nodes, lock.ttl 5s");
    row(bench, "leader of all: requests/s a lock", (sum_of.leader + sum_of.other / 2) / locks, '<', 0.9);
    row(bench, "standby of all: requests/s a lock", (sum_of.standby + sum_of.other / 2) / locks, '<', 0.25);
    row(bench, "half of the reads of the slot map, which both contain", sum_of.other / 2 / locks, 0, 0);
    sidecar_stop(standby, SIGTERM);
    sidecar_stop(leader, SIGTERM);
    deployment_end(&d);
}

int main(int argc, char **argv) {
    bench_t bench = bench_begin(argc, argv);
    measure_jobs(&bench);
    measure_idle(&bench);
    return bench_end(&bench);
}
