import com.fasterxml.jackson.databind.ObjectMapper;
import example.Envelope;
import example.Event;
import io.lettuce.core.KeyValue;
import io.lettuce.core.Limit;
import io.lettuce.core.Range;
import io.lettuce.core.RedisClient;
import io.lettuce.core.SetArgs;
import io.lettuce.core.ZAddArgs;
import io.lettuce.core.api.sync.RedisCommands;
import java.util.Map;

/**
 * The protocol of fred84/delayedQueue 384b808 (DelayedEventService), whose artifact is in no repository that every machine can use: the
 * same commands in the same order, by the same client library and JSON writer. One thread owns each connection.
 */
final class Service {
    private final ObjectMapper mapper = new ObjectMapper();
    private final RedisCommands<String, String> redis;
    private final String prefix = Story.setting("QS_PREFIX", "de_");
    private final int attempts = Integer.parseInt(Story.setting("QS_ATTEMPTS", "70"));
    private final long delayMs = Long.parseLong(Story.setting("QS_DELAY_MS", "10000"));

    Service(RedisClient client) {
        redis = client.connect().sync();
    }

    String list(Class<? extends Event> type) {
        return prefix + type.getSimpleName().toLowerCase();
    }

    private static String member(Event event) {
        return event.getClass().getName() + "###" + event.getId();
    }

    /** Writes the event. Returns its envelope, as in the hash. */
    String enqueue(Event event, long delayMs) throws Exception {
        String json = mapper.writeValueAsString(new Envelope<>(event, 1, Map.of()));
        redis.multi();
        redis.hset(prefix + "events", member(event), json);
        redis.zadd(prefix + "delayed_events", ZAddArgs.Builder.nx(), System.currentTimeMillis() + delayMs, member(event));
        redis.exec();
        return json;
    }

    /** Takes an event. Null: no event came within a second. */
    String pop(Class<? extends Event> type) {
        KeyValue<String, String> got = redis.brpop(1, list(type));
        return got == null || !got.hasValue() ? null : got.getValue();
    }

    <T extends Event> Envelope<T> read(Class<T> type, String json) throws Exception {
        return mapper.readValue(json, mapper.getTypeFactory().constructParametricType(Envelope.class, type));
    }

    void finish(Event event) {
        redis.multi();
        redis.hdel(prefix + "events", member(event));
        redis.zrem(prefix + "delayed_events", member(event));
        redis.exec();
    }

    /** One turn of the library's own dispatcher, with its lock, which has no effect. All delays are QS_DELAY_MS. */
    void dispatch() throws Exception {
        String lock = prefix + "delayed_events_lock";
        try {
            if (redis.set(lock, "value", SetArgs.Builder.ex(2_000_000).nx()) == null) return;
            Range<Double> due = Range.create(-1.0, (double) System.currentTimeMillis());
            for (String member : redis.zrangebyscore(prefix + "delayed_events", due, Limit.from(100))) dispatch(member);
        } finally {
            redis.del(lock);
        }
    }

    private void dispatch(String member) throws Exception {
        String json = redis.hget(prefix + "events", member);
        if (json == null) {
            redis.zrem(prefix + "delayed_events", member);
            return;
        }
        Envelope<Event> now = read(Event.class, json), next = now.next();
        redis.multi();
        if (next.attempt < attempts) {
            redis.zadd(prefix + "delayed_events", System.currentTimeMillis() + delayMs, member);
            redis.hset(prefix + "events", member, mapper.writeValueAsString(next));
        } else {
            redis.zrem(prefix + "delayed_events", member);
            redis.hdel(prefix + "events", member);
        }
        redis.lpush(list(now.payload.getClass()), mapper.writeValueAsString(now));
        redis.exec();
    }
}
