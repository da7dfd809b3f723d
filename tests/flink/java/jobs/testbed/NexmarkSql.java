package testbed;

import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.table.functions.FunctionContext;
import org.apache.flink.table.functions.ScalarFunction;

/** Statistics of auctions (after query 17 of the benchmark Nexmark) in SQL, with a slow sink. */
public final class NexmarkSql {
    private static final String BIDS = """
            CREATE TABLE bid (
              auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, extra STRING
            ) WITH (
              'connector' = 'datagen', 'rows-per-second' = '4000',
              'fields.auction.min' = '1', 'fields.auction.max' = '2000',
              'fields.bidder.min' = '1', 'fields.bidder.max' = '9000',
              'fields.price.min' = '1', 'fields.price.max' = '1000000',
              'fields.channel.length' = '8', 'fields.url.length' = '60', 'fields.extra.length' = '90'
            )""";
    private static final String STATISTICS = """
            CREATE TABLE statistics (auction BIGINT, bids BIGINT, highest BIGINT, total BIGINT)
            WITH ('connector' = 'blackhole')""";
    private static final String QUERY = """
            INSERT INTO statistics
            SELECT slow(auction), bids, highest, total FROM (
              SELECT auction, COUNT(*) AS bids, MAX(price) AS highest, SUM(price) AS total FROM bid GROUP BY auction
            )""";

    private NexmarkSql() {}

    /** Hands a value on after a millisecond. */
    public static final class Slow extends ScalarFunction {
        private transient ServiceTime service;

        @Override
        public void open(FunctionContext context) {
            service = new ServiceTime(1000);
            service.open(0);
        }

        public Long eval(Long value) {
            service.serve();
            return value;
        }

        /** So that the planner neither drops nor repeats it. */
        @Override
        public boolean isDeterministic() {
            return false;
        }
    }

    public static void main(String[] args) {
        TableEnvironment tables = TableEnvironment.create(EnvironmentSettings.inStreamingMode());
        tables.getConfig().set("parallelism.default", "4");
        tables.getConfig().set("pipeline.name", args[0]);
        tables.createTemporarySystemFunction("slow", new Slow());
        tables.executeSql(BIDS);
        tables.executeSql(STATISTICS);
        tables.executeSql(QUERY);
    }
}
