package testbed;

import java.time.Duration;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.functions.ProcessFunction;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.streaming.api.windowing.assigners.EventTimeSessionWindows;
import org.apache.flink.util.Collector;
import org.apache.flink.util.OutputTag;

/** Ordinary jobs whose graph is no line: streams that part, and streams that are put together. */
final class BranchingJobs {
    private final OrdinaryJobs jobs;

    BranchingJobs(OrdinaryJobs jobs) {
        this.jobs = jobs;
    }

    /** Readings go to a scorer by key, at 1.2 ms each, which passes one of eight on, and to a cheap archive. */
    void alerts() {
        DataStream<Tuple3<Long, Long, byte[]>> readings =
                jobs.events("readings", 3, 0, 300, new Keys(2_000, 0.8), false);
        DataStream<Tuple3<Long, Long, byte[]>> scored =
                jobs.step(readings.keyBy(event -> event.f0, Types.LONG), "score", 4, jobs.costing(1200));
        DataStream<Tuple3<Long, Long, byte[]>> alarming =
                scored.filter(event -> Keys.mix(event.f0) % 8 == 0).name("alarming").setParallelism(4);
        jobs.step(alarming.rebalance(), "alert", 1, jobs.costing(200))
                .sinkTo(new DiscardingSink<>()).setParallelism(1);
        jobs.step(readings.rescale(), "archive", 2, jobs.costing(80))
                .sinkTo(new DiscardingSink<>()).setParallelism(2);
    }

    /** Clicks of two kinds in one stream; the sessions of 4,000 visitors, which end after 2 s; 3 ms to write each. */
    void sessions() {
        Keys visitors = new Keys(4_000, 0.5);
        DataStream<Tuple3<Long, Long, byte[]>> clicks = jobs.events("web", 2, 500, 200, visitors, true)
                .union(jobs.events("mobile", 1, 400, 350, visitors, true));
        DataStream<Tuple3<Long, Long, byte[]>> ended = clicks.keyBy(event -> event.f0, Types.LONG)
                .window(EventTimeSessionWindows.withGap(Duration.ofSeconds(2)))
                .aggregate(new WindowJobs.Counted(), new WindowJobs.WithItsEnd(jobs.costing(0)))
                .name("session").returns(OrdinaryJobs.EVENT).setParallelism(4);
        jobs.step(ended.rebalance(), "write", 2, jobs.costing(3000)).sinkTo(new DiscardingSink<>()).setParallelism(2);
    }

    /** A fast and a paced source in one stream; a parser of 1 ms a record, which sends one of 16 to a side output. */
    void merge() {
        Keys users = new Keys(5_000, 0.2);
        DataStream<Tuple3<Long, Long, byte[]>> merged = jobs.events("clicks", 2, 0, 400, users, false)
                .union(jobs.events("calls", 2, 200, 200, users, false));
        SingleOutputStreamOperator<Tuple3<Long, Long, byte[]>> parsed = merged.rebalance()
                .process(new Parse(jobs.costing(1000))).name("parse").returns(OrdinaryJobs.EVENT).setParallelism(4);
        jobs.step(parsed.keyBy(event -> event.f0, Types.LONG), "score", 4, jobs.costing(200))
                .sinkTo(new DiscardingSink<>()).setParallelism(4);
        jobs.step(parsed.getSideOutput(BROKEN).rebalance(), "repair", 1, jobs.costing(500))
                .sinkTo(new DiscardingSink<>()).setParallelism(1);
    }

    private static final OutputTag<Tuple3<Long, Long, byte[]>> BROKEN = new OutputTag<>("broken", OrdinaryJobs.EVENT);

    private static final class Parse extends ProcessFunction<Tuple3<Long, Long, byte[]>, Tuple3<Long, Long, byte[]>> {
        private final ServiceTime service;

        Parse(ServiceTime service) {
            this.service = service;
        }

        @Override
        public void open(OpenContext context) {
            service.open(getRuntimeContext().getTaskInfo().getIndexOfThisSubtask());
        }

        @Override
        public void processElement(
                Tuple3<Long, Long, byte[]> event, Context context, Collector<Tuple3<Long, Long, byte[]>> out) {
            service.serve();
            if (Keys.mix(event.f0) % 16 == 0) {
                context.output(BROKEN, event);
            } else {
                out.collect(event);
            }
        }
    }
}
