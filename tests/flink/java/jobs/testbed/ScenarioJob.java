package testbed;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.FilterFunction;
import org.apache.flink.api.common.functions.Partitioner;
import org.apache.flink.api.common.operators.SlotSharingGroup;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * Any job that a scenario describes: the first argument is a {@link Description} as JSON.
 *
 * Vertex number k is called "v" + k, so that it can be told by its name whatever is chained to it. Nothing is
 * chained but the filter of an exchange that takes a fraction of the records.
 */
public final class ScenarioJob {
    static final VarHandle LONG = MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.BIG_ENDIAN);
    static final TypeInformation<byte[]> RECORD = PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO;

    private final StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment();
    private final List<SingleOutputStreamOperator<byte[]>> streams = new ArrayList<>();
    private final Description description;

    private ScenarioJob(Description description) {
        this.description = description;
    }

    public static void main(String[] args) throws Exception {
        Description description = Description.parse(args[0]);
        ScenarioJob job = new ScenarioJob(description);
        for (int place = 0; place < description.vertices.size(); place++) {
            job.add(place, description.vertices.get(place));
        }
        job.environment.execute(description.name);
    }

    private void add(int place, Description.VertexSpec vertex) {
        SingleOutputStreamOperator<byte[]> stream = vertex.source != null ? source(place, vertex) : stage(place, vertex);
        stream.setParallelism(vertex.parallelism).startNewChain();
        streams.add(inItsSlots(stream, vertex));
    }

    private static SingleOutputStreamOperator<byte[]> inItsSlots(
            SingleOutputStreamOperator<byte[]> stream, Description.VertexSpec vertex) {
        return stream.slotSharingGroup(SlotSharingGroup.newBuilder(vertex.slotGroup)
                .setCpuCores(0.5).setTaskHeapMemoryMB(16).setExternalResource(vertex.slotGroup, 1.0).build());
    }

    private SingleOutputStreamOperator<byte[]> source(int place, Description.VertexSpec vertex) {
        Description.SourceSpec spec = vertex.source;
        int bytes = spec.payloadBytes;
        Keys keys = spec.keys > 0 ? new Keys(spec.keys, spec.zipf, spec.mostFrequent) : null;
        Generator.Pace pace = new Generator.Pace(
                spec.rates, spec.batch, spec.catchUpSeconds, spec.burstSeconds, spec.waveSeconds, spec.logged);
        Generator<byte[]> generator = new Generator<>(() -> {
            byte[] record = new byte[bytes];
            return (number, mixed) -> {
                LONG.set(record, 0, keys == null ? mixed : keys.draw(mixed));
                return record; // it lies in a network buffer before the next one is made
            };
        }, pace);
        return environment.fromSource(generator, WatermarkStrategy.noWatermarks(), "v" + place, RECORD);
    }

    private SingleOutputStreamOperator<byte[]> stage(int place, Description.VertexSpec vertex) {
        boolean last = description.vertices.stream()
                .flatMap(other -> other.inputs.stream()).flatMap(input -> input.edges.stream())
                .noneMatch(edge -> edge.from == place);
        DataStream<byte[]> first = united(vertex.inputs.get(0));
        if (vertex.inputs.size() == 1) {
            return first.process(new Stage.OneInput(vertex, last)).name("v" + place).returns(RECORD);
        }
        return first.connect(united(vertex.inputs.get(1)))
                .process(new Stage.TwoInputs(vertex, last)).name("v" + place).returns(RECORD);
    }

    private DataStream<byte[]> united(Description.InputSpec input) {
        DataStream<byte[]> all = null;
        for (Description.EdgeSpec edge : input.edges) {
            DataStream<byte[]> exchanged = exchanged(edge);
            all = all == null ? exchanged : all.union(exchanged);
        }
        return all;
    }

    private DataStream<byte[]> exchanged(Description.EdgeSpec edge) {
        DataStream<byte[]> stream = streams.get(edge.from);
        if (edge.fraction < 1) {
            Description.VertexSpec producer = description.vertices.get(edge.from);
            stream = inItsSlots(
                    stream.filter(new Fraction(edge.fraction)).setParallelism(producer.parallelism), producer);
        }
        return switch (edge.ship) {
            case "forward" -> stream.forward();
            case "rescale" -> stream.rescale();
            case "rebalance" -> stream.rebalance();
            case "broadcast" -> stream.broadcast();
            case "hash" -> edge.shares.length > 0 ? dealtOut(stream, edge.shares) : byKey(stream);
            default -> throw new IllegalArgumentException(edge.ship);
        };
    }

    /** Exchanged by key, to be read by an operator without keyed state. */
    private DataStream<byte[]> byKey(DataStream<byte[]> stream) {
        return new DataStream<>(
                environment, stream.keyBy(record -> (Long) LONG.get(record, 0), Types.LONG).getTransformation());
    }

    private static DataStream<byte[]> dealtOut(DataStream<byte[]> stream, double[] shares) {
        return stream.partitionCustom(new Shares(shares), record -> (Long) LONG.get(record, 0));
    }

    /** Lets a fraction of the records through, in regular turns. */
    private static final class Fraction implements FilterFunction<byte[]> {
        private final double fraction;
        private double owed;

        Fraction(double fraction) {
            this.fraction = fraction;
        }

        @Override
        public boolean filter(byte[] record) {
            owed += fraction;
            if (owed + 1e-9 < 1) {
                return false;
            }
            owed -= 1;
            return true;
        }
    }

    /** Draws a consumer for each record, as often as its share says. */
    private static final class Shares implements Partitioner<Long> {
        private final double[] until;
        private long drawn;

        Shares(double[] shares) {
            until = new double[shares.length];
            double sum = 0;
            for (int place = 0; place < shares.length; place++) {
                until[place] = sum += shares[place];
            }
        }

        @Override
        public int partition(Long key, int consumers) {
            double value = Keys.fraction(Keys.mix(key + drawn++)) * until[until.length - 1];
            return Keys.place(until, value);
        }
    }
}
