package tideline;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.math.BigDecimal;
import java.time.LocalDate;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.FileStatusCache;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.InMemoryFileIndex;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.execution.datasources.PartitionPath;
import org.apache.spark.sql.execution.datasources.PartitionSpec;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A frame over known Parquet files whose partition values are known as well.
 *
 * It does what one call from Python cannot and thousands would be slow at; `file_index.py`
 * compiles it with the Janino that Spark brings along.
 */
public class BaseFileRelation {

  /** The files' statuses, so that Spark asks the store for none of them, not even on refresh. */
  public static class KnownFiles extends FileStatusCache {
    private final Map statuses = new HashMap();

    void add(FileStatus status) {
      statuses.put(status.getPath(), new FileStatus[] {status});
    }

    public Option getLeafFiles(Path path) {
      return Option.apply(statuses.get(path));
    }

    public void putLeafFiles(Path path, FileStatus[] files) {
    }

    public void invalidateAll() {
    }
  }

  /**
   * An index that asks which of its files may hold rows once Spark knows the filters of a query.
   *
   * `printer` makes JSON of the filters, `chooser` answers it with the names of files as JSON, or
   * with null for all of them; it is asked with null where no JSON can be made. That is Python's; whatever goes wrong there leaves out no file.
   */
  public static class ChosenFiles extends InMemoryFileIndex {
    private final Function printer;
    private final Function chooser;

    ChosenFiles(
        SparkSession session,
        Seq files,
        scala.collection.immutable.Map options,
        FileStatusCache known,
        Option partitions,
        Function printer,
        Function chooser) {
      super(session, files, options, Option.empty(), known, partitions, Option.empty());
      this.printer = printer;
      this.chooser = chooser;
    }

    public Seq listFiles(Seq partitionFilters, Seq dataFilters) {
      Seq listed = super.listFiles(partitionFilters, dataFilters);
      Set names = listed.isEmpty() ? null : chosen(dataFilters);
      if (names == null) {
        return listed;
      }
      List left = new ArrayList();
      for (int i = 0; i < listed.length(); i++) {
        PartitionDirectory directory = (PartitionDirectory) listed.apply(i);
        List files = new ArrayList();
        for (int j = 0; j < directory.files().length(); j++) {
          FileStatusWithMetadata file = (FileStatusWithMetadata) directory.files().apply(j);
          if (names.contains(file.getPath().getName())) {
            files.add(file);
          }
        }
        if (!files.isEmpty()) {
          left.add(new PartitionDirectory(
              directory.values(), CollectionConverters.asScala(files).toSeq()));
        }
      }
      return CollectionConverters.asScala(left).toSeq();
    }

    private Object printed(Seq filters) {
      try {
        return printer.apply(filters);
      } catch (Exception error) {
        return null;
      }
    }

    private Set chosen(Seq filters) {
      try {
        Object answer = chooser.apply(printed(filters));
        return answer == null
            ? null
            : new HashSet((List) new ObjectMapper().readValue((String) answer, List.class));
      } catch (Exception error) {
        return null;
      }
    }
  }

  /**
   * `directories` is JSON: [{"path": uri, "values": [text or null], "files": [[name, bytes]]}], the
   * values in the order of `partitionSchema`. Columns of `partitionSchema` may be among those of
   * `dataSchema`; their values then come from here.
   */
  public Dataset frame(
      SparkSession session,
      String directories,
      StructType partitionSchema,
      StructType dataSchema,
      Map options,
      Function printer,
      Function chooser) throws Exception {
    return session.baseRelationToDataFrame(
        new HadoopFsRelation(
            index(session, directories, partitionSchema, options, printer, chooser),
            partitionSchema,
            dataSchema,
            Option.empty(),
            new ParquetFileFormat(),
            settings(options),
            session));
  }

  /** The index alone. It knows names only: files of its own need not exist. */
  public InMemoryFileIndex index(
      SparkSession session,
      String directories,
      StructType partitionSchema,
      Map options,
      Function printer,
      Function chooser) throws Exception {
    KnownFiles known = new KnownFiles();
    List files = new ArrayList();
    List partitions = new ArrayList();
    List parsed = (List) new ObjectMapper().readValue(directories, List.class);
    for (int i = 0; i < parsed.size(); i++) {
      Map directory = (Map) parsed.get(i);
      String folder = (String) directory.get("path");
      List named = (List) directory.get("files");
      for (int j = 0; j < named.size(); j++) {
        List nameAndSize = (List) named.get(j);
        Path file = new Path(folder + "/" + (String) nameAndSize.get(0));
        long bytes = ((Number) nameAndSize.get(1)).longValue();
        known.add(new FileStatus(bytes, false, 1, 0L, 0L, file));
        files.add(file);
      }
      InternalRow values = row((List) directory.get("values"), partitionSchema);
      partitions.add(new PartitionPath(values, new Path(folder)));
    }
    Seq paths = CollectionConverters.asScala(files).toSeq();
    Option spec = Option.apply(
        new PartitionSpec(partitionSchema, CollectionConverters.asScala(partitions).toSeq()));
    if (chooser != null) {
      return new ChosenFiles(session, paths, settings(options), known, spec, printer, chooser);
    }
    return new InMemoryFileIndex(
        session, paths, settings(options), Option.empty(), known, spec, Option.empty());
  }

  private static scala.collection.immutable.Map settings(Map options) {
    return scala.collection.immutable.Map$.MODULE$.from(CollectionConverters.asScala(options));
  }

  private static InternalRow row(List texts, StructType schema) {
    Object[] row = new Object[schema.length()];
    for (int i = 0; i < row.length; i++) {
      String text = (String) texts.get(i);
      row[i] = text == null ? null : value(text, schema.fields()[i].dataType());
    }
    return new GenericInternalRow(row);
  }

  private static Object value(String text, DataType type) {
    String name = type.typeName();
    if (name.equals("string")) {
      return UTF8String.fromString(text);
    }
    if (name.equals("integer")) {
      return Integer.valueOf(text);
    }
    if (name.equals("long")) {
      return Long.valueOf(text);
    }
    if (name.equals("boolean")) {
      return Boolean.valueOf(text);
    }
    if (name.equals("float")) {
      return Float.valueOf(text);
    }
    if (name.equals("double")) {
      return Double.valueOf(text);
    }
    if (name.equals("date")) {
      return Integer.valueOf((int) LocalDate.parse(text).toEpochDay());
    }
    if (type instanceof DecimalType) {
      DecimalType decimal = (DecimalType) type;
      Decimal value = new Decimal();
      return value.set(
          new scala.math.BigDecimal(new BigDecimal(text)), decimal.precision(), decimal.scale());
    }
    throw new IllegalArgumentException("no partition value of type " + name);
  }
}
