package org.apache.flink.runtime.io.network.partition.consumer;

import java.util.Arrays;
import java.util.Collections;
import java.util.Map;
import java.util.WeakHashMap;

/**
 * The debloating policies of netstack in terms of Flink's classes: `docs/studies/POLICIES.md` says what each does.
 *
 * A gate's own thread asks, but several gates do, so what is kept for each of them is synchronised.
 */
public final class Policies {
    private static final String NAME = System.getProperty("testbed.policy");
    private static final double PEAK_KEPT = Math.pow(0.5, 0.2 / 30.0); // half in 30 s of periods of 200 ms
    private static final double JUMP = 0.25;
    private static final String UNBLOCKED = "longest-when-unblocked";

    static final boolean COUNTS_POLLS = NAME.equals("per-channel");

    private static final Map<Object, Memory> MEMORIES = Collections.synchronizedMap(new WeakHashMap<>());
    private static final Map<Object, Double> WEIGHTS = Collections.synchronizedMap(new WeakHashMap<>());

    private Policies() {}

    /** What is remembered of a gate. */
    private static final class Memory {
        int unblocked;
        double peak;
        int[] ofChannels = {};
        PerChannel perChannel;
    }

    private static Memory memory(Object gate) {
        return MEMORIES.computeIfAbsent(gate, each -> new Memory());
    }

    /** The buffers in use that a gate goes by, where Flink counts `now`. */
    public static int count(SingleInputGate gate, int now) {
        return switch (NAME) {
            case "frozen-while-blocked" -> frozen(gate, now);
            case "longest-channel" -> longest(frozenOfChannels(gate));
            case UNBLOCKED -> longest(ofChannels(gate));
            case "burst" -> peak(gate, frozen(gate, now));
            default -> now;
        };
    }

    private static boolean blocked(SingleInputGate gate) {
        for (int place = 0; place < gate.getNumberOfInputChannels(); place++) {
            if (Observed.blocked(gate.getChannel(place))) {
                return true;
            }
        }
        return false;
    }

    private static int frozen(SingleInputGate gate, int now) {
        Memory memory = memory(gate);
        if (blocked(gate)) {
            return Math.max(now, memory.unblocked);
        }
        memory.unblocked = now;
        return now;
    }

    private static int[] ofChannels(SingleInputGate gate) {
        int[] counts = new int[gate.getNumberOfInputChannels()];
        Arrays.setAll(counts, place -> gate.getChannel(place).getBuffersInUseCount());
        return counts;
    }

    /** The buffers in use of each channel; of a blocked one not fewer than before. */
    static int[] frozenOfChannels(SingleInputGate gate) {
        Memory memory = memory(gate);
        int channels = gate.getNumberOfInputChannels();
        if (memory.ofChannels.length != channels) {
            memory.ofChannels = new int[channels];
        }
        int[] counts = new int[channels];
        for (int place = 0; place < channels; place++) {
            InputChannel channel = gate.getChannel(place);
            int now = channel.getBuffersInUseCount();
            if (Observed.blocked(channel)) {
                counts[place] = Math.max(now, memory.ofChannels[place]);
            } else {
                counts[place] = memory.ofChannels[place] = now;
            }
        }
        return counts;
    }

    private static int longest(int[] counts) {
        int withData = (int) Arrays.stream(counts).filter(count -> count > 0).count();
        return withData * Arrays.stream(counts).max().orElse(0);
    }

    private static int peak(SingleInputGate gate, int inUse) {
        Memory memory = memory(gate);
        memory.peak = Math.max(inUse, memory.peak * PEAK_KEPT);
        return (int) Math.rint(memory.peak);
    }

    /** The weight of the newest size in a moving average whose own weight is, or was last, `weight`. */
    public static double weight(Object average, double weight, double size, long bytes, int buffers) {
        double usual = WEIGHTS.computeIfAbsent(average, each -> weight);
        boolean tooLarge = buffers > 0 && (double) bytes / buffers < size * (1 - JUMP);
        return NAME.equals("burst") && tooLarge ? 1.0 : usual;
    }

    /** Whether the policy does a whole step of debloating itself; if so, it has. */
    public static boolean debloats(SingleInputGate gate) {
        Steps.begin(gate);
        boolean whole = takesStep(gate);
        if (whole) {
            Steps.taken();
        }
        return whole;
    }

    private static boolean takesStep(SingleInputGate gate) {
        if (NAME.equals(UNBLOCKED) && blocked(gate)) {
            PerChannel.throughputOf(gate).calculateThroughput(); // of a step that is not taken
            return true;
        }
        if (!NAME.equals("per-channel")) {
            return false;
        }
        Memory memory = memory(gate);
        if (memory.perChannel == null) {
            memory.perChannel = new PerChannel(gate);
        }
        memory.perChannel.step();
        return true;
    }
}
