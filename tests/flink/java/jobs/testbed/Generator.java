package testbed;

import java.io.Serializable;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.connector.source.SourceSplit;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.core.io.InputStatus;
import org.apache.flink.core.io.SimpleVersionedSerializer;

/**
 * An endless source: as fast as possible, evenly paced, in bursts, or in waves.
 *
 * A paced source may read a log, which others fill at its rate, also while the job is down. Then each reader keeps
 * its position in checkpoints, and reads late records as fast as it can. Any other source has no state.
 */
public final class Generator<T> implements Source<T, Generator.Position, Integer> {
    /** Makes record number `place` of a subtask; `mixed` is a random number of its own. */
    public interface Maker<T> extends Serializable {
        T make(long place, long mixed);
    }

    /** Gives each reader a maker of its own, which may use one record object again and again. */
    public interface Makers<T> extends Serializable {
        Maker<T> create();
    }

    /**
     * How records are paced.
     *
     * rates: records per second of each subtask, cyclic, 0: as fast as possible; catchUpSeconds: the greatest delay
     * that is made up for, except in a log; waveSeconds: the period of a sine wave of the rate, from 0 to twice the
     * rate; logged: whether paced records come from a log.
     */
    public record Pace(
            double[] rates,
            int batch,
            double catchUpSeconds,
            double burstSeconds,
            double waveSeconds,
            boolean logged)
            implements Serializable {}

    private final Makers<T> makers;
    private final Pace pace;

    public Generator(Makers<T> makers, Pace pace) {
        this.makers = makers;
        this.pace = pace;
    }

    @Override
    public Boundedness getBoundedness() {
        return Boundedness.CONTINUOUS_UNBOUNDED;
    }

    @Override
    public SourceReader<T, Position> createReader(SourceReaderContext context) {
        int subtask = context.getIndexOfSubtask();
        double rate = pace.rates()[subtask % pace.rates().length];
        Reader<T> reader = new Reader<>(makers.create(), pace, rate, Keys.mix(subtask + 1));
        if (reader.logged) {
            context.metricGroup().setPendingRecordsGauge(reader::pending);
        }
        return reader;
    }

    private static final class Reader<T> implements SourceReader<T, Position> {
        private static final long LEAST_WAIT_NS = 1_000_000L;

        private final Maker<T> maker;
        private final Pace pace;
        private final double rate;
        private final long seed;
        private final boolean logged;
        private long made;
        /** When the log began, or 0: it begins with this reader. */
        private long logBegunMs;
        private long begunNs;
        private double dueNs;
        private ScheduledExecutorService timer;
        private CompletableFuture<Void> available = CompletableFuture.completedFuture(null);

        Reader(Maker<T> maker, Pace pace, double rate, long seed) {
            this.maker = maker;
            this.pace = pace;
            this.rate = rate;
            this.seed = seed;
            logged = pace.logged() && rate > 0;
        }

        @Override
        public void start() {
            long nowMs = System.currentTimeMillis();
            logBegunMs = logBegunMs > 0 ? logBegunMs : nowMs;
            begunNs = System.nanoTime() - TimeUnit.MILLISECONDS.toNanos(nowMs - logBegunMs);
            if (rate > 0) {
                timer = Executors.newSingleThreadScheduledExecutor(work -> {
                    Thread thread = new Thread(work, "pace of a generator");
                    thread.setDaemon(true);
                    return thread;
                });
            }
        }

        @Override
        public InputStatus pollNext(ReaderOutput<T> output) {
            if (rate > 0) {
                double now = System.nanoTime() - begunNs;
                double due = due(now);
                if (now < due) {
                    CompletableFuture<Void> future = new CompletableFuture<>();
                    available = future;
                    long wait = Math.max(LEAST_WAIT_NS, (long) (due - now));
                    timer.schedule(() -> future.complete(null), wait, TimeUnit.NANOSECONDS);
                    return InputStatus.NOTHING_AVAILABLE;
                }
            }
            for (int i = 0; i < pace.batch(); i++) {
                long place = made++;
                output.collect(maker.make(place, Keys.mix(seed + place)));
                dueNs += rate > 0 ? 1e9 / rate : 0;
            }
            return InputStatus.MORE_AVAILABLE;
        }

