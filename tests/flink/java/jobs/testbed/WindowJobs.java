package testbed;

import java.time.Duration;
import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.streaming.api.functions.windowing.ProcessWindowFunction;
import org.apache.flink.streaming.api.windowing.assigners.EventTimeSessionWindows;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.assigners.WindowAssigner;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.util.Collector;

/** Ordinary jobs with windows in event time, and a slow sink or a slow window function. */
final class WindowJobs {
    private final OrdinaryJobs jobs;

    WindowJobs(OrdinaryJobs jobs) {
        this.jobs = jobs;
    }

    /** Tumbling windows of 10 s over 5,000 keys, which fire all at once into a sink of 3 ms a record. */
    void windows() {
        DataStream<Tuple3<Long, Long, byte[]>> events = jobs.events("events", 4, 1000, 200, new Keys(5_000, 0.2), true);
        DataStream<Tuple3<Long, Long, byte[]>> fired =
                counted(events, TumblingEventTimeWindows.of(Duration.ofSeconds(10)), jobs.costing(0));
        jobs.step(fired.rebalance(), "sink", 2, jobs.costing(3000)).sinkTo(new DiscardingSink<>()).setParallelism(2);
    }

    /** Tumbling windows of 2 s over 2,000 keys. A result takes 5 ms, so the results of a window take about 2 s. */
    void slowWindows() {
        DataStream<Tuple3<Long, Long, byte[]>> events =
                jobs.events("events", 2, 1500, 1000, new Keys(2_000, 0.2), true);
        DataStream<Tuple3<Long, Long, byte[]>> fired =
                counted(events, TumblingEventTimeWindows.of(Duration.ofSeconds(2)), jobs.costing(5000));
        jobs.step(fired.rebalance(), "sink", 2, jobs.costing(50)).sinkTo(new DiscardingSink<>()).setParallelism(2);
    }

    /** Sessions of 2,000 visitors, which end after a gap without an event. micros: the cost of a session. */
    void slowSessions(double rate, int payloadBytes, double zipf, int gapMs, double micros) {
        DataStream<Tuple3<Long, Long, byte[]>> clicks =
                jobs.events("clicks", 2, rate, payloadBytes, new Keys(2_000, zipf), true);
        DataStream<Tuple3<Long, Long, byte[]>> ended =
                counted(clicks, EventTimeSessionWindows.withGap(Duration.ofMillis(gapMs)), jobs.costing(micros));
        jobs.step(ended.rebalance(), "sink", 2, jobs.costing(50)).sinkTo(new DiscardingSink<>()).setParallelism(2);
    }

    private static DataStream<Tuple3<Long, Long, byte[]>> counted(
            DataStream<Tuple3<Long, Long, byte[]>> events, WindowAssigner<Object, TimeWindow> windows,
            ServiceTime service) {
        return events.keyBy(event -> event.f0, Types.LONG).window(windows)
                .aggregate(new Counted(), new WithItsEnd(service))
                .name("window").returns(OrdinaryJobs.EVENT).setParallelism(4);
    }

    static final class Counted implements AggregateFunction<Tuple3<Long, Long, byte[]>, Long, Long> {
        @Override
        public Long createAccumulator() {
            return 0L;
        }

        @Override
        public Long add(Tuple3<Long, Long, byte[]> event, Long count) {
            return count + 1;
        }

        @Override
        public Long getResult(Long count) {
            return count;
        }

        @Override
        public Long merge(Long one, Long other) {
            return one + other;
        }
    }

    /** The count and the end of a window, at the cost of a service. */
    static final class WithItsEnd
            extends ProcessWindowFunction<Long, Tuple3<Long, Long, byte[]>, Long, TimeWindow> {
        private final ServiceTime service;

        WithItsEnd(ServiceTime service) {
            this.service = service;
        }

        @Override
        public void open(OpenContext context) {
            service.open(getRuntimeContext().getTaskInfo().getIndexOfThisSubtask());
        }

        @Override
        public void process(
                Long key, Context context, Iterable<Long> counts, Collector<Tuple3<Long, Long, byte[]>> out) {
            service.serve();
            byte[] payload = new byte[400];
            ScenarioJob.LONG.set(payload, 0, (long) counts.iterator().next());
            out.collect(Tuple3.of(key, context.window().getEnd(), payload));
        }
    }
}
