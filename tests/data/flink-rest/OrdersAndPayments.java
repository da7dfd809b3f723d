import java.util.concurrent.ThreadLocalRandom;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.util.ratelimit.RateLimiterStrategy;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.co.RichCoFlatMapFunction;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.Collector;

/**
 * An ordinary job: orders are taken apart into items, and each item meets what its customer has paid last.
 *
 * <p>An order has one item or two, four of ten records are one customer's, and 100 payments come in a second. An
 * order takes 1 ms, an item or a payment 2 ms. Arguments: options of Flink as key=value.
 */
public final class OrdersAndPayments {
    private static final int CUSTOMERS = 1000;
    private static final int ORDER_BYTES = 4000;
    private static final int ITEM_BYTES = 2000;
    private static final int PAYMENTS_PER_S = 100;
    private static final TypeInformation<Tuple2<Integer, byte[]>> GOODS =
            Types.TUPLE(Types.INT, PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO);
    private static final TypeInformation<Tuple2<Integer, Long>> PAID = Types.TUPLE(Types.INT, Types.LONG);

    public static void main(String[] arguments) throws Exception {
        StreamExecutionEnvironment job = LocalCluster.withOptions(arguments);
        items(job)
                .keyBy(item -> item.f0)
                .connect(payments(job).keyBy(payment -> payment.f0))
                .flatMap(new LastPaid())
                .returns(PAID)
                .name("join")
                .setParallelism(4)
                .rebalance()
                .sinkTo(new DiscardingSink<>())
                .name("nowhere")
                .setParallelism(2);
        LocalCluster.run(job, "orders and payments");
    }

    private static DataStream<Tuple2<Integer, byte[]>> items(StreamExecutionEnvironment job) {
        DataGeneratorSource<Tuple2<Integer, byte[]>> orders =
                new DataGeneratorSource<>(
                        number -> Tuple2.of(customer(), new byte[ORDER_BYTES]), Long.MAX_VALUE, GOODS);
        return job.fromSource(orders, WatermarkStrategy.noWatermarks(), "orders")
                .setParallelism(2)
                .rebalance()
                .flatMap(OrdersAndPayments::takeApart)
                .returns(GOODS)
                .name("items")
                .setParallelism(4);
    }

    private static DataStream<Tuple2<Integer, Long>> payments(StreamExecutionEnvironment job) {
        DataGeneratorSource<Tuple2<Integer, Long>> payments =
                new DataGeneratorSource<>(
                        number -> Tuple2.of(customer(), number),
                        Long.MAX_VALUE,
                        RateLimiterStrategy.perSecond(PAYMENTS_PER_S),
                        PAID);
        return job.fromSource(payments, WatermarkStrategy.noWatermarks(), "payments").setParallelism(1);
    }

    private static int customer() {
        ThreadLocalRandom random = ThreadLocalRandom.current();
        return random.nextInt(10) < 4 ? 0 : random.nextInt(1, CUSTOMERS);
    }

    private static void takeApart(Tuple2<Integer, byte[]> order, Collector<Tuple2<Integer, byte[]>> items)
            throws InterruptedException {
        Thread.sleep(1);
        for (int left = ThreadLocalRandom.current().nextInt(1, 3); left > 0; left--) {
            items.collect(Tuple2.of(order.f0, new byte[ITEM_BYTES]));
        }
    }

    private static final class LastPaid
            extends RichCoFlatMapFunction<Tuple2<Integer, byte[]>, Tuple2<Integer, Long>, Tuple2<Integer, Long>> {
        private transient ValueState<Long> paid;

        @Override
        public void open(OpenContext context) {
            paid = getRuntimeContext().getState(new ValueStateDescriptor<>("paid", Types.LONG));
        }

        @Override
        public void flatMap1(Tuple2<Integer, byte[]> item, Collector<Tuple2<Integer, Long>> met) throws Exception {
            Thread.sleep(2);
            Long last = paid.value();
            met.collect(Tuple2.of(item.f0, last == null ? 0L : last));
        }

        @Override
        public void flatMap2(Tuple2<Integer, Long> payment, Collector<Tuple2<Integer, Long>> met) throws Exception {
            Thread.sleep(2);
            paid.update(payment.f1);
        }
    }
}
