package testbed;

import org.apache.flink.api.common.functions.FlatMapFunction;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.Collector;

/** Ordinary jobs whose records differ in size, or whose cost of a record changes while they run. */
final class UnevenJobs {
    /** Changes of the cost cover so many seconds from the start of a task; after that the cost stays. */
    private static final int COVERED_S = 3600;

    private final OrdinaryJobs jobs;

    UnevenJobs(OrdinaryJobs jobs) {
        this.jobs = jobs;
    }

    /** Documents of 4 KB, each split into small records, which go on by key. micros: the cost of a small one. */
    void amplify(int parts, double micros) {
        DataStream<Tuple3<Long, Long, byte[]>> split =
                jobs.events("documents", 2, 0, 4000, new Keys(100_000, 0), false).rebalance()
                        .flatMap(new Split(parts, 4000 / parts)).name("split").returns(OrdinaryJobs.EVENT)
                        .setParallelism(4);
        jobs.step(split.keyBy(event -> event.f0, Types.LONG), "work", 4, jobs.costing(micros))
                .sinkTo(new DiscardingSink<>()).setParallelism(4);
    }

    /** Records of 4, 20, 60 and 120 KB, as many of each; a buffer has 32 KB. Each takes 60 ms. */
    void largeRecords() {
        DataStream<Tuple3<Long, Long, byte[]>> records =
                jobs.events("images", 2, 0, 0, new Keys(100_000, 0), false)
                        .map(new OfSizes(4_000, 20_000, 60_000, 120_000)).name("sizes").returns(OrdinaryJobs.EVENT)
                        .setParallelism(2);
        work(records, jobs.costing(60_000));
    }

    /** A cost of 1 ms a record, and of 3 ms in every other 10 s. */
    void alternates() {
        double[][] steps = new double[COVERED_S / 10][];
        for (int step = 0; step < steps.length; step++) {
            steps[step] = new double[] {step * 10, step % 2 == 0 ? 0.001 : 0.003};
        }
        work(jobs.events("source", 2, 0, 1000, new Keys(5_000, 0.2), false), jobs.costing(steps));
    }

    /** A cost of 1 ms a record; every 20 s all subtasks pause for 2 s. It is saturated also between the pauses. */
    void stalls() {
        double[][] steps = new double[COVERED_S / 10][];
        for (int step = 0; step < steps.length; step += 2) {
            steps[step] = new double[] {step == 0 ? 0 : step * 10 + 1, 0.001}; // applies from the end of the pause
            steps[step + 1] = new double[] {(step + 2) * 10, 2};
        }
        work(jobs.events("source", 2, 0, 1000, new Keys(5_000, 0.2), false), jobs.costing(steps));
    }

    private void work(DataStream<Tuple3<Long, Long, byte[]>> records, ServiceTime service) {
        DataStream<Tuple3<Long, Long, byte[]>> worked =
                jobs.step(records.keyBy(event -> event.f0, Types.LONG), "work", 4, service);
        jobs.step(worked.rebalance(), "sink", 2, jobs.costing(50)).sinkTo(new DiscardingSink<>()).setParallelism(2);
    }

    /** Splits each record into small ones with keys of their own. */
    private static final class Split
            implements FlatMapFunction<Tuple3<Long, Long, byte[]>, Tuple3<Long, Long, byte[]>> {
        private final int parts;
        private final int bytes;

        Split(int parts, int bytes) {
            this.parts = parts;
            this.bytes = bytes;
        }

        @Override
        public void flatMap(Tuple3<Long, Long, byte[]> record, Collector<Tuple3<Long, Long, byte[]>> out) {
            byte[] payload = new byte[bytes];
            for (int part = 0; part < parts; part++) {
                out.collect(Tuple3.of(Keys.mix(record.f0 * parts + part), record.f1, payload));
            }
        }
    }

    /** Gives each record a payload whose size follows from its key. */
    private static final class OfSizes
            implements MapFunction<Tuple3<Long, Long, byte[]>, Tuple3<Long, Long, byte[]>> {
        private final byte[][] payloads;

        OfSizes(int... sizes) {
            payloads = new byte[sizes.length][];
            for (int place = 0; place < sizes.length; place++) {
                payloads[place] = new byte[sizes[place]];
            }
        }

        @Override
        public Tuple3<Long, Long, byte[]> map(Tuple3<Long, Long, byte[]> record) {
            record.f2 = payloads[Math.floorMod(Keys.mix(record.f0), payloads.length)];
            return record;
        }
    }
}
