import java.util.UUID;

/** A task as fastjson sees it: the properties that KMQueue's Task has (4241368), from which it makes the JSON in Redis. */
public final class Task {
    private String queue, id, type, data;
    private boolean unique;
    private TaskStatus taskStatus;

    public static Task of(String queue, String id, boolean unique, String type, String data) {
        Task task = new Task();
        task.queue = queue;
        task.id = id == null || id.isEmpty() ? UUID.randomUUID().toString() : id;
        task.unique = unique;
        task.type = type;
        task.data = data;
        task.taskStatus = new TaskStatus();
        return task;
    }

    public String getQueue() { return queue; }
    public void setQueue(String value) { queue = value; }
    public String getId() { return id; }
    public void setId(String value) { id = value; }
    public String getType() { return type; }
    public void setType(String value) { type = value; }
    public String getData() { return data; }
    public void setData(String value) { data = value; }
    public boolean isUnique() { return unique; }
    public void setUnique(boolean value) { unique = value; }
    public TaskStatus getTaskStatus() { return taskStatus; }
    public void setTaskStatus(TaskStatus value) { taskStatus = value; }

    public static final class TaskStatus {
        private String state = "normal";
        private long genTimestamp = System.currentTimeMillis(), excTimestamp; // also for JSON without these times
        private int retry;

        public String getState() { return state; }
        public void setState(String value) { state = value; }
        public long getGenTimestamp() { return genTimestamp; }
        public void setGenTimestamp(long value) { genTimestamp = value; }
        public long getExcTimestamp() { return excTimestamp; }
        public void setExcTimestamp(long value) { excTimestamp = value; }
        public int getRetry() { return retry; }
        public void setRetry(int value) { retry = value; }
    }
}
