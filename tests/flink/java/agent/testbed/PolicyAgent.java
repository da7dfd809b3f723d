package testbed;

import java.lang.instrument.ClassFileTransformer;
import java.lang.instrument.Instrumentation;
import java.security.ProtectionDomain;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import jdk.internal.org.objectweb.asm.ClassReader;
import jdk.internal.org.objectweb.asm.ClassVisitor;
import jdk.internal.org.objectweb.asm.ClassWriter;
import jdk.internal.org.objectweb.asm.FieldVisitor;
import jdk.internal.org.objectweb.asm.Label;
import jdk.internal.org.objectweb.asm.MethodVisitor;
import jdk.internal.org.objectweb.asm.Opcodes;

/**
 * Gives a Flink another debloating policy while its classes are loaded: -javaagent:policies.jar=POLICY.
 *
 * Channels tell `Observed` of barriers, resumptions and polls; a gate asks `Policies` how many buffers are in use,
 * and, before it debloats, whether the policy does that itself; the moving average asks it for its weight. The
 * debloater tells `Steps` the throughput that it goes by. A class without the expected methods stays as it is, and a
 * line says so.
 */
public final class PolicyAgent {
    private static final String NETWORK = "org/apache/flink/runtime/io/network/";
    private static final String CONSUMER = NETWORK + "partition/consumer/";
    private static final String THROUGHPUT = "org/apache/flink/runtime/throughput/";
    private static final String OBSERVED = CONSUMER + "Observed";
    private static final String POLICIES = CONSUMER + "Policies";
    private static final String STEPS = CONSUMER + "Steps";

    /** How a class is changed, and the methods that it must have for that. */
    private record Change(Function<ClassVisitor, ClassVisitor> by, List<String> methods) {}

    private static final Map<String, Change> CHANGES = Map.of(
            CONSUMER + "RemoteInputChannel", new Change(Channel::new, List.of(
                    "onBuffer(L" + NETWORK + "buffer/Buffer;III)V", "resumeConsumption()V")),
            CONSUMER + "LocalInputChannel", new Change(Channel::new, List.of("resumeConsumption()V")),
            CONSUMER + "SingleInputGate", new Change(Gate::new, List.of(
                    "getBuffersInUseCount()I", "triggerDebloating()V",
                    "transformToBufferOrEvent(L" + NETWORK + "buffer/Buffer;ZL" + CONSUMER + "InputChannel;Z)L"
                            + CONSUMER + "BufferOrEvent;")),
            THROUGHPUT + "BufferSizeEMA", new Change(Average::new, List.of("calculateBufferSize(JI)I")),
            THROUGHPUT + "BufferDebloater", new Change(Debloater::new, List.of(
                    "recalculateBufferSize(JI)Ljava/util/OptionalInt;")));

    private PolicyAgent() {}

    public static void premain(String policy, Instrumentation instrumentation) {
        System.setProperty("testbed.policy", policy);
        instrumentation.addTransformer(new ClassFileTransformer() {
            @Override
            public byte[] transform(
                    ClassLoader loader, String name, Class<?> loaded, ProtectionDomain domain, byte[] bytes) {
                Change change = name == null ? null : CHANGES.get(name);
                if (change == null) {
                    return null;
                }
                ClassReader reader = new ClassReader(bytes);
                List<String> missing = missing(reader, change.methods());
                if (!missing.isEmpty()) {
                    System.out.println("testbed: " + name + " has no " + String.join(", ", missing));
                    return null;
                }
                ClassWriter writer = new ClassWriter(ClassWriter.COMPUTE_MAXS);
                reader.accept(change.by().apply(writer), 0);
                System.out.println("testbed: " + policy + " changed " + name);
                return writer.toByteArray();
            }
        });
    }

    /** The methods that a class does not have: another release of Flink may lack one, or may have changed it. */
    private static List<String> missing(ClassReader reader, List<String> methods) {
        List<String> missing = new ArrayList<>(methods);
        reader.accept(new ClassVisitor(Opcodes.ASM8) {
            @Override
            public MethodVisitor visitMethod(
                    int access, String name, String descriptor, String signature, String[] exceptions) {
                missing.remove(name + descriptor);
                return null;
            }
        }, ClassReader.SKIP_CODE);
        return missing;
    }

    /** Calls a static method of ours, without a result, before anything else in a method. */
    private static final class Before extends MethodVisitor {
        private final Runnable call;

        Before(MethodVisitor method, Function<MethodVisitor, Runnable> call) {
            super(Opcodes.ASM8, method);
            this.call = call.apply(method);
        }

        @Override
        public void visitCode() {
            super.visitCode();
            call.run();
        }
    }

    private abstract static class Changed extends ClassVisitor {
        Changed(ClassVisitor next) {
            super(Opcodes.ASM8, next);
        }

        /** The method as it will be, `method` being as it was. */
        abstract MethodVisitor changed(String name, String descriptor, MethodVisitor method);

        @Override
        public MethodVisitor visitMethod(
                int access, String name, String descriptor, String signature, String[] exceptions) {
            return changed(name, descriptor, super.visitMethod(access, name, descriptor, signature, exceptions));
        }
    }

