package testbed;

import java.time.Duration;
import java.util.Collections;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.streaming.api.datastream.AsyncDataStream;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.functions.async.ResultFuture;
import org.apache.flink.streaming.api.functions.async.RichAsyncFunction;
import org.apache.flink.streaming.api.functions.co.KeyedBroadcastProcessFunction;
import org.apache.flink.streaming.api.functions.co.ProcessJoinFunction;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.Collector;

/** Ordinary jobs that join a stream: with rules sent to all, with answers of a service, with a stream in time. */
final class JoiningJobs {
    private final OrdinaryJobs jobs;

    JoiningJobs(OrdinaryJobs jobs) {
        this.jobs = jobs;
    }

    /** Payments as fast as possible, each checked in 1 ms by 200 rules a second, which every subtask gets. */
    void rules() {
        DataStream<Tuple3<Long, Long, byte[]>> rules = jobs.events("rules", 1, 200, 300, new Keys(50, 0), false);
        DataStream<Tuple3<Long, Long, byte[]>> checked =
                jobs.events("payments", 2, 0, 400, new Keys(5_000, 0.4), false)
                        .keyBy(event -> event.f0, Types.LONG)
                        .connect(rules.broadcast(Check.RULES))
                        .process(new Check(jobs.costing(1000))).name("check").returns(OrdinaryJobs.EVENT)
                        .setParallelism(4);
        jobs.step(checked.rebalance(), "sink", 2, jobs.costing(50))
                .sinkTo(new DiscardingSink<>()).setParallelism(2);
    }

    /** Orders in turns, each completed by a service that answers after 50 ms, up to 40 at a time. */
    void lookups() {
        DataStream<Tuple3<Long, Long, byte[]>> orders = jobs.events("orders", 2, 0, 500, new Keys(5_000, 0.4), false);
        DataStream<Tuple3<Long, Long, byte[]>> answered = AsyncDataStream.unorderedWait(
                        orders.rebalance(), new LookUp(50), 10, TimeUnit.SECONDS, 40)
                .name("lookup").returns(OrdinaryJobs.EVENT).setParallelism(4);
        jobs.step(answered.rebalance(), "sink", 2, jobs.costing(200))
                .sinkTo(new DiscardingSink<>()).setParallelism(2);
    }

    /** Orders as fast as possible, and their shipments up to 4 s later; 2 ms for each pair. */
    void intervals() {
        Keys numbers = new Keys(2_000, 0);
        DataStream<Tuple3<Long, Long, byte[]>> shipments = jobs.events("shipments", 2, 300, 150, numbers, true);
        DataStream<Tuple3<Long, Long, byte[]>> joined = jobs.events("orders", 2, 0, 300, numbers, true)
                .keyBy(event -> event.f0, Types.LONG)
                .intervalJoin(shipments.keyBy(event -> event.f0, Types.LONG))
                .between(Duration.ZERO, Duration.ofSeconds(4))
                .process(new Pair(jobs.costing(2000))).name("pair").returns(OrdinaryJobs.EVENT)
                .setParallelism(4);
        jobs.step(joined.rebalance(), "sink", 2, jobs.costing(100))
                .sinkTo(new DiscardingSink<>()).setParallelism(2);
    }

    private static final class Check extends KeyedBroadcastProcessFunction<
            Long, Tuple3<Long, Long, byte[]>, Tuple3<Long, Long, byte[]>, Tuple3<Long, Long, byte[]>> {
        static final MapStateDescriptor<Long, Long> RULES =
                new MapStateDescriptor<>("rules", Types.LONG, Types.LONG);

        private final ServiceTime service;

        Check(ServiceTime service) {
            this.service = service;
        }

        @Override
        public void open(OpenContext context) {
            service.open(getRuntimeContext().getTaskInfo().getIndexOfThisSubtask());
        }

        @Override
        public void processElement(
                Tuple3<Long, Long, byte[]> payment, ReadOnlyContext context, Collector<Tuple3<Long, Long, byte[]>> out)
                throws Exception {
            service.serve();
            if (context.getBroadcastState(RULES).contains(payment.f0 % 100)) {
                out.collect(payment);
            }
        }

        @Override
        public void processBroadcastElement(
                Tuple3<Long, Long, byte[]> rule, Context context, Collector<Tuple3<Long, Long, byte[]>> out)
                throws Exception {
            context.getBroadcastState(RULES).put(rule.f0, rule.f1);
        }
    }

    private static final class LookUp
            extends RichAsyncFunction<Tuple3<Long, Long, byte[]>, Tuple3<Long, Long, byte[]>> {
        private final int answersAfterMs;
        private transient ScheduledExecutorService service;

        LookUp(int answersAfterMs) {
            this.answersAfterMs = answersAfterMs;
        }

        @Override
        public void open(OpenContext context) {
            service = Executors.newSingleThreadScheduledExecutor(work -> {
                Thread thread = new Thread(work, "service of a look-up");
                thread.setDaemon(true);
                return thread;
            });
        }

        @Override
        public void asyncInvoke(
                Tuple3<Long, Long, byte[]> order, ResultFuture<Tuple3<Long, Long, byte[]>> answer) {
            Tuple3<Long, Long, byte[]> completed = Tuple3.of(order.f0, order.f1, order.f2.clone());
            service.schedule(
                    () -> answer.complete(Collections.singleton(completed)), answersAfterMs, TimeUnit.MILLISECONDS);
        }

        @Override
        public void close() {
            if (service != null) {
                service.shutdownNow();
            }
        }
    }

    private static final class Pair extends ProcessJoinFunction<
            Tuple3<Long, Long, byte[]>, Tuple3<Long, Long, byte[]>, Tuple3<Long, Long, byte[]>> {
        private final ServiceTime service;

        Pair(ServiceTime service) {
            this.service = service;
        }

        @Override
        public void processElement(
                Tuple3<Long, Long, byte[]> order, Tuple3<Long, Long, byte[]> shipment, Context context,
                Collector<Tuple3<Long, Long, byte[]>> out) {
            service.serve();
            out.collect(order);
        }

        @Override
        public void open(OpenContext context) {
            service.open(getRuntimeContext().getTaskInfo().getIndexOfThisSubtask());
        }
    }
}
