package org.apache.flink.runtime.io.network.partition.consumer;

import java.lang.reflect.Field;
import java.time.Duration;
import java.util.OptionalInt;
import org.apache.flink.runtime.throughput.BufferDebloater;
import org.apache.flink.runtime.throughput.BufferSizeEMA;
import org.apache.flink.runtime.throughput.ThroughputCalculator;

/**
 * A debloater of Flink's for each channel of a gate, with the settings of the gate's own.
 *
 * A channel's share of the throughput is its share of what was polled. The gate's own debloater calculates nothing
 * any more; it shows the smallest size and the longest time in the metrics.
 */
final class PerChannel {
    private final SingleInputGate gate;
    private final BufferDebloater shown;
    private final ThroughputCalculator throughput;
    private final BufferDebloater[] debloaters;

    PerChannel(SingleInputGate gate) {
        this.gate = gate;
        shown = debloaterOf(gate);
        throughput = throughputOf(gate);
        debloaters = new BufferDebloater[gate.getNumberOfInputChannels()];
    }

    static ThroughputCalculator throughputOf(SingleInputGate gate) {
        return (ThroughputCalculator) get(gate, "throughputCalculator");
    }

    static BufferDebloater debloaterOf(SingleInputGate gate) {
        return (BufferDebloater) get(gate, "bufferDebloater");
    }

    void step() {
        if (gate.isFinished() || gate.getCloseFuture().isDone()) {
            return;
        }
        long bytesPerSecond = throughput.calculateThroughput();
        int[] counts = Policies.frozenOfChannels(gate);
        int[] polled = new int[debloaters.length];
        long total = 0;
        for (int place = 0; place < polled.length; place++) {
            total += polled[place] = Observed.takePolled(gate.getChannel(place));
        }
        for (int place = 0; place < polled.length; place++) {
            if (polled[place] > 0) {
                step(place, bytesPerSecond * polled[place] / total, counts[place]);
            }
        }
        show();
    }

    private void step(int place, long bytesPerSecond, int inUse) {
        if (debloaters[place] == null) {
            debloaters[place] = copy(place);
        }
        OptionalInt size = debloaters[place].recalculateBufferSize(bytesPerSecond, inUse);
        InputChannel channel = gate.getChannel(place);
        if (size.isPresent() && !channel.isReleased()) {
            channel.announceBufferSize(size.getAsInt());
        }
    }

    private BufferDebloater copy(int place) {
        BufferSizeEMA average = (BufferSizeEMA) get(shown, "bufferSizeEMA");
        long samples = Math.round(2 / (double) get(average, "alpha") - 1);
        int percent = (int) Math.round(100 * (double) get(shown, "bufferDebloatThresholdFactor"));
        int starting = (int) Math.round((double) get(average, "lastBufferSize"));
        return new BufferDebloater(
                gate.getOwningTaskName() + " channel " + place, gate.getGateIndex(),
                (long) get(shown, "targetTotalTime"), starting, (int) get(shown, "maxBufferSize"),
                (int) get(shown, "minBufferSize"), percent, samples);
    }

    private void show() {
        int smallest = Integer.MAX_VALUE;
        Duration longest = Duration.ZERO;
        for (int place = 0; place < debloaters.length; place++) {
            BufferDebloater debloater = debloaters[place];
            if (debloater != null && !gate.getChannel(place).isReleased()) {
                smallest = Math.min(smallest, debloater.getLastBufferSize());
                Duration time = debloater.getLastEstimatedTimeToConsumeBuffers();
                longest = time.compareTo(longest) > 0 ? time : longest;
            }
        }
        if (smallest < Integer.MAX_VALUE) {
            set(shown, "lastBufferSize", smallest);
            set(shown, "lastEstimatedTimeToConsumeBuffers", longest);
        }
    }

    private static Field field(Object of, String name) {
        try {
            Field field = of.getClass().getDeclaredField(name);
            field.setAccessible(true);
            return field;
        } catch (NoSuchFieldException missing) {
            throw new IllegalStateException(missing);
        }
    }

    private static Object get(Object of, String name) {
        try {
            return field(of, name).get(of);
        } catch (IllegalAccessException refused) {
            throw new IllegalStateException(refused);
        }
    }

    private static void set(Object of, String name, Object value) {
        try {
            field(of, name).set(of, value);
        } catch (IllegalAccessException refused) {
            throw new IllegalStateException(refused);
        }
    }
}
