package testbed;

import java.time.Duration;
import java.util.List;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.TypeHint;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.ProcessFunction;
import org.apache.flink.streaming.api.functions.co.KeyedCoProcessFunction;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.Collector;

/**
 * Jobs as people write them, with Flink's own operators, chains and slot sharing. Arguments: the job's name, and in
 * any order "burn" where costs are to be processor time instead of sleep; "rate=R" for the records per second of
 * each subtask of a source that is as fast as possible otherwise; "load=F" for a factor of all rates; "logged" for
 * sources that read a log.
 */
public final class OrdinaryJobs {
    private static final TypeInformation<Tuple2<String, Integer>> WORD = TypeInformation.of(new TypeHint<>() {});
    static final TypeInformation<Tuple3<Long, Long, byte[]>> EVENT = TypeInformation.of(new TypeHint<>() {});

    private final StreamExecutionEnvironment environment;
    private final boolean burns;
    private final double unpacedRate;
    private final double load;
    private final boolean logged;

    private OrdinaryJobs(StreamExecutionEnvironment environment, List<String> given) {
        this.environment = environment;
        burns = given.contains("burn");
        unpacedRate = number(given, "rate=", 0);
        load = number(given, "load=", 1);
        logged = given.contains("logged");
    }

    private static double number(List<String> given, String name, double otherwise) {
        return given.stream().filter(each -> each.startsWith(name))
                .mapToDouble(each -> Double.parseDouble(each.substring(name.length()))).findFirst().orElse(otherwise);
    }

    public static void main(String[] args) throws Exception {
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment();
        environment.getConfig().enableObjectReuse();
        OrdinaryJobs jobs = new OrdinaryJobs(environment, List.of(args).subList(1, args.length));
        BranchingJobs branching = new BranchingJobs(jobs);
        JoiningJobs joining = new JoiningJobs(jobs);
        UnevenJobs uneven = new UnevenJobs(jobs);
        WindowJobs windowed = new WindowJobs(jobs);
        switch (args[0]) {
            case "wordcount" -> jobs.wordCount();
            case "enrich" -> jobs.enrich();
            case "windows" -> windowed.windows();
            case "etl" -> jobs.etl();
            case "state" -> jobs.state();
            case "alerts" -> branching.alerts();
            case "sessions" -> branching.sessions();
            case "merge" -> branching.merge();
            case "rules" -> joining.rules();
            case "lookups" -> joining.lookups();
            case "intervals" -> joining.intervals();
            case "slow_windows" -> windowed.slowWindows();
            case "slow_sessions" -> windowed.slowSessions(1000, 2000, 0.5, 500, 5000);
            case "small_clicks" -> windowed.slowSessions(2500, 300, 0, 500, 4000);
            case "amplify10" -> uneven.amplify(10, 500);
            case "amplify100" -> uneven.amplify(100, 100);
            case "large_records" -> uneven.largeRecords();
            case "alternates" -> uneven.alternates();
            case "stalls" -> uneven.stalls();
            default -> throw new IllegalArgumentException(args[0]);
        }
        environment.execute(args[0]);
    }

    ServiceTime costing(double micros, double... skew) {
        double[] factors = skew.length == 0 ? new double[] {1} : skew;
        return new ServiceTime(new double[][] {{0, micros / 1e6}}, factors, burns);
    }

    /** A cost that changes while the job runs. steps: (from, cost) pairs in seconds. */
    ServiceTime costing(double[][] steps) {
        return new ServiceTime(steps, new double[] {1}, burns);
    }

    private Generator.Pace pace(double rate) {
        return new Generator.Pace(new double[] {(rate > 0 ? rate : unpacedRate) * load}, 1, 0.05, 0, 0, logged);
    }

    /** Events (key, time in ms, payload) with keys by Zipf's law, at a rate of each subtask. */
    DataStream<Tuple3<Long, Long, byte[]>> events(
            String name, int parallelism, double rate, int payloadBytes, Keys keys, boolean timed) {
        Generator<Tuple3<Long, Long, byte[]>> generator = new Generator<>(() -> {
            byte[] payload = new byte[payloadBytes];
            return (place, mixed) -> Tuple3.of(keys.draw(mixed), System.currentTimeMillis(), payload);
        }, pace(rate));
        WatermarkStrategy<Tuple3<Long, Long, byte[]>> watermarks = !timed
                ? WatermarkStrategy.noWatermarks()
                : WatermarkStrategy.<Tuple3<Long, Long, byte[]>>forBoundedOutOfOrderness(Duration.ofMillis(200))
                        .withTimestampAssigner((event, before) -> event.f1);
        return environment.fromSource(generator, watermarks, name, EVENT).setParallelism(parallelism);
    }

    SingleOutputStreamOperator<Tuple3<Long, Long, byte[]>> step(
            DataStream<Tuple3<Long, Long, byte[]>> stream, String name, int parallelism, ServiceTime service) {
        return stream.process(new Serve(service)).name(name).returns(EVENT).setParallelism(parallelism);
    }

    /** Lines of ten words, split in the source's chain; words by key; a count of each, 100 us a word. */
    private void wordCount() {
        Keys words = new Keys(10_000, 1.0);
        environment.fromSource(new Generator<>(() -> (place, mixed) -> line(words, mixed), pace(0)),
                        WatermarkStrategy.noWatermarks(), "lines", Types.STRING)
                .setParallelism(4)
                .process(new Tokenizer()).name("tokenizer").returns(WORD).setParallelism(4)
                .keyBy(word -> word.f0, Types.STRING)
                .process(new Count(costing(100))).name("count").returns(WORD).setParallelism(4)
                .sinkTo(new DiscardingSink<>()).setParallelism(4);
    }

