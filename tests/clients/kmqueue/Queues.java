import com.alibaba.fastjson.JSON;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisPool;
import redis.clients.jedis.JedisPoolConfig;
import redis.clients.jedis.Transaction;

/**
 * The protocol of Trekkiii/KMQueue 4241368 (KMQueueManager, RedisTaskQueue, RedisBackupQueue), which itself needs Java 8 and is in
 * no Maven repository: the same commands in the same order, by the same client library and JSON writer.
 *
 * <p>Two things differ. BRPOP waits for a second and not for ever, so that SIGTERM ends a waiting worker without losing a task. And a
 * reply may take a minute, because a slow machine can exceed the 2 s of Jedis.
 */
final class Queues {
    /** A task and the JSON that was taken from the queue. */
    record Taken(Task task, String json) {}

    private static final int REPLY_MS = 60_000;

    final String backup;
    final List<String> names = new ArrayList<>();
    private final Map<String, Boolean> safe = new HashMap<>();
    private final JedisPool pool;

    Queues(String url, String... queues) throws Exception {
        JedisPoolConfig config = new JedisPoolConfig();
        config.setMaxTotal(64);
        config.setMaxIdle(64);
        pool = new JedisPool(config, URI.create(url), REPLY_MS);
        backup = backupName(queues);
        for (String queue : queues) {
            String[] parts = queue.trim().split(":");
            String name = parts[0].trim();
            if (safe.putIfAbsent(name, parts.length == 2 && parts[1].trim().equals("safe")) == null) names.add(name);
        }
    }

    /** The name of the backup list comes from all queue names in their order, each trimmed and cut at the colon. */
    static String backupName(String... queues) throws Exception {
        StringBuilder all = new StringBuilder();
        for (String queue : queues) all.append(queue.trim().split(":")[0]);
        byte[] digest = MessageDigest.getInstance("MD5").digest(all.toString().getBytes(StandardCharsets.UTF_8));
        return "back_up_queue_" + Base64.getEncoder().encodeToString(digest);
    }

    boolean isSafe(String queue) {
        return safe.get(queue);
    }

    /** Pushes the marker if there is no backup list: WATCH, EXISTS, MULTI, LPUSH, EXEC. */
    void init() {
        if (!safe.containsValue(true)) return;
        try (Jedis jedis = pool.getResource()) {
            jedis.watch(backup);
            if (jedis.exists(backup)) {
                jedis.unwatch();
                return;
            }
            Transaction multi = jedis.multi();
            multi.lpush(backup, JSON.toJSONString(Task.of(backup, null, false, "marker", null)));
            multi.exec();
        }
    }

    /** Pushes a task. Returns its JSON; null if a task of this id exists already. */
    String push(Task task) {
        try (Jedis jedis = pool.getResource()) {
            if (isSafe(task.getQueue()) && task.isUnique() && jedis.sadd(task.getQueue() + "_unique", task.getId()) == 0) return null;
            String json = JSON.toJSONString(task);
            jedis.lpush(task.getQueue(), json);
            return json;
        }
    }

    /** Takes a task. Null: no task came within a second. A task older than aliveMs does not go into the backup list. */
    Taken pop(String queue, long aliveMs) {
        try (Jedis jedis = pool.getResource()) {
            List<String> got = jedis.brpop(1, queue);
            if (got == null || got.isEmpty()) return null;
            Task task = JSON.parseObject(got.get(1), Task.class);
            if (isSafe(queue) && System.currentTimeMillis() - task.getTaskStatus().getGenTimestamp() <= aliveMs) {
                task.getTaskStatus().setExcTimestamp(System.currentTimeMillis());
                jedis.lpush(backup, JSON.toJSONString(task));
            }
            return new Taken(task, got.get(1));
        }
    }

    /** Removes the worker's own JSON of the task from the backup list. Returns the number of removed entries. */
    long finish(Task task) {
        return isSafe(task.getQueue()) ? remove(task, json(task)) : 0;
    }

    long remove(Task task, String json) {
        try (Jedis jedis = pool.getResource()) {
            long removed = jedis.lrem(backup, 0, json);
            jedis.srem(task.getQueue() + "_unique", task.getId());
            return removed;
        }
    }

    String json(Task task) {
        return JSON.toJSONString(task);
    }

    /** For the monitor: the next entry of the backup list, which moves to the other end; null if the list is empty. */
    Task rotate() {
        try (Jedis jedis = pool.getResource()) {
            return JSON.parseObject(jedis.rpoplpush(backup, backup), Task.class);
        }
    }

    /** For the monitor: pushes the task back to the queue, as the next one to be taken. */
    void pushFirst(Task task) {
        try (Jedis jedis = pool.getResource()) {
            jedis.rpush(task.getQueue(), json(task));
        }
    }

    /** Whether there is a heartbeat; a blank value counts as none. */
    boolean beats(Task task) {
        try (Jedis jedis = pool.getResource()) {
            String value = jedis.get(task.getId() + "_alive");
            return value != null && !value.trim().isEmpty();
        }
    }

    /** A heartbeat as AliveDetectHandler of KMQueue proposes it; ttlMs 0 removes it. */
    void beat(Task task, String worker, long ttlMs) {
        try (Jedis jedis = pool.getResource()) {
            if (ttlMs > 0) jedis.psetex(task.getId() + "_alive", ttlMs, worker);
            else jedis.del(task.getId() + "_alive");
        }
    }
}