        /** When the next record may come, in nanoseconds since the start. */
        private double due(double now) {
            if (pace.burstSeconds() > 0) {
                double periodNs = pace.burstSeconds() * 1e9;
                double perBurst = rate * pace.burstSeconds();
                return Math.floor((made + 1e-9) / perBurst) * periodNs;
            }
            if (pace.waveSeconds() > 0) {
                return made < arrived(now / 1e9) ? now : now + LEAST_WAIT_NS;
            }
            if (logged) {
                return made * 1e9 / rate;
            }
            dueNs = Math.max(dueNs, now - pace.catchUpSeconds() * 1e9);
            return dueNs;
        }

        /** How many records are in the log that this reader has not emitted. */
        private long pending() {
            if (begunNs == 0) {
                return 0; // not started yet
            }
            return Math.max(0, (long) (arrived((System.nanoTime() - begunNs) / 1e9) + 1e-9) - made);
        }

        /** How many records have come into the log. */
        private double arrived(double seconds) {
            if (pace.burstSeconds() > 0) {
                return (Math.floor(seconds / pace.burstSeconds()) + 1) * rate * pace.burstSeconds();
            }
            if (pace.waveSeconds() > 0) {
                double turn = 2 * Math.PI / pace.waveSeconds();
                return Math.floor(rate * (seconds + (1 - Math.cos(turn * seconds)) / turn)) + 1;
            }
            return seconds * rate + 1;
        }

        @Override
        public CompletableFuture<Void> isAvailable() {
            return available;
        }

        @Override
        public List<Position> snapshotState(long checkpointId) {
            return logged ? List.of(new Position(logBegunMs, made)) : List.of();
        }

        /** Called before the start, and only with what this subtask has stored. */
        @Override
        public void addSplits(List<Position> splits) {
            for (Position position : splits) {
                logBegunMs = position.logBegunMs();
                made = position.made();
            }
        }

        @Override
        public void notifyNoMoreSplits() {}

        @Override
        public void close() {
            if (timer != null) {
                timer.shutdownNow();
            }
        }
    }

    /** Where a reader is in its log; the log began at a time in ms since 1970. */
    public record Position(long logBegunMs, long made) implements SourceSplit {
        @Override
        public String splitId() {
            return "log";
        }
    }

    private static final class NoEnumerator implements SplitEnumerator<Position, Integer> {
        @Override
        public void start() {}

        @Override
        public void handleSplitRequest(int subtask, String host) {}

        @Override
        public void addSplitsBack(List<Position> splits, int subtask) {}

        @Override
        public void addReader(int subtask) {}

        @Override
        public Integer snapshotState(long checkpointId) {
            return 0;
        }

        @Override
        public void close() {}
    }

    private static final class OfPosition implements SimpleVersionedSerializer<Position> {
        @Override
        public int getVersion() {
            return 1;
        }

        @Override
        public byte[] serialize(Position position) {
            return ByteBuffer.allocate(2 * Long.BYTES).putLong(position.logBegunMs).putLong(position.made).array();
        }

        @Override
        public Position deserialize(int version, byte[] bytes) {
            ByteBuffer buffer = ByteBuffer.wrap(bytes);
            return new Position(buffer.getLong(), buffer.getLong());
        }
    }

    /** The enumerator keeps nothing. */
    private static final class OfNothing implements SimpleVersionedSerializer<Integer> {
        @Override
        public int getVersion() {
            return 1;
        }

        @Override
        public byte[] serialize(Integer ignored) {
            return new byte[0];
        }

        @Override
        public Integer deserialize(int version, byte[] bytes) {
            return 0;
        }
    }

    @Override
    public SplitEnumerator<Position, Integer> createEnumerator(SplitEnumeratorContext<Position> context) {
        return new NoEnumerator();
    }

    @Override
    public SplitEnumerator<Position, Integer> restoreEnumerator(SplitEnumeratorContext<Position> context, Integer state) {
        return new NoEnumerator();
    }

    @Override
    public SimpleVersionedSerializer<Position> getSplitSerializer() {
        return new OfPosition();
    }

    @Override
    public SimpleVersionedSerializer<Integer> getEnumeratorCheckpointSerializer() {
        return new OfNothing();
    }
}
