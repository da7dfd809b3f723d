package org.apache.flink.runtime.io.network.partition.consumer;

import java.util.Collections;
import java.util.Map;
import java.util.Set;
import java.util.WeakHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.flink.runtime.io.network.buffer.Buffer;

/**
 * What the changed channels and gates of a task manager tell.
 *
 * A remote channel is blocked from the arrival of a barrier that silences its producer, a local one from when the
 * task gets that barrier; both until they are resumed.
 */
public final class Observed {
    private static final Set<Object> BLOCKED =
            Collections.synchronizedSet(Collections.newSetFromMap(new WeakHashMap<>()));
    private static final Map<Object, AtomicInteger> POLLED = Collections.synchronizedMap(new WeakHashMap<>());

    private Observed() {}

    /** A buffer or event has come on a remote channel. */
    public static void arrived(Object channel, Object buffer) {
        if (((Buffer) buffer).getDataType().isBlockingUpstream()) {
            BLOCKED.add(channel);
        }
    }

    /** A buffer or event of a channel goes to the task. */
    public static void polled(Object channel, Object buffer) {
        if (channel instanceof LocalInputChannel && ((Buffer) buffer).getDataType().isBlockingUpstream()) {
            BLOCKED.add(channel);
        }
        if (Policies.COUNTS_POLLS) {
            POLLED.computeIfAbsent(channel, each -> new AtomicInteger()).incrementAndGet();
        }
    }

    public static void resumed(Object channel) {
        BLOCKED.remove(channel);
    }

    static boolean blocked(Object channel) {
        return BLOCKED.contains(channel);
    }

    /** What was polled of a channel since the last call. */
    static int takePolled(Object channel) {
        AtomicInteger count = POLLED.get(channel);
        return count == null ? 0 : count.getAndSet(0);
    }
}
