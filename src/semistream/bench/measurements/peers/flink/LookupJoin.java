import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.connector.sink2.Sink;
import org.apache.flink.api.connector.sink2.SinkWriter;
import org.apache.flink.api.connector.sink2.WriterInitContext;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.file.src.FileSource;
import org.apache.flink.connector.file.src.reader.SimpleStreamFormat;
import org.apache.flink.connector.file.src.reader.StreamFormat;
import org.apache.flink.core.fs.FSDataInputStream;
import org.apache.flink.core.fs.Path;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.api.Schema;
import org.apache.flink.table.api.Table;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.runtime.typeutils.InternalTypeInfo;
import org.apache.flink.table.types.DataType;
import org.apache.flink.table.types.logical.RowType;

/**
 * Runs SQL statements one after the other in this process.
 *
 * <p>Arguments: cores, runtime mode, folders of products and of sales, statements. The views {@code product_rows} and
 * {@code sale_rows} read the folders, which hold rows of fixed width. The rows of a SELECT are counted and dropped.
 *
 * <p>Writes a line {@code done SECONDS} after each statement, {@code rows NUMBER SECONDS} while rows are counted, and
 * {@code memory BYTES} in the end: the most that the process took.
 */
public final class LookupJoin {
    private static final int TOLD_ROWS = 5_000;
    private static final AtomicLong counted = new AtomicLong();
    private static volatile long beganNanos;

    public static void main(String[] args) throws Exception {
        Configuration settings = new Configuration();
        settings.setString("taskmanager.numberOfTaskSlots", args[0]);
        settings.setString("execution.runtime-mode", args[1]);
        StreamExecutionEnvironment environment =
                StreamExecutionEnvironment.createLocalEnvironment(Integer.parseInt(args[0]), settings);
        environment.getConfig().enableObjectReuse();
        StreamTableEnvironment tables = StreamTableEnvironment.create(environment);
        addView(environment, tables, "product_rows", args[2], DataTypes.ROW(
                DataTypes.FIELD("key", DataTypes.BIGINT()),
                DataTypes.FIELD("supplier", DataTypes.BIGINT()),
                DataTypes.FIELD("price", DataTypes.DOUBLE()),
                DataTypes.FIELD("weight", DataTypes.DOUBLE()),
                DataTypes.FIELD("payload", DataTypes.BYTES())));
        addView(environment, tables, "sale_rows", args[3], DataTypes.ROW(
                DataTypes.FIELD("key", DataTypes.BIGINT()),
                DataTypes.FIELD("sale", DataTypes.BIGINT()),
                DataTypes.FIELD("quantity", DataTypes.INT())));
        for (int i = 4; i < args.length; i++) {
            beganNanos = System.nanoTime();
            if (args[i].startsWith("SELECT")) {
                Table found = tables.sqlQuery(args[i]);
                // Rows in Flink's own form: the sink converts nothing.
                DataType type = found.getResolvedSchema().toPhysicalRowDataType().bridgedTo(RowData.class);
                DataStream<RowData> rows = tables.toDataStream(found, type);
                rows.sinkTo(new CountingSink());
                environment.execute();
            } else {
                tables.executeSql(args[i]).await();
            }
            System.out.printf("done %.3f%n", seconds());
        }
        for (String line : Files.readAllLines(java.nio.file.Path.of("/proc/self/status"))) {
            if (line.startsWith("VmHWM:")) {
                System.out.printf("memory %d%n", Long.parseLong(line.replaceAll("\\D", "")) * 1024);
            }
        }
        System.exit(0); // no thread of Flink or Paimon is waited for
    }

    private static void addView(
            StreamExecutionEnvironment environment,
            StreamTableEnvironment tables, String name, String folder, DataType type) {
        FileSource<RowData> files = FileSource
                .forRecordStreamFormat(new FixedRows((RowType) type.getLogicalType()), new Path(folder)).build();
        DataStream<RowData> rows = environment.fromSource(files, WatermarkStrategy.noWatermarks(), name);
        Schema schema = Schema.newBuilder().fromRowDataType(type).columnByExpression("seen", "PROCTIME()").build();
        tables.createTemporaryView(name, rows, schema);
    }

    private static double seconds() {
        return (System.nanoTime() - beganNanos) / 1e9;
    }

    /** Reads rows of numbers in little-endian order; the payload of a product is the rest of its row. */
    private static final class FixedRows extends SimpleStreamFormat<RowData> {
        private final RowType type;

        FixedRows(RowType type) {
            this.type = type;
        }

        @Override
        public TypeInformation<RowData> getProducedType() {
            return InternalTypeInfo.of(type);
        }

        @Override
        public StreamFormat.Reader<RowData> createReader(Configuration settings, FSDataInputStream file) {
            DataInputStream input = new DataInputStream(new BufferedInputStream(file, 1 << 20));
            boolean isProduct = type.getFieldCount() == 5;
            byte[] bytes = new byte[isProduct ? 120 : 20];
            ByteBuffer row = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
            return new StreamFormat.Reader<>() {
                @Override
                public RowData read() throws IOException {
                    int read = input.readNBytes(bytes, 0, bytes.length);
                    if (read < bytes.length) {
                        return null;
                    }
                    row.clear();
                    if (!isProduct) {
                        return GenericRowData.of(row.getLong(), row.getLong(), row.getInt());
                    }
                    byte[] payload = new byte[88];
                    GenericRowData product = GenericRowData.of(
                            row.getLong(), row.getLong(), row.getDouble(), row.getDouble(), payload);
                    row.get(payload);
                    return product;
                }

                @Override
                public void close() throws IOException {
                    input.close();
                }
            };
        }
    }

    /** Counts rows, and tells the time while it does. */
    private static final class CountingSink implements Sink<RowData> {
        @Override
        public SinkWriter<RowData> createWriter(WriterInitContext context) {
            return new SinkWriter<>() {
                private int uncounted;

                @Override
                public void write(RowData row, Context context) {
                    if (++uncounted == TOLD_ROWS) {
                        flush(false);
                    }
                }

                @Override
                public void flush(boolean isEnd) {
                    System.out.printf("rows %d %.3f%n", counted.addAndGet(uncounted), seconds());
                    uncounted = 0;
                }

                @Override
                public void close() {}
            };
        }
    }
}
