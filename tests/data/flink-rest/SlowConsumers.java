import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;

/**
 * A job whose consumers need 5 ms a record, in a cluster within this process.
 *
 * <p>Arguments: options of Flink as key=value. Prints "running" once it has been submitted, and runs until its
 * standard input ends.
 */
public final class SlowConsumers {
    public static void main(String[] arguments) throws Exception {
        Configuration options = new Configuration();
        for (String argument : arguments) {
            String[] parts = argument.split("=", 2);
            options.setString(parts[0], parts[1]);
        }
        StreamExecutionEnvironment job = StreamExecutionEnvironment.createLocalEnvironmentWithWebUI(options);
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
        job.executeAsync("slow consumers");
        System.out.println("running");
        while (System.in.read() >= 0) {
            // Whoever started this is still there.
        }
        System.exit(0);
    }

    private static int work(byte[] record) throws InterruptedException {
        Thread.sleep(5);
        return record.length;
    }
}
