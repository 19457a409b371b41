import java.util.List;

/**
 * Monitor QUEUE...: KMQueue's own BackupQueueMonitor, one pass every QS_EVERY_MS until SIGTERM, with its flaws: a pass ends at a task
 * that is a marker or names the backup list; a task past its alive timeout is reported dead and still retried; the retry is pushed
 * before the removal; and every removal also removes the id from the unique set.
 */
final class Monitor {
    private static final long PROTECTED_MS = Long.parseLong(Story.setting("QS_PROTECTED_MS", "1000"));
    private static final long ALIVE_MS = Long.parseLong(Story.setting("QS_ALIVE_MS", String.valueOf(Long.MAX_VALUE)));
    private static final int RETRY_TIMES = Integer.parseInt(Story.setting("QS_RETRY_TIMES", "3"));

    public static void main(String[] args) throws Exception {
        Queues queues = new Queues(System.getenv("REDIS_URL"), args);
        long every = Long.parseLong(Story.setting("QS_EVERY_MS", "500"));
        Story.run(List.of(() -> {
            pass(queues);
            Story.nap(every);
        }));
    }

    private static void pass(Queues queues) {
        for (Task task; (task = queues.rotate()) != null; ) {
            if (queues.backup.equals(task.getQueue()) || "marker".equals(task.getType())) return;
            long now = System.currentTimeMillis();
            if (now - task.getTaskStatus().getGenTimestamp() > ALIVE_MS) {
                Story.say("dead", Story.keyOf(task.getData()), "alive timeout");
                queues.remove(task, queues.json(task));
            }
            if (now - task.getTaskStatus().getExcTimestamp() > PROTECTED_MS && !queues.beats(task)) stalled(queues, task);
        }
    }

    private static void stalled(Queues queues, Task task) {
        String key = Story.keyOf(task.getData());
        String before = queues.json(task);
        int retries = task.getTaskStatus().getRetry();
        if (retries < RETRY_TIMES) {
            task.getTaskStatus().setState("retry");
            task.getTaskStatus().setRetry(retries + 1);
            queues.pushFirst(task);
            Story.say("retried", key, Story.hex(queues.json(task)));
        } else {
            Story.say("dead", key, "retries exhausted");
        }
        queues.remove(task, before);
    }
}
