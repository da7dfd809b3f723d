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

    /** Ids of persons and auctions grow with the time; `back` leads from the newest id to one of the last 3 s. */
    private static final String NEW_PERSONS = """
            CREATE TABLE new_person (
              place BIGINT, state BIGINT, name STRING, city STRING, id AS UNIX_TIMESTAMP() * 1200 + place
            ) WITH (
              'connector' = 'datagen', 'rows-per-second' = '1200',
              'fields.place.min' = '0', 'fields.place.max' = '1199',
              'fields.state.min' = '1', 'fields.state.max' = '4',
              'fields.name.length' = '20', 'fields.city.length' = '20'
            )""";
    /** Arguments: auctions per second, that less 1, length of an item's text. */
    private static final String NEW_AUCTIONS = """
            CREATE TABLE new_auction (
              place BIGINT, back BIGINT, category BIGINT, item STRING,
              id AS UNIX_TIMESTAMP() * %1$d + place, seller AS UNIX_TIMESTAMP() * 1200 - back,
              since AS LOCALTIMESTAMP, expires AS LOCALTIMESTAMP + INTERVAL '1' MINUTE
            ) WITH (
              'connector' = 'datagen', 'rows-per-second' = '%1$d',
              'fields.place.min' = '0', 'fields.place.max' = '%2$d',
              'fields.back.min' = '1', 'fields.back.max' = '3600',
              'fields.category.min' = '9', 'fields.category.max' = '10', 'fields.item.length' = '%3$d'
            )""";
    /** Arguments: bids per second, auctions per second, number of auctions with bids, length of the extra text. */
    private static final String NEW_BIDS = """
            CREATE TABLE new_bid (
              back BIGINT, bidder BIGINT, price BIGINT, extra STRING,
              auction AS UNIX_TIMESTAMP() * %2$d - back, since AS LOCALTIMESTAMP
            ) WITH (
              'connector' = 'datagen', 'rows-per-second' = '%1$d',
              'fields.back.min' = '1', 'fields.back.max' = '%3$d',
              'fields.bidder.min' = '1', 'fields.bidder.max' = '9000',
              'fields.price.min' = '1', 'fields.price.max' = '1000000', 'fields.extra.length' = '%4$d'
            )""";
    private static final String LOCAL_ITEMS = """
            CREATE TABLE local_items (auction BIGINT, name STRING, city STRING, item STRING)
            WITH ('connector' = 'blackhole')""";
    private static final String QUERY_3 = """
            INSERT INTO local_items
            SELECT slow(a.id), p.name, p.city, a.item FROM new_auction a JOIN new_person p ON a.seller = p.id
            WHERE a.category = 10 AND p.state <= 3""";
    private static final String AVERAGES = """
            CREATE TABLE averages (category BIGINT, price BIGINT) WITH ('connector' = 'blackhole')""";
    private static final String QUERY_4 = """
            INSERT INTO averages
            SELECT category, AVG(final) FROM (
              SELECT MAX(slow(b.price)) AS final, a.category FROM new_auction a JOIN new_bid b ON a.id = b.auction
              WHERE b.since BETWEEN a.since AND a.expires AND b.extra <> a.item GROUP BY a.id, a.category
            ) GROUP BY category""";
    private static final String BEST_BIDS = """
            CREATE TABLE best_bids (auction BIGINT, bidder BIGINT, price BIGINT, extra STRING, place BIGINT)
            WITH ('connector' = 'blackhole')""";
    private static final String QUERY_19 = """
            INSERT INTO best_bids
            SELECT slow(auction), bidder, price, extra, place FROM (
              SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) AS place FROM new_bid
            ) WHERE place <= 10""";
    private static final String EXPANDED_BIDS = """
            CREATE TABLE expanded_bids (auction BIGINT, bidder BIGINT, price BIGINT, extra STRING, item STRING)
            WITH ('connector' = 'blackhole')""";
    private static final String QUERY_20 = """
            INSERT INTO expanded_bids
            SELECT slow(b.auction), b.bidder, b.price, b.extra, a.item
            FROM new_bid b JOIN new_auction a ON b.auction = a.id WHERE a.category = 10""";

    private NexmarkSql() {}

    /** Hands a value on after a time. */
    public static final class Slow extends ScalarFunction {
        private final double micros;
        private transient ServiceTime service;

        Slow(double micros) {
            this.micros = micros;
        }

        @Override
        public void open(FunctionContext context) {
            service = new ServiceTime(micros);
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
        switch (args[0]) {
            case "nexmark_q3" ->
                    executeWithTtl(tables, 3000, NEW_PERSONS, auctions(5000, 1000), LOCAL_ITEMS, QUERY_3);
            case "nexmark_q4" ->
                    executeWithTtl(tables, 600, auctions(200, 20), bids(10_000, 200, 250), AVERAGES, QUERY_4);
            case "nexmark_q8" -> execute(tables, 1000, PERSONS, AUCTIONS, NEW_SELLERS, QUERY_8);
            case "nexmark_q17" -> execute(tables, 1000, BIDS, STATISTICS, QUERY_17);
            case "nexmark_q19" -> executeWithTtl(tables, 300, bids(5000, 300, 1000), BEST_BIDS, QUERY_19);
            case "nexmark_q20" ->
                    executeWithTtl(tables, 4000, auctions(100, 200), bids(3000, 100, 1200), EXPANDED_BIDS, QUERY_20);
            default -> throw new IllegalArgumentException(args[0]);
        }
    }

    private static String auctions(int perSecond, int itemLength) {
        return NEW_AUCTIONS.formatted(perSecond, perSecond - 1, itemLength);
    }

    /** Bids for the auctions of the last three seconds. */
    private static String bids(int perSecond, int auctionsPerSecond, int extraLength) {
        return NEW_BIDS.formatted(perSecond, auctionsPerSecond, 3 * auctionsPerSecond, extraLength);
    }

    /** Keeps rows in the state for 10 s only, so that it stays small. */
    private static void executeWithTtl(TableEnvironment tables, double micros, String... statements) {
        tables.getConfig().set("table.exec.state.ttl", "10 s");
        execute(tables, micros, statements);
    }

    /** micros: the cost of a call of `slow`. */
    private static void execute(TableEnvironment tables, double micros, String... statements) {
        tables.createTemporarySystemFunction("slow", new Slow(micros));
        for (String statement : statements) {
            tables.executeSql(statement);
        }
    }
}
