import example.Event;
import example.Letters;
import example.PaymentCheck;
import io.lettuce.core.RedisClient;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;

/** Produce CLASS: enqueues an event of this class for each line of stdin, "DELAY_MS KIND NUMBER TEXT". The id is KIND-NUMBER. */
final class Produce {
    public static void main(String[] args) throws Exception {
        Service service = new Service(RedisClient.create(System.getenv("REDIS_URL")));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            String[] words = line.split(" ", 2);
            String key = Story.keyOf(words[1]);
            Story.say("produced", key, Story.hex(service.enqueue(event(args[0], key, words[1]), Long.parseLong(words[0]))));
        }
        Runtime.getRuntime().halt(0); // Lettuce's threads would delay the exit for seconds
    }

    static Event event(String type, String id, String text) {
        if (type.equals(PaymentCheck.class.getName())) {
            PaymentCheck event = new PaymentCheck();
            event.setId(id);
            event.setText(text);
            return event;
        }
        Letters.Welcome event = new Letters.Welcome();
        event.setId(id);
        event.setText(text);
        return event;
    }
}
