import example.Envelope;
import example.Event;
import io.lettuce.core.RedisClient;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;

/**
 * Work CLASS...: works on the events of these classes until SIGTERM. QS_NATIVE=on runs the library's own dispatcher beside it every
 * 500 ms; like the library's, it is dead after its first exception.
 */
final class Work {
    public static void main(String[] args) throws Exception {
        RedisClient client = RedisClient.create(System.getenv("REDIS_URL"));
        int each = Integer.parseInt(Story.setting("QS_THREADS", "2"));
        List<Story.Turn> loops = new ArrayList<>();
        for (String name : args)
            for (int i = 0; i < each; i++) loops.add(loop(new Service(client), Class.forName(name).asSubclass(Event.class)));
        if (Story.setting("QS_NATIVE", "off").equals("on")) dispatch(new Service(client));
        Story.run(loops);
    }

    private static <T extends Event> Story.Turn loop(Service service, Class<T> type) {
        return () -> {
            String json = service.pop(type);
            if (json == null) return;
            Envelope<T> envelope = service.read(type, json);
            String text = envelope.payload.getText(), key = Story.keyOf(text);
            Story.say("taken", key, Story.hex(json));
            try {
                Story.handle(text);
            } catch (Exception e) {
                Story.say("failed", key, e.getMessage());
                return; // the event stays in zset and hash, and is sent again when due
            }
            Story.say("done", key, String.valueOf(envelope.attempt));
            service.finish(envelope.payload);
            Story.say("finished", key, "-");
        };
    }

    private static void dispatch(Service service) {
        ScheduledExecutorService timer = Executors.newSingleThreadScheduledExecutor(work -> {
            Thread thread = new Thread(work);
            thread.setDaemon(true);
            return thread;
        });
        timer.scheduleWithFixedDelay(() -> {
            try {
                service.dispatch();
            } catch (Exception e) {
                Story.say("error", "-", "the dispatcher ends: " + e);
                throw new IllegalStateException(e);
            }
        }, 500, 500, TimeUnit.MILLISECONDS);
    }
}
