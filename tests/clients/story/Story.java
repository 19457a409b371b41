import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Common code of the Java workers: the kinds of jobs, the lines that a test counts, and the end by SIGTERM. tests/clients/README.md
 * explains all three.
 */
final class Story {
    private static final FileOutputStream OUT = new FileOutputStream(FileDescriptor.out);
    private static final AtomicInteger HANGING = new AtomicInteger();
    private static volatile boolean stopping;

    private Story() {}

    static boolean stopping() {
        return stopping;
    }

    static synchronized void say(String word, String key, String detail) {
        String text = detail == null ? "-" : detail.strip().replaceAll("\\s+", " ");
        String line = word + " " + key + " " + System.currentTimeMillis() + " " + (text.isEmpty() ? "-" : text) + "\n";
        try {
            OUT.write(line.getBytes(StandardCharsets.UTF_8)); // one write a line: several workers share a file
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
    }

    static String hex(String text) {
        return HexFormat.of().formatHex(text.getBytes(StandardCharsets.UTF_8));
    }

    static String setting(String name, String otherwise) {
        String value = System.getenv(name);
        return value == null || value.isEmpty() ? otherwise : value;
    }

    static String keyOf(String text) {
        String[] words = text.split(" ", 3);
        return words.length < 2 ? text : words[0] + "-" + words[1];
    }

    private static boolean first(String key) throws IOException {
        try {
            Files.createFile(Path.of("seen-" + key));
            return true;
        } catch (FileAlreadyExistsException e) {
            return false;
        }
    }

    /** Handles a job. Throws if the job fails. */
    static void handle(String text) throws Exception {
        String kind = text.split(" ", 2)[0], key = keyOf(text);
        long pid = ProcessHandle.current().pid();
        if (kind.equals("poison")) throw new Exception("poison, caf\u00e9");
        if (kind.equals("flaky") && first(key)) throw new Exception("not yet");
        if (kind.equals("die") && first(key)) new ProcessBuilder("kill", "-9", String.valueOf(pid)).start().waitFor();
        if (kind.equals("hang") && first(key)) {
            HANGING.incrementAndGet();
            say("hangs", key, String.valueOf(pid));
            while (true) Thread.sleep(600_000);
        }
        if (kind.equals("slow")) Thread.sleep(20);
        while (kind.equals("wait") && !Files.exists(Path.of("go"))) Thread.sleep(10);
    }

    /** One turn of a worker's loop: takes a job and handles it, or returns after a short wait without a job. */
    interface Turn {
        void run() throws Exception;
    }

    /** Runs each loop in a thread of its own until SIGTERM, then lets every job that does not hang end, and exits with 0. */
    static void run(List<Turn> loops) {
        List<Thread> threads = new ArrayList<>();
        AtomicInteger running = new AtomicInteger(loops.size());
        for (Turn turn : loops) threads.add(new Thread(() -> turns(turn, running)));
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            stopping = true;
            while (running.get() > HANGING.get()) nap(5);
            Runtime.getRuntime().halt(0);
        }));
        threads.forEach(Thread::start);
        say("ready", "-", String.valueOf(ProcessHandle.current().pid()));
    }

    private static void turns(Turn turn, AtomicInteger running) {
        while (!stopping) {
            try {
                turn.run();
            } catch (Exception e) {
                say("error", "-", String.valueOf(e));
                nap(100);
            }
        }
        running.decrementAndGet();
    }

    static void nap(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }
}
