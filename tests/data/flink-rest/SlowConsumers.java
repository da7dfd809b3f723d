import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;

/** A job whose consumers need 5 ms a record. Arguments: options of Flink as key=value. */
public final class SlowConsumers {
    public static void main(String[] arguments) throws Exception {
        StreamExecutionEnvironment job = LocalCluster.withOptions(arguments);
        job.setParallelism(2);
        job.fromSequence(0, Long.MAX_VALUE - 1)
                .name("numbers")
                .map(number -> new byte[1000])
                .returns(PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO)
                .name("records")
                .rebalance()
                .map(SlowConsumers::work)
                .returns(Types.INT)
                .name("slow")
                .sinkTo(new DiscardingSink<>())
                .name("nowhere");
        LocalCluster.run(job, "slow consumers");
    }

    private static int work(byte[] record) throws InterruptedException {
        Thread.sleep(5);
        return record.length;
    }
}