    private static String line(Keys words, long mixed) {
        StringBuilder line = new StringBuilder();
        for (int place = 0; place < 10; place++) {
            long number = words.draw(Keys.mix(mixed + place));
            line.append('w').append(Long.toString(number * 7919 + 13, 36)).append(' ');
        }
        return line.toString();
    }

    /** Orders as fast as possible, parsed, joined by customer with a few payments at 2 ms a record, written. */
    private void enrich() {
        Keys customers = new Keys(5_000, 0.6);
        DataStream<Tuple3<Long, Long, byte[]>> orders =
                step(events("orders", 2, 0, 400, customers, false).rebalance(), "parse", 4, costing(100));
        DataStream<Tuple3<Long, Long, byte[]>> payments = events("payments", 2, 200, 100, customers, false);
        DataStream<Tuple3<Long, Long, byte[]>> joined = orders.keyBy(event -> event.f0, Types.LONG)
                .connect(payments.keyBy(event -> event.f0, Types.LONG))
                .process(new Join(costing(2000))).name("join").returns(EVENT).setParallelism(4);
        step(joined.rebalance(), "sink", 2, costing(50)).sinkTo(new DiscardingSink<>()).setParallelism(2);
    }

    /** A source, a parser and a sink around the work of 2 ms a record, of which one subtask needs 3 ms. */
    private void etl() {
        DataStream<Tuple3<Long, Long, byte[]>> parsed =
                step(events("source", 4, 0, 800, new Keys(1000, 0.2), false), "parse", 4, costing(20))
                        .disableChaining();
        DataStream<Tuple3<Long, Long, byte[]>> worked =
                step(parsed.rebalance(), "work", 4, costing(2000, 1, 1, 1.5, 1)).disableChaining();
        step(worked, "sink", 4, costing(100)).disableChaining().sinkTo(new DiscardingSink<>()).setParallelism(4);
    }

    /** Values of 200 bytes under 20,000 keys, each replaced by every event of its key. */
    private void state() {
        events("source", 2, 1000, 200, new Keys(20_000, 0), false)
                .keyBy(event -> event.f0, Types.LONG)
                .process(new Replace()).name("replace").returns(EVENT).setParallelism(2)
                .sinkTo(new DiscardingSink<>()).setParallelism(2);
    }

    private static final class Serve extends ProcessFunction<Tuple3<Long, Long, byte[]>, Tuple3<Long, Long, byte[]>> {
        private final ServiceTime service;

        Serve(ServiceTime service) {
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
            out.collect(event);
        }
    }

    private static final class Tokenizer extends ProcessFunction<String, Tuple2<String, Integer>> {
        @Override
        public void processElement(String line, Context context, Collector<Tuple2<String, Integer>> out) {
            for (String word : line.split(" ")) {
                out.collect(Tuple2.of(word, 1));
            }
        }
    }

    private static final class Count
            extends KeyedProcessFunction<String, Tuple2<String, Integer>, Tuple2<String, Integer>> {
        private final ServiceTime service;
        private transient ValueState<Integer> count;

        Count(ServiceTime service) {
            this.service = service;
        }

        @Override
        public void open(OpenContext context) {
            service.open(getRuntimeContext().getTaskInfo().getIndexOfThisSubtask());
            count = getRuntimeContext().getState(new ValueStateDescriptor<>("count", Types.INT));
        }

        @Override
        public void processElement(
                Tuple2<String, Integer> word, Context context, Collector<Tuple2<String, Integer>> out) throws Exception {
            service.serve();
            Integer before = count.value();
            count.update((before == null ? 0 : before) + word.f1);
            out.collect(Tuple2.of(word.f0, count.value()));
        }
    }

    private static final class Join extends KeyedCoProcessFunction<
            Long, Tuple3<Long, Long, byte[]>, Tuple3<Long, Long, byte[]>, Tuple3<Long, Long, byte[]>> {
        private final ServiceTime service;
        private transient ValueState<Long> paid;

        Join(ServiceTime service) {
            this.service = service;
        }

        @Override
        public void open(OpenContext context) {
            service.open(getRuntimeContext().getTaskInfo().getIndexOfThisSubtask());
            paid = getRuntimeContext().getState(new ValueStateDescriptor<>("paid", Types.LONG));
        }

        @Override
        public void processElement1(
                Tuple3<Long, Long, byte[]> order, Context context, Collector<Tuple3<Long, Long, byte[]>> out)
                throws Exception {
            service.serve();
            Long at = paid.value();
            out.collect(Tuple3.of(order.f0, at == null ? 0 : at, order.f2));
        }

        @Override
        public void processElement2(
                Tuple3<Long, Long, byte[]> payment, Context context, Collector<Tuple3<Long, Long, byte[]>> out)
                throws Exception {
            service.serve();
            paid.update(payment.f1);
        }
    }

    private static final class Replace
            extends KeyedProcessFunction<Long, Tuple3<Long, Long, byte[]>, Tuple3<Long, Long, byte[]>> {
        private static final int BYTES = 200;

        private transient ValueState<byte[]> value;
        private transient long written;

        @Override
        public void open(OpenContext context) {
            value = getRuntimeContext().getState(new ValueStateDescriptor<>("value", byte[].class));
        }

        @Override
        public void processElement(
                Tuple3<Long, Long, byte[]> event, Context context, Collector<Tuple3<Long, Long, byte[]>> out)
                throws Exception {
            byte[] fresh = new byte[BYTES];
            written++;
            for (int at = 0; at < BYTES; at += Long.BYTES) {
                ScenarioJob.LONG.set(fresh, at, Keys.mix(event.f0 * 31 + written + at));
            }
            value.update(fresh);
        }
    }
}
