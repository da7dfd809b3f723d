package testbed;

import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.table.functions.FunctionContext;
import org.apache.flink.table.functions.ScalarFunction;

/** Queries after those of the benchmark Nexmark, in SQL, each with a slow sink. Argument: the query's name. */
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
    private static final String QUERY_17 = """
            INSERT INTO statistics
            SELECT slow(auction), bids, highest, total FROM (
              SELECT auction, COUNT(*) AS bids, MAX(price) AS highest, SUM(price) AS total FROM bid GROUP BY auction
            )""";

    private static final String PERSONS = """
            CREATE TABLE person (
              id BIGINT, name STRING, extra STRING, since AS LOCALTIMESTAMP, WATERMARK FOR since AS since - INTERVAL '1' SECOND
            ) WITH (
              'connector' = 'datagen', 'rows-per-second' = '400',
              'fields.id.min' = '1', 'fields.id.max' = '1500',
              'fields.name.length' = '20', 'fields.extra.length' = '120'
            )""";
    private static final String AUCTIONS = """
            CREATE TABLE auction (
              seller BIGINT, reserve BIGINT, item STRING, since AS LOCALTIMESTAMP,
              WATERMARK FOR since AS since - INTERVAL '1' SECOND
            ) WITH (
              'connector' = 'datagen', 'rows-per-second' = '1600',
              'fields.seller.min' = '1', 'fields.seller.max' = '1500',
              'fields.reserve.min' = '1', 'fields.reserve.max' = '10000', 'fields.item.length' = '80'
            )""";
    private static final String NEW_SELLERS = """
            CREATE TABLE new_sellers (id BIGINT, name STRING, reserve BIGINT) WITH ('connector' = 'blackhole')""";
    private static final String QUERY_8 = """
            INSERT INTO new_sellers
            SELECT slow(p.id), p.name, a.reserve FROM (
              SELECT id, MAX(name) AS name, window_start, window_end
              FROM TABLE(TUMBLE(TABLE person, DESCRIPTOR(since), INTERVAL '5' SECOND))
              GROUP BY id, window_start, window_end
            ) p JOIN (
              SELECT seller, MAX(reserve) AS reserve, window_start, window_end
              FROM TABLE(TUMBLE(TABLE auction, DESCRIPTOR(since), INTERVAL '5' SECOND))
              GROUP BY seller, window_start, window_end
            ) a ON p.id = a.seller AND p.window_start = a.window_start AND p.window_end = a.window_end""";

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
        switch (args[0]) {
            case "nexmark_q8" -> execute(tables, PERSONS, AUCTIONS, NEW_SELLERS, QUERY_8);
            case "nexmark_q17" -> execute(tables, BIDS, STATISTICS, QUERY_17);
            default -> throw new IllegalArgumentException(args[0]);
        }
    }

    private static void execute(TableEnvironment tables, String... statements) {
        for (String statement : statements) {
            tables.executeSql(statement);
        }
    }
}