    private static Runnable telling(MethodVisitor method, String what, int... variables) {
        return () -> {
            for (int variable : variables) {
                method.visitVarInsn(Opcodes.ALOAD, variable);
            }
            String arguments = "Ljava/lang/Object;".repeat(variables.length);
            method.visitMethodInsn(Opcodes.INVOKESTATIC, OBSERVED, what, "(" + arguments + ")V", false);
        };
    }

    private static final class Channel extends Changed {
        Channel(ClassVisitor next) {
            super(next);
        }

        @Override
        MethodVisitor changed(String name, String descriptor, MethodVisitor method) {
            return switch (name) {
                case "onBuffer" -> new Before(method, v -> telling(v, "arrived", 0, 1));
                case "resumeConsumption" -> new Before(method, v -> telling(v, "resumed", 0));
                default -> method;
            };
        }
    }

    private static final class Gate extends Changed {
        private static final String NAME = CONSUMER + "SingleInputGate";

        Gate(ClassVisitor next) {
            super(next);
        }

        @Override
        MethodVisitor changed(String name, String descriptor, MethodVisitor method) {
            return name.equals("transformToBufferOrEvent") ? new Before(method, v -> telling(v, "polled", 3, 1)) : method;
        }

        @Override
        public MethodVisitor visitMethod(
                int access, String name, String descriptor, String signature, String[] exceptions) {
            if (name.equals("getBuffersInUseCount")) {
                MethodVisitor counting = cv.visitMethod(access, name, descriptor, signature, exceptions);
                count(counting);
                return cv.visitMethod(access, "buffersInUseAsBefore", descriptor, signature, exceptions);
            }
            MethodVisitor method = super.visitMethod(access, name, descriptor, signature, exceptions);
            return name.equals("triggerDebloating") ? new Debloating(method) : method;
        }

        private static void count(MethodVisitor method) {
            method.visitCode();
            method.visitVarInsn(Opcodes.ALOAD, 0);
            method.visitVarInsn(Opcodes.ALOAD, 0);
            method.visitMethodInsn(Opcodes.INVOKEVIRTUAL, NAME, "buffersInUseAsBefore", "()I", false);
            method.visitMethodInsn(Opcodes.INVOKESTATIC, POLICIES, "count", "(L" + NAME + ";I)I", false);
            method.visitInsn(Opcodes.IRETURN);
            method.visitMaxs(2, 1);
            method.visitEnd();
        }
    }

    /** Lets a policy take the whole step: `if (Policies.debloats(this)) return`. */
    private static final class Debloating extends MethodVisitor {
        Debloating(MethodVisitor method) {
            super(Opcodes.ASM8, method);
        }

        @Override
        public void visitCode() {
            super.visitCode();
            Label otherwise = new Label();
            super.visitVarInsn(Opcodes.ALOAD, 0);
            super.visitMethodInsn(Opcodes.INVOKESTATIC, POLICIES, "debloats", "(L" + Gate.NAME + ";)Z", false);
            super.visitJumpInsn(Opcodes.IFEQ, otherwise);
            super.visitInsn(Opcodes.RETURN);
            super.visitLabel(otherwise);
            super.visitFrame(Opcodes.F_SAME, 0, null, 0, null);
        }
    }

    private static final class Debloater extends Changed {
        Debloater(ClassVisitor next) {
            super(next);
        }

        @Override
        MethodVisitor changed(String name, String descriptor, MethodVisitor method) {
            if (!name.equals("recalculateBufferSize")) {
                return method;
            }
            return new Before(method, v -> () -> {
                v.visitVarInsn(Opcodes.LLOAD, 1);
                v.visitMethodInsn(Opcodes.INVOKESTATIC, STEPS, "recalculates", "(J)V", false);
            });
        }
    }

    /** The weight of the newest size is asked for before each step, so it cannot be final. */
    private static final class Average extends Changed {
        private static final String NAME = THROUGHPUT + "BufferSizeEMA";

        Average(ClassVisitor next) {
            super(next);
        }

        @Override
        public FieldVisitor visitField(int access, String name, String descriptor, String signature, Object value) {
            int open = name.equals("alpha") ? access & ~Opcodes.ACC_FINAL : access;
            return super.visitField(open, name, descriptor, signature, value);
        }

        @Override
        MethodVisitor changed(String name, String descriptor, MethodVisitor method) {
            if (!name.equals("calculateBufferSize")) {
                return method;
            }
            return new Before(method, v -> () -> {
                v.visitVarInsn(Opcodes.ALOAD, 0);
                v.visitVarInsn(Opcodes.ALOAD, 0);
                v.visitInsn(Opcodes.DUP);
                v.visitFieldInsn(Opcodes.GETFIELD, NAME, "alpha", "D");
                v.visitVarInsn(Opcodes.ALOAD, 0);
                v.visitFieldInsn(Opcodes.GETFIELD, NAME, "lastBufferSize", "D");
                v.visitVarInsn(Opcodes.LLOAD, 1);
                v.visitVarInsn(Opcodes.ILOAD, 3);
                v.visitMethodInsn(
                        Opcodes.INVOKESTATIC, POLICIES, "weight", "(Ljava/lang/Object;DDJI)D", false);
                v.visitFieldInsn(Opcodes.PUTFIELD, NAME, "alpha", "D");
            });
        }
    }
}
