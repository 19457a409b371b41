import example.Event;
import io.lettuce.core.RedisClient;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

/**
 * DelayedQueue load START_MS RATE COUNT: enqueues events. DelayedQueue serve: the dispatcher alone, as fred84/delayedQueue starts it:
 * every 500 ms, up to 100 events (DelayedEventService.Builder). tests/clients/delayed_queue/Service.java has its commands.
 */
final class DelayedQueue {
    private static final int PRODUCERS = 8;
    private static final String TYPE = "example.PaymentCheck";

    public static void main(String[] args) throws Exception {
        RedisClient client = RedisClient.create(System.getenv("REDIS_URL"));
        if (args[0].equals("serve")) {
            serve(new Service(client));
        } else {
            load(client, Long.parseLong(args[1]), Long.parseLong(args[2]), Integer.parseInt(args[3]));
            Runtime.getRuntime().halt(0); // Lettuce's threads would delay the exit for seconds
        }
    }

    private static void serve(Service service) {
        Executors.newSingleThreadScheduledExecutor().scheduleWithFixedDelay(() -> {
            try {
                service.dispatch();
            } catch (Exception e) {
                throw new IllegalStateException(e);
            }
        }, 500, 500, TimeUnit.MILLISECONDS);
        System.out.println("ready");
    }

    private static void load(RedisClient client, long start, long rate, int count) throws Exception {
        List<Thread> threads = new ArrayList<>();
        for (int first = 0; first < PRODUCERS; first++) {
            int begin = first;
            Service service = new Service(client);
            threads.add(new Thread(() -> enqueue(service, begin, start, rate, count)));
        }
        threads.forEach(Thread::start);
        for (Thread thread : threads) thread.join();
    }

    private static void enqueue(Service service, int begin, long start, long rate, int count) {
        try {
            for (int i = begin; i < count; i += PRODUCERS) {
                long due = start + (rate > 0 ? i * 1000L / rate : 0);
                Event event = Produce.event(TYPE, String.valueOf(i), String.format("%0100d", i));
                service.enqueue(event, due - System.currentTimeMillis());
            }
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
    }
}
