import java.io.IOException;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/** A cluster within this process, for a job that runs as long as whoever started it is there. */
final class LocalCluster {
    private LocalCluster() {}

    /** Arguments: options of Flink as key=value. */
    static StreamExecutionEnvironment withOptions(String[] arguments) {
        Configuration options = new Configuration();
        for (String argument : arguments) {
            String[] parts = argument.split("=", 2);
            options.setString(parts[0], parts[1]);
        }
        return StreamExecutionEnvironment.createLocalEnvironmentWithWebUI(options);
    }

    /** Runs the job until standard input ends; prints "running" once it has been submitted. */
    static void run(StreamExecutionEnvironment job, String name) throws Exception {
        job.executeAsync(name);
        System.out.println("running");
        waitForEndOfInput();
        System.exit(0);
    }

    private static void waitForEndOfInput() throws IOException {
        while (System.in.read() >= 0) {
            // Whoever started this is still there.
        }
    }
}
