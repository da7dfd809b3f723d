package testbed;

import java.io.Serializable;
import java.util.Arrays;

/** Numbered keys that come with given frequencies, and the 64-bit mixing that everything random is made of. */
public final class Keys implements Serializable {
    private final double[] until;

    /** The first keys have the shares `mostFrequent`; key k of the others comes as often as 1 / (k + 1)^zipf. */
    public Keys(int number, double zipf, double... mostFrequent) {
        double[] shares = new double[number];
        double named = Arrays.stream(mostFrequent).sum();
        double rest = 0;
        for (int key = mostFrequent.length; key < number; key++) {
            rest += shares[key] = Math.pow(key + 1, -zipf);
        }
        until = new double[number];
        double sum = 0;
        for (int key = 0; key < number; key++) {
            sum += key < mostFrequent.length ? mostFrequent[key] : shares[key] * (1 - named) / rest;
            until[key] = sum;
        }
    }

    /** The key that a mixed number stands for. */
    public long draw(long mixed) {
        return place(until, fraction(mixed) * until[until.length - 1]);
    }

    /** The first place whose bound is above a value. */
    static int place(double[] bounds, double value) {
        int found = Arrays.binarySearch(bounds, value);
        return Math.min(bounds.length - 1, found < 0 ? -found - 1 : found + 1);
    }

    /** A number from 0 to 1, without 1. */
    static double fraction(long mixed) {
        return (mixed >>> 11) * 0x1.0p-53;
    }

    /** The finaliser of the generator SplitMix64 (Steele, Lea, Flood 2014). */
    public static long mix(long number) {
        long z = number + 0x9E3779B97F4A7C15L;
        z = (z ^ (z >>> 30)) * 0xBF58476D1CE4E5B9L;
        z = (z ^ (z >>> 27)) * 0x94D049BB133111EBL;
        return z ^ (z >>> 31);
    }
}
