package testbed;

import java.io.Serializable;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.streaming.api.functions.ProcessFunction;
import org.apache.flink.streaming.api.functions.co.CoProcessFunction;
import org.apache.flink.util.Collector;

/** What a vertex of a scenario does with a record: it costs its time, and gives so many others. */
final class Stage {
    private Stage() {}

    /** The work on the records of one input. */
    private static final class Work implements Serializable {
        private final ServiceTime service;
        private final double selectivity;
        private final boolean random;
        private final boolean last;
        private final int payloadBytes;
        private transient byte[] resized;
        private transient double owed;
        private transient long drawn;

        Work(Description.VertexSpec vertex, int input, boolean last) {
            Description.InputSpec spec = vertex.inputs.get(input);
            service = new ServiceTime(spec.service, vertex.serviceSkew, vertex.burns);
            selectivity = spec.selectivity;
            random = vertex.random;
            payloadBytes = vertex.payloadBytes;
            this.last = last;
        }

        void open(int subtask) {
            service.open(subtask);
            drawn = Keys.mix(subtask + 1);
            resized = new byte[payloadBytes];
        }

        void process(byte[] record, Collector<byte[]> out) {
            service.serve();
            if (last) {
                return;
            }
            byte[] emitted = payloadBytes == 0 ? record : ofItsSize(record);
            for (int left = count(); left > 0; left--) {
                out.collect(emitted);
            }
        }

        private int count() {
            if (random) {
                return (int) (selectivity + Keys.fraction(Keys.mix(drawn++)));
            }
            owed += selectivity;
            int whole = (int) (owed + 1e-9);
            owed = Math.max(0, owed - whole);
            return whole;
        }

        private byte[] ofItsSize(byte[] record) {
            System.arraycopy(record, 0, resized, 0, Math.min(record.length, payloadBytes));
            return resized;
        }
    }

    static final class OneInput extends ProcessFunction<byte[], byte[]> {
        private final Work work;

        OneInput(Description.VertexSpec vertex, boolean last) {
            work = new Work(vertex, 0, last);
        }

        @Override
        public void open(OpenContext context) {
            work.open(getRuntimeContext().getTaskInfo().getIndexOfThisSubtask());
        }

        @Override
        public void processElement(byte[] record, Context context, Collector<byte[]> out) {
            work.process(record, out);
        }
    }

    static final class TwoInputs extends CoProcessFunction<byte[], byte[], byte[]> {
        private final Work first;
        private final Work second;

        TwoInputs(Description.VertexSpec vertex, boolean last) {
            first = new Work(vertex, 0, last);
            second = new Work(vertex, 1, last);
        }

        @Override
        public void open(OpenContext context) {
            int subtask = getRuntimeContext().getTaskInfo().getIndexOfThisSubtask();
            first.open(subtask);
            second.open(subtask);
        }

        @Override
        public void processElement1(byte[] record, Context context, Collector<byte[]> out) {
            first.process(record, out);
        }

        @Override
        public void processElement2(byte[] record, Context context, Collector<byte[]> out) {
            second.process(record, out);
        }
    }
}
