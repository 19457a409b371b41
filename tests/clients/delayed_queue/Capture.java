import com.fasterxml.jackson.core.json.PackageVersion;
import com.fasterxml.jackson.databind.JavaType;
import com.fasterxml.jackson.databind.ObjectMapper;
import example.Envelope;
import example.Event;
import java.util.LinkedHashMap;
import java.util.Map;

/** Capture: how Jackson writes envelopes, and which texts it reads as one; one JSON object a line, see tests/data/README.md. */
final class Capture {
    private static final String PAYMENT = "example.PaymentCheck", WELCOME = "example.Letters$Welcome";
    private static final ObjectMapper MAPPER = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        StringBuilder large = new StringBuilder();
        for (int i = 0; large.length() < 60 * 1024; i++) large.append("line ").append(i).append(" \"\\\n");
        Map<String, String> texts = new LinkedHashMap<>();
        texts.put("plain", "a text");
        texts.put("none", null);
        texts.put("unicode", "caf\u00e9 \u4efb\u52a1 \ud83d\ude00 \u2028\u2029\u0085\ufeff");
        texts.put("escapes", "\"\\/\b\f\n\r\t\u0000\u0001\u001f\u007f'<>&</script>");
        texts.put("like an envelope", "},\"type\":\"" + PAYMENT + "\",\"attempt\":9,\"logContext\":{}}");
        for (Map.Entry<String, String> entry : texts.entrySet()) envelope(entry.getKey(), PAYMENT, "id-1", entry.getValue());
        envelope("inner class, payload with attempt", WELCOME, "id-1", "x");
        envelope("id with the delimiter", PAYMENT, "1###2", "x");
        envelope("id of every kind", PAYMENT, "\u00fc \"\\ :*{}", "x");
        line("over 64 KiB", "events", MAPPER.writeValueAsString(new Envelope<>(Produce.event(PAYMENT, "id-1", large.toString()), 1, Map.of())));
        Event event = Produce.event(PAYMENT, "id-1", "x");
        line("logContext filled", "events", MAPPER.writeValueAsString(new Envelope<>(event, 1, Map.of("user", "ann"))));
        read();
    }

    private static void envelope(String what, String type, String id, String text) throws Exception {
        Event event = Produce.event(type, id, text);
        Envelope<Event> one = new Envelope<>(event, 1, Map.of());
        line(what, "member", type + "###" + id);
        line(what, "list", "de_" + event.getClass().getSimpleName().toLowerCase());
        line(what, "events", MAPPER.writeValueAsString(one));
        line(what, "attempt 2", MAPPER.writeValueAsString(one.next()));
        line(what, "attempt 70", MAPPER.writeValueAsString(new Envelope<>(event, 70, Map.of())));
    }

    /** Texts that a worker reads as an envelope, and texts that it drops. */
    private static void read() throws Exception {
        String good = MAPPER.writeValueAsString(new Envelope<>(Produce.event(PAYMENT, "id-1", "x"), 1, Map.of()));
        JavaType type = MAPPER.getTypeFactory().constructParametricType(Envelope.class, Event.class);
        String[][] edits = {
            {"\"attempt\":1", "\"attempt\":2"},
            {"\"attempt\":1", "\"attempt\":1,\"more\":1"},
            {"\"attempt\":1", "\"attempt\":1,\"attempt\":3"},
            {"\"attempt\":1", "\"attempt\":\"4\""},
            {"\"attempt\":1", "\"attempt\":2.0"},
            {"\"attempt\":1", "\"attempt\":null"},
            {"\"attempt\":1,", ""},
            {",\"logContext\":{}", ""},
            {PAYMENT, "example.Unknown"},
            {"\"text\":\"x\"", "\"text\":\"x\",\"more\":1"},
            {"{\"payload\"", "{\n  \"payload\" "},
        };
        for (String[] edit : edits) {
            String text = good.replace(edit[0], edit[1]);
            line("read", "events", text);
            try {
                Envelope<?> envelope = MAPPER.readValue(text, type);
                line("read", "written", MAPPER.writeValueAsString(envelope));
            } catch (java.io.IOException e) {
                line("read", "refused", e.getClass().getSimpleName());
            }
        }
    }

    private static void line(String what, String key, String bytes) {
        System.out.printf("{\"what\":\"%s\",\"version\":\"jackson %s\",\"key\":\"%s\",\"hex\":\"%s\"}%n", what, PackageVersion.VERSION, key,
                Story.hex(bytes));
    }
}
