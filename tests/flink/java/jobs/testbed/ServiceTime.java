package testbed;

import java.io.Serializable;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.concurrent.locks.LockSupport;

/**
 * What a record costs, in steps over the time since the task opened.
 *
 * Slept costs are gathered until they come to a millisecond, and a sleep that took too long shortens the next
 * one; so the mean is exact, while a wait for input makes up for nothing. Burnt costs are processor time, spent
 * record by record.
 */
public final class ServiceTime implements Serializable {
    private static final long LEAST_SLEEP_NS = 1_000_000L;
    private static final ThreadMXBean PROCESSOR = ManagementFactory.getThreadMXBean();

    private final double[][] steps;
    private final double[] skew;
    private final boolean burns;

    private transient double factor;
    private transient long openedNs;
    private transient long owedNs;
    private transient int step;

    /** steps: (from, cost) pairs in seconds; skew: factors of the subtasks, cyclic. */
    public ServiceTime(double[][] steps, double[] skew, boolean burns) {
        this.steps = steps;
        this.skew = skew;
        this.burns = burns;
    }

    /** The same cost at all times, slept. */
    public ServiceTime(double micros) {
        this(new double[][] {{0, micros / 1e6}}, new double[] {1}, false);
    }

    public void open(int subtask) {
        factor = skew[subtask % skew.length];
        openedNs = System.nanoTime();
    }

    public void serve() {
        long costNs = (long) (steps[step][1] * factor * 1e9);
        if (burns) {
            burn(costNs);
        } else {
            sleep(costNs);
        }
    }

    private void sleep(long costNs) {
        owedNs += costNs;
        if (owedNs < LEAST_SLEEP_NS) {
            if (costNs == 0) {
                advance(System.nanoTime());
            }
            return;
        }
        long begunNs = System.nanoTime();
        long untilNs = begunNs + owedNs;
        long nowNs = begunNs;
        while (nowNs < untilNs && !Thread.currentThread().isInterrupted()) {
            LockSupport.parkNanos(untilNs - nowNs);
            nowNs = System.nanoTime();
        }
        owedNs -= nowNs - begunNs;
        advance(nowNs);
    }

    private void burn(long costNs) {
        long until = PROCESSOR.getCurrentThreadCpuTime() + costNs;
        while (PROCESSOR.getCurrentThreadCpuTime() < until) {
            for (int i = 0; i < 50; i++) {
                Thread.onSpinWait();
            }
        }
        advance(System.nanoTime());
    }

    private void advance(long nowNs) {
        while (step + 1 < steps.length && nowNs - openedNs >= steps[step + 1][0] * 1e9) {
            step++;
        }
    }
}
