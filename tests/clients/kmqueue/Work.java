import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Work QUEUE...: works on the queues, named as KMQueueManager wants them ("mail", "mail:safe"), until SIGTERM.
 *
 * <p>A task that failed stays in the backup list, like the task of a dead worker. QS_SWALLOW=1 finishes it, like KMQueue's doTask, where
 * a task whose handler throws counts as done. QS_BEAT_MS: interval of the heartbeats of each running task (0: none); their TTL is twice
 * as long.
 */
final class Work {
    private static final long ALIVE_MS = Long.parseLong(Story.setting("QS_ALIVE_MS", String.valueOf(Long.MAX_VALUE)));
    private static final long BEAT_MS = Long.parseLong(Story.setting("QS_BEAT_MS", "0"));
    private static final boolean SWALLOW = Story.setting("QS_SWALLOW", "0").equals("1");
    private static final String NAME = "worker-" + ProcessHandle.current().pid();
    private static final Map<Task, Boolean> RUNNING = new ConcurrentHashMap<>();

    public static void main(String[] args) throws Exception {
        Queues queues = new Queues(System.getenv("REDIS_URL"), args);
        queues.init();
        int each = Integer.parseInt(Story.setting("QS_THREADS", "2"));
        List<Story.Turn> loops = new ArrayList<>();
        for (String name : queues.names)
            for (int i = 0; i < each; i++) loops.add(() -> turn(queues, name));
        if (BEAT_MS > 0) beat(queues);
        Story.run(loops);
    }

    private static void turn(Queues queues, String name) {
        Queues.Taken taken = queues.pop(name, ALIVE_MS);
        if (taken == null) return;
        Task task = taken.task();
        String key = Story.keyOf(task.getData());
        boolean good = true;
        Story.say("taken", key, Story.hex(taken.json()));
        if (BEAT_MS > 0) queues.beat(task, NAME, 2 * BEAT_MS);
        RUNNING.put(task, true);
        try {
            Story.handle(task.getData());
        } catch (Exception e) {
            good = false;
            Story.say("failed", key, e.getMessage());
        }
        RUNNING.remove(task);
        if (good || SWALLOW) Story.say("done", key, "-");
        if (good || SWALLOW) Story.say("finished", key, String.valueOf(queues.finish(task)));
        if (BEAT_MS > 0) queues.beat(task, NAME, 0);
    }

    private static void beat(Queues queues) {
        Thread thread = new Thread(() -> {
            while (true) {
                Story.nap(BEAT_MS);
                try {
                    for (Task task : RUNNING.keySet()) queues.beat(task, NAME, 2 * BEAT_MS);
                } catch (RuntimeException e) {
                    Story.say("error", "-", String.valueOf(e));
                }
            }
        });
        thread.setDaemon(true);
        thread.start();
    }
}
