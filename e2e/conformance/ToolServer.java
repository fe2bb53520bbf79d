import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.utils.internals.Exit;

/**
 * Runs the main methods of Apache Kafka's tools one after another in one JVM, which saves each of them the start of its
 * own: that is most of what a tool costs. A request is a line of JSON on stdin, {"class", "arguments", "stdin"}; its
 * answer is one on stdout, {"stdout", "stderr", "code"}. The end of stdin ends the program.
 */
final class ToolServer {
    /** What a tool's call of Exit becomes. Some tools catch even this and call Exit again: the first call counts. */
    private static final class Exited extends Error {
        Exited() {
            super("exit", null, false, false);
        }
    }

    /** A stream that goes wherever the tool of the moment shall write; loggers and tools keep hold of System.out. */
    private static final class Switch extends OutputStream {
        private volatile OutputStream to;

        Switch(OutputStream to) {
            this.to = to;
        }

        @Override
        public void write(int b) throws java.io.IOException {
            to.write(b);
        }

        @Override
        public void write(byte[] bytes, int offset, int length) throws java.io.IOException {
            to.write(bytes, offset, length);
        }
    }

    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Switch OUT = new Switch(OutputStream.nullOutputStream());
    private static final Switch ERR = new Switch(new FileOutputStream(FileDescriptor.err));
    private static final List<Runnable> HOOKS = new ArrayList<>();
    /** The code of the tool's first call of Exit, or null. */
    private static Integer exitCode;

    private ToolServer() { }

    public static void main(String[] none) throws Exception {
        PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);
        InputStream questions = System.in;
        System.setOut(new PrintStream(OUT, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(ERR, true, StandardCharsets.UTF_8));
        Exit.setExitProcedure(ToolServer::exit);
        Exit.setHaltProcedure(ToolServer::exit);
        Exit.setShutdownHookAdder((name, hook) -> HOOKS.add(hook));
        BufferedReader lines = new BufferedReader(new InputStreamReader(questions, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            answers.println(JSON.writeValueAsString(run(JSON.readTree(line))));
        }
        Runtime.getRuntime().halt(0);
    }

    private static synchronized void exit(int code, String message) {
        if (exitCode == null) {
            exitCode = code;
            end();
        }
        throw new Exited();
    }

    /** What the end of a JVM does: the hooks run, and nothing that comes later is heard. */
    private static void end() {
        List<Runnable> hooks = new ArrayList<>(HOOKS);
        HOOKS.clear();
        hooks.forEach(Runnable::run);
        System.out.flush();
        System.err.flush();
        OUT.to = OutputStream.nullOutputStream();
        ERR.to = OutputStream.nullOutputStream();
    }

    private static ObjectNode run(JsonNode request) throws Exception {
        String[] arguments = new String[request.get("arguments").size()];
        for (int i = 0; i < arguments.length; i++) {
            arguments[i] = request.get("arguments").get(i).asText();
        }
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream err = new ByteArrayOutputStream();
        OUT.to = out;
        ERR.to = err;
        System.setIn(new ByteArrayInputStream(request.get("stdin").asText().getBytes(StandardCharsets.UTF_8)));
        exitCode = null;
        try {
            Class.forName(request.get("class").asText()).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException e) {
            if (!(e.getCause() instanceof Exited)) {
                e.getCause().printStackTrace();
                exitCode = 1;
            }
        }
        end();
        return JSON.createObjectNode().put("stdout", out.toString(StandardCharsets.UTF_8)).put("stderr", err.toString(StandardCharsets.UTF_8)).put("code", exitCode == null ? 0 : exitCode);
    }
}
