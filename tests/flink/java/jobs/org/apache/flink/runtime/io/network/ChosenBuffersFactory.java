package org.apache.flink.runtime.io.network;

import org.apache.flink.configuration.ConfigOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.shuffle.ShuffleEnvironmentContext;
import org.apache.flink.runtime.taskmanager.NettyShuffleEnvironmentConfiguration;

/**
 * Flink's own shuffle environment with numbers of buffers that are options up to 1.20 and constants since 2.0.
 *
 * It is named by `shuffle-service-factory.class`, reads the options by their names of 1.20, and lies in this
 * package for the sake of `createNettyShuffleEnvironment`.
 */
public final class ChosenBuffersFactory extends NettyShuffleServiceFactory {
    private static final String PREFIX = "taskmanager.network.memory.";

    private static int chosen(Configuration options, String name, int usual) {
        return options.get(ConfigOptions.key(PREFIX + name).intType().defaultValue(usual));
    }

    @Override
    public NettyShuffleEnvironment createShuffleEnvironment(ShuffleEnvironmentContext context) {
        Configuration options = context.getConfiguration();
        return createNettyShuffleEnvironment(
                withChosenBuffers(options, NettyShuffleEnvironmentConfiguration.fromConfiguration(
                        options, context.getNetworkMemorySize(), context.isLocalCommunicationOnly(),
                        context.getHostAddress())),
                context.getTaskExecutorResourceId(), context.getEventPublisher(), context.getParentMetricGroup(),
                context.getIoExecutor(), context.getScheduledExecutor(), context.getNumberOfSlots(),
                context.getTmpDirPaths());
    }

    private static NettyShuffleEnvironmentConfiguration withChosenBuffers(
            Configuration options, NettyShuffleEnvironmentConfiguration usual) {
        return new NettyShuffleEnvironmentConfiguration(
                usual.numNetworkBuffers(), usual.networkBufferSize(), usual.startingBufferSize(),
                usual.partitionRequestInitialBackoff(), usual.partitionRequestMaxBackoff(),
                usual.getPartitionRequestListenerTimeout(),
                chosen(options, "buffers-per-channel", usual.networkBuffersPerChannel()),
                chosen(options, "floating-buffers-per-gate", usual.floatingNetworkBuffersPerGate()),
                usual.maxRequiredBuffersPerGate(), usual.getRequestSegmentsTimeout(),
                usual.isNetworkDetailedMetrics(), usual.nettyConfig(), usual.getTempDirs(),
                usual.getBlockingSubpartitionType(), usual.isBatchShuffleCompressionEnabled(),
                usual.getCompressionCodec(),
                chosen(options, "max-buffers-per-channel", usual.getMaxBuffersPerChannel()),
                usual.batchShuffleReadMemoryBytes(), usual.sortShuffleMinBuffers(),
                usual.sortShuffleMinParallelism(), usual.getDebloatConfiguration(),
                usual.isConnectionReuseEnabled(),
                chosen(options, "max-overdraft-buffers-per-gate", usual.getMaxOverdraftBuffersPerGate()),
                usual.getTieredStorageConfiguration());
    }
}
