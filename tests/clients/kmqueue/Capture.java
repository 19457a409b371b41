import com.alibaba.fastjson.JSON;
import java.util.LinkedHashMap;
import java.util.Map;

/** Capture: how fastjson writes tasks, and the key names of KMQueue; one JSON object a line, see tests/data/README.md. */
final class Capture {
    private static final String VERSION = "fastjson " + JSON.VERSION;
    private static final String BACKUP = "back_up_queue_ZkGUZkDe6zIgjH0nGthHgQ==";

    public static void main(String[] args) throws Exception {
        names();
        StringBuilder large = new StringBuilder();
        for (int i = 0; large.length() < 60 * 1024; i++) large.append("line ").append(i).append(" \"\\\n");
        Map<String, String> data = new LinkedHashMap<>();
        data.put("plain", "mail proxy task");
        data.put("empty", "");
        data.put("none", null);
        data.put("unicode", "caf\u00e9 \u4efb\u52a1 \ud83d\ude00 \u2028\u2029\u0085\ufeff");
        data.put("lone surrogate", "a\ud800b\udc00c");
        data.put("escapes", "\"\\/\b\f\n\r\t\u0000\u0001\u001f\u007f'<>&</script>");
        data.put("json", "{\"retry\":9,\"taskStatus\":{\"retry\":8,\"state\":\"x\"},\"n\":12345678901234567890,\"f\":1e400}");
        data.put("like a marker", "\"type\":\"marker\",\"queue\":\"" + BACKUP + "\"");
        for (Map.Entry<String, String> entry : data.entrySet()) task(entry.getKey(), entry.getValue());
        Task longer = fixed(Task.of("worker2_queue", "id-1", false, "mail", large.toString()));
        line("over 64 KiB", "backup", JSON.toJSONString(longer));
        Task odd = fixed(Task.of("worker2_queue", "id with \"quotes\" \u00fc:*", true, "", "x"));
        line("type empty, odd id", "pushed", JSON.toJSONString(odd));
        odd.setType(null);
        line("type none", "pushed", JSON.toJSONString(odd));
        Task marker = fixed(Task.of(BACKUP, "00000000-0000-4000-8000-000000000000", false, "marker", null));
        line("marker", "backup", JSON.toJSONString(marker));
        read();
    }

    private static void task(String what, String data) {
        Task task = fixed(Task.of("worker2_queue", "a509bd99-1071-4de1-9220-a280b0a4f47a", true, "mail", data));
        String pushed = JSON.toJSONString(task);
        line(what, "pushed", pushed);
        Task taken = JSON.parseObject(pushed, Task.class);
        taken.getTaskStatus().setExcTimestamp(1700000005000L);
        line(what, "backup", JSON.toJSONString(taken));
        taken.getTaskStatus().setState("retry");
        taken.getTaskStatus().setRetry(taken.getTaskStatus().getRetry() + 1);
        line(what, "retried", JSON.toJSONString(taken));
    }

    /** For JSON that another writer wrote: the bytes that a worker will search in the backup list. */
    private static void read() {
        String[] texts = {
            "{ \"type\":\"t\",\"queue\":\"worker2_queue\", \"id\":\"1\",\"unique\":false,\"data\":\"\\/a\\u00fc\","
                + "\"taskStatus\":{\"retry\":1,\"excTimestamp\":5,\"genTimestamp\":7,\"state\":\"retry\"}}",
            "{\"id\":\"1\",\"more\":{\"a\":[1,2]},\"queue\":\"worker2_queue\",\"taskStatus\":{\"retry\":1,\"retry\":2,\"genTimestamp\":7},\"unique\":true}",
            "{\"id\":1,\"queue\":\"worker2_queue\",\"taskStatus\":{\"genTimestamp\":\"7\",\"retry\":1.0},\"unique\":\"true\"}",
            "{\"id\":\"1\",\"queue\":\"worker2_queue\"}",
            "no task",
        };
        for (String text : texts) {
            line("read", "pushed", text);
            try {
                line("read", "written", JSON.toJSONString(JSON.parseObject(text, Task.class)));
            } catch (RuntimeException e) {
                line("read", "refused", e.getClass().getSimpleName());
            }
        }
    }

    private static void names() throws Exception {
        String[][] groups = {
            {"worker1_queue", "worker2_queue:safe"},
            {"worker2_queue:safe", "worker1_queue"},
            {"worker1_queue:default", " worker2_queue : safe "},
            {"mail:safe"},
            {" mail:safe"},
            {"mail :safe"},
            {"mail:safe:more"},
            {"\tmail\u0001:safe\n"},
            {"a", "bc:safe"},
            {"ab", "c:safe"},
            {"caf\u00e9:safe", "\u4efb\u52a1"},
            {"\u00a0mail:safe"},
        };
        for (String[] group : groups) {
            StringBuilder given = new StringBuilder();
            for (String name : group) given.append(given.length() == 0 ? "" : ",").append('"').append(Story.hex(name)).append('"');
            System.out.printf("{\"what\":\"names\",\"version\":\"KMQueue 4241368\",\"given\":[%s],\"key\":\"backup\",\"hex\":\"%s\"}%n", given,
                    Story.hex(Queues.backupName(group)));
        }
    }

    private static Task fixed(Task task) {
        task.getTaskStatus().setGenTimestamp(1700000000000L);
        return task;
    }

    private static void line(String what, String key, String bytes) {
        System.out.printf("{\"what\":\"%s\",\"version\":\"%s\",\"key\":\"%s\",\"hex\":\"%s\"}%n", what, VERSION, key, Story.hex(bytes));
    }
}
