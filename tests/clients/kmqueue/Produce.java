import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;

/**
 * Produce QUEUE...: adds one task to the last of the queues for each line of stdin, "0 KIND NUMBER TEXT" (there are no delayed tasks here).
 * QS_UNIQUE=1: unique tasks. The id is KIND-NUMBER.
 */
final class Produce {
    public static void main(String[] args) throws Exception {
        Queues queues = new Queues(System.getenv("REDIS_URL"), args);
        queues.init();
        String queue = queues.names.get(queues.names.size() - 1);
        boolean unique = Story.setting("QS_UNIQUE", "0").equals("1");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            String text = line.split(" ", 2)[1], key = Story.keyOf(text);
            String json = queues.push(Task.of(queue, key, unique, "story", text));
            Story.say(json == null ? "refused" : "produced", key, json == null ? "-" : Story.hex(json));
        }
    }
}
