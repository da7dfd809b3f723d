package testbed;

import java.io.Serializable;
import java.util.List;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;

/** What a scenario file says of its job, as `tests/flink/job_description.py` writes it. */
public final class Description implements Serializable {
    public String name;
    public List<VertexSpec> vertices;

    /** One operator; without inputs it is a source. A vertex is known by its place. */
    public static final class VertexSpec implements Serializable {
        public int parallelism;
        /** Slots of one name share; each name is also an external resource of the task managers that may have them. */
        public String slotGroup;
        public SourceSpec source;
        public List<InputSpec> inputs = List.of();
        /** Factor of the service time of each subtask, cyclic. */
        public double[] serviceSkew = {1};
        /** Whether work takes processor time instead of sleeping. */
        public boolean burns;
        /** Whether the part of a selectivity behind the point is drawn, rather than dealt out in turns. */
        public boolean random;
        /** Bytes of the array in emitted records; 0: those of the records read. */
        public int payloadBytes;
    }

    public static final class SourceSpec implements Serializable {
        public int payloadBytes;
        /** Records per second of each subtask, cyclic; 0: as fast as possible. */
        public double[] rates = {0};
        public int batch = 1;
        public double catchUpSeconds;
        /** The records of so many seconds come at once; 0: one by one. */
        public double burstSeconds;
        /** The period of a sine wave of the rate, from 0 to twice the rate; 0: no wave. */
        public double waveSeconds;
        /** Whether paced records come from a log that others fill, also while the job is down. */
        public boolean logged;
        /** 0: any 64-bit number is a key. */
        public int keys;
        public double zipf;
        public double[] mostFrequent = {};
    }

    /** One input of an operator: the union of some exchanges. */
    public static final class InputSpec implements Serializable {
        public List<EdgeSpec> edges;
        /** (from, cost) pairs in seconds. */
        public double[][] service = {{0, 0}};
        public double selectivity = 1;
    }

    public static final class EdgeSpec implements Serializable {
        public int from;
        public String ship;
        public double fraction = 1;
        /** How often a record goes to each consumer, in place of its key; empty: by key. */
        public double[] shares = {};
    }

    static Description parse(String json) throws Exception {
        return new ObjectMapper().readValue(json, Description.class);
    }
}
