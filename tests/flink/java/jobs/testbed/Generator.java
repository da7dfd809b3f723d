package testbed;

import java.io.Serializable;
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

/** An endless source: as fast as possible, evenly paced, or in bursts. It has no splits and keeps no state. */
public final class Generator<T> implements Source<T, Generator.NoSplit, Integer> {
    /** Makes record number `place` of a subtask; `mixed` is a random number of its own. */
    public interface Maker<T> extends Serializable {
        T make(long place, long mixed);
    }

    /** Gives each reader a maker of its own, which may use one record object again and again. */
    public interface Makers<T> extends Serializable {
        Maker<T> create();
    }

    /** How records are paced; rates are records per second of each subtask, cyclic, 0: as fast as possible. */
    public record Pace(double[] rates, int batch, double catchUpSeconds, double burstSeconds) implements Serializable {
        public static Pace of(double... rates) {
            return new Pace(rates, 1, 0.05, 0);
        }
    }

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
    public SourceReader<T, NoSplit> createReader(SourceReaderContext context) {
        int subtask = context.getIndexOfSubtask();
        double rate = pace.rates()[subtask % pace.rates().length];
        return new Reader<>(makers.create(), pace, rate, Keys.mix(subtask + 1));
    }

    private static final class Reader<T> implements SourceReader<T, NoSplit> {
        private static final long LEAST_WAIT_NS = 1_000_000L;

        private final Maker<T> maker;
        private final Pace pace;
        private final double rate;
        private final long seed;
        private long made;
        private long begunNs;
        private double dueNs;
        private ScheduledExecutorService timer;
        private CompletableFuture<Void> available = CompletableFuture.completedFuture(null);

        Reader(Maker<T> maker, Pace pace, double rate, long seed) {
            this.maker = maker;
            this.pace = pace;
            this.rate = rate;
            this.seed = seed;
        }

        @Override
        public void start() {
            begunNs = System.nanoTime();
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
            dueNs = Math.max(dueNs, now - pace.catchUpSeconds() * 1e9);
            return dueNs;
        }

        @Override
        public CompletableFuture<Void> isAvailable() {
            return available;
        }

        @Override
        public List<NoSplit> snapshotState(long checkpointId) {
            return List.of();
        }

        @Override
        public void addSplits(List<NoSplit> splits) {}

        @Override
        public void notifyNoMoreSplits() {}

        @Override
        public void close() {
            if (timer != null) {
                timer.shutdownNow();
            }
        }
    }

    public static final class NoSplit implements SourceSplit, Serializable {
        @Override
        public String splitId() {
            return "none";
        }
    }

    private static final class NoEnumerator implements SplitEnumerator<NoSplit, Integer> {
        @Override
        public void start() {}

        @Override
        public void handleSplitRequest(int subtask, String host) {}

        @Override
        public void addSplitsBack(List<NoSplit> splits, int subtask) {}

        @Override
        public void addReader(int subtask) {}

        @Override
        public Integer snapshotState(long checkpointId) {
            return 0;
        }

        @Override
        public void close() {}
    }

    /** Keeps nothing of a value, and gives always the same one. */
    private record Always<E>(E value) implements SimpleVersionedSerializer<E> {
        @Override
        public int getVersion() {
            return 1;
        }

        @Override
        public byte[] serialize(E ignored) {
            return new byte[0];
        }

        @Override
        public E deserialize(int version, byte[] bytes) {
            return value;
        }
    }

    @Override
    public SplitEnumerator<NoSplit, Integer> createEnumerator(SplitEnumeratorContext<NoSplit> context) {
        return new NoEnumerator();
    }

    @Override
    public SplitEnumerator<NoSplit, Integer> restoreEnumerator(SplitEnumeratorContext<NoSplit> context, Integer state) {
        return new NoEnumerator();
    }

    @Override
    public SimpleVersionedSerializer<NoSplit> getSplitSerializer() {
        return new Always<>(new NoSplit());
    }

    @Override
    public SimpleVersionedSerializer<Integer> getEnumeratorCheckpointSerializer() {
        return new Always<>(0);
    }
}
