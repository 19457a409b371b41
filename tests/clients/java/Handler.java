import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.HexFormat;

/** The handler of the tests: see tests/clients/python/handler.py. */
public class Handler {
    static void append(String name, String line) throws IOException {
        Files.write(Path.of(name), (line + "\n").getBytes(), StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    }

    static boolean first(String name) throws IOException {
        try {
            Files.createFile(Path.of(name));
            return true;
        } catch (FileAlreadyExistsException e) {
            return false;
        }
    }

    public static void handle(byte[] job) throws Exception {
        String[] words = new String(job, StandardCharsets.ISO_8859_1).split(" ", 3);
        String hex = HexFormat.of().formatHex(job);
        append("runs", hex);
        if (words[0].equals("flaky") && first("seen-" + words[1])) throw new Exception("not yet");
        if (words[0].equals("poison")) throw new Exception("poison, caf\u00e9");
        if (words[0].equals("hopeless")) throw new Exception("!no such address");
        if (words[0].equals("hang") && first("seen-" + words[1])) {
            append("hangs", String.valueOf(ProcessHandle.current().pid()));
            Thread.sleep(600_000);
        }
        while (words[0].equals("wait") && !Files.exists(Path.of("go"))) Thread.sleep(10);
        append("done", hex);
    }
}
