package org.apache.flink.runtime.io.network.partition.consumer;

import java.io.BufferedWriter;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/**
 * Writes what each step of debloating goes by, a line of JSON each, into the file that `testbed.steps` names.
 *
 * A step begins when a gate is to debloat. It ends when the debloater is told the throughput, or when a policy has
 * taken the whole step, which may be to leave it out; both in the task's own thread.
 */
public final class Steps {
    private static final String FILE = System.getProperty("testbed.steps");
    private static final ThreadLocal<String> BEGUN = new ThreadLocal<>();
    private static BufferedWriter writer;

    private Steps() {}

    static void begin(SingleInputGate gate) {
        if (FILE == null) {
            return;
        }
        IntStream channels = IntStream.range(0, gate.getNumberOfInputChannels());
        String each = channels.mapToObj(gate::getChannel)
                .map(channel -> String.format("[%d,%b]", channel.getBuffersInUseCount(), Observed.blocked(channel)))
                .collect(Collectors.joining(","));
        BEGUN.set(String.format(
                "{\"ms\":%d,\"task\":\"%s\",\"gate\":%d,\"size\":%d,\"channels\":[%s]",
                System.currentTimeMillis(), gate.getOwningTaskName(), gate.getGateIndex(),
                PerChannel.debloaterOf(gate).getLastBufferSize(), each));
    }

    /** The debloater calculates a size from this throughput. */
    public static void recalculates(long bytesPerSecond) {
        end(Long.toString(bytesPerSecond));
    }

    /** The policy has taken the step; if it has asked no debloater, there was none. */
    static void taken() {
        end("null");
    }

    private static void end(String throughput) {
        String begun = BEGUN.get();
        if (begun == null) {
            return;
        }
        BEGUN.remove();
        write(begun + ",\"throughput\":" + throughput + "}");
    }

    private static synchronized void write(String line) {
        try {
            if (writer == null) {
                writer = Files.newBufferedWriter(Path.of(FILE));
            }
            writer.write(line);
            writer.newLine();
            writer.flush();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
